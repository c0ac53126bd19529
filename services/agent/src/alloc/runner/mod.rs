//! Runs one allocation: feeds [`AllocCore`] with events and carries out its decisions. Every change is saved before
//! it is reported.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use model::alloc::{ClientStatus, TaskEventKind, TaskRunState, TaskState};
use model::{AllocId, Text, TraceContext};
use telemetry::{attribute, chain, clock, traces};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

use super::core::{AllocCore, Kills};
use crate::context::Context;
use crate::disk::store::{self, Durability};
use crate::reports::core::{AllocEvent, AllocState};
use crate::task::check_name;
use crate::task::commands::{Kill, Outcome, TaskAction, TaskCommand, TaskSelector, TasksCommand};
use crate::task::runner::{TaskRunner, TaskUpdate};
use crate::wait::to_std;
use crate::work::spec::AllocSpec;

/// The capacity of the channel for updates from tasks. Tasks wait while it is full.
const UPDATES_MAX: usize = 16;
/// The capacity of a task's command channel. Further commands are refused.
const TASK_COMMANDS_MAX: usize = 4;
/// The refusal of a command for a task that is not running.
pub(crate) const NOT_RUNNING: &str = "Task not running";
/// The refusal of a restart of all tasks, if the allocation is to end or has ended.
pub(crate) const SHOULD_NOT_RUN: &str = "restart of an alloc that should not run";
/// The refusal of a command for a task whose command channel is full.
const BUSY: &str = "too many commands are queued for the task";

/// A command to an allocation.
#[derive(Debug)]
pub(crate) enum Command {
    /// The servers changed the allocation.
    Update(Box<AllocSpec>),
    /// The servers had marked the allocation as unknown, and the node has reconnected.
    Reconnect(Box<AllocSpec>),
    /// A user command for its tasks.
    Tasks(TasksCommand),
    /// Stop all tasks. None of them may run afterwards.
    Destroy,
}

/// The runner of one allocation.
pub(crate) struct AllocRunner {
    context: Arc<Context>,
    core: AllocCore,
    commands: mpsc::Receiver<Command>,
    reporter: mpsc::Sender<AllocEvent>,
    updates: (mpsc::Sender<TaskUpdate>, mpsc::Receiver<TaskUpdate>),
    spec: watch::Sender<Arc<AllocSpec>>,
    tasks: BTreeMap<Text, TaskControl>,
    runners: JoinSet<()>,
    published: Option<AllocState>,
    /// The trace of the allocation's start.
    trace: Option<TraceContext>,
}

/// The controls of a task.
struct TaskControl {
    gate: watch::Sender<bool>,
    kill: watch::Sender<Option<Kill>>,
    commands: mpsc::Sender<TaskCommand>,
    /// Cancelled when the task's runner has ended.
    ended: CancellationToken,
}

/// The allocations that a new allocation waits for.
#[derive(Debug, Default)]
pub(crate) struct Predecessors {
    /// The ends of allocations of this node that it replaces or that were preempted for it.
    pub(crate) ends: Vec<watch::Receiver<bool>>,
    /// The allocation that it replaces, if its data is moved.
    pub(crate) data_of: Option<AllocId>,
}

/// The file with an allocation's specification.
pub(crate) fn spec_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("alloc")
}

/// The file with an allocation's state.
pub(crate) fn state_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("state")
}

impl AllocRunner {
    /// Creates a runner for a new or a restored allocation.
    pub(crate) fn new(
        context: Arc<Context>,
        core: AllocCore,
        commands: mpsc::Receiver<Command>,
        reporter: mpsc::Sender<AllocEvent>,
    ) -> Self {
        let spec = watch::Sender::new(Arc::clone(core.spec()));
        let updates = mpsc::channel(UPDATES_MAX);
        let (tasks, runners) = (BTreeMap::new(), JoinSet::new());
        Self {
            context,
            core,
            commands,
            reporter,
            updates,
            spec,
            tasks,
            runners,
            published: None,
            trace: None,
        }
    }

