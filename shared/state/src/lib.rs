//! The state of the cluster in memory, from which every service decides.
//!
//! A [`State`] is a set of tables at one index. Applying a change set advances it to the next index. Cloning a state is
//! cheap regardless of its size, and a clone does not change. So one type is the newest state of a replica, the snapshot of
//! a scheduler, and the overlay on which the applier executes commands before they are committed. [`Replica`] is the copy
//! that the services of one process share, with its watches. The crate `bus` delivers change sets, and `store` persists
//! them.

mod allocs;
mod apply;
pub mod btree;
pub mod chunked;
mod deployment_health;
mod drains;
mod error;
mod follow;
mod follow_queue;
mod jobs;
pub mod layered;
mod names;
mod nodes;
mod references;
mod replica;
mod rollout;
mod scope;
mod slab;
mod slab_map;
mod slots;
mod small;
mod stamp;
mod tables;
mod views;
mod watch;

pub use deployment_health::{DeploymentHealth, GroupHealth};
pub use error::Inconsistent;
pub use follow::{FollowEvent, Follower, SingleSet, Step};
pub use model::Table;
pub use names::Names;
pub use nodes::{Expected, NodePage, NodePorts, PAGE, Registered, Usage, View};
pub use references::MissingReference;
pub use replica::Replica;
pub use rollout::Rollout;
pub use scope::Scope;
pub use small::{SmallObjects, SmallTable, Stored};
pub use stamp::Stamp;
pub use tables::{Snapshot, State, UnblockKey};
pub use views::{AllocRef, NodeRef};
pub use watch::{Watch, WatchKey};
