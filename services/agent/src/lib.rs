//! The agent: the process that runs on every node. It detects the node's resources, registers the node, runs the
//! allocations that the servers assign to it, and reports their state.
//!
//! The agent speaks NATS only. Tasks do not depend on it: each process has an [`executor`] that outlives the agent, and
//! everything that a restart needs is on disk. While the servers or NATS are unreachable, tasks keep running, failed tasks
//! are restarted, and reports are kept until they can be sent.
//!
//! Decisions are pure: `alloc::core`, `task::restarts`, `reports`, `work`, `gc`, `heartbeats`. Around them are tokio tasks:
//! one for each allocation and each of its tasks, one that owns all allocations (`allocs`), and one for each kind of
//! communication with the servers (`contact`, `follow`, `reporter`, `files`, `stats`).

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
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gc;
mod heartbeats;
mod identity;
mod logs;
mod presence;
mod reporter;
mod reports;
mod run;
mod stats;
mod store;
mod task;
mod task_commands;
mod task_requests;
#[cfg(test)]
mod testing;
mod until;
mod work;

pub use config::{Args, Pair, PortRange};
pub use fingerprint::LOOPBACK;
pub use presence::{Presence, Registration};
pub use run::{node_id, run, run_connecting};
