//! User commands for tasks: restarts and signals, and the tasks that each is for. The runners of
//! allocations pass them on, and the runners of tasks carry them out.

use model::Text;
use nix::sys::signal::Signal;
use tokio::sync::oneshot;

/// The outcome of a command. The error is a text for users.
pub(crate) type Outcome = Result<(), Text>;

/// What a running task should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TaskAction {
    /// Stop and start again.
    Restart {
        /// The reason, for the event.
        reason: &'static str,
    },
    /// Receive a signal.
    Signal(Signal),
}

/// A command for one running task.
#[derive(Debug)]
pub(crate) struct TaskCommand {
    pub(crate) action: TaskAction,
    pub(crate) done: oneshot::Sender<Outcome>,
}

/// Selects tasks of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskSelector {
    /// One task, which must be running.
    Task(Text),
    /// All running tasks.
    Running,
    /// All tasks, including those that have ended.
    All,
}

impl TaskSelector {
    /// One task, or all running tasks if none is named.
    pub(crate) fn running(task: Option<Text>) -> Self {
        task.map_or(Self::Running, Self::Task)
    }

    /// Whether a task is selected.
    pub(crate) fn matches(&self, name: &str) -> bool {
        match self {
            Self::Task(task) => **task == *name,
            Self::Running | Self::All => true,
        }
    }
}

/// A command for tasks of an allocation.
#[derive(Debug)]
pub(crate) struct TasksCommand {
    pub(crate) selector: TaskSelector,
    pub(crate) action: TaskAction,
    pub(crate) done: oneshot::Sender<Outcome>,
}
