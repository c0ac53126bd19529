//! The loop that runs one task: wait for the gate, start, wait for its end, decide, perhaps again. What it may do
//! and when it must end comes from its allocation, which also keeps its state.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::alloc::{TaskEventKind as Event, TaskRunState, TaskState};
use model::job::{JobType, RestartPolicy, Task};
use model::{AllocId, Nanos, Text, TraceContext};
use serde::{Deserialize, Serialize};
use telemetry::{attribute, chain, clock, traces};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;
use tracing::{Instrument as _, Span};

use super::dirs::TaskDirs;
use super::names::fill_in_config;
use super::restarts::{Decision, Ended, Restarts};
use super::state::Happening;
use super::unbuilt::unbuilt;
use crate::alloc::core::{KILL_TIMEOUT_MAX, Kill};
use crate::alloc::spec::AllocSpec;
use crate::context::Context;
use crate::driver::{Exit, Handle, Running, Start, StartError, process, read_signal};
use crate::logs::LogFiles;
use crate::orders::{Outcome, TaskOrder, Wish};
use crate::store;
use crate::until::until;

/// Pauses between attempts to stop a task whose driver fails to.
const STOP_RETRY_AFTER: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(20),
    Duration::from_secs(80),
    Duration::from_secs(120),
    Duration::from_secs(120),
];
/// How many hexadecimal digits tell one start of a task from the next.
const START_ID_DIGITS: usize = 8;
/// Bytes in a MB of log files.
const MB: u64 = 1 << 20;

/// Something that happened to a task, for its allocation.
#[derive(Debug)]
pub(crate) struct News {
    /// The task.
    pub(crate) task: Text,
    /// What happened.
    pub(crate) happening: Happening,
    /// Told once it is on disk.
    pub(crate) saved: oneshot::Sender<()>,
}

/// What is kept of a started task, beside its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Started {
    /// Tells this start from others; the driver's directory is named so.
    id: String,
    /// How often the task had been restarted before it.
    restarts: u64,
    /// What finds it again; `None` while it is being started.
    handle: Option<Handle>,
}

/// What finds a task that was started, from what is kept of it; `None` if it does not run.
pub(crate) fn handle_of(context: &Context, alloc: AllocId, task: &str) -> Option<Handle> {
    store::read::<Started>(&started_file(context, alloc, task)).ok().flatten()?.handle
}

fn started_file(context: &Context, alloc: AllocId, task: &str) -> PathBuf {
    context.store.alloc(alloc).join(format!("task-{task}"))
}

/// Runs one task.
pub(crate) struct TaskRunner {
    /// What everything works with.
    pub(crate) context: Arc<Context>,
    /// The task.
    pub(crate) name: Text,
    /// What the servers want of its allocation.
    pub(crate) spec: watch::Receiver<Arc<AllocSpec>>,
    /// Whether it may start.
    pub(crate) gate: watch::Receiver<bool>,
    /// Set when it must end.
    pub(crate) kill: watch::Receiver<Option<Kill>>,
    /// To its allocation.
    pub(crate) news: mpsc::Sender<News>,
    /// What people want of it while it runs.
    pub(crate) orders: mpsc::Receiver<TaskOrder>,
    /// The trace of its allocation's start.
    pub(crate) trace: Option<TraceContext>,
}

/// How a run of the task ended.
enum RunEnd {
    /// It was to end; what went wrong with that, if anything did.
    Killed { exit: Option<Exit>, error: String },
    /// Because somebody wants it to begin anew.
    Restarted { exit: Option<Exit> },
    /// By itself, or it was not even started.
    Ended { exit: Option<Exit>, ended: Ended },
}

/// What is left of a task after a restart of the agent.
enum Found {
    /// It is still there, or its exit is.
    Running(Arc<dyn Running>),
    /// It was not running.
    Nothing,
    /// It was running and is not found again.
    Lost,
}

/// The task must end, or its allocation has.
struct MustEnd;

