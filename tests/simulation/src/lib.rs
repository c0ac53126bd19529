//! A simulation of a whole cluster: the real cores of the plan applier, the broker, the workers, the node-tracker, the
//! deployment watcher, and the agent's registrar of services run on a simulated network, database and clock (`docs/architecture/testing.md`). One seed determines one history. In a history messages
//! are lost, duplicated, delayed and reordered; processes are killed, stopped and resumed, also between a decision and what
//! they send because of it; clocks differ and jump; and the outcome of a commit can be unknown.
//!
//! [`play`] plays one history and reports the first violation of an invariant. [`world`] holds time, the network and
//! the processes in general; [`history`] injects the faults; [`checks`] holds the
//! invariants, and [`promises`] those of services, drains and children of jobs. [`workload`] decides what the user does. The
//! other modules are the
//! processes. Each is a shell around the code that the services run in production.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a process handles the messages that concern it and ignores all others"
)]

mod agent;
mod applier;
mod broker;
mod checks;
mod client;
mod commands;
mod database;
mod disk;
mod history;
mod jobs;
mod lease;
mod messages;
mod promises;
mod replica;
mod tracker;
mod watcher;
mod worker;
mod workload;
mod world;

pub use history::{Report, play};
pub use planted_bugs::{Bug, plant};
