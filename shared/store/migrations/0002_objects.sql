-- The object tables: what people query as columns, in the API's words, and the object in MessagePack as `body`. Keys are
-- compared byte by byte, as they are everywhere else, and several times faster than in a language.

-- Every version that is kept; the last create index, and of that the last version, is the current one.
create table jobs (
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    create_index bigint not null,
    version bigint not null,
    name text not null,
    type text not null,
    priority int not null,
    status text not null,
    status_description text not null,
    stopped boolean not null,
    stable boolean not null,
    parent_id text not null,
    node_pool text not null,
    version_tag text,
    modify_index bigint not null,
    job_modify_index bigint not null,
    submit_time timestamptz,
    body bytea not null,
    primary key (namespace, job_id, create_index, version)
);

-- What a job's allocations add up to, over all its groups.
create table job_summaries (
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    queued bigint not null,
    starting bigint not null,
    running bigint not null,
    complete bigint not null,
    failed bigint not null,
    lost bigint not null,
    unknown bigint not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null,
    primary key (namespace, job_id)
);

-- The last index at which a scheduler's attempt on a job was taken.
create table plan_indexes (
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    index bigint not null,
    primary key (namespace, job_id)
);

create table evals (
    id uuid primary key,
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    type text not null,
    priority int not null,
    triggered_by text not null,
    status text not null,
    status_description text not null,
    node_id uuid,
    deployment_id uuid,
    wait_until timestamptz,
    create_index bigint not null,
    modify_index bigint not null,
    create_time timestamptz,
    modify_time timestamptz,
    body bytea not null
);

create index on evals (namespace, job_id);

create table deployments (
    id uuid primary key,
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    job_create_index bigint not null,
    job_version bigint not null,
    status text not null,
    status_description text not null,
    create_index bigint not null,
    modify_index bigint not null,
    create_time timestamptz,
    modify_time timestamptz,
    body bytea not null
);

create index on deployments (namespace, job_id);

-- What the allocations of one placement share. The id is a hash of the body, so that equal shares are one.
create table alloc_shares (
    id uuid primary key,
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    job_create_index bigint not null,
    job_version bigint not null,
    task_group text not null,
    eval_id uuid not null,
    deployment_id uuid,
    body bytea not null
);

-- `body` holds what neither the columns nor the share say. Most rows change a few times soon after they were written,
-- longer each time, and nothing indexed changes with it: room in their pages spares the indexes, and makes the change of
-- a hundred thousand rows three to four times as fast.
create table allocs (
    id uuid primary key,
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    job_version bigint not null,
    task_group text not null,
    name text not null,
    eval_id uuid not null,
    deployment_id uuid,
    node_id uuid not null,
    node_name text not null,
    desired_status text not null,
    client_status text not null,
    create_index bigint not null,
    modify_index bigint not null,
    create_time timestamptz,
    modify_time timestamptz,
    share_id uuid not null,
    body bytea not null
) with (fillfactor = 40);

-- More indexes would slow down what is written most. An evaluation's allocations are found by their shares.
create index on allocs (namespace, job_id);
create index on allocs (node_id);
create index on allocs (share_id);

-- Two bodies: what the agent registered is big and seldom changes, what the servers add is small and often does.
create table nodes (
    id uuid primary key,
    name text not null,
    datacenter text not null,
    node_pool text not null,
    node_class text not null,
    computed_class text not null,
    status text not null,
    status_description text not null,
    scheduling_eligibility text not null,
    draining boolean not null,
    status_updated_at timestamptz,
    create_index bigint not null,
    modify_index bigint not null,
    spec bytea not null,
    body bytea not null
);

create table node_pools (
    name text primary key,
    description text not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null
);

create table namespaces (
    name text primary key,
    description text not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null
);

-- One row, once it was written.
create table scheduler_config (
    one boolean primary key default true check (one),
    scheduler_algorithm text,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null
);

create table leases (
    service text primary key,
    holder uuid not null,
    epoch bigint not null,
    modify_index bigint not null
);

-- The last index at which something gained room: a computed class, a quota, or another resource by name.
create table unblocked (
    kind text not null,
    name text not null,
    index bigint not null,
    primary key (kind, name)
);

create table host_volumes (
    id uuid primary key,
    namespace text collate "C" not null,
    name text not null,
    plugin_id text not null,
    node_id uuid,
    node_pool text not null,
    state text not null,
    capacity_bytes bigint not null,
    create_index bigint not null,
    modify_index bigint not null,
    create_time timestamptz,
    modify_time timestamptz,
    body bytea not null
);

create table csi_volumes (
    namespace text collate "C" not null,
    volume_id text collate "C" not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null,
    primary key (namespace, volume_id)
);

create table volume_claims (
    id uuid primary key,
    namespace text collate "C" not null,
    job_id text collate "C" not null,
    task_group text not null,
    alloc_id uuid not null,
    volume_id uuid not null,
    volume_name text not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null
);