impl TaskRunner {
    /// Runs the task until it is dead for good. `known` is its state when the agent was restarted.
    pub(crate) async fn run(mut self, known: Option<TaskState>) {
        let Some((policy, job, lifecycle)) = self.rules() else { return };
        let mut restarts = Restarts::new(policy, job, lifecycle);
        let mut restarted = known.as_ref().map_or(0, |state| state.restarts);
        let mut running = None;
        if let Some(state) = known {
            match self.find_again(&state).await {
                Found::Running(task) if state.state == TaskRunState::Dead => {
                    return self.clean_up(Some(task)).await;
                }
                _ if state.state == TaskRunState::Dead => return self.clean_up(None).await,
                Found::Running(task) => {
                    if state.state == TaskRunState::Pending {
                        // The agent had started it, and was killed before it could say so.
                        self.started().await;
                    }
                    running = Some(task);
                }
                Found::Nothing => {}
                Found::Lost => {
                    if self.wait_for_servers(job).await.is_err() {
                        return self.dead(vec![(Event::Killed { error: Text::default() }, false)]).await;
                    }
                }
            }
        }
        loop {
            let (end, task) = match running.take() {
                Some(task) => (self.attend(&task).await, Some(task)),
                None => match self.start(restarted).await {
                    Ok(task) => (self.attend(&task).await, Some(task)),
                    Err(end) => (end, None),
                },
            };
            let mut events = Vec::new();
            let (RunEnd::Killed { exit, .. } | RunEnd::Restarted { exit } | RunEnd::Ended { exit, .. }) =
                &end;
            events.extend(exit.as_ref().map(|exit| (terminated(exit), false)));
            let decision = match end {
                RunEnd::Killed { error, .. } => {
                    events.push((Event::Killed { error: error.into() }, false));
                    Decision::Done
                }
                // What people want is outside of the policy, and does not use it up.
                RunEnd::Restarted { .. } => Decision::Restart { reason: "", delay: Nanos::ZERO },
                RunEnd::Ended { ended, .. } => {
                    if let Some((policy, ..)) = self.rules() {
                        restarts.set_policy(policy);
                    }
                    restarts.decide(&ended, clock::now(), rand::random())
                }
            };
            match decision {
                Decision::Done => {
                    self.dead(events).await;
                    return self.clean_up(task).await;
                }
                Decision::Failed { reason } => {
                    tracing::warn!(alloc.id = %self.spec.borrow().id(), task = &*self.name, reason, "task failed");
                    events.push((Event::NotRestarting { reason: reason.into() }, true));
                    self.dead(events).await;
                    return self.clean_up(task).await;
                }
                Decision::Restart { reason, delay } => {
                    tracing::info!(
                        alloc.id = %self.spec.borrow().id(), task = &*self.name, reason, delay = %delay,
                        "task is started again"
                    );
                    events.push((Event::Restarting { reason: reason.into(), delay }, false));
                    self.tell(Happening { events, state: Some(TaskRunState::Pending) }).await;
                    restarted += 1;
                    self.clean_up(task).await;
                    if self.pause(delay).await.is_err() {
                        return self.dead(vec![(Event::Killed { error: Text::default() }, false)]).await;
                    }
                }
            }
        }
    }

    /// What decides on restarts; `None` if the job has no such task any more.
    fn rules(&self) -> Option<(RestartPolicy, JobType, Option<model::job::Lifecycle>)> {
        let spec = self.spec.borrow();
        let (group, task) = (spec.group()?, spec.task(&self.name)?);
        let policy = task.restart_policy.as_ref().or(group.restart_policy.as_ref()).cloned();
        Some((policy.unwrap_or_default(), spec.job.spec.kind, task.lifecycle))
    }

    async fn tell(&self, happening: Happening) {
        let (saved, on_disk) = oneshot::channel();
        let news = News { task: Text::clone(&self.name), happening, saved };
        if self.news.send(news).await.is_ok() {
            // The allocation may end meanwhile; then nobody waits for this task either.
            let _ = on_disk.await;
        }
    }

    async fn started(&self) {
        self.tell(Happening::event(Event::Started).and(TaskRunState::Running)).await;
    }

    async fn dead(&self, events: Vec<(Event, bool)>) {
        self.tell(Happening { events, state: Some(TaskRunState::Dead) }).await;
    }

    async fn must_end(&self) -> MustEnd {
        until_killed(&self.kill).await
    }

    async fn pause(&self, length: Nanos) -> Result<(), MustEnd> {
        tokio::select! {
            () = sleep(to_std(length)) => Ok(()),
            end = self.must_end() => Err(end),
        }
    }

