//! The state's indexes and counts always agree with its objects.
//!
//! - `properties` checks this for random histories, in which every change is also made to plain maps of whole objects
//!   (`naive`). `commands`, `effects`, `requests` and `pool` make the histories, and `compare` counts again.
//! - `errors` checks change sets that do not fit.
//! - `watches` checks which watches wake, and `follow` what followers receive.
//! - `threads` checks all of this with many readers and a concurrent writer.

mod commands;
mod compare;
mod effects;
mod errors;
mod follow;
mod naive;
mod pool;
mod properties;
mod requests;
mod scene;
mod threads;
mod watches;
