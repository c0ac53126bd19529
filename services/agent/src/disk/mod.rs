//! The agent's files: its own state, the directories of allocations and their secrets, and the output of tasks; how
//! full the disk is, and which ended allocations are removed. `tree` opens files that tasks can replace, `watch` waits
//! for changes.

pub(crate) mod dirs;
pub(crate) mod gc;
pub(crate) mod logs;
pub(crate) mod secrets;
pub(crate) mod store;
pub(crate) mod tree;
pub(crate) mod usage;
pub(crate) mod watch;
