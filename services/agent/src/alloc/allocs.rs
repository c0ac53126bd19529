//! Owns all allocations of the node: starts new ones, forwards changes to their runners, and removes ended ones (A-4,
//!

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::alloc::{TaskRunState, TaskState};
use model::job::Task;
use model::{AllocId, Nanos, Text};
use telemetry::metrics::catalogue::AGENT_ALLOCS;
use telemetry::{chain, clock};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use wire::node::WorkIndex;

use super::core::AllocCore;
use super::hooks::{self, Predecessors};
use super::removals::{Removal, Removals};
use super::runner::{AllocRunner, Command, begun_file, refusal_of_ended, spec_file, state_file};
use crate::context::Context;
use crate::disk::gc::EndedQueue;
use crate::disk::store::{self, Saved};
use crate::node::presence::{ContactState, LastContact};
use crate::reports::actor::acknowledged_file;
use crate::reports::core::{AllocEvent, AllocState, Reports};
use crate::services::desired::Owner;
use crate::task::commands::{Outcome, TasksCommand};
use crate::work::changes::{Changes, Held, is_reconnect};
use crate::work::spec::AllocSpec;

/// The capacity of an allocation's command channel.
const COMMANDS_MAX: usize = 16;
/// The interval at which the time without contact to the servers is checked.
const CONTACT_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The refusal to remove an allocation that is not there or has not ended (http-api §18).
const NOT_REMOVABLE: &str = "No such allocation on client, or allocation not eligible for GC";
/// If the servers have not been reached since the agent started, this grace period is added.
const NO_CONTACT_GRACE: Duration = Duration::from_secs(50);

/// A command to [`Allocs`].
#[derive(Debug)]
pub(crate) enum AllocsCommand {
    /// Return the allocations and their indexes.
    Held(oneshot::Sender<Held>),
    /// Apply the servers' changes.
    Change {
        /// The changes.
        changes: Changes,
        /// Sent when the changes have begun to be carried out.
        done: oneshot::Sender<()>,
    },
    /// Forward a command to tasks. It is dropped without an answer if there is no such allocation.
    Tasks {
        /// The allocation.
        alloc: AllocId,
        /// The command.
        command: TasksCommand,
    },
    /// Remove the files of an allocation that has ended, or of all of them.
    RemoveEnded {
        /// The allocation; `None` for all.
        alloc: Option<AllocId>,
        /// Sent when its files are removed. If all are, it is sent at once: they are removed in the background.
        done: oneshot::Sender<Outcome>,
    },
    /// Stop all tasks, because the agent stops.
    StopAll(oneshot::Sender<()>),
}

/// All allocations of the node.
pub(crate) struct Allocs {
    context: Arc<Context>,
    reporter: mpsc::Sender<AllocEvent>,
    contacted: watch::Sender<bool>,
    contact_state: watch::Receiver<ContactState>,
    started: Instant,
    held: BTreeMap<AllocId, Entry>,
    ended: EndedQueue,
    runners: JoinSet<()>,
    by_runner: BTreeMap<Id, AllocId>,
    removals: Removals,
    /// Allocations whose saved state was unreadable, until the servers have said whether they still exist.
    unreadable: BTreeSet<AllocId>,
}

#[derive(Debug)]
struct Entry {
    index: WorkIndex,
    state: EntryState,
    stop_after: Option<Nanos>,
    /// Why the allocation's files are removed as soon as it has ended; `None` if they are kept.
    removal: Option<RemovalReason>,
}

/// Why an allocation is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RemovalReason {
    /// The servers have deleted it.
    Unlisted,
    /// The servers were unreachable for too long.
    ServersUnreachable,
}

#[derive(Debug)]
enum EntryState {
    /// Its runner is running.
    Running { commands: mpsc::Sender<Command>, ended: watch::Sender<bool> },
    /// It has ended. Its files are kept.
    Ended,
    /// It has ended and its files are removed. The servers still list it.
    Gone,
}

