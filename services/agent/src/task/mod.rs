//! One task of an allocation: its environment and directories, whether it is started again, and the loop that runs it.

pub(crate) mod dirs;
pub(crate) mod env;
pub(crate) mod names;
pub(crate) mod restarts;
pub(crate) mod runner;
pub(crate) mod state;
mod unbuilt;

pub(crate) use unbuilt::check_name;
