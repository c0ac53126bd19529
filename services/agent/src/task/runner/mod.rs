//! Runs one task: waits for the gate, starts the task, waits for its end, and decides about a restart. The allocation
//! opens the gate, tells the task when it must end, and keeps its state. What a task needs is prepared by its hooks.

mod record;
mod start;
mod supervise;

use std::sync::Arc;
use std::time::Duration;

use model::alloc::{TaskEventKind as Event, TaskRunState, TaskState};
use model::job::{JobType, RestartPolicy};
use model::{Nanos, Text, TraceContext};
use telemetry::metrics::catalogue::AGENT_OOM_KILLED;
use telemetry::{attribute, clock, traces};
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;
use tracing::{Instrument as _, Span};

use self::record::Recovered;
pub(crate) use self::record::end_leftovers;
use self::start::NotStarted;
use super::commands::{HookRequests, Kill, TaskCommand};
use super::hooks::TaskRun;
use super::hooks::chain::TaskHooks;
use super::restarts::{Decision, Restarts, RunResult};
use super::setup::AllocSetup;
use super::state::TaskChange;
use super::updates::Updates;
use crate::account::Account;
use crate::context::Context;
use crate::driver::{Exit, Running};
use crate::starts::StartPermit;
use crate::wait::{to_std, until};
use crate::work::spec::AllocSpec;

/// How long a start waits for others before an event says so.
const QUEUED_EVENT_DELAY: Duration = Duration::from_secs(1);

/// The runner of one task.
pub(crate) struct TaskRunner {
    /// The agent's shared values.
    pub(crate) context: Arc<Context>,
    /// The task's name.
    pub(crate) name: Text,
    /// The allocation's specification.
    pub(crate) spec: watch::Receiver<Arc<AllocSpec>>,
    /// What the hooks of the allocation have prepared; `None` until they have.
    pub(crate) setup: watch::Receiver<Option<Arc<AllocSetup>>>,
    /// The task's hooks.
    pub(crate) hooks: TaskHooks,
    /// Whether the task may start.
    pub(crate) gate: watch::Receiver<bool>,
    /// Set when the task must end.
    pub(crate) kill: watch::Receiver<Option<Kill>>,
    /// Sends the task's changes to its allocation.
    pub(crate) updates: Updates,
    /// User commands for the running task.
    pub(crate) commands: mpsc::Receiver<TaskCommand>,
    /// What the hooks ask for while the task runs.
    pub(crate) requests: HookRequests,
    /// The trace of the allocation's start.
    pub(crate) trace: Option<TraceContext>,
}

