//! One task of an allocation: its environment, its directories, restart decisions, and the runner.

pub(crate) mod dirs;
pub(crate) mod env;
pub(crate) mod interpolation;
pub(crate) mod restarts;
pub(crate) mod runner;
pub(crate) mod state;
mod unsupported;

pub(crate) use unsupported::check_name;
