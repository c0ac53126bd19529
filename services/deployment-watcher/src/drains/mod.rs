//! Drains of nodes: which allocations migrate next, and when a drain is over (N-10).

mod actor;
mod batch;
mod core;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use actor::Drains;
