//! One allocation: its specification, the decisions about its tasks, and the runner around them.

pub(crate) mod class;
pub(crate) mod core;
pub(crate) mod health;
pub(crate) mod phase;
pub(crate) mod runner;
pub(crate) mod spec;
pub(crate) mod status;
