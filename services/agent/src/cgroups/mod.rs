//! Control groups: the kernel's limits and counters of tasks.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The control groups of one start of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TaskCgroup {
    /// Their directories: one for each controller in a hierarchy of version 1, and a single one in version 2.
    pub(crate) paths: Vec<PathBuf>,
}
