-- The trace that something belongs to, in hex digits as tracing tools know it; null where there is none. Allocations have
-- that of their share. Rows that were written before get theirs when they change.
alter table evals add column trace_id text collate "C";
alter table deployments add column trace_id text collate "C";
alter table alloc_shares add column trace_id text collate "C";
