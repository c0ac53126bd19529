//! Does what was recorded mean the same to us?

mod json;
mod round_trip;
mod schedule;