impl Allocs {
    /// Creates an empty set of allocations.
    pub(crate) fn new(
        context: Arc<Context>,
        reporter: mpsc::Sender<AllocEvent>,
        contacted: watch::Sender<bool>,
        contact_state: watch::Receiver<ContactState>,
    ) -> Self {
        Self {
            removals: Removals::new(Arc::clone(&context)),
            context,
            reporter,
            contacted,
            contact_state,
            started: clock::monotonic(),
            held: BTreeMap::new(),
            ended: EndedQueue::default(),
            runners: JoinSet::new(),
            by_runner: BTreeMap::new(),
            unreadable: BTreeSet::new(),
        }
    }

    /// Restores the allocations of the previous run. Returns what the servers know of them.
    ///
    /// If the state of an allocation cannot be read, its processes are ended before the allocation is started again, so
    /// that no process runs unsupervised. The servers send the allocation with the node's work.
    pub(crate) fn restore(&mut self) -> io::Result<Reports> {
        let mut reports = Reports::default();
        for id in self.context.store.allocs()? {
            // What cannot be read stays where it is until the whole state is set aside, so that an agent that is killed
            // before that finds the same again.
            let spec = store::read::<AllocSpec>(&spec_file(&self.context, id));
            let state = store::read::<AllocState>(&state_file(&self.context, id));
            match (spec, state) {
                (Ok(Some(spec)), Ok(Some(state))) => {
                    let acknowledged = match store::load(&acknowledged_file(&self.context, id)) {
                        Saved::Read(acknowledged) => Some(acknowledged),
                        Saved::Absent | Saved::Unreadable => None,
                    };
                    reports.restore(id, state.clone(), acknowledged);
                    self.restore_one(Arc::new(spec), &state);
                }
                (Err(error), _) | (_, Err(error)) => {
                    tracing::error!(
                        alloc.id = %id,
                        error = chain(&error),
                        "the saved state of an allocation is unreadable; ending what runs of it, and keeping its files"
                    );
                    self.unreadable.insert(id);
                    self.removals.start(id, Removal::SetAside);
                }
                (Ok(None), _) | (_, Ok(None)) => {
                    tracing::warn!(alloc.id = %id, "an allocation was not completely created; removing it");
                    self.removals.start(id, Removal::All);
                }
            }
        }
        Ok(reports)
    }

    fn restore_one(&mut self, spec: Arc<AllocSpec>, state: &AllocState) {
        let id = spec.id();
        let has_ended = state.status.is_terminal();
        if has_ended && !begun_file(&self.context, id).exists() {
            self.held.insert(id, Entry { state: EntryState::Ended, ..Entry::new(&spec) });
            self.ended.push(id);
            return;
        }
        let states = state.task_states.unpack().unwrap_or_else(|error| {
            tracing::warn!(alloc.id = %id, error = chain(&error), "cannot read the task states of an allocation");
            Vec::new()
        });
        let mut core = AllocCore::restore(Arc::clone(&spec), states.clone(), state.health, clock::now())
            .with_kill_timeout_max(self.context.config.limits.kill_timeout_max);
        core.set_network(state.network.clone());
        if has_ended {
            tracing::info!(alloc.id = %id, "cleaning up after an allocation that had ended");
            self.begin(&spec, core, Predecessors::default(), |runner| runner.clean_up(states));
        } else {
            tracing::info!(alloc.id = %id, "restoring an allocation");
            self.expect_services(&spec, &states);
            self.begin(&spec, core, Predecessors::default(), |runner| runner.run(Some(states)));
        }
    }

    /// Waits for what an allocation registers again, before anything of it is sent to a registry.
    fn expect_services(&self, spec: &AllocSpec, states: &[TaskState]) {
        let services = &self.context.services;
        if !spec.should_run() {
            return services.withdraw_restored(spec.id());
        }
        let Some(group) = spec.group() else { return };
        services.expect(spec.id(), &Owner::Group, &group.services);
        let is_running = |task: &Task| {
            let state = states.iter().find(|state| state.task == task.name);
            state.is_some_and(|state| state.state == TaskRunState::Running)
        };
        for task in group.tasks.iter().filter(|task| is_running(task)) {
            services.expect(spec.id(), &Owner::Task(Text::clone(&task.name)), &task.services);
        }
    }

