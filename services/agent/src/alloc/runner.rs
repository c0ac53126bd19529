//! The loop around one allocation's tasks: feeds [`AllocCore`] with what happens and does what it says. Every
//! change is on disk before anybody hears of it.

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

use super::core::{AllocCore, Kill, Kills};
use super::spec::AllocSpec;
use crate::context::Context;
use crate::orders::{Outcome, TaskOrder, TasksOrder, Whom, Wish};
use crate::reports::{AllocState, Told};
use crate::store;
use crate::task::check_name;
use crate::task::runner::{News, TaskRunner, to_std};

/// How many happenings of an allocation's tasks wait for it; tasks wait for room.
const NEWS_MAX: usize = 16;
/// How many orders wait for a task; more are refused.
const ORDERS_MAX: usize = 4;
/// What is said of a task that an order is for and that does not run.
pub(crate) const NOT_RUNNING: &str = "Task not running";
/// What is said of an allocation all of whose tasks are to begin anew, and that is to end or has ended.
pub(crate) const SHOULD_NOT_RUN: &str = "restart of an alloc that should not run";
/// What is said of a task for which too many orders wait.
const BUSY: &str = "too many orders wait for the task already";

/// What the agent tells an allocation.
#[derive(Debug)]
pub(crate) enum Command {
    /// The servers changed what they want.
    Update(Box<AllocSpec>),
    /// The servers had lost sight of it, and see it again.
    Reconnect(Box<AllocSpec>),
    /// Something is wanted of its tasks.
    Tasks(TasksOrder),
    /// It is to end, and nothing of it is to run after that.
    Destroy,
}

/// The loop around one allocation.
pub(crate) struct AllocRunner {
    context: Arc<Context>,
    core: AllocCore,
    commands: mpsc::Receiver<Command>,
    reporter: mpsc::Sender<Told>,
    news: (mpsc::Sender<News>, mpsc::Receiver<News>),
    spec: watch::Sender<Arc<AllocSpec>>,
    tasks: BTreeMap<Text, TaskControl>,
    runners: JoinSet<()>,
    told: Option<AllocState>,
    /// The trace of its start.
    trace: Option<TraceContext>,
}

/// What a task is told by.
struct TaskControl {
    gate: watch::Sender<bool>,
    kill: watch::Sender<Option<Kill>>,
    orders: mpsc::Sender<TaskOrder>,
    /// Cancelled when nothing more comes of it.
    over: CancellationToken,
}

/// What an allocation waits for before it begins.
#[derive(Debug, Default)]
pub(crate) struct Before {
    /// Ends of allocations of this node that it replaces or that made room for it.
    pub(crate) ends: Vec<watch::Receiver<bool>>,
    /// The one that it replaces, if its data is to move along.
    pub(crate) data_of: Option<AllocId>,
}

/// The file of what the servers want of an allocation.
pub(crate) fn spec_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("alloc")
}

/// The file of how an allocation fares.
pub(crate) fn state_file(context: &Context, id: AllocId) -> PathBuf {
    context.store.alloc(id).join("state")
}

impl AllocRunner {
    /// A loop around an allocation that the agent has just heard of, or that it had before it was restarted.
    pub(crate) fn new(
        context: Arc<Context>,
        core: AllocCore,
        commands: mpsc::Receiver<Command>,
        reporter: mpsc::Sender<Told>,
    ) -> Self {
        let spec = watch::Sender::new(Arc::clone(core.spec()));
        let news = mpsc::channel(NEWS_MAX);
        let (tasks, runners) = (BTreeMap::new(), JoinSet::new());
        Self { context, core, commands, reporter, news, spec, tasks, runners, told: None, trace: None }
    }

    /// Runs the allocation to its end. Dropped before that, it lets go of its tasks, which run on.
    ///
    /// `known` are the states of its tasks when the agent was restarted; such an allocation waits for nothing.
    pub(crate) async fn run(mut self, before: Before, known: Option<Vec<TaskState>>) {
        let id = self.core.spec().id();
        // The last step of the way from a job to a running task; ends when it runs, or will not.
        // One that was there before the agent was restarted has been on it before.
        let mut starting = Some(if known.is_none() { self.start_span() } else { Span::none() });
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
            let _ = self.reporter.send(Told::Traced(id, trace)).await;
        }
        let names: Vec<Text> = self.core.tasks().keys().cloned().collect();
        for name in names {
            let state = known.iter().flatten().find(|state| state.task == name).cloned();
            self.run_task(&name, state);
        }
        self.carry_out(kills);