    // Starting.

    async fn start(&self, restarts: u64) -> Result<Arc<dyn Running>, RunEnd> {
        tokio::select! {
            biased;
            MustEnd = self.must_end() => return Err(RunEnd::Killed { exit: None, error: String::new() }),
            _ = until(&self.gate, |open| *open) => {}
        }
        let span = self.start_span(restarts);
        match self.try_start(restarts).instrument(span.clone()).await {
            Ok(task) => {
                span.in_scope(|| {
                    tracing::debug!(alloc.id = %self.spec.borrow().id(), task = &*self.name, "task started");
                });
                drop(span);
                self.started().await;
                Ok(task)
            }
            Err(NotStarted { event, recoverable }) => {
                traces::fail(&span, event.as_str(), &event.display());
                tracing::warn!(alloc.id = %self.spec.borrow().id(), task = &*self.name, error = event.display(), "cannot start a task");
                self.tell(Happening::event(event)).await;
                Err(RunEnd::Ended { exit: None, ended: Ended::NotStarted { recoverable } })
            }
        }
    }

    /// The span of a start. The first is a part of the allocation's start; later ones begin traces that link to that.
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

    async fn try_start(&self, restarts: u64) -> Result<Arc<dyn Running>, NotStarted> {
        let spec = Arc::clone(&self.spec.borrow());
        let (Some(group), Some(task)) = (spec.group(), spec.task(&self.name)) else {
            return Err(NotStarted::invalid("the job has no such task"));
        };
        if let Some(what) = unbuilt(group, task) {
            return Err(NotStarted::invalid(what));
        }
        read_signal(&task.kill_signal).map_err(NotStarted::invalid)?;
        let Some(driver) = self.context.drivers.get(&task.driver) else {
            let name = model::text::quoted(&task.driver);
            return Err(NotStarted::invalid(format!("driver {name} is not on this node")));
        };
        let dirs = self.context.dirs(spec.id()).task(&self.name);
        self.build(&spec, task, &dirs).await?;
        let env = super::env::build(&spec, group, task, &self.context.node, &dirs, &self.context.host_env);
        let id = start_id();
        let start = Start {
            config: fill_in_config(&task.config, &self.context.node, &env),
            env,
            user: Text::clone(&task.user),
            logs: self.logs(&spec, task),
            state_dir: self.driver_dir(&id),
            dirs,
        };
        // What is found on disk after a crash says at every moment what there is to find.
        self.remember(&Started { id: id.clone(), restarts, handle: None }).await?;
        let span = || tracing::info_span!("start driver", { attribute::TASK_DRIVER } = &*task.driver);
        let running = driver.start(start).instrument(traces::within(span)).await?;
        self.remember(&Started { id, restarts, handle: Some(running.handle()) }).await?;
        Ok(running)
    }

