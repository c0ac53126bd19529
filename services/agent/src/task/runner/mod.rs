//! Runs one task: waits for the gate, starts the task, waits for its end, and decides about a restart. The allocation
//! opens the gate, tells the task when it must end, and keeps its state.

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

use super::commands::{Kill, Outcome, TaskAction, TaskCommand};
use super::interpolation::Interpolator;
use super::restarts::{Decision, Restarts, RunResult};
use super::state::TaskChange;
use super::unsupported::unsupported;
use crate::account::Account;
use crate::context::Context;
use crate::disk::dirs::TaskDirs;
use crate::disk::logs::LogFiles;
use crate::disk::secrets::Secrets;
use crate::disk::store::{self, Durability, Saved};
use crate::driver::{Exit, Handle, Running, Start, StartError, process, read_signal};
use crate::wait::{to_std, until};
use crate::work::spec::AllocSpec;

/// The pauses between attempts to stop a task.
const STOP_RETRY_PAUSES: [Duration; 5] = [
    Duration::from_secs(5),
    Duration::from_secs(20),
    Duration::from_secs(80),
    Duration::from_secs(120),
    Duration::from_secs(120),
];
/// The number of hexadecimal digits in the id of a start.
const START_ID_DIGITS: usize = 8;
/// Permissions of a dispatch payload, and of directories that are made for it.
const PAYLOAD_MODE: u32 = 0o644;
const PAYLOAD_DIR_MODE: u32 = 0o755;
/// The number of bytes in a MB of log files.
const MB: u64 = 1 << 20;

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

/// The record of a started task on disk, in addition to its state.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct StartRecord {
    /// The id of this start, which also names the driver's directory.
    id: String,
    /// How often the task had been restarted before.
    restarts: u64,
    /// The handle to recover the task; `None` while it is being started.
    handle: Option<Handle>,
}

/// The handle of a running task, from its record on disk.
pub(crate) fn handle_of(context: &Context, alloc: AllocId, task: &str) -> Option<Handle> {
    store::read::<StartRecord>(&record_file(context, alloc, task)).ok().flatten()?.handle
}

fn record_file(context: &Context, alloc: AllocId, task: &str) -> PathBuf {
    context.store.task(alloc, task).join("record")
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
}

/// The runner of one task.
pub(crate) struct TaskRunner {
    /// The agent's shared values.
    pub(crate) context: Arc<Context>,
    /// The task's name.
    pub(crate) name: Text,
    /// The allocation's specification.
    pub(crate) spec: watch::Receiver<Arc<AllocSpec>>,
    /// Whether the task may start.
    pub(crate) gate: watch::Receiver<bool>,
    /// Set when the task must end.
    pub(crate) kill: watch::Receiver<Option<Kill>>,
    /// Sends the task's changes to its allocation.
    pub(crate) updates: mpsc::Sender<TaskUpdate>,
    /// User commands for the running task.
    pub(crate) commands: mpsc::Receiver<TaskCommand>,
    /// The trace of the allocation's start.
    pub(crate) trace: Option<TraceContext>,
}

/// How a run of the task ended.
enum RunEnd {
    /// It was killed. `error` is the reason if that failed.
    Killed { exit: Option<Exit>, error: String },
    /// A user restarted it.
    Restarted { exit: Option<Exit> },
    /// It ended by itself or could not be started.
    Ended { exit: Option<Exit>, run_result: RunResult },
}

