//! The store against a real PostgreSQL: what a commit promises, who may make one, and that what is read back is what was
//! written.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests as well")]

mod bad_days;
mod commits;
mod forgotten;
mod history;
mod leases;
mod loading;
mod log;
mod picture;
mod projection;
mod proxy;
mod rebuilt;
mod roles;
mod scene;
mod schema;