    /// Runs the allocation to its end. If dropped earlier, it detaches from its tasks, which keep running.
    ///
    /// `known` are the states of its tasks from before a restart of the agent. A restored allocation waits for no others.
    pub(crate) async fn run(mut self, predecessors: Predecessors, known: Option<Vec<TaskState>>) {
        let id = self.core.spec().id();
        // The last step from a job to a running task. The span ends when the allocation runs or has failed to start. A
        // restored allocation has no such span.
        let mut starting = Some(if known.is_none() { self.start_span() } else { Span::none() });
        if known.is_none() {
            save_new_spec(&self.context, self.core.spec()).await;
        }
        self.trace = starting.as_ref().and_then(traces::trace_of);
        let set_up_span = match &starting {
            Some(span) if !span.is_disabled() => tracing::info_span!(parent: span, "set up alloc"),
            Some(_) | None => Span::none(),
        };
        let mut kills = Vec::new();
        if !self.core.spec().should_run() {
            kills = self.core.stop(clock::now());
        }
        self.publish().await;
        if let Some(trace) = self.trace {
            let _ = self.reporter.send(AllocEvent::Traced(id, trace)).await;
        }
        let names: Vec<Text> = self.core.tasks().keys().cloned().collect();
        for name in names {
            let state = known.iter().flatten().find(|state| state.task == name).cloned();
            self.run_task(&name, state);
        }
        self.carry_out(kills);

        let setup = set_up(Arc::clone(&self.context), Arc::clone(self.core.spec()), predecessors);
        // The span ends with the set-up and not with the pinned future, which would keep the parent span open.
        let setup = async move { setup.instrument(set_up_span).await };
        tokio::pin!(setup);
        let mut is_set_up = false;
        while !self.core.is_over() {
            let now = clock::now();
            let timer = self.core.poll_timeout().map(|at| to_std(at - now));
            let mut saved = None;
            let kills = tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.handle_command(command).await,
                    // The agent detaches from the allocation.
                    None => return,
                },
                Some(update) = self.updates.1.recv() => {
                    saved = Some(update.saved);
                    self.core.task_changed(&update.task, update.change, clock::now())
                }
                outcome = &mut setup, if !is_set_up => {
                    is_set_up = true;
                    match outcome {
                        Ok(()) => self.core.set_up(clock::now()),
                        Err(error) => {
                            self.runners.abort_all();
                            self.core.fail_setup(&error, clock::now());
                            Vec::new()
                        }
                    }
                }
                () = sleep(timer.unwrap_or_default()), if timer.is_some() => {
                    self.core.handle_timeout(clock::now())
                }
            };
            self.publish().await;
            self.carry_out(kills);
            if let Some(state) = self.published.as_ref().filter(|state| state.status != ClientStatus::Pending)
                && let Some(span) = starting.take()
                && state.status == ClientStatus::Failed
            {
                traces::fail(&span, "alloc_failed", &state.description);
            }
            if let Some(saved) = saved {
                // Fails if the task does not wait.
                let _: Result<(), ()> = saved.send(());
            }
        }
        drop(starting);
        // The runners only clean up now.
        while self.runners.join_next().await.is_some() {}
        let (status, verdict) = (self.core.report().status, self.core.verdict());
        tracing::info!(alloc.id = %id, %status, health = ?verdict, "allocation ended");
    }

    /// The span from the arrival of the allocation until it runs or has failed to start. It is disabled if the allocation
    /// has no trace.
    fn start_span(&self) -> Span {
        let AllocSpec { common, job, .. } = &**self.core.spec();
        let Some(trace) = &common.trace else { return Span::none() };
        let span = tracing::info_span!(
            parent: None,
            "start alloc",
            otel.kind = "consumer",
            { attribute::ALLOC_ID } = %self.core.spec().id(),
            { attribute::JOB_ID } = &*job.spec.id,
            { attribute::JOB_NAMESPACE } = &*common.job.job.namespace,
            { attribute::TASK_GROUP } = &*common.task_group,
        );
        telemetry::adopt(&span, trace);
        span
    }

    /// Starts the runner of a task. `known` is the state of a task that existed before. An earlier runner of the task must
    /// end first.
    fn run_task(&mut self, name: &Text, known: Option<TaskState>) {
        let (runner, control) = self.new_task(name);
        let ended = control.ended.clone();
        let earlier = self.tasks.insert(Text::clone(name), control).map(|earlier| earlier.ended);
        self.runners.spawn(async move {
            let _ended = ended.drop_guard();
            if let Some(earlier) = earlier {
                earlier.cancelled().await;
            }
            runner.run(known).await;
        });
    }

    fn new_task(&self, name: &Text) -> (TaskRunner, TaskControl) {
        let (commands, command_receiver) = mpsc::channel(TASK_COMMANDS_MAX);
        let control = TaskControl {
            gate: watch::Sender::new(false),
            kill: watch::Sender::new(None),
            commands,
            ended: CancellationToken::new(),
        };
        let runner = TaskRunner {
            context: Arc::clone(&self.context),
            name: Text::clone(name),
            spec: self.spec.subscribe(),
            gate: control.gate.subscribe(),
            kill: control.kill.subscribe(),
            updates: self.updates.0.clone(),
            commands: command_receiver,
            trace: self.trace,
        };
        (runner, control)
    }

    async fn handle_command(&mut self, command: Command) -> Kills {
        let now = clock::now();
        match command {
            Command::Update(spec) => {
                let spec = Arc::new(*spec);
                self.replace_spec(&spec).await;
                self.core.update(spec, now)
            }
            Command::Reconnect(newer) => {
                let mut spec = AllocSpec::clone(self.core.spec());
                (spec.history, spec.work.alloc_modify_index) = (newer.history, newer.work.alloc_modify_index);
                let spec = Arc::new(spec);
                self.replace_spec(&spec).await;
                self.core.add_event(&TaskEventKind::Reconnected, now);
                let event = AllocEvent::ReportAgain(spec.id());
                let _ = self.reporter.send(event).await;
                self.core.update(spec, now)
            }
            Command::Tasks(TasksCommand {
                selector: TaskSelector::All,
                action: TaskAction::Restart { reason },
                done,
            }) => self.restart_all(reason, done),
            Command::Tasks(command) => {
                self.forward(command);
                Kills::new()
            }
            Command::Destroy => self.core.destroy(now),
        }
    }

    /// Forwards a command to the selected tasks that are running. It does not wait for them, because they
    /// report their changes to this runner.
    fn forward(&self, TasksCommand { selector, action, done }: TasksCommand) {
        let selected = self.core.tasks().iter().filter(|(name, _)| selector.matches(name));
        let running = selected.clone().filter(|(_, task)| task.state.state == TaskRunState::Running);
        let mut outcomes = Vec::new();
        for (name, _) in running {
            let Some(control) = self.tasks.get(name) else { continue };
            let (done, outcome) = oneshot::channel();
            if let Err(TrySendError::Full(refused)) = control.commands.try_send(TaskCommand { action, done })
            {
                let _ = refused.done.send(Err(BUSY.into()));
            }
            outcomes.push(outcome);
        }
        if outcomes.is_empty() {
            let refusal: Text = match selector {
                TaskSelector::Task(task) if selected.count() == 0 => {
                    format!("Could not find task runner for task: {task}").into()
                }
                TaskSelector::Task(_) | TaskSelector::Running | TaskSelector::All => NOT_RUNNING.into(),
            };
            let _ = done.send(Err(refusal));
            return;
        }
        reply_when_done(outcomes, done);
    }

    /// Restarts all tasks, including those that have ended, or none of them.
    fn restart_all(&mut self, reason: &'static str, done: oneshot::Sender<Outcome>) -> Kills {
        let mut running = Vec::new();
        for (name, control) in &self.tasks {
            let task = self.core.tasks().get(name);
            if task.is_none_or(|task| task.state.state != TaskRunState::Running) {
                continue;
            }
            match control.commands.clone().try_reserve_owned() {
                Ok(permit) => running.push((Text::clone(name), permit)),
                Err(TrySendError::Full(_)) => {
                    let _ = done.send(Err(BUSY.into()));
                    return Kills::new();
                }
                // The task has ended and will report that.
                Err(TrySendError::Closed(_)) => {}
            }
        }
        let names = running.iter().map(|(name, _)| Text::clone(name));
        let Some((ended, kills)) = self.core.restart_all(reason, names, clock::now()) else {
            let _ = done.send(Err(SHOULD_NOT_RUN.into()));
            return Kills::new();
        };
        for name in ended {
            let known = self.core.tasks().get(&name).map(|task| task.state.clone());
            self.run_task(&name, known);
        }
        let outcomes = running.into_iter().map(|(_, permit)| {
            let (done, outcome) = oneshot::channel();
            permit.send(TaskCommand { action: TaskAction::Restart { reason }, done });
            outcome
        });
        reply_when_done(outcomes.collect(), done);
        kills
    }

    async fn replace_spec(&self, spec: &Arc<AllocSpec>) {
        save_spec(&self.context, spec).await;
        self.spec.send_replace(Arc::clone(spec));
    }

    /// Saves the allocation's state and reports it, if it has changed.
    async fn publish(&mut self) {
        let state = self.core.report();
        if self.published.as_ref() == Some(&state) {
            return;
        }
        let id = self.core.spec().id();
        // Before its first task starts, there is nothing to lose with the machine: the servers send the allocation again.
        let durability = match self.core.has_begun() {
            true => Durability::Machine,
            false => Durability::Process,
        };
        if let Err(error) = store::save(state_file(&self.context, id), &state, durability).await {
            cannot_save(id, &error);
        }
        // Fails only when the agent ends.
        let _ = self.reporter.send(AllocEvent::State(id, state.clone())).await;
        self.published = Some(state);
    }

    fn carry_out(&self, kills: Kills) {
        for (name, kill) in kills {
            if let Some(task) = self.tasks.get(&name) {
                task.kill.send_replace(Some(kill));
            }
        }
        for (name, task) in &self.tasks {
            let open = self.core.may_start(name);
            task.gate.send_if_modified(|gate| std::mem::replace(gate, open) != open);
        }
    }
}

