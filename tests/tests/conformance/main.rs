//! Compares our results with recorded ones.

mod diff;
mod job_schema;
mod mutations;
mod round_trip;
mod schedule;
