-- Why nothing may be written before an operator accepts the database as it is; null while all is well.
alter table head add column refuses_writes text;
