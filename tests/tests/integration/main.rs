//! Real processes do together what each does in its own tests. Each test starts a cluster of its own; the head of its
//! module says what it proves. The decisions of services are tested in their crates, and killed processes in `chaos`.

mod agent;
mod children;
mod cluster_status;
mod command_line;
mod commands_in_tasks;
mod containers;
mod dev;
mod drains;
mod go_client;
mod health;
mod hostile;
mod identities;
mod input;
mod metrics;
mod notify;
mod other_database;
mod outage;
mod restored_database;
mod rollouts;
mod secrets;
mod services_by_name;
mod shutdown;
mod system_jobs;
mod tables;
mod tasks;
mod terminal;
mod trace;
mod units;

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
