//! Does what was recorded mean the same to us?

mod diff;
mod job_schema;
mod mutations;
mod round_trip;
mod schedule;
