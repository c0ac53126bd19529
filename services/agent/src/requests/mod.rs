//! Requests that the API sends to the agent: for files and logs, for resource usage, and to restart and signal tasks. Each
//! module serves one subject.

pub(crate) mod files;
pub(crate) mod stats;
pub(crate) mod tasks;