        let setup = set_up(Arc::clone(&self.context), Arc::clone(self.core.spec()), before);
        // The span ends with the set-up, and not with what is pinned here: that of the start could not end before it.
        let setup = async move { setup.instrument(set_up_span).await };
        tokio::pin!(setup);
        let mut is_set_up = false;
        while !self.core.is_over() {
            let now = clock::now();
            let timer = self.core.poll_timeout().map(|at| to_std(at - now));
            let mut saved = None;
            let kills = tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    // The agent lets go of it.
                    None => return,
                },
                Some(news) = self.news.1.recv() => {
                    saved = Some(news.saved);
                    self.core.happened(&news.task, news.happening, clock::now())
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
            if let Some(told) = self.told.as_ref().filter(|told| told.status != ClientStatus::Pending)
                && let Some(span) = starting.take()
                && told.status == ClientStatus::Failed
            {
                traces::fail(&span, "alloc_failed", &told.description);
            }
            if let Some(saved) = saved {
                // The task is gone if it does not wait.
                let _: Result<(), ()> = saved.send(());
            }
        }
        drop(starting);
        // They only tidy up after themselves now.
        while self.runners.join_next().await.is_some() {}
        let (status, failed) = (self.core.report().status, self.core.verdict());
        tracing::info!(alloc.id = %id, %status, health = ?failed, "allocation ended");
    }

    /// The span from when the agent hears of the allocation until it runs, or will not; disabled if it belongs to no trace.
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

    /// Begins with a task; `known` is its state if it is not a new one. One that ran before has to be done with first.
    fn run_task(&mut self, name: &Text, known: Option<TaskState>) {
        let (runner, control) = self.task(name);
        let over = control.over.clone();
        let before = self.tasks.insert(Text::clone(name), control).map(|before| before.over);
        self.runners.spawn(async move {
            let _over = over.drop_guard();
            if let Some(before) = before {
                before.cancelled().await;
            }
            runner.run(known).await;
        });
    }

    fn task(&self, name: &Text) -> (TaskRunner, TaskControl) {
        let (orders, ordered) = mpsc::channel(ORDERS_MAX);
        let control = TaskControl {
            gate: watch::Sender::new(false),
            kill: watch::Sender::new(None),
            orders,
            over: CancellationToken::new(),
        };
        let runner = TaskRunner {
            context: Arc::clone(&self.context),
            name: Text::clone(name),
            spec: self.spec.subscribe(),
            gate: control.gate.subscribe(),
            kill: control.kill.subscribe(),
            news: self.news.0.clone(),
            orders: ordered,
            trace: self.trace,
        };
        (runner, control)
    }

    async fn obey(&mut self, command: Command) -> Kills {
        let now = clock::now();
        match command {
            Command::Update(spec) => {
                let spec = Arc::new(*spec);
                self.keep(&spec).await;
                self.core.update(spec, now)
            }
            Command::Reconnect(newer) => {
                let mut spec = AllocSpec::clone(self.core.spec());
                (spec.history, spec.work.alloc_modify_index) = (newer.history, newer.work.alloc_modify_index);
                let spec = Arc::new(spec);
                self.keep(&spec).await;
                self.core.note(&TaskEventKind::Reconnected, now);
                let told = Told::Again(spec.id());
                let _ = self.reporter.send(told).await;
                self.core.update(spec, now)
            }
            Command::Tasks(TasksOrder { whom: Whom::All, wish: Wish::Restart { reason }, done }) => {
                self.restart_all(reason, done)
            }
            Command::Tasks(order) => {
                self.order(order);
                Kills::new()
            }
            Command::Destroy => self.core.destroy(now),
        }
    }

    /// Hands an order on to the tasks that it is for, if they run. They have to tell this loop what they
    /// do, so it does not wait for them.
    fn order(&self, TasksOrder { whom, wish, done }: TasksOrder) {
        let meant = self.core.tasks().iter().filter(|(name, _)| whom.holds(name));
        let running = meant.clone().filter(|(_, task)| task.state.state == TaskRunState::Running);
        let mut outcomes = Vec::new();
        for (name, _) in running {
            let Some(control) = self.tasks.get(name) else { continue };
            let (done, outcome) = oneshot::channel();
            if let Err(TrySendError::Full(refused)) = control.orders.try_send(TaskOrder { wish, done }) {
                let _ = refused.done.send(Err(BUSY.into()));
            }
            outcomes.push(outcome);
        }
        if outcomes.is_empty() {
            let refusal: Text = match whom {
                Whom::Task(task) if meant.count() == 0 => {
                    format!("Could not find task runner for task: {task}").into()
                }
                Whom::Task(_) | Whom::Running | Whom::All => NOT_RUNNING.into(),
            };
            let _ = done.send(Err(refusal));
            return;
        }
        tell_when_done(outcomes, done);
    }

    /// Has all tasks begin anew, also those that have ended. All of it is begun with, or nothing.
    fn restart_all(&mut self, reason: &'static str, done: oneshot::Sender<Outcome>) -> Kills {
        let mut running = Vec::new();
        for (name, control) in &self.tasks {
            let task = self.core.tasks().get(name);
            if task.is_none_or(|task| task.state.state != TaskRunState::Running) {
                continue;
            }
            match control.orders.clone().try_reserve_owned() {
                Ok(room) => running.push((Text::clone(name), room)),
                Err(TrySendError::Full(_)) => {
                    let _ = done.send(Err(BUSY.into()));
                    return Kills::new();
                }
                // It has ended, and is about to say so.
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
        let ordered = running.into_iter().map(|(_, room)| {
            let (done, outcome) = oneshot::channel();
            room.send(TaskOrder { wish: Wish::Restart { reason }, done });
            outcome
        });
        tell_when_done(ordered.collect(), done);
        kills
    }

    async fn keep(&self, spec: &Arc<AllocSpec>) {
        keep_spec(&self.context, spec).await;
        self.spec.send_replace(Arc::clone(spec));
    }

    /// Puts how it fares on disk and tells the servers, if it changed.
    async fn publish(&mut self) {
        let state = self.core.report();
        if self.told.as_ref() == Some(&state) {
            return;
        }
        let id = self.core.spec().id();
        if let Err(error) = store::save(state_file(&self.context, id), &state).await {
            cannot_save(id, &error);
        }
        // The reporter ends with the agent only.
        let _ = self.reporter.send(Told::State(id, state.clone())).await;
        self.told = Some(state);
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

/// Tells how an order ended that several tasks had to carry out.
fn tell_when_done(outcomes: Vec<oneshot::Receiver<Outcome>>, done: oneshot::Sender<Outcome>) {
    tokio::spawn(async move {
        let mut failed = Ok(());
        for outcome in outcomes {
            // A task that ended meanwhile says nothing.
            failed = failed.and(outcome.await.unwrap_or_else(|_| Err(NOT_RUNNING.into())));
        }
        // Whoever asked may have given up.
        let _ = done.send(failed);
    });
}

/// Keeps what the servers want of an allocation.
pub(crate) async fn keep_spec(context: &Context, spec: &AllocSpec) {
    if let Err(error) = store::save(spec_file(context, spec.id()), spec).await {
        cannot_save(spec.id(), &error);
    }
}

/// The agent goes on: what is lost is only what a restart would need.
fn cannot_save(id: AllocId, error: &io::Error) {
    tracing::error!(alloc.id = %id, error = chain(error), "cannot save an allocation's state");
}

/// Makes what tasks need, once nothing stands in the way.
async fn set_up(context: Arc<Context>, spec: Arc<AllocSpec>, before: Before) -> Result<(), String> {
    for mut end in before.ends {
        // One whose loop is gone without a word has ended, too.
        let _ = end.wait_for(|ended| *ended).await;
    }
    let group = spec.group().ok_or_else(|| format!("the job has no group {:?}", spec.common.task_group))?;
    group.tasks.iter().try_for_each(|task| check_name(&task.name))?;
    let dirs = context.dirs(spec.id());
    dirs.build().map_err(|error| format!("cannot make the allocation's directory: {error}"))?;
    if let Some(previous) = before.data_of {
        let tasks = group.tasks.iter().map(|task| &*task.name);
        if let Err(error) = dirs.take_over(&context.dirs(previous), tasks) {
            tracing::warn!(
                alloc.id = %spec.id(), previous.id = %previous, error = chain(&error),
                "cannot move data along; going on without"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
