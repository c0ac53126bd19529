//! Do real processes do together what each does in its tests? Each test starts a cluster of its own; what it proves stands
//! at the top of its module. How services decide is tested in their crates; what happens when they are killed, in `chaos`.

mod agent;
mod command_line;
mod dev;
mod ending;
mod everywhere;
mod go_client;
mod health;
mod hostile;
mod identities;
mod input;
mod metrics;
mod notify;
mod outage;
mod rollouts;
mod secrets;
mod tables;
mod trace;
mod units;
mod went_back;

/// The binary that is tested.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
