//! Requests that the API sends to the agent: for files and logs, for resource usage and checks, to restart and signal
//! tasks, to run commands in them, to create and delete host volumes, and about the node's metadata. Each module serves one
//! subject, except `meta`, whose requests come with those for resource usage.

mod checks;
pub(crate) mod exec;
pub(crate) mod files;
pub(crate) mod meta;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod volumes;
