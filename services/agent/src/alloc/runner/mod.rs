//! Runs one allocation: feeds [`AllocCore`] with events and carries out its decisions. Every change is saved before
//! it is reported. What the tasks share is prepared by the hooks of the allocation.

mod commands;
mod ending;

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use model::alloc::{ClientStatus, TaskState};
use model::{AllocId, Text, TraceContext};
use telemetry::{attribute, chain, clock, traces};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, Span};

pub(crate) use self::commands::{Command, refusal_of_ended};
use super::core::{AllocCore, Kills};
use super::hooks::chain::AllocHooks;
use super::hooks::{AllocRun, AllocSetup, HookError};
use crate::context::Context;
use crate::disk::store::{self, Durability};
use crate::reports::core::{AllocEvent, AllocState};
use crate::task::commands::{HookRequests, Kill, TaskCommand};
use crate::task::hooks;
use crate::task::runner::TaskRunner;
use crate::task::updates::{TaskUpdate, Updates};
use crate::wait::to_std;
use crate::work::spec::AllocSpec;

/// The capacity of the channel for updates from tasks. Tasks wait while it is full.
const UPDATES_MAX: usize = 16;
/// The capacity of a task's command channel. Further commands are refused.
const TASK_COMMANDS_MAX: usize = 4;

/// The runner of one allocation.
pub(crate) struct AllocRunner {
    context: Arc<Context>,
    core: AllocCore,
    hooks: Arc<AllocHooks>,
    /// Whether the hooks have prepared the allocation.
    is_set_up: bool,
    /// Whether the allocation has changed while the hooks were preparing it.
    changed_in_setup: bool,
    /// Whether the hooks know that the tasks are being ended.
    is_ending: bool,
    /// What the hooks have prepared.
    setup: watch::Sender<Option<Arc<AllocSetup>>>,
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

/// The work of the hooks before the tasks.
type Preparation = Pin<Box<dyn Future<Output = Result<AllocSetup, HookError>> + Send>>;

/// The file with an allocation's specification.
pub(crate) fn spec_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("alloc")
}

/// The file with an allocation's state.
pub(crate) fn state_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("state")
}

/// The file that exists from the first work of an allocation's hooks until they have cleaned up.
pub(crate) fn begun_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("hooks-begun")
}

impl AllocRunner {
    /// Creates a runner for a new or a restored allocation.
    pub(crate) fn new(
        context: Arc<Context>,
        core: AllocCore,
        hooks: AllocHooks,
        commands: mpsc::Receiver<Command>,
        reporter: mpsc::Sender<AllocEvent>,
    ) -> Self {
        let spec = watch::Sender::new(Arc::clone(core.spec()));
        let updates = mpsc::channel(UPDATES_MAX);
        let (tasks, runners) = (BTreeMap::new(), JoinSet::new());
        Self {
            context,
            core,
            hooks: Arc::new(hooks),
            is_set_up: false,
            changed_in_setup: false,
            is_ending: false,
            setup: watch::Sender::new(None),
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
    /// `known` are the states of its tasks from before a restart of the agent.
    pub(crate) async fn run(mut self, known: Option<Vec<TaskState>>) {
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
        self.carry_out(kills).await;

        let is_restored = known.is_some();
        let mut preparation = Some(self.preparation(set_up_span));
        let mut checks = self.context.checks.follow(id);
        // When all tasks have ended, their runners still clean up.
        while !self.core.is_over() || !self.runners.is_empty() {
            if self.core.is_over() {
                preparation = None;
            }
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
                outcome = prepared(&mut preparation), if preparation.is_some() => {
                    preparation = None;
                    self.prepared(outcome, is_restored).await
                }
                Some(_) = self.runners.join_next(), if self.core.is_over() => Kills::new(),
                Ok(()) = checks.changed() => {
                    let health = checks.borrow_and_update().clone();
                    self.core.checks_changed(health, clock::now())
                }
                () = sleep(timer.unwrap_or_default()), if timer.is_some() => {
                    self.core.handle_timeout(clock::now())
                }
            };
            self.publish().await;
            self.carry_out(kills).await;
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
        drop((starting, preparation));
        self.postrun().await;
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

    /// The work of the hooks before the tasks.
    fn preparation(&self, span: Span) -> Preparation {
        let (hooks, alloc) = (Arc::clone(&self.hooks), self.alloc_run());
        let begun = begun_file(&self.context, alloc.spec.id());
        let work = async move {
            // From here on the hooks must clean up, whatever becomes of this agent.
            // What is saved of the allocation later takes the file to the disk, too.
            if let Err(error) = store::save(begun, &true, Durability::Process).await {
                cannot_save(alloc.spec.id(), &error);
            }
            hooks.prerun(&alloc).await
        };
        // The span ends with the work and not with the future, which would keep the parent span open.
        Box::pin(async move { work.instrument(span).await })
    }

    /// Continues when the hooks have prepared the allocation, or have failed to.
    async fn prepared(&mut self, outcome: Result<AllocSetup, HookError>, is_restored: bool) -> Kills {
        match outcome {
            Ok(setup) => {
                self.is_set_up = true;
                let network = setup.network.as_ref().and_then(|network| network.status.clone());
                self.core.set_network(network.map(Arc::new));
                // The hooks of the allocation see the change before those of tasks that run already.
                if std::mem::take(&mut self.changed_in_setup) {
                    self.hooks.update(&self.alloc_run()).await;
                }
                self.setup.send_replace(Some(Arc::new(setup)));
                self.core.set_up(clock::now())
            }
            Err(error) => {
                if is_restored {
                    // They may be running.
                    self.end_tasks();
                } else {
                    self.runners.abort_all();
                }
                self.core.fail_setup(&error.message, clock::now());
                Kills::new()
            }
        }
    }

    /// The allocation, as its hooks see it now.
    fn alloc_run(&self) -> AllocRun {
        AllocRun { context: Arc::clone(&self.context), spec: Arc::clone(self.core.spec()) }
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
            setup: self.setup.subscribe(),
            hooks: hooks::all(),
            gate: control.gate.subscribe(),
            kill: control.kill.subscribe(),
            updates: Updates { task: Text::clone(name), inbox: self.updates.0.clone() },
            commands: command_receiver,
            requests: HookRequests::default(),
            trace: self.trace,
        };
        (runner, control)
    }

    /// Ends the tasks at once, whatever the core knows of them.
    fn end_tasks(&self) {
        for task in self.tasks.values() {
            task.kill.send_replace(Some(Kill { skip_delay: true }));
        }
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

    async fn carry_out(&mut self, kills: Kills) {
        if self.core.is_ending() && !self.is_ending {
            self.is_ending = true;
            self.hooks.pre_kill(&self.alloc_run()).await;
        }
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

/// Waits until the hooks have prepared the allocation.
async fn prepared(preparation: &mut Option<Preparation>) -> Result<AllocSetup, HookError> {
    match preparation {
        Some(work) => work.await,
        None => std::future::pending().await,
    }
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

#[cfg(test)]
mod tests;