/// How a run of the task ended.
enum RunEnd {
    /// It was killed. `error` is the reason if that failed.
    Killed { exit: Option<Exit>, error: String },
    /// A user or a hook restarted it.
    Restarted { exit: Option<Exit> },
    /// A hook ended it, because it has failed.
    Failed { exit: Option<Exit>, reason: &'static str },
    /// It ended by itself or could not be started.
    Ended { exit: Option<Exit>, run_result: RunResult },
}

/// The task must end, or its allocation has ended.
struct KillRequested;

impl TaskRunner {
    /// Runs the task until it is dead for good. `known` is its state from before a restart of the agent.
    pub(crate) async fn run(mut self, known: Option<TaskState>) {
        let Some((policy, job, lifecycle)) = self.restart_rules() else { return };
        let mut restarts = Restarts::new(policy, job, lifecycle);
        let mut restart_count = known.as_ref().map_or(0, |state| state.restarts);
        let mut running = None;
        if let Some(state) = known {
            match self.recover_task(&state).await {
                Recovered::Running(task) if state.state == TaskRunState::Dead => {
                    return self.clean_up(Some(&task)).await;
                }
                _ if state.state == TaskRunState::Dead => return self.clean_up(None).await,
                Recovered::Running(task) => {
                    if state.state == TaskRunState::Pending {
                        // The agent had started the task and was killed before the change was saved.
                        self.started().await;
                    }
                    running = Some(task);
                }
                Recovered::NotRunning => {}
                Recovered::Lost => {
                    if self.wait_for_servers(job).await.is_err() {
                        return self.killed().await;
                    }
                }
            }
        }
        loop {
            let (end, task) = match running.take() {
                Some(task) => (self.supervise(&task).await, Some(task)),
                None => match self.start(restart_count).await {
                    Ok(task) => (self.supervise(&task).await, Some(task)),
                    Err(end) => (end, None),
                },
            };
            let mut events = Vec::new();
            let (RunEnd::Killed { exit, .. }
            | RunEnd::Restarted { exit }
            | RunEnd::Failed { exit, .. }
            | RunEnd::Ended { exit, .. }) = &end;
            if let Some(exit) = exit {
                if exit.oom_killed {
                    AGENT_OOM_KILLED.add(1);
                }
                events.push((terminated(exit), false));
            }
            let decision = match end {
                RunEnd::Killed { error, .. } => {
                    events.push((Event::Killed { error: error.into() }, false));
                    Decision::Done
                }
                RunEnd::Failed { reason, .. } => Decision::Failed { reason: reason.to_owned() },
                // A restart by a user or a hook does not count as an attempt of the policy.
                RunEnd::Restarted { .. } => Decision::Restart { reason: "", delay: Nanos::ZERO },
                RunEnd::Ended { run_result, .. } => {
                    if let Some((policy, ..)) = self.restart_rules() {
                        restarts.set_policy(policy);
                    }
                    restarts.decide(&run_result, clock::now(), rand::random())
                }
            };
            match decision {
                Decision::Done => {
                    self.dead(events).await;
                    return self.clean_up(task.as_ref()).await;
                }
                Decision::Failed { reason } => {
                    tracing::warn!(alloc.id = %self.spec.borrow().id(), task = &*self.name, reason, "task failed");
                    events.push((Event::NotRestarting { reason: reason.into() }, true));
                    self.dead(events).await;
                    return self.clean_up(task.as_ref()).await;
                }
                Decision::Restart { reason, delay } => {
                    tracing::info!(
                        alloc.id = %self.spec.borrow().id(), task = &*self.name, reason, delay = %delay,
                        "restarting a task"
                    );
                    events.push((Event::Restarting { reason: reason.into(), delay }, false));
                    self.updates.send(TaskChange { events, state: Some(TaskRunState::Pending) }).await;
                    restart_count += 1;
                    self.forget_start(task.as_ref()).await;
                    if self.pause(delay).await.is_err() {
                        return self.killed().await;
                    }
                }
            }
        }
    }

    /// The restart policy and what else decides about restarts; `None` if the job no longer has the task.
    fn restart_rules(&self) -> Option<(RestartPolicy, JobType, Option<model::job::Lifecycle>)> {
        let spec = self.spec.borrow();
        let (group, task) = (spec.group()?, spec.task(&self.name)?);
        let policy = task.restart_policy.as_ref().or(group.restart_policy.as_ref()).cloned();
        Some((policy.unwrap_or_default(), spec.job.spec.kind, task.lifecycle))
    }

    async fn started(&self) {
        self.updates.send(TaskChange::event(Event::Started).and(TaskRunState::Running)).await;
    }

    async fn dead(&self, events: Vec<(Event, bool)>) {
        self.updates.send(TaskChange { events, state: Some(TaskRunState::Dead) }).await;
    }

    /// The task was killed while it did not run.
    async fn killed(&self) {
        self.dead(vec![(Event::Killed { error: Text::default() }, false)]).await;
        self.clean_up(None).await;
    }

    /// Cleans up after the last end of the task. Another agent does so again if this one ends before.
    async fn clean_up(&self, task: Option<&Arc<dyn Running>>) {
        self.forget_start(task).await;
        self.hooks.stop(&self.task_run()).await;
        self.forget_task().await;
    }

    /// The task, as its hooks see it now.
    fn task_run(&self) -> TaskRun {
        let spec = Arc::clone(&self.spec.borrow());
        let user = spec.task(&self.name).map(|task| self.context.drivers.user(&task.driver, &task.user));
        let account = user.and_then(|user| Account::find(user).ok());
        TaskRun {
            context: Arc::clone(&self.context),
            name: Text::clone(&self.name),
            setup: self.setup.borrow().clone().unwrap_or_default(),
            dirs: self.context.dirs(spec.id()).task(&self.name),
            account,
            requests: self.requests.clone(),
            updates: self.updates.clone(),
            spec,
        }
    }

    async fn kill_requested(&self) -> KillRequested {
        until_killed(&self.kill).await
    }

    async fn pause(&self, duration: Nanos) -> Result<(), KillRequested> {
        tokio::select! {
            () = sleep(to_std(duration)) => Ok(()),
            end = self.kill_requested() => Err(end),
        }
    }

