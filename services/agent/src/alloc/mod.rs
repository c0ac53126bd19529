//! Allocations. `allocs` owns all of the node. Of each allocation, `core` decides about its tasks, and `runner` carries the
//! decisions out.

pub(crate) mod allocs;
pub(crate) mod class;
pub(crate) mod core;
pub(crate) mod health;
pub(crate) mod phase;
pub(crate) mod runner;
pub(crate) mod status;
