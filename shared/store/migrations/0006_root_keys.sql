-- What the cluster signs with: the public halves as the log has them.
create table root_keys (
    id uuid primary key,
    create_time timestamptz not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null
);

-- The private halves (PKCS #8), written before the log knows of the key: one without a public half signs nothing.
create table root_key_secrets (
    id uuid primary key,
    secret bytea not null
);
