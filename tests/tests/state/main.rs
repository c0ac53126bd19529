//! Do the state's indexes and counts always say what its objects say?
//!
//! - `properties` asks it of random histories, in which every change is also made to plain maps of whole objects
//!   (`naive`): `commands`, `effects`, `wants` and `pool` make the histories, `compare` counts again.
//! - `errors` asks what becomes of change sets that do not fit.
//! - `watches` asks who is told of what, `follow` what those are told who want to hear everything.
//! - `threads` asks all of it of many readers beside a writer.

mod commands;
mod compare;
mod effects;
mod errors;
mod follow;
mod naive;
mod pool;
mod properties;
mod scene;
mod threads;
mod wants;
mod watches;
