//! The changes of a task, on their way to its allocation, which saves and reports them.

use model::Text;
use model::alloc::TaskEventKind;
use tokio::sync::{mpsc, oneshot};

use super::state::TaskChange;

/// A change of a task, as a message to its allocation.
#[derive(Debug)]
pub(crate) struct TaskUpdate {
    /// The task.
    pub(crate) task: Text,
    /// The change.
    pub(crate) change: TaskChange,
    /// Sent when the change has been saved.
    pub(crate) saved: oneshot::Sender<()>,
}

/// Sends the changes of one task.
#[derive(Debug, Clone)]
pub(crate) struct Updates {
    /// The task.
    pub(crate) task: Text,
    /// The allocation's inbox.
    pub(crate) inbox: mpsc::Sender<TaskUpdate>,
}

impl Updates {
    /// Sends a change and waits until it has been saved.
    pub(crate) async fn send(&self, change: TaskChange) {
        let (saved, saved_receiver) = oneshot::channel();
        let update = TaskUpdate { task: Text::clone(&self.task), change, saved };
        if self.inbox.send(update).await.is_ok() {
            // Fails if the allocation ends meanwhile. Then no answer is needed.
            let _ = saved_receiver.await;
        }
    }

    /// Sends an event.
    pub(crate) async fn event(&self, event: TaskEventKind) {
        self.send(TaskChange::event(event)).await;
    }
}
