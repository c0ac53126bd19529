//! [`Loading`]: a state that is being loaded. The connection's task reads rows, and a thread builds the state from them.
//!
//! Building the state of a million objects takes seconds, and longer on a busy machine. If the task that reads did it, the
//! transaction on the server would be idle meanwhile, and the server ends transactions that are idle for too long. The
//! reader also leaves its own thread to other tasks, such as those that hold a lease.

use model::change::{Cause, Change, ChangeSet};
use model::{Index, RequestId, Timestamp};
use state::{Inconsistent, Scope, State, Table};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::error::Error;
use crate::projection::Projected;

/// How many objects are passed to the state at once. Further rows stay with the server until then.
const BATCH: usize = 1_024;
/// How many batches may wait for the thread that builds the state. The reader waits while there are more.
const WAITING_MAX: usize = 16;

/// A state that is being loaded.
pub(crate) struct Loading {
    scope: Scope,
    at: Projected,
    batch: Vec<Change>,
    steps: mpsc::Sender<Step>,
    built: JoinHandle<Result<State, Inconsistent>>,
}

/// What the thread does with a change set.
enum Step {
    /// Adds objects of the tables, which carry their own indexes.
    Load(ChangeSet),
    /// Applies a change set of the log.
    Apply(ChangeSet),
}

impl Loading {
    /// Starts with an empty state. The tables are at the index `at`.
    pub(crate) fn new(state: State, at: Projected) -> Self {
        let scope = state.scope();
        let (steps, receiver) = mpsc::channel(WAITING_MAX);
        let built = spawn_blocking(move || build(state, receiver));
        Self { scope, at, batch: Vec::new(), steps, built }
    }

    /// Whether a table is in scope.
    pub(crate) fn wants(&self, table: Table) -> bool {
        self.scope.has(table)
    }

    /// Adds an object that carries its own indexes.
    pub(crate) async fn push(&mut self, change: Change) -> Result<(), Error> {
        self.batch.push(change);
        if self.batch.len() < BATCH { Ok(()) } else { self.flush().await }
    }

    /// Adds changes that carry no indexes and happened at `index`.
    pub(crate) async fn push_at(&mut self, index: Index, changes: Vec<Change>) -> Result<(), Error> {
        if !self.batch.is_empty() {
            self.flush().await?;
        }
        self.send(Step::Load(change_set(index, self.at.at, changes))).await
    }

    /// Ends the tables: the state is at their index.
    pub(crate) async fn end_tables(&mut self) -> Result<(), Error> {
        self.flush().await
    }

    /// Applies a change set of the log, after the tables.
    pub(crate) async fn apply(&mut self, set: ChangeSet) -> Result<(), Error> {
        self.send(Step::Apply(set)).await
    }

    /// Waits for the complete state.
    pub(crate) async fn finish(self) -> Result<State, Error> {
        drop(self.steps);
        Ok(self.built.await.expect(NO_PANIC)?)
    }

    async fn flush(&mut self) -> Result<(), Error> {
        let set = change_set(self.at.index, self.at.at, std::mem::take(&mut self.batch));
        self.send(Step::Load(set)).await
    }

    async fn send(&mut self, step: Step) -> Result<(), Error> {
        if self.steps.send(step).await.is_ok() {
            return Ok(());
        }
        let built = (&mut self.built).await.expect(NO_PANIC);
        Err(built.expect_err("the thread ends before the reader only if a change set does not fit").into())
    }
}

const NO_PANIC: &str = "building a state does not panic, and its thread is not cancelled";

/// Builds the state until the reader ends, or a change set does not fit.
fn build(mut state: State, mut steps: mpsc::Receiver<Step>) -> Result<State, Inconsistent> {
    while let Some(step) = steps.blocking_recv() {
        match step {
            Step::Load(set) => state.load(&set)?,
            Step::Apply(set) => state.apply(&set)?,
        }
    }
    Ok(state)
}

/// A change set for `State::load`, which uses only these fields of it.
fn change_set(index: Index, at: Timestamp, changes: Vec<Change>) -> ChangeSet {
    let request_id = RequestId::from_bytes([0; 16]);
    ChangeSet { index, at, request_id, cause: Cause::Settings, trace: None, result: Vec::new(), changes }
}
