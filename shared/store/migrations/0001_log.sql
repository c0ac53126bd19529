-- The log of change sets, its head, and how far the object tables follow it.

-- Nanoseconds since 1970 as a moment; 0 is not set. Columns made by it are for people: programs read the exact number
-- elsewhere.
create function moment(ns bigint) returns timestamptz
    language sql immutable parallel safe
    return to_timestamp(nullif(ns, 0)::float8 / 1e9::float8);

-- One row. The applier's epoch and the index are in the same row, or a deposed applier's waiting update would get through.
create table head (
    one boolean primary key default true check (one),
    -- The last committed change set and the cluster's time at it.
    index bigint not null,
    at_ns bigint not null,
    -- Who may write, and for how long nobody else should try.
    applier_epoch bigint not null,
    applier_id uuid not null,
    lease_until timestamptz not null,
    -- Another one after an operator has accepted lost writes.
    history uuid not null,
    -- Of the server that the database was last known to live in.
    system_identifier bigint not null
);

insert into head (index, at_ns, applier_epoch, applier_id, lease_until, history, system_identifier)
select 0, 0, 0, '00000000-0000-0000-0000-000000000000', '-infinity', gen_random_uuid(), system_identifier
from pg_control_system();

-- Partitions are made ahead and attached by the applier, and taken away behind the projection; there is no default one.
create table changes (
    index bigint primary key,
    applier_epoch bigint not null,
    at_ns bigint not null,
    request_id uuid not null,
    -- The encoded change set.
    bytes bytea not null
) partition by range (index);

-- Mostly random ids: trying to compress them costs a commit more than writing them.
alter table changes alter column bytes set storage external;

-- One row, locked by every transaction that writes object tables; apart from the head, which must not wait behind bulk work.
create table projection (
    one boolean primary key default true check (one),
    projected_index bigint not null,
    at_ns bigint not null,
    applier_epoch bigint not null
);

insert into projection (projected_index, at_ns, applier_epoch) values (0, 0, 0);
