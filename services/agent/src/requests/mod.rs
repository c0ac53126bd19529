//! Requests that the API sends to the agent: for files and logs, for resource usage, to restart and signal tasks, and to
//! run commands in them. Each module serves one subject.

pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod stats;
pub(crate) mod tasks;
