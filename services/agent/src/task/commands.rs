//! Commands for tasks. An allocation ends its tasks ([`Kill`]). Users restart and signal tasks: the runner
//! of the allocation passes such a command on, and the runners of the tasks carry it out.

use std::sync::Arc;

use model::Text;
use nix::sys::signal::Signal;
use tokio::sync::{oneshot, watch};

/// A request to end a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kill {
    /// Whether the task's shutdown delay is skipped.
    pub(crate) skip_delay: bool,
}

/// The outcome of a user's command. The error is a text for users.
pub(crate) type Outcome = Result<(), Text>;

/// An action on a running task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskAction {
    /// Stop and start again.
    Restart {
        /// The reason, for the event.
        reason: &'static str,
    },
    /// Stop, as if the task had failed, so that its restart policy decides what follows.
    RestartFailed {
        /// The reason, for the event.
        reason: Text,
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

/// What the hooks of a running task ask its runner to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HookRequest {
    /// Stop the task and start it again.
    Restart {
        /// The reason, for the event.
        reason: &'static str,
    },
    /// Stop the task, which has failed.
    Fail {
        /// The reason, for the event.
        reason: &'static str,
    },
}

/// The requests of a task's hooks. A runner carries out one for each run of the task, and a failure rather than a restart.
#[derive(Debug, Clone)]
pub(crate) struct HookRequests(Arc<watch::Sender<Option<HookRequest>>>);

impl Default for HookRequests {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }
}

impl HookRequests {
    /// Asks for something.
    pub(crate) fn ask(&self, request: HookRequest) {
        self.0.send_modify(|asked| {
            if !matches!(asked, Some(HookRequest::Fail { .. })) {
                *asked = Some(request);
            }
        });
    }

    /// Waits for a request, and takes it.
    pub(crate) async fn next(&self) -> HookRequest {
        let mut asked = self.0.subscribe();
        loop {
            let request = *asked.borrow_and_update();
            if let Some(request) = request {
                self.clear();
                return request;
            }
            if asked.changed().await.is_err() {
                // The sender is in `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Forgets what was asked of an earlier run of the task.
    pub(crate) fn clear(&self) {
        self.0.send_replace(None);
    }
}
