-- How many allocations have a share: it goes with its last one. To look for those without any took an index over all
-- allocations, the largest table.
alter table alloc_shares add column allocs bigint not null default 0;

update alloc_shares set allocs = counted.allocs
from (select share_id, count(*) as allocs from allocs group by share_id) as counted
where alloc_shares.id = counted.share_id;

delete from alloc_shares where allocs = 0;
alter table alloc_shares alter column allocs drop default;

drop index allocs_share_id_idx;