/// Replies to a command that several tasks carry out, when all of them are done.
fn reply_when_done(outcomes: Vec<oneshot::Receiver<Outcome>>, done: oneshot::Sender<Outcome>) {
    tokio::spawn(async move {
        let mut combined = Ok(());
        for outcome in outcomes {
            // A task that ended meanwhile sends no outcome.
            combined = combined.and(outcome.await.unwrap_or_else(|_| Err(NOT_RUNNING.into())));
        }
        // Fails if the requester has stopped waiting.
        let _ = done.send(combined);
    });
}

/// Saves an allocation's specification.
pub(crate) async fn save_spec(context: &Context, spec: &AllocSpec) {
    if let Err(error) = store::save(spec_file(context, spec.id()), spec, Durability::Machine).await {
        cannot_save(spec.id(), &error);
    }
}

/// Saves the specification of a new allocation. Its start does not wait for the disk: if the machine crashes at once, the
/// servers send the allocation again.
pub(crate) async fn save_new_spec(context: &Context, spec: &AllocSpec) {
    if let Err(error) = store::save_soon(spec_file(context, spec.id()), spec).await {
        cannot_save(spec.id(), &error);
    }
}

/// Logs a failure to save. The agent continues: only a restart of the agent would need the data. It would end what runs
/// of an allocation whose state it cannot read.
fn cannot_save(id: AllocId, error: &io::Error) {
    tracing::error!(alloc.id = %id, error = chain(error), "cannot save an allocation's state");
}

/// Sets up what the tasks need, after the predecessors have ended.
async fn set_up(
    context: Arc<Context>,
    spec: Arc<AllocSpec>,
    predecessors: Predecessors,
) -> Result<(), String> {
    for mut end in predecessors.ends {
        // If the sender is gone, the predecessor has ended, too.
        let _ = end.wait_for(|ended| *ended).await;
    }
    let group = spec.group().ok_or_else(|| format!("the job has no group {:?}", spec.common.task_group))?;
    group.tasks.iter().try_for_each(|task| check_name(&task.name))?;
    let dirs = context.dirs(spec.id());
    dirs.build().map_err(|error| format!("cannot create the allocation's directory: {error}"))?;
    if let Some(previous) = predecessors.data_of {
        let tasks = group.tasks.iter().map(|task| &*task.name);
        if let Err(error) = dirs.take_over(&context.dirs(previous), tasks) {
            tracing::warn!(
                alloc.id = %spec.id(), previous.id = %previous, error = chain(&error),
                "cannot move the previous allocation's data; continuing without it"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