    /// Carries out commands until the channel closes. Then it detaches from all tasks, which keep running.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<AllocsCommand>) {
        let mut gc = interval(self.context.config.limits.gc_interval);
        let mut contact_check = interval(CONTACT_CHECK_INTERVAL);
        gc.set_missed_tick_behavior(MissedTickBehavior::Delay);
        contact_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                command = commands.recv() => match command {
                    Some(AllocsCommand::Held(answer)) => {
                        let held = self.held.iter().map(|(id, entry)| (*id, entry.index)).collect();
                        // Fails if the requester has stopped waiting.
                        let _ = answer.send(held);
                    }
                    Some(AllocsCommand::Change { changes, done }) => {
                        self.change(changes).await;
                        let _ = done.send(());
                    }
                    Some(AllocsCommand::Tasks { alloc, command }) => self.forward(alloc, command).await,
                    Some(AllocsCommand::RemoveEnded { alloc: Some(id), done }) => {
                        self.remove_ended(id, done).await;
                    }
                    Some(AllocsCommand::RemoveEnded { alloc: None, done }) => {
                        self.remove_all_ended().await;
                        let _ = done.send(Ok(()));
                    }
                    Some(AllocsCommand::StopAll(done)) => {
                        self.stop_all().await;
                        let _ = done.send(());
                        return;
                    }
                    None => return,
                },
                Some(result) = self.runners.join_next_with_id() => {
                    let runner = match result {
                        Ok((runner, ())) => runner,
                        Err(error) => {
                            tracing::error!(error = chain(&error), "an allocation's runner panicked or was cancelled");
                            error.id()
                        }
                    };
                    self.runner_ended(runner).await;
                }
                Some(()) = self.removals.finished() => {}
                _ = gc.tick() => self.collect().await,
                _ = contact_check.tick() => self.stop_disconnected().await,
            }
        }
    }

    async fn forward(&self, alloc: AllocId, command: TasksCommand) {
        let refused = match self.held.get(&alloc).map(|entry| &entry.state) {
            Some(EntryState::Running { commands, .. }) => {
                match commands.send(Command::Tasks(command)).await {
                    Ok(()) => return,
                    Err(mpsc::error::SendError(Command::Tasks(command))) => command,
                    Err(_) => return,
                }
            }
            Some(EntryState::Ended | EntryState::Gone) => command,
            // Dropping the command reports that the allocation is unknown.
            None => return,
        };
        let reason = refusal_of_ended(&refused);
        let _ = refused.done.send(Err(reason.into()));
    }

    async fn change(&mut self, changes: Changes) {
        for id in changes.removed {
            let _ = self.reporter.send(AllocEvent::Unlisted(id)).await;
            self.stop_and_remove(id, RemovalReason::Unlisted).await;
            // An allocation that is still running stays known until it has ended.
            if self.held.get(&id).is_some_and(|entry| !matches!(entry.state, EntryState::Running { .. })) {
                self.held.remove(&id);
            }
        }
        for spec in changes.updated {
            self.update(spec).await;
        }
        let any_added = !changes.added.is_empty();
        for spec in changes.added {
            self.add(spec).await;
        }
        self.remove_unwanted();
        self.contacted.send_if_modified(|contacted| !std::mem::replace(contacted, true));
        if any_added {
            self.collect().await;
        }
        AGENT_ALLOCS.set(self.held.len() as f64);
    }

    /// Removes the files of allocations with unreadable state that the servers do not want to run any more.
    fn remove_unwanted(&mut self) {
        for id in std::mem::take(&mut self.unreadable) {
            if self.held.get(&id).is_none_or(|entry| matches!(entry.state, EntryState::Gone)) {
                self.removals.start(id, Removal::All);
            }
        }
    }

    async fn update(&mut self, spec: AllocSpec) {
        let Some(entry) = self.held.get_mut(&spec.id()) else { return };
        let previous = std::mem::replace(&mut entry.index, spec.index());
        if previous.history != spec.history {
            // The servers may have lost any of the earlier reports.
            if matches!(entry.state, EntryState::Gone) {
                return self.add(spec).await;
            }
            let _ = self.reporter.send(AllocEvent::ReportAgain(spec.id())).await;
        }
        match &entry.state {
            EntryState::Running { commands, .. } => {
                let command = if is_reconnect(&spec) {
                    Command::Reconnect(Box::new(spec))
                } else {
                    entry.stop_after = stop_after(&spec);
                    Command::Update(Box::new(spec))
                };
                // Fails if the runner has just ended and needs no update.
                let _ = commands.send(command).await;
            }
            EntryState::Ended | EntryState::Gone => {
                if is_reconnect(&spec) {
                    let _ = self.reporter.send(AllocEvent::ReportAgain(spec.id())).await;
                }
            }
        }
    }

    async fn add(&mut self, spec: AllocSpec) {
        let id = spec.id();
        let spec = Arc::new(spec);
        if spec.work.client_status.is_terminal() {
            // The allocation ended on this node before, and its files were removed.
            self.held.insert(id, Entry { state: EntryState::Gone, ..Entry::new(&spec) });
            return;
        }
        if spec.group().is_none() {
            let state = AllocState::not_added("its job has no such task group");
            let _ = self.reporter.send(AllocEvent::State(id, state)).await;
            self.held.insert(id, Entry { state: EntryState::Gone, ..Entry::new(&spec) });
            return;
        }
        self.removals.until_finished(id).await;
        tracing::info!(alloc.id = %id, alloc.name = &*spec.name(), "starting a new allocation");
        let predecessors = self.predecessors(&spec);
        let core = AllocCore::new(Arc::clone(&spec), clock::now())
            .with_kill_timeout_max(self.context.config.limits.kill_timeout_max);
        self.begin(&spec, core, predecessors, |runner| runner.run(None));
    }

    /// The allocations of this node that an allocation waits for.
    fn predecessors(&self, spec: &AllocSpec) -> Predecessors {
        let mut predecessors = Predecessors::default();
        let previous = spec.work.previous.filter(|previous| self.held.contains_key(previous));
        for other in previous.iter().chain(&spec.work.preempted) {
            if let Some(Entry { state: EntryState::Running { ended, .. }, .. }) = self.held.get(other) {
                predecessors.ends.push(ended.subscribe());
            }
        }
        let sticky = spec.group().is_some_and(|group| group.ephemeral_disk.sticky);
        predecessors.data_of = previous.filter(|_| sticky);
        predecessors
    }

    /// Starts the runner of an allocation. `run` says what it does.
    fn begin<F: Future<Output = ()> + Send + 'static>(
        &mut self,
        spec: &AllocSpec,
        core: AllocCore,
        predecessors: Predecessors,
        run: impl FnOnce(AllocRunner) -> F,
    ) {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let hooks = hooks::all(predecessors);
        let runner = AllocRunner::new(Arc::clone(&self.context), core, hooks, inbox, self.reporter.clone());
        let handle = self.runners.spawn(run(runner));
        self.by_runner.insert(handle.id(), spec.id());
        let state = EntryState::Running { commands, ended: watch::Sender::new(false) };
        self.held.insert(spec.id(), Entry { state, ..Entry::new(spec) });
    }

    /// Handles the end of a runner. All tasks of its allocation have ended.
    async fn runner_ended(&mut self, runner: Id) {
        let Some(id) = self.by_runner.remove(&runner) else { return };
        let Some(entry) = self.held.get_mut(&id) else { return };
        if let EntryState::Running { ended, .. } = std::mem::replace(&mut entry.state, EntryState::Ended) {
            ended.send_replace(true);
        }
        match entry.removal {
            Some(RemovalReason::Unlisted) => {
                self.held.remove(&id);
                self.forget(id).await;
            }
            Some(RemovalReason::ServersUnreachable) => {
                entry.state = EntryState::Gone;
                self.forget(id).await;
            }
            None => {
                self.ended.push(id);
                self.collect().await;
            }
        }
    }

    /// Stops an allocation if it is running, and removes its files.
    async fn stop_and_remove(&mut self, id: AllocId, reason: RemovalReason) {
        let Some(entry) = self.held.get_mut(&id) else { return };
        entry.removal = Some(reason);
        match &entry.state {
            EntryState::Running { commands, .. } => {
                let _ = commands.send(Command::Destroy).await;
            }
            EntryState::Ended => self.forget(id).await,
            EntryState::Gone => {}
        }
    }

    /// Removes an allocation that has ended, whatever the limits.
    async fn remove_ended(&mut self, id: AllocId, done: oneshot::Sender<Outcome>) {
        let Some(entry) = self.held.get_mut(&id) else {
            let _ = done.send(Err(NOT_REMOVABLE.into()));
            return;
        };
        match entry.state {
            EntryState::Ended => {
                entry.state = EntryState::Gone;
                tracing::info!(alloc.id = %id, "removing an ended allocation on request");
                self.forget_reporting(id, Some(done)).await;
            }
            EntryState::Gone => {
                let _ = done.send(Ok(()));
            }
            EntryState::Running { .. } => {
                let _ = done.send(Err(NOT_REMOVABLE.into()));
            }
        }
    }

    /// Removes all allocations that have ended, oldest first, whatever the limits.
    async fn remove_all_ended(&mut self) {
        let ended = self.ended.take_all();
        tracing::info!(allocs = ended.len(), "removing all ended allocations on request");
        for id in ended {
            if let Some(entry) = self.held.get_mut(&id) {
                entry.state = EntryState::Gone;
            }
            self.forget(id).await;
        }
    }

    async fn forget(&mut self, id: AllocId) {
        self.forget_reporting(id, None).await;
    }

    async fn forget_reporting(&mut self, id: AllocId, done: Option<oneshot::Sender<Outcome>>) {
        self.ended.remove(id);
        let _ = self.reporter.send(AllocEvent::Removed(id)).await;
        self.removals.start_reporting(id, Removal::All, done);
    }

    /// Removes ended allocations, oldest first, while a limit is exceeded.
    async fn collect(&mut self) {
        let mut count = self.held.values().filter(|entry| !matches!(entry.state, EntryState::Gone)).count();
        let disk = self.context.disk_use();
        // Removals run in the background, so their effect on the disk is seen at the next collection.
        let config = &self.context.config;
        let most = if count > config.gc.allocs_max { usize::MAX } else { config.limits.gc_parallel_max };
        for _ in 0..most {
            let Some(id) = self.ended.pop_if_exceeded(&self.context.config.gc, count, disk) else { return };
            tracing::info!(alloc.id = %id, allocs = count, disk_percent = disk.percent, "removing an ended allocation");
            count -= 1;
            if let Some(entry) = self.held.get_mut(&id) {
                entry.state = EntryState::Gone;
            }
            self.forget(id).await;
        }
    }

    /// Stops allocations that may not run without contact to the servers for this long.
    async fn stop_disconnected(&mut self) {
        let now = clock::monotonic();
        let without_contact = match self.contact_state.borrow().last_contact {
            // The next heartbeat is not due yet.
            Some(LastContact { at, ttl }) if now < at + ttl => return,
            Some(LastContact { at, .. }) => now.saturating_duration_since(at),
            None => now.saturating_duration_since(self.started).saturating_sub(NO_CONTACT_GRACE),
        };
        for id in disconnected_too_long(&self.held, without_contact) {
            tracing::warn!(alloc.id = %id, alone_secs = without_contact.as_secs(), "stopping an allocation after too long without contact to the servers");
            self.stop_and_remove(id, RemovalReason::ServersUnreachable).await;
        }
    }

    async fn stop_all(&mut self) {
        for entry in self.held.values() {
            if let EntryState::Running { commands, .. } = &entry.state {
                let _ = commands.send(Command::Destroy).await;
            }
        }
        while self.runners.join_next().await.is_some() {}
    }
}