    async fn build(&self, spec: &AllocSpec, task: &Task, dirs: &TaskDirs) -> Result<(), NotStarted> {
        let hook = |name: &'static str| {
            move |error: io::Error| NotStarted {
                event: Event::HookFailed { hook: name.into(), error: error.to_string().into() },
                recoverable: true,
            }
        };
        if !dirs.task.exists() {
            self.tell(Happening::event(Event::TaskSetup { message: Text::default() })).await;
        }
        hook_span("task_dir").in_scope(|| dirs.build()).map_err(hook("task_dir"))?;
        if let (Some(target), Some(payload)) = (&task.dispatch_payload, &spec.job.spec.payload) {
            let file = payload_file(dirs, &target.file)?;
            let writing = hook_span("dispatch_payload");
            writing.in_scope(|| write_payload(&file, &payload.0)).map_err(hook("dispatch_payload"))?;
        }
        Ok(())
    }

    fn logs(&self, spec: &AllocSpec, task: &Task) -> Option<LogFiles> {
        let config = &task.log_config;
        (!config.disabled).then(|| LogFiles {
            dir: self.context.dirs(spec.id()).logs,
            task: self.name.to_string(),
            files_max: u64::from(config.max_files.max(1)),
            file_bytes_max: u64::from(config.max_file_size_mb.max(1)) * MB,
        })
    }

    // What is kept of a start.

    fn state_dir(&self) -> PathBuf {
        self.context.store.alloc(self.spec.borrow().id())
    }

    fn driver_dir(&self, id: &str) -> PathBuf {
        self.state_dir().join(format!("exec-{id}"))
    }

    fn file(&self) -> PathBuf {
        started_file(&self.context, self.spec.borrow().id(), &self.name)
    }

    async fn remember(&self, started: &Started) -> Result<(), NotStarted> {
        store::save(self.file(), started).await.map_err(|error| NotStarted {
            event: Event::DriverFailure { error: format!("cannot save the task's state: {error}").into() },
            recoverable: true,
        })
    }

    async fn clean_up(&self, task: Option<Arc<dyn Running>>) {
        if let Some(task) = task {
            task.destroy().await;
        }
        match tokio::fs::remove_file(self.file()).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                alloc.id = %self.spec.borrow().id(), task = &*self.name, error = chain(&error),
                "cannot remove what is kept of a task"
            ),
        }
    }

    async fn find_again(&self, state: &TaskState) -> Found {
        let alloc = self.spec.borrow().id();
        let not_found = match state.state {
            TaskRunState::Running => Found::Lost,
            TaskRunState::Pending | TaskRunState::Dead => Found::Nothing,
        };
        let started = match store::read::<Started>(&self.file()) {
            Ok(Some(started)) => started,
            Ok(None) => return not_found,
            Err(error) => {
                tracing::warn!(
                    alloc.id = %alloc, task = &*self.name, error = chain(&error),
                    "cannot read what is kept of a task"
                );
                return not_found;
            }
        };
        let driver =
            self.spec.borrow().task(&self.name).and_then(|task| self.context.drivers.get(&task.driver));
        let (Some(handle), Some(driver)) = (started.handle, driver.cloned()) else {
            process::abandon(&self.driver_dir(&started.id)).await;
            return not_found;
        };
        let is_over = state.state == TaskRunState::Pending && started.restarts < state.restarts;
        match driver.recover(&handle).await {
            Ok(task) if is_over => {
                // Its end is known; only the tidying up was left.
                self.clean_up(Some(task)).await;
                Found::Nothing
            }
            Ok(task) => Found::Running(task),
            Err(error) => {
                tracing::warn!(
                    alloc.id = %alloc, task = &*self.name, error = chain(&error),
                    "cannot find a task again"
                );
                driver.discard(&handle).await;
                not_found
            }
        }
    }

    /// A lost task is started anew only once the servers have been heard: they may have replaced it.
    async fn wait_for_servers(&self, job: JobType) -> Result<(), MustEnd> {
        if job == JobType::System {
            self.tell(Happening::state(TaskRunState::Pending)).await;
            return Ok(());
        }
        self.tell(Happening::event(Event::FailedRestoring).and(TaskRunState::Pending)).await;
        tokio::select! {
            _ = until(&self.context.contacted, |contacted| *contacted) => Ok(()),
            end = self.must_end() => Err(end),
        }
    }

    // Running and ending.

    async fn attend(&mut self, task: &Arc<dyn Running>) -> RunEnd {
        loop {
            let order = tokio::select! {
                exit = task.wait() => {
                    let ended = Ended::Exited { successful: exit.successful() };
                    return RunEnd::Ended { exit: Some(exit), ended };
                }
                MustEnd = until_killed(&self.kill) => break,
                Some(order) = self.orders.recv() => order,
            };
            let restarts = matches!(order.wish, Wish::Restart { .. });
            let outcome = self.obey(task, order.wish).await;
            let is_over = restarts && outcome.is_ok();
            // Whoever asked may have given up.
            let _ = order.done.send(outcome);
            if is_over {
                return RunEnd::Restarted { exit: Some(task.wait().await) };
            }
        }
        self.delay_shutdown(task).await;
        match self.stop(task).await {
            Ok(()) => RunEnd::Killed { exit: Some(task.wait().await), error: String::new() },
            Err(error) => RunEnd::Killed { exit: None, error },
        }
    }

    /// Does what somebody wants of the running task. A restart ends it without its shutdown delay.
    async fn obey(&self, task: &Arc<dyn Running>, wish: Wish) -> Outcome {
        match wish {
            Wish::Restart { reason } => {
                self.tell(Happening::event(Event::RestartSignaled { reason: reason.into() })).await;
                self.stop(task).await.map_err(Text::from)
            }
            Wish::Signal(signal) => {
                let event = Event::Signaling { signal: signal.as_str().into(), reason: Text::default() };
                self.tell(Happening::event(event)).await;
                task.signal(signal).map_err(|error| format!("cannot signal the task: {error}").into())
            }
        }
    }

    /// The time between leaving service discovery and being asked to end.
    async fn delay_shutdown(&self, task: &Arc<dyn Running>) {
        let delay = self.spec.borrow().task(&self.name).map_or(Nanos::ZERO, |task| task.shutdown_delay);
        let skipped = |kill: &Option<Kill>| kill.as_ref().is_some_and(|kill| kill.skip_delay);
        if delay <= Nanos::ZERO {
            return;
        }
        if skipped(&self.kill.borrow()) {
            return self.tell(Happening::event(Event::ShutdownDelaySkipped { delay })).await;
        }
        self.tell(Happening::event(Event::ShutdownDelay { delay }).and(TaskRunState::Pending)).await;
        tokio::select! {
            () = sleep(to_std(delay)) => {}
            _ = task.wait() => {}
            _ = until(&self.kill, skipped) => {}
        }
    }

    async fn stop(&self, task: &Arc<dyn Running>) -> Result<(), String> {
        let (timeout, signal) = {
            let spec = self.spec.borrow();
            let wanted = spec.task(&self.name);
            let timeout = wanted.map_or(Nanos::ZERO, |task| task.kill_timeout).min(KILL_TIMEOUT_MAX);
            // It was looked at when the task started.
            let signal = wanted.and_then(|task| read_signal(&task.kill_signal).ok()).flatten();
            (to_std(timeout), signal)
        };
        let mut retries = STOP_RETRY_AFTER.into_iter();
        loop {
            let Err(error) = task.stop(signal, timeout).await else { return Ok(()) };
            let Some(pause) = retries.next() else { return Err(error.to_string()) };
            tracing::warn!(
                alloc.id = %self.spec.borrow().id(), task = &*self.name, error = chain(&error),
                "cannot stop a task"
            );
            sleep(pause).await;
        }
    }
}

