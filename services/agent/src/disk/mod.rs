//! What the agent has on disk: its own state, the directories of allocations, and the output of tasks; how full the disk
//! is, and which ended allocations are removed.

pub(crate) mod dirs;
pub(crate) mod gc;
pub(crate) mod logs;
pub(crate) mod store;
pub(crate) mod usage;
