//! Requests that the API sends to the agent: for files and logs, for resource usage and checks, to restart and signal tasks,
//! and to run commands in them. Each module serves one subject.

mod checks;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod stats;
pub(crate) mod tasks;
