//! The bus over a real nats-server, which now and then is killed.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

mod commands;
mod feed;
mod lease;
mod requests;
mod scene;
