//! Allocations. `allocs` owns all of the node, and `removals` removes what is left of them. Of each allocation, `core`
//! decides about its tasks, and `runner` carries the decisions out.

pub(crate) mod allocs;
pub(crate) mod checks;
pub(crate) mod class;
pub(crate) mod core;
pub(crate) mod health;
pub(crate) mod hooks;
pub(crate) mod phase;
pub(crate) mod removals;
pub(crate) mod runner;
pub(crate) mod status;
