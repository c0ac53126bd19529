//! Messages between the API and an agent that act on running tasks, or remove what has ended (A-12.6,
//! ), on [`Subject::AgentTasks`](crate::Subject::AgentTasks).
//!
//! An agent responds when the action is done, or refuses: an unknown allocation or task as `NotFound`, a task that does
//! not run and an unreadable request as `Invalid`. A repeated request is carried out again.

use model::{AllocId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Restarts tasks, regardless of their restart policy. The response is [`TasksDone`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestartTasks {
    /// The allocation.
    pub alloc: AllocId,
    /// Name of one task; `None` selects all running tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// Whether tasks that have ended are started again as well.
    #[serde(default)]
    pub all: bool,
}

/// Sends a signal to tasks. The response is [`TasksDone`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalTasks {
    /// The allocation.
    pub alloc: AllocId,
    /// Name of one task; `None` selects all running tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Text>,
    /// Name of the signal, such as `SIGUSR1`.
    pub signal: Text,
}

/// Removes the files of an allocation that has ended, or of all such allocations of the node. The response is
/// [`TasksDone`]. An allocation that has not ended is refused as `Invalid`; one that was removed before is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveEnded {
    /// The allocation; `None` selects all that have ended. Their files are then removed after the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alloc: Option<AllocId>,
}

/// The action is done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TasksDone {}

kinds! {
    RestartTasks => "tasks.restart",
    SignalTasks => "tasks.signal",
    RemoveEnded => "tasks.remove-ended",
    TasksDone => "tasks.done",
}