/// The span of preparing a task's start in one respect.
fn hook_span(name: &'static str) -> Span {
    traces::within(|| tracing::info_span!("hook", otel.name = %format_args!("hook {name}")))
}

async fn until_killed(kill: &watch::Receiver<Option<Kill>>) -> MustEnd {
    until(kill, Option::is_some).await;
    MustEnd
}

/// Why a task was not started, as an event.
struct NotStarted {
    event: Event,
    recoverable: bool,
}

impl NotStarted {
    fn invalid(error: impl Into<Text>) -> Self {
        Self { event: Event::FailedValidation { error: error.into() }, recoverable: false }
    }
}

impl From<StartError> for NotStarted {
    fn from(error: StartError) -> Self {
        Self { event: Event::DriverFailure { error: error.message.into() }, recoverable: error.recoverable }
    }
}

fn terminated(exit: &Exit) -> Event {
    Event::Terminated {
        exit_code: exit.code,
        signal: exit.signal,
        message: exit.message.as_str().into(),
        oom_killed: exit.oom_killed,
    }
}

/// Where a dispatch's input goes; a file outside of the task's `local` directory is refused.
fn payload_file(dirs: &TaskDirs, name: &str) -> Result<PathBuf, NotStarted> {
    let plain =
        Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !plain {
        return Err(NotStarted::invalid("dispatch payload: file escapes the task's directory"));
    }
    Ok(dirs.local.join(name))
}

/// Writes the input once. Later the file is the task's, which could have put a link in its place.
fn write_payload(file: &Path, payload: &[u8]) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        std::fs::create_dir_all(dir)?;
    }
    match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(mut file) => file.write_all(payload),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn start_id() -> String {
    let digits = uuid::Uuid::from_bytes(clock::random_bytes()).simple().to_string();
    digits[..START_ID_DIGITS].to_owned()
}

/// As timers take it; what is negative is no time at all.
pub(crate) fn to_std(length: Nanos) -> Duration {
    Duration::from_nanos(u64::try_from(length.0).unwrap_or(0))
}

#[cfg(test)]
mod tests;
