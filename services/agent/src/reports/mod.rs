//! Reports of the allocations' states to the servers: `core` decides what is reported when, `actor` sends it.

pub(crate) mod actor;
pub(crate) mod core;
