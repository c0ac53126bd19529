//! Renders the templates of a task before it starts, and watches them while it runs. `plan`, `env_file`,
//! `changes` and `missing` decide.

mod changes;
mod env_file;
mod files;
mod missing;
mod plan;
mod session;
mod task_data;
mod watch;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::task::JoinSet;

use self::session::Session;
use self::watch::Watch;
use super::{HookError, StartDraft, TaskHook, TaskRun};
use crate::driver::Running;

/// The hook.
#[derive(Default)]
pub(super) struct Templates(Mutex<State>);

#[derive(Default)]
struct State {
    /// The templates of the start that is being prepared.
    started: Option<Session>,
    /// What watches the templates. Dropping it ends that.
    watch: JoinSet<()>,
}

#[async_trait]
impl TaskHook for Templates {
    fn name(&self) -> &'static str {
        "template"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        let (_, task) = run.job_parts()?;
        if task.templates.is_empty() {
            return Ok(());
        }
        let file = run.file(self.name());
        let mut session = Session::new(run, &task.templates, Arc::new(draft.env.clone()), file)?;
        draft.env.extend(session.first(run).await?);
        self.change(|state| state.started = Some(session));
        Ok(())
    }

    async fn poststart(&self, run: &TaskRun, running: &Arc<dyn Running>) -> Result<(), HookError> {
        let (_, task) = run.job_parts()?;
        if task.templates.is_empty() {
            return Ok(());
        }
        let started = self.change(|state| state.started.take());
        let is_first = started.is_some();
        // After a restart of the agent, the files are those that the earlier one has written.
        let restored = || Session::restored(run, &task.templates, run.file(self.name()));
        let Some(session) = started.or_else(restored) else {
            let message = "what was rendered before the restart of the agent is not known: the task's templates are \
                           followed again after its next start";
            return Err(HookError::recoverable(message));
        };
        let watch = Watch::new(session, run, running);
        self.change(|state| {
            state.watch = JoinSet::new();
            state.watch.spawn(watch.run(is_first));
        });
        Ok(())
    }

    async fn pre_kill(&self, _: &TaskRun) {
        self.end();
    }

    async fn exited(&self, _: &TaskRun) -> Result<(), HookError> {
        self.end();
        Ok(())
    }

    async fn stop(&self, _: &TaskRun) -> Result<(), HookError> {
        self.end();
        Ok(())
    }
}

impl Templates {
    /// Nothing is watched any more.
    fn end(&self) {
        self.change(|state| *state = State::default());
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        // A poisoned lock is harmless, because each change is a single step.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
