//! The store against a real PostgreSQL: what a commit guarantees, who may commit, and that the state that is read back
//! equals the state that was written.

#![allow(clippy::unwrap_used, reason = "a failed unwrap in a helper fails the test")]

mod commits;
mod failures;
mod history;
mod leases;
mod loading;
mod log;
mod open_transactions;
mod projection;
mod proxy;
mod rebuilt;
mod roles;
mod scene;
mod schema;
mod secrets;
mod state_dump;
