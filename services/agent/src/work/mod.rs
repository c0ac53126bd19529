//! The work of this node: the allocations as the servers describe them, and how they differ from those that the agent has.

pub(crate) mod changes;
pub(crate) mod spec;