impl Entry {
    fn new(spec: &AllocSpec) -> Self {
        Self { index: spec.index(), state: EntryState::Ended, stop_after: stop_after(spec), removal: None }
    }
}

fn stop_after(spec: &AllocSpec) -> Option<Nanos> {
    spec.group()?.disconnect.as_ref()?.stop_on_client_after
}

fn disconnected_too_long(held: &BTreeMap<AllocId, Entry>, without_contact: Duration) -> Vec<AllocId> {
    let without_contact = Nanos(i64::try_from(without_contact.as_nanos()).unwrap_or(i64::MAX));
    let running = held
        .iter()
        .filter(|(_, entry)| entry.removal.is_none() && matches!(entry.state, EntryState::Running { .. }));
    running
        .filter(|(_, entry)| entry.stop_after.is_some_and(|after| without_contact > after))
        .map(|(id, _)| *id)
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::alloc::runner::save_new_spec;
    use crate::testing::{context, spec};

    fn allocs(context: &Arc<Context>, contacted: watch::Sender<bool>) -> Allocs {
        // Nobody receives what is reported.
        let reporter = mpsc::channel(1).0;
        Allocs::new(Arc::clone(context), reporter, contacted, watch::channel(ContactState::default()).1)
    }

    /// who has not ended is not removed, and who was removed may be removed again.
    #[tokio::test]
    async fn ended_allocations_are_removed_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let (contacted, contacted_receiver) = watch::channel(false);
        let context = context(dir.path(), contacted_receiver);
        let mut allocs = allocs(&context, contacted);
        let id = spec().id();
        save_new_spec(&context, &spec()).await;
        assert!(context.store.alloc(id).exists());

        let (done, outcome) = oneshot::channel();
        allocs.remove_ended(id, done).await;
        assert_eq!(outcome.await.unwrap(), Err(NOT_REMOVABLE.into()), "it is unknown");
        let (commands, _inbox) = mpsc::channel(1);
        let running = EntryState::Running { commands, ended: watch::Sender::new(false) };
        allocs.held.insert(id, Entry { state: running, ..Entry::new(&spec()) });
        let (done, outcome) = oneshot::channel();
        allocs.remove_ended(id, done).await;
        assert_eq!(outcome.await.unwrap(), Err(NOT_REMOVABLE.into()), "it is running");

        allocs.held.insert(id, Entry::new(&spec()));
        allocs.ended.push(id);
        let (done, outcome) = oneshot::channel();
        allocs.remove_ended(id, done).await;
        assert_eq!(outcome.await.unwrap(), Ok(()));
        assert!(!context.store.alloc(id).exists());
        let (done, outcome) = oneshot::channel();
        allocs.remove_ended(id, done).await;
        assert_eq!(outcome.await.unwrap(), Ok(()), "it was removed before");
        assert!(allocs.ended.take_all().is_empty());
    }

    #[tokio::test]
    async fn all_ended_allocations_are_removed_on_request() {
        let dir = tempfile::tempdir().unwrap();
        let (contacted, contacted_receiver) = watch::channel(false);
        let context = context(dir.path(), contacted_receiver);
        let mut allocs = allocs(&context, contacted);
        let id = spec().id();
        save_new_spec(&context, &spec()).await;
        allocs.held.insert(id, Entry::new(&spec()));
        allocs.ended.push(id);
        allocs.remove_all_ended().await;
        assert!(matches!(allocs.held[&id].state, EntryState::Gone));
        allocs.removals.until_finished(id).await;
        assert!(!context.store.alloc(id).exists());
    }

    #[tokio::test]
    async fn unreadable_state_is_still_found_by_an_agent_that_starts_once_more() {
        let dir = tempfile::tempdir().unwrap();
        let (contacted, contacted_receiver) = watch::channel(false);
        let context = context(dir.path(), contacted_receiver);
        let id = spec().id();
        for damaged in [spec_file(&context, id), state_file(&context, id)] {
            fs::create_dir_all(context.store.alloc(id)).unwrap();
            save_new_spec(&context, &spec()).await;
            let state = AllocState::not_added("it is a test");
            store::write(&state_file(&context, id), &state, store::Durability::Process).unwrap();
            fs::write(&damaged, "from another version").unwrap();
            // The first agent ends before it has set anything aside.
            for start in ["first", "second"] {
                let (reporter, _events) = mpsc::channel(1);
                let contact_state = watch::channel(ContactState::default()).1;
                let mut allocs =
                    Allocs::new(Arc::clone(&context), reporter, contacted.clone(), contact_state);
                allocs.restore().unwrap();
                assert_eq!(allocs.unreadable, BTreeSet::from([id]), "{start} start, {}", damaged.display());
            }
        }
    }
}