/// The outcome of recovering a task after the agent restarted.
enum Recovered {
    /// The task is still running, or its exit is known.
    Running(Arc<dyn Running>),
    /// The task was not running.
    NotRunning,
    /// The task was running and cannot be recovered.
    Lost,
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
                    return self.clean_up(Some(task)).await;
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
                        return self.dead(vec![(Event::Killed { error: Text::default() }, false)]).await;
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
            let (RunEnd::Killed { exit, .. } | RunEnd::Restarted { exit } | RunEnd::Ended { exit, .. }) =
                &end;
            events.extend(exit.as_ref().map(|exit| (terminated(exit), false)));
            let decision = match end {
                RunEnd::Killed { error, .. } => {
                    events.push((Event::Killed { error: error.into() }, false));
                    Decision::Done
                }
                // A restart by a user does not count as an attempt of the policy.
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
                        "restarting a task"
                    );
                    events.push((Event::Restarting { reason: reason.into(), delay }, false));
                    self.send_change(TaskChange { events, state: Some(TaskRunState::Pending) }).await;
                    restart_count += 1;
                    self.clean_up(task).await;
                    if self.pause(delay).await.is_err() {
                        return self.dead(vec![(Event::Killed { error: Text::default() }, false)]).await;
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

    async fn send_change(&self, change: TaskChange) {
        let (saved, saved_receiver) = oneshot::channel();
        let update = TaskUpdate { task: Text::clone(&self.name), change, saved };
        if self.updates.send(update).await.is_ok() {
            // Fails if the allocation ends meanwhile. Then no answer is needed.
            let _ = saved_receiver.await;
        }
    }

    async fn started(&self) {
        self.send_change(TaskChange::event(Event::Started).and(TaskRunState::Running)).await;
    }

    async fn dead(&self, events: Vec<(Event, bool)>) {
        self.send_change(TaskChange { events, state: Some(TaskRunState::Dead) }).await;
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

    // Starting.

    async fn start(&self, restarts: u64) -> Result<Arc<dyn Running>, RunEnd> {
        tokio::select! {
            biased;
            KillRequested = self.kill_requested() => return Err(RunEnd::Killed { exit: None, error: String::new() }),
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
                span.in_scope(|| {
                    tracing::warn!(
                        alloc.id = %self.spec.borrow().id(), task = &*self.name, error = event.display(),
                        "cannot start a task"
                    );
                });
                self.send_change(TaskChange::event(event)).await;
                Err(RunEnd::Ended { exit: None, run_result: RunResult::NotStarted { recoverable } })
            }
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

    async fn try_start(&self, restarts: u64) -> Result<Arc<dyn Running>, NotStarted> {
        let spec = Arc::clone(&self.spec.borrow());
        let (Some(group), Some(task)) = (spec.group(), spec.task(&self.name)) else {
            return Err(NotStarted::invalid("the job has no such task"));
        };
        if let Some(what) = unsupported(group, task) {
            return Err(NotStarted::invalid(what));
        }
        read_signal(&task.kill_signal).map_err(NotStarted::invalid)?;
        let Some(driver) = self.context.drivers.get(&task.driver) else {
            let name = model::text::quoted(&task.driver);
            return Err(NotStarted::invalid(format!("driver {name} is not on this node")));
        };
        let dirs = self.context.dirs(spec.id()).task(&self.name);
        // If the user does not exist, the driver says so.
        let account = Account::find(&task.user).ok();
        self.build(&spec, task, &dirs, account.as_ref()).await?;
        let host_env = self.context.host_env.of(account.as_ref());
        let env = super::env::build(&spec, group, task, &self.context.node, &dirs, &host_env)
            .map_err(NotStarted::invalid)?;
        let config = Interpolator::new(&self.context.node)
            .fill_config(&task.config, &env)
            .map_err(NotStarted::invalid)?;
        let id = start_id();
        let start = Start {
            config,
            env,
            user: Text::clone(&task.user),
            logs: self.logs(&spec, task),
            state_dir: self.driver_dir(&id),
            dirs,
        };
        // The record is saved before the driver starts the task, so that it is complete at every moment of a crash.
        self.save_record(&StartRecord { id: id.clone(), restarts, handle: None }).await?;
        let span = || tracing::info_span!("start driver", { attribute::TASK_DRIVER } = &*task.driver);
        let running = driver.start(start).instrument(traces::within(span)).await?;
        let record = StartRecord { id, restarts, handle: Some(running.handle()) };
        if let Err(not_saved) = self.save_record(&record).await {
            // Another agent would not find the task again, and would start it a second time.
            if let Err(error) = self.stop(&running).await {
                tracing::error!(
                    alloc.id = %spec.id(), task = &*self.name, error, "cannot end a task whose handle cannot be saved"
                );
            }
            running.destroy().await;
            return Err(not_saved);
        }
        Ok(running)
    }

    async fn build(
        &self,
        spec: &AllocSpec,
        task: &Task,
        dirs: &TaskDirs,
        account: Option<&Account>,
    ) -> Result<(), NotStarted> {
        let hook = |name: &'static str| {
            move |error: io::Error| NotStarted {
                event: Event::HookFailed { hook: name.into(), error: error.to_string().into() },
                recoverable: true,
            }
        };
        if !dirs.task.exists() {
            self.send_change(TaskChange::event(Event::TaskSetup { message: Text::default() })).await;
        }
        let secrets = Secrets {
            storage: self.context.secrets,
            owner: account.map_or((0, 0), |account| (account.uid, account.gid)),
            size_mb: task.resources.secrets_mb,
        };
        hook_span("task_dir").in_scope(|| dirs.build(&secrets)).map_err(hook("task_dir"))?;
        if let (Some(target), Some(payload)) = (&task.dispatch_payload, &spec.job.spec.payload) {
            let file = payload_file(&target.file)?;
            let span = hook_span("dispatch_payload");
            span.in_scope(|| write_payload(dirs, file, &payload.0)).map_err(hook("dispatch_payload"))?;
        }
        Ok(())
    }

    fn logs(&self, spec: &AllocSpec, task: &Task) -> Option<LogFiles> {
        let config = &task.log_config;
        (!config.disabled).then(|| LogFiles {
            alloc: self.context.dirs(spec.id()).root,
            task: self.name.to_string(),
            files_max: u64::from(config.max_files.max(1)),
            file_bytes_max: u64::from(config.max_file_size_mb.max(1)) * MB,
        })
    }

    // The record of a start.

    fn state_dir(&self) -> PathBuf {
        self.context.store.task(self.spec.borrow().id(), &self.name)
    }

    fn driver_dir(&self, id: &str) -> PathBuf {
        self.state_dir().join(format!("exec-{id}"))
    }

    fn record_path(&self) -> PathBuf {
        record_file(&self.context, self.spec.borrow().id(), &self.name)
    }

    async fn save_record(&self, record: &StartRecord) -> Result<(), NotStarted> {
        store::save(self.record_path(), record, Durability::Machine).await.map_err(|error| NotStarted {
            event: Event::DriverFailure { error: format!("cannot save the task's state: {error}").into() },
            recoverable: true,
        })
    }

    async fn clean_up(&self, task: Option<Arc<dyn Running>>) {
        if let Some(task) = task {
            task.destroy().await;
        }
        match tokio::fs::remove_dir_all(self.state_dir()).await {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(
                alloc.id = %self.spec.borrow().id(), task = &*self.name, error = chain(&error),
                "cannot remove the state of a task"
            ),
        }
    }

    async fn recover_task(&self, state: &TaskState) -> Recovered {
        let alloc = self.spec.borrow().id();
        let not_found = match state.state {
            TaskRunState::Running => Recovered::Lost,
            TaskRunState::Pending | TaskRunState::Dead => Recovered::NotRunning,
        };
        let record = match store::load::<StartRecord>(&self.record_path()) {
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
                self.clean_up(Some(task)).await;
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

    /// Waits until the servers have been contacted before a lost task is started again, because they may have replaced it
    ///
    async fn wait_for_servers(&self, job: JobType) -> Result<(), KillRequested> {
        if job == JobType::System {
            self.send_change(TaskChange::state(TaskRunState::Pending)).await;
            return Ok(());
        }
        self.send_change(TaskChange::event(Event::FailedRestoring).and(TaskRunState::Pending)).await;
        tokio::select! {
            _ = until(&self.context.contacted, |contacted| *contacted) => Ok(()),
            end = self.kill_requested() => Err(end),
        }
    }

    // Running and ending.

    async fn supervise(&mut self, task: &Arc<dyn Running>) -> RunEnd {
        loop {
            let command = tokio::select! {
                exit = task.wait() => {
                    let run_result = RunResult::Exited { successful: exit.successful() };
                    return RunEnd::Ended { exit: Some(exit), run_result };
                }
                KillRequested = until_killed(&self.kill) => break,
                Some(command) = self.commands.recv() => command,
            };
            let is_restart = matches!(command.action, TaskAction::Restart { .. });
            let outcome = self.perform(task, command.action).await;
            let is_over = is_restart && outcome.is_ok();
            // Fails if the requester has stopped waiting.
            let _ = command.done.send(outcome);
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

    /// Carries out a user command on the running task. A restart applies no shutdown delay.
    async fn perform(&self, task: &Arc<dyn Running>, action: TaskAction) -> Outcome {
        match action {
            TaskAction::Restart { reason } => {
                self.send_change(TaskChange::event(Event::RestartSignaled { reason: reason.into() })).await;
                self.stop(task).await.map_err(Text::from)
            }
            TaskAction::Signal(signal) => {
                let event = Event::Signaling { signal: signal.as_str().into(), reason: Text::default() };
                self.send_change(TaskChange::event(event)).await;
                task.signal(signal).map_err(|error| format!("cannot signal the task: {error}").into())
            }
        }
    }

    /// Waits for the delay between leaving service discovery and the kill signal.
    async fn delay_shutdown(&self, task: &Arc<dyn Running>) {
        let delay = self.spec.borrow().task(&self.name).map_or(Nanos::ZERO, |task| task.shutdown_delay);
        let skipped = |kill: &Option<Kill>| kill.as_ref().is_some_and(|kill| kill.skip_delay);
        if delay <= Nanos::ZERO {
            return;
        }
        if skipped(&self.kill.borrow()) {
            return self.send_change(TaskChange::event(Event::ShutdownDelaySkipped { delay })).await;
        }
        self.send_change(TaskChange::event(Event::ShutdownDelay { delay }).and(TaskRunState::Pending)).await;
        tokio::select! {
            () = sleep(to_std(delay)) => {}
            _ = task.wait() => {}
            _ = until(&self.kill, skipped) => {}
        }
    }

    async fn stop(&self, task: &Arc<dyn Running>) -> Result<(), String> {
        let (timeout, signal) = {
            let spec = self.spec.borrow();
            let task = spec.task(&self.name);
            let timeout = task.map_or(Nanos::ZERO, |task| task.kill_timeout);
            let timeout = timeout.min(self.context.config.limits.kill_timeout_max);
            // The signal was checked when the task started.
            let signal = task.and_then(|task| read_signal(&task.kill_signal).ok()).flatten();
            (to_std(timeout), signal)
        };
        let mut retries = STOP_RETRY_PAUSES.into_iter();
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

/// The span of one step in preparing a start.
fn hook_span(name: &'static str) -> Span {
    traces::within(|| tracing::info_span!("hook", otel.name = %format_args!("hook {name}")))
}

async fn until_killed(kill: &watch::Receiver<Option<Kill>>) -> KillRequested {
    until(kill, Option::is_some).await;
    KillRequested
}

/// Why a task could not be started, as an event.
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

/// The path of a dispatch payload in the task's `local` directory. A path that leads out of it is refused.
fn payload_file(name: &str) -> Result<&Path, NotStarted> {
    let file = Path::new(name);
    let plain = file.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if name.is_empty() || !plain {
        return Err(NotStarted::invalid("dispatch payload: file escapes the task's directory"));
    }
    Ok(file)
}

/// Writes the payload once. Later the file belongs to the task.
fn write_payload(dirs: &TaskDirs, file: &Path, payload: &[u8]) -> io::Result<()> {
    let mut dir = dirs.open_local()?;
    for part in file.parent().into_iter().flatten() {
        dir = dir.make(part, PAYLOAD_DIR_MODE)?;
    }
    match dir.create_new(file.file_name().unwrap_or_default(), PAYLOAD_MODE) {
        Ok(mut file) => file.write_all(payload),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn start_id() -> String {
    let digits = uuid::Uuid::from_bytes(clock::random_bytes()).simple().to_string();
    digits[..START_ID_DIGITS].to_owned()
}

#[cfg(test)]
mod tests;
