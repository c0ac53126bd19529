//! The agent: what runs on every machine. It finds out what the machine has, registers it, runs the allocations that the
//! servers want of it, and tells how they fare.
//!
//! It speaks NATS only. Tasks do not depend on it: each process has an [`executor`] beside it that outlives the agent, and
//! everything that a restart needs is on disk. While servers or NATS are away, tasks run on, are started again when
//! they fail, and what is to be told waits.
//!
//! Decisions are pure: `alloc::core`, `task::restarts`, `reports`, `work`, `gc`, `heartbeats`. Around them
//! are plain tasks: one for each allocation and each of its tasks, one that holds all allocations (`allocs`), and one
//! each for what goes to the servers and comes from them (`contact`, `follow`, `reporter`, `files`, `stats`).

mod alloc;
mod allocs;
mod config;
mod contact;
mod context;
mod driver;
pub mod executor;
mod files;
mod fingerprint;
mod follow;
mod gc;
mod heartbeats;
mod identity;
mod logs;
mod orders;
mod presence;
mod reporter;
mod reports;
mod run;
mod stats;
mod store;
mod task;
#[cfg(test)]
mod testing;
mod until;
mod work;

pub use config::{Args, Pair, PortRange};
pub use fingerprint::LOOPBACK;
pub use presence::{Presence, Registration};
pub use run::{node_id, run, run_connecting};
