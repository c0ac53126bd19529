//! What is kept of a started task on disk, and its recovery after a restart of the agent.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::AllocId;
use model::alloc::{TaskRunState, TaskState};
use serde::{Deserialize, Serialize};
use telemetry::{chain, clock};

use super::TaskRunner;
use crate::context::Context;
use crate::disk::store::{self, Durability, Saved};
use crate::driver::{Handle, Running, process};

/// The number of hexadecimal digits in the id of a start.
const START_ID_DIGITS: usize = 8;

/// The record of a started task on disk, in addition to its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StartRecord {
    /// The id of this start, which also names the driver's directory.
    pub(super) id: String,
    /// How often the task had been restarted before.
    pub(super) restarts: u64,
    /// The handle to recover the task; `None` while it is being started.
    pub(super) handle: Option<Handle>,
}

/// The outcome of recovering a task after the agent restarted.
pub(super) enum Recovered {
    /// The task is still running, or its exit is known.
    Running(Arc<dyn Running>),
    /// The task was not running.
    NotRunning,
    /// The task was running and cannot be recovered.
    Lost,
}

/// Ends all processes of an allocation whose state cannot be read.
pub(crate) async fn end_leftovers(context: &Context, alloc: AllocId) {
    let tasks = context.store.tasks(alloc).unwrap_or_else(|error| {
        tracing::error!(alloc.id = %alloc, error = chain(&error), "cannot look for processes of an allocation");
        Vec::new()
    });
    for task in tasks {
        process::end_leftovers(&task, None).await;
    }
    let Some(cgroups) = context.cgroups.clone() else { return };
    let removed = tokio::task::spawn_blocking(move || cgroups.remove_alloc(alloc)).await;
    if let Err(error) = removed.map_err(io::Error::other).flatten() {
        tracing::error!(alloc.id = %alloc, error = chain(&error), "cannot remove the cgroups of an allocation");
    }
}

/// The id of a new start.
pub(super) fn start_id() -> String {
    let digits = uuid::Uuid::from_bytes(clock::random_bytes()).simple().to_string();
    digits[..START_ID_DIGITS].to_owned()
}

impl TaskRunner {
    fn state_dir(&self) -> PathBuf {
        self.context.store.task(self.spec.borrow().id(), &self.name)
    }

    pub(super) fn driver_dir(&self, id: &str) -> PathBuf {
        self.state_dir().join(format!("exec-{id}"))
    }

    fn record_file(&self) -> PathBuf {
        self.state_dir().join("record")
    }

    /// Saves the record of a start. What it describes ends with the machine, so it need not survive a crash of the machine.
    pub(super) async fn save_record(&self, record: &StartRecord) -> io::Result<()> {
        store::save(self.record_file(), record, Durability::Process).await
    }

    /// Removes what is kept of a start. The files of hooks stay.
    pub(super) async fn forget_start(&self, task: Option<&Arc<dyn Running>>) {
        if let Some(task) = task {
            task.destroy().await;
        }
        self.removed(&self.record_file(), tokio::fs::remove_file(self.record_file()).await);
        for dir in store::directories(&self.state_dir()).unwrap_or_default() {
            self.removed(&dir, tokio::fs::remove_dir_all(&dir).await);
        }
    }

    /// Removes everything that is kept of the task.
    pub(super) async fn forget_task(&self) {
        self.removed(&self.state_dir(), tokio::fs::remove_dir_all(self.state_dir()).await);
    }

    fn removed(&self, path: &Path, outcome: io::Result<()>) {
        match outcome {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                alloc.id = %self.spec.borrow().id(), task = &*self.name, file = %path.display(), error = chain(&error),
                "cannot remove the state of a task"
            ),
        }
    }

    pub(super) async fn recover_task(&self, state: &TaskState) -> Recovered {
        let alloc = self.spec.borrow().id();
        let not_found = match state.state {
            TaskRunState::Running => Recovered::Lost,
            TaskRunState::Pending | TaskRunState::Dead => Recovered::NotRunning,
        };
        let record = match store::load::<StartRecord>(&self.record_file()) {
            Saved::Read(record) => Some(record),
            Saved::Absent | Saved::Unreadable => None,
        };
        let driver = self
            .spec
            .borrow()
            .task(&self.name)
            .and_then(|task| self.context.drivers.get(&task.driver))
            .cloned();
        let found = record.and_then(|record| Some((record.handle.clone()?, driver?, record)));
        let known = found.as_ref().map(|(.., record)| self.driver_dir(&record.id));
        process::end_leftovers(&self.state_dir(), known.as_deref()).await;
        let Some((handle, driver, record)) = found else { return not_found };
        let is_over = state.state == TaskRunState::Pending && record.restarts < state.restarts;
        match driver.recover(&handle).await {
            Ok(task) if is_over => {
                // The end of this run has been saved. Only the clean-up was missing.
                self.forget_start(Some(&task)).await;
                Recovered::NotRunning
            }
            Ok(task) => Recovered::Running(task),
            Err(error) => {
                tracing::warn!(
                    alloc.id = %alloc, task = &*self.name, error = chain(&error),
                    "cannot recover a task"
                );
                driver.discard(&handle).await;
                not_found
            }
        }
    }
}
