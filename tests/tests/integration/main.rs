//! Do real processes keep their promises while they are killed? Each test starts a cluster of its own; what it proves stands
//! at the top of its module. How services decide is tested in their crates.

mod agent;
mod command_line;
mod input;
mod kills;
mod outage;
mod tables;
mod trace;

/// The binary that is tested.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
