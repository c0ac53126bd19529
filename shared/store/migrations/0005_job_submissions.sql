-- What versions of jobs were registered from. The exact text is in the body: a column cannot hold zero bytes.
create table job_submissions (
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    create_index bigint not null,
    version bigint not null,
    format text not null,
    source text not null,
    job_modify_index bigint not null,
    body bytea not null,
    primary key (namespace, job_id, create_index, version)
);
