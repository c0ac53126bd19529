//! The cluster's state in memory: what every service decides on.
//!
//! A [`State`] is a set of tables at one index. Change sets move it on; cloning it is free of cost whatever its size,
//! and a clone stays as it is. So one thing serves as a replica's newest state, as the snapshot that a scheduler works
//! on, and as the overlay on which the applier judges what is not committed yet. [`Replica`] is one process's shared
//! copy with its watches. Where change sets come from, and where they are kept, is `bus`'s and `store`'s business.

mod allocs;
mod apply;
pub mod btree;
pub mod chunked;
mod error;
mod filed;
mod follow;
mod jobs;
mod layered;
mod names;
mod nodes;
mod places;
mod replica;
mod rollout;
mod scope;
mod slots;
mod stamp;
mod tables;
mod watch;

pub use allocs::AllocRef;
pub use error::Inconsistent;
pub use follow::{Followed, Follower, OneSet, Step};
pub use names::Names;
pub use nodes::{Expected, NodePage, NodePorts, NodeRef, PAGE, Registered, Usage, View};
pub use replica::{Replica, Snapshot};
pub use rollout::Rollout;
pub use scope::Scope;
pub use stamp::Stamp;
pub use tables::{State, Table, UnblockKey};
pub use watch::{Watch, WatchKey};
