//! The bus with a real nats-server, which some tests kill.
#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod commands;
mod conversations;
mod feed;
mod lease;
mod permissions;
mod requests;
mod scene;
