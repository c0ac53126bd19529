//! Between the API and an agent: what people want of the tasks of its allocations, on
//! [`Subject::AgentTasks`](crate::Subject::AgentTasks).
//!
//! An agent answers when it is done, or refuses: an unknown allocation or task as `NotFound`, what does not run and what
//! cannot be read as `Invalid`. A request that is repeated is carried out again.

use model::{AllocId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Ends tasks and starts them again, whatever their policy says. Answered by [`TasksDone`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartTasks {
    /// The allocation.
    pub alloc: AllocId,
    /// One task; `None` is all that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// Whether tasks that have ended are to run again as well.
    #[serde(default)]
    pub all: bool,
}

/// Sends tasks a signal. Answered by [`TasksDone`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalTasks {
    /// The allocation.
    pub alloc: AllocId,
    /// One task; `None` is all that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// The signal's name, such as `SIGUSR1`.
    pub signal: Text,
}

/// It is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TasksDone {}

kinds! {
    RestartTasks => "tasks.restart",
    SignalTasks => "tasks.signal",
    TasksDone => "tasks.done",
}
