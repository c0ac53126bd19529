-- The log's partitions are numbered parts now, and no longer ranges of indexes: a part ends when it is old or big enough,
-- which nobody can know when the part after it is made.

alter table changes rename to changes_by_index;
alter index changes_pkey rename to changes_by_index_pkey;

-- Which part commits go to; moved on by the applier, like the index beside it.
alter table head add column part bigint not null default 0;

-- Raised when a commit is given up, so that one that the server comes upon later does nothing.
alter table head add column fence bigint not null default 0;

-- Parts are made ahead and attached by the applier, and taken away behind the projection; there is no default one.
create table changes (
    part bigint not null,
    index bigint not null,
    applier_epoch bigint not null,
    at_ns bigint not null,
    request_id uuid not null,
    -- The encoded change set.
    bytes bytea not null,
    primary key (index, part)
) partition by list (part);

-- Mostly random ids: trying to compress them costs a commit more than writing them.
alter table changes alter column bytes set storage external;

create table changes_0 (like changes including all);
alter table changes attach partition changes_0 for values in (0);

insert into changes (part, index, applier_epoch, at_ns, request_id, bytes)
select 0, index, applier_epoch, at_ns, request_id, bytes from changes_by_index order by index;

drop table changes_by_index;
