//! One allocation: what the servers want of it, what follows from how its tasks fare, and the loop around its tasks.

pub(crate) mod class;
pub(crate) mod core;
pub(crate) mod health;
pub(crate) mod runner;
pub(crate) mod spec;
pub(crate) mod status;
