-- The instances of services in the cluster's own service discovery.
create table service_registrations (
    namespace text collate "C" not null,
    service_name text collate "C" not null,
    id text collate "C" not null,
    job_id text collate "C" not null,
    alloc_id uuid not null,
    node_id uuid not null,
    datacenter text not null,
    address text not null,
    port bigint not null,
    create_index bigint not null,
    modify_index bigint not null,
    body bytea not null,
    primary key (namespace, service_name, id)
);
