//! One task of an allocation: its environment, restart decisions, commands, hooks, and the runner.

pub(crate) mod advertised;
pub(crate) mod commands;
pub(crate) mod env;
pub(crate) mod hooks;
pub(crate) mod interpolation;
pub(crate) mod restarts;
pub(crate) mod runner;
pub(crate) mod setup;
pub(crate) mod state;
mod unsupported;
pub(crate) mod updates;

pub(crate) use unsupported::check_name;