    async fn start(&mut self, restarts: u64) -> Result<Arc<dyn Running>, RunEnd> {
        let killed = || RunEnd::Killed { exit: None, error: String::new() };
        let permit = self.start_permit().await.map_err(|KillRequested| killed())?;
        self.spec.mark_unchanged();
        let span = self.start_span(restarts);
        let start = Box::pin(self.try_start(restarts));
        match permit.during(start).instrument(span.clone()).await {
            Ok(task) => {
                span.in_scope(|| {
                    tracing::debug!(alloc.id = %self.spec.borrow().id(), task = &*self.name, "task started");
                });
                drop(span);
                self.started().await;
                Ok(task)
            }
            Err(NotStarted::Killed) => {
                self.hooks.exited(&self.task_run()).await;
                Err(killed())
            }
            Err(NotStarted::Failed { event, recoverable }) => {
                traces::fail(&span, event.as_str(), &event.display());
                span.in_scope(|| {
                    tracing::warn!(
                        alloc.id = %self.spec.borrow().id(), task = &*self.name, error = event.display(),
                        "cannot start a task"
                    );
                });
                self.updates.event(event).await;
                self.hooks.exited(&self.task_run()).await;
                Err(RunEnd::Ended { exit: None, run_result: RunResult::NotStarted { recoverable } })
            }
        }
    }

    /// Waits for the gate. Meanwhile, the driver fetches what it needs for the start.
    async fn until_open(&self) -> Result<(), KillRequested> {
        if self.kill.borrow().is_none() && *self.gate.borrow() {
            return Ok(());
        }
        let opened = async { tokio::join!(until(&self.gate, |open| *open), self.prepare_early()) };
        tokio::select! {
            biased;
            end = self.kill_requested() => Err(end),
            _ = opened => Ok(()),
        }
    }

    /// Waits for the gate, and until the node may start another task.
    async fn start_permit(&self) -> Result<StartPermit, KillRequested> {
        loop {
            self.until_open().await?;
            let permit = self.free_permit().await?;
            // The gate may have closed while other tasks started.
            if *self.gate.borrow() {
                return Ok(permit);
            }
        }
    }

    /// Waits until the node may start another task. A start that waits for long says so.
    async fn free_permit(&self) -> Result<StartPermit, KillRequested> {
        let starts = &self.context.starts;
        if let Some(permit) = starts.try_permit() {
            return Ok(permit);
        }
        let waiting = starts.permit();
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            end = self.kill_requested() => return Err(end),
            permit = &mut waiting => return Ok(permit),
            () = sleep(QUEUED_EVENT_DELAY) => {}
        }
        let message = format!(
            "Waiting for other tasks of this node to start: at most {} start at the same time now",
            starts.allowed()
        );
        self.updates.event(Event::TaskSetup { message: message.into() }).await;
        tokio::select! {
            biased;
            end = self.kill_requested() => Err(end),
            permit = &mut waiting => Ok(permit),
        }
    }

    /// The span of a start. The first is part of the trace of the allocation's start; later ones are separate traces with a
    /// link to it.
    fn start_span(&self, restarts: u64) -> Span {
        let Some(trace) = &self.trace else { return Span::none() };
        let spec = Arc::clone(&self.spec.borrow());
        let span = tracing::info_span!(
            parent: None,
            "start task",
            { attribute::ALLOC_ID } = %spec.id(),
            { attribute::TASK_NAME } = &*self.name,
            { attribute::TASK_DRIVER } = spec.task(&self.name).map(|task| &*task.driver),
            { attribute::TASK_RESTARTS } = restarts.cast_signed(),
        );
        if restarts == 0 {
            telemetry::adopt(&span, trace);
        } else {
            traces::link(&span, trace);
        }
        span
    }

    /// Waits until the servers have been contacted before a lost task is started again, because they may have replaced it
    ///
    async fn wait_for_servers(&self, job: JobType) -> Result<(), KillRequested> {
        if job == JobType::System {
            self.updates.send(TaskChange::state(TaskRunState::Pending)).await;
            return Ok(());
        }
        self.updates.send(TaskChange::event(Event::FailedRestoring).and(TaskRunState::Pending)).await;
        tokio::select! {
            _ = until(&self.context.contacted, |contacted| *contacted) => Ok(()),
            end = self.kill_requested() => Err(end),
        }
    }
}

async fn until_killed(kill: &watch::Receiver<Option<Kill>>) -> KillRequested {
    until(kill, Option::is_some).await;
    KillRequested
}

fn terminated(exit: &Exit) -> Event {
    Event::Terminated {
        exit_code: exit.code,
        signal: exit.signal,
        message: exit.message.as_str().into(),
        oom_killed: exit.oom_killed,
    }
}

#[cfg(test)]
mod tests;
