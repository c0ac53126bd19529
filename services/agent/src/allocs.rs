//! All allocations of the node: begins with new ones, tells those that there are what changed, and removes what has
//! ended.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::alloc::TaskState;
use model::{AllocId, Nanos};
use serde::de::DeserializeOwned;
use telemetry::metrics::catalogue::AGENT_ALLOCS;
use telemetry::{chain, clock};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{MissedTickBehavior, interval};
use wire::node::WorkIndex;

use crate::alloc::core::AllocCore;
use crate::alloc::runner::{
    AllocRunner, Before, Command, NOT_RUNNING, SHOULD_NOT_RUN, keep_spec, spec_file, state_file,
};
use crate::alloc::spec::AllocSpec;
use crate::contact::Standing;
use crate::context::Context;
use crate::gc::{Ended, REMOVED_AT_ONCE};
use crate::heartbeats::Heard;
use crate::orders::{TasksOrder, Whom};
use crate::reporter::acknowledged_file;
use crate::reports::{AllocState, Reports, Told};
use crate::store;
use crate::work::{Changes, Held, is_reconnect};

/// How many commands wait for one allocation.
const COMMANDS_MAX: usize = 16;
/// How often it is looked whether ended allocations are to be removed.
const GC_EVERY: Duration = Duration::from_secs(60);
/// How often it is looked whether the servers were away too long for some allocation.
const CONTACT_LOOKED_AT_EVERY: Duration = Duration::from_secs(1);
/// Without any contact since the agent started, allocations stop only after this time.
const NO_CONTACT_GRACE: Duration = Duration::from_secs(50);

/// What the allocations are asked.
#[derive(Debug)]
pub(crate) enum Order {
    /// Which there are.
    Held(oneshot::Sender<Held>),
    /// To become what the servers want.
    Change {
        /// What is to be done.
        changes: Changes,
        /// Told when it is begun with.
        done: oneshot::Sender<()>,
    },
    /// To have something done with tasks; whoever asked hears nothing if there is no such allocation.
    Tasks {
        /// The allocation.
        alloc: AllocId,
        /// What.
        order: TasksOrder,
    },
    /// To end all tasks, since the agent ends.
    StopAll(oneshot::Sender<()>),
}

/// All allocations of the node.
pub(crate) struct Allocs {
    context: Arc<Context>,
    reporter: mpsc::Sender<Told>,
    contacted: watch::Sender<bool>,
    standing: watch::Receiver<Standing>,
    started: Instant,
    held: BTreeMap<AllocId, Entry>,
    ended: Ended,
    runners: JoinSet<()>,
    by_runner: BTreeMap<Id, AllocId>,
    removals: JoinSet<AllocId>,
    removing: BTreeSet<AllocId>,
    at_once: Arc<Semaphore>,
}

#[derive(Debug)]
struct Entry {
    index: WorkIndex,
    life: Life,
    stop_after: Option<Nanos>,
    /// Why its files go as soon as it has ended, if they do.
    doom: Option<Doom>,
}

/// Why an allocation is to vanish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doom {
    /// The servers have forgotten it.
    Unlisted,
    /// The servers were away for too long.
    Forsaken,
}

#[derive(Debug)]
enum Life {
    /// Its loop runs.
    Runs { commands: mpsc::Sender<Command>, ended: watch::Sender<bool> },
    /// It has ended; its files are kept.
    Ended,
    /// Nothing is left of it. The servers still list it.
    Gone,
}

impl Allocs {
    /// The allocations of a node whose agent has just started.
    pub(crate) fn new(
        context: Arc<Context>,
        reporter: mpsc::Sender<Told>,
        contacted: watch::Sender<bool>,
        standing: watch::Receiver<Standing>,
    ) -> Self {
        Self {
            context,
            reporter,
            contacted,
            standing,
            started: clock::monotonic(),
            held: BTreeMap::new(),
            ended: Ended::default(),
            runners: JoinSet::new(),
            by_runner: BTreeMap::new(),
            removals: JoinSet::new(),
            removing: BTreeSet::new(),
            at_once: Arc::new(Semaphore::new(REMOVED_AT_ONCE)),
        }
    }

    /// Goes on with what an earlier run of the agent left. Answers what the servers know of it.
    pub(crate) fn restore(&mut self) -> io::Result<Reports> {
        let mut reports = Reports::default();
        for id in self.context.store.allocs()? {
            let spec: Option<AllocSpec> = read(id, &spec_file(&self.context, id));
            let state: Option<AllocState> = read(id, &state_file(&self.context, id));
            let (Some(spec), Some(state)) = (spec, state) else {
                // The servers tell anew what is to run.
                tracing::warn!(alloc.id = %id, "too little is left of an allocation to go on with it");
                self.remove_files(id);
                continue;
            };
            let acknowledged = read(id, &acknowledged_file(&self.context, id));
            reports.restore(id, state.clone(), acknowledged);
            self.restore_one(Arc::new(spec), &state);
        }
        Ok(reports)
    }

    fn restore_one(&mut self, spec: Arc<AllocSpec>, state: &AllocState) {
        let id = spec.id();
        if state.status.is_terminal() {
            self.held.insert(id, Entry { life: Life::Ended, ..Entry::new(&spec) });
            self.ended.push(id);
            return;
        }
        let states = state.task_states.unpack().unwrap_or_else(|error| {
            tracing::warn!(alloc.id = %id, error = chain(&error), "cannot read the states of an allocation's tasks");
            Vec::new()
        });
        tracing::info!(alloc.id = %id, "going on with an allocation");
        let core = AllocCore::restore(Arc::clone(&spec), states.clone(), state.health, clock::now());
        self.begin(&spec, core, Before::default(), Some(states));
    }

    /// Does what it is asked until the orders end. Then it lets go of all tasks, which run on.
    pub(crate) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut gc = interval(GC_EVERY);
        let mut look = interval(CONTACT_LOOKED_AT_EVERY);
        gc.set_missed_tick_behavior(MissedTickBehavior::Delay);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Held(answer)) => {
                        let held = self.held.iter().map(|(id, entry)| (*id, entry.index)).collect();
                        // Whoever asked may have given up.
                        let _ = answer.send(held);
                    }
                    Some(Order::Change { changes, done }) => {
                        self.change(changes).await;
                        let _ = done.send(());
                    }
                    Some(Order::Tasks { alloc, order }) => self.pass_on(alloc, order).await,
                    Some(Order::StopAll(done)) => {
                        self.stop_all().await;
                        let _ = done.send(());
                        return;
                    }
                    None => return,
                },
                Some(over) = self.runners.join_next_with_id() => {
                    let runner = match over {
                        Ok((runner, ())) => runner,
                        Err(error) => {
                            tracing::error!(error = chain(&error), "an allocation's loop broke off");
                            error.id()
                        }
                    };
                    self.over(runner).await;
                }
                Some(removed) = self.removals.join_next() => self.removed(removed),
                _ = gc.tick() => self.collect().await,
                _ = look.tick() => self.stop_the_forsaken().await,
            }
        }
    }

    async fn pass_on(&self, alloc: AllocId, order: TasksOrder) {
        let refused = match self.held.get(&alloc).map(|entry| &entry.life) {
            Some(Life::Runs { commands, .. }) => match commands.send(Command::Tasks(order)).await {
                Ok(()) => return,
                Err(mpsc::error::SendError(Command::Tasks(order))) => order,
                Err(_) => return,
            },
            Some(Life::Ended | Life::Gone) => order,
            // Dropping the order says that it is unknown.
            None => return,
        };
        let why = if refused.whom == Whom::All { SHOULD_NOT_RUN } else { NOT_RUNNING };
        let _ = refused.done.send(Err(why.into()));
    }

    async fn change(&mut self, changes: Changes) {
        for id in changes.removed {
            let _ = self.reporter.send(Told::Dropped(id)).await;
            self.doom(id, Doom::Unlisted).await;
            // One that still ends stays known until it has.
            if self.held.get(&id).is_some_and(|entry| !matches!(entry.life, Life::Runs { .. })) {
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
        self.contacted.send_if_modified(|contacted| !std::mem::replace(contacted, true));
        if any_added {
            self.collect().await;
        }
        AGENT_ALLOCS.set(self.held.len() as f64);
    }

    async fn update(&mut self, spec: AllocSpec) {
        let Some(entry) = self.held.get_mut(&spec.id()) else { return };
        let known = std::mem::replace(&mut entry.index, spec.index());
        if known.history != spec.history {
            // Whatever was reported may be among what the servers lost.
            if matches!(entry.life, Life::Gone) {
                return self.add(spec).await;
            }
            let _ = self.reporter.send(Told::Again(spec.id())).await;
        }
        match &entry.life {
            Life::Runs { commands, .. } => {
                let command = if is_reconnect(&spec) {
                    Command::Reconnect(Box::new(spec))
                } else {
                    entry.stop_after = stop_after(&spec);
                    Command::Update(Box::new(spec))
                };
                // A loop that ends at this moment needs no update.
                let _ = commands.send(command).await;
            }
            Life::Ended | Life::Gone => {
                if is_reconnect(&spec) {
                    let _ = self.reporter.send(Told::Again(spec.id())).await;
                }
            }
        }
    }

    async fn add(&mut self, spec: AllocSpec) {
        let id = spec.id();
        let spec = Arc::new(spec);
        if spec.work.client_status.is_terminal() {
            // It ended here before, and its files were removed.
            self.held.insert(id, Entry { life: Life::Gone, ..Entry::new(&spec) });
            return;
        }
        if spec.group().is_none() {
            let state = AllocState::not_added("its job has no such task group");
            let _ = self.reporter.send(Told::State(id, state)).await;
            self.held.insert(id, Entry { life: Life::Gone, ..Entry::new(&spec) });
            return;
        }
        self.until_removed(id).await;
        keep_spec(&self.context, &spec).await;
        tracing::info!(alloc.id = %id, alloc.name = &*spec.name(), "new allocation");
        let before = self.before(&spec);
        let core = AllocCore::new(Arc::clone(&spec), clock::now());
        self.begin(&spec, core, before, None);
    }

    /// What of this node an allocation waits for.
    fn before(&self, spec: &AllocSpec) -> Before {
        let mut before = Before::default();
        let previous = spec.work.previous.filter(|previous| self.held.contains_key(previous));
        for other in previous.iter().chain(&spec.work.preempted) {
            if let Some(Entry { life: Life::Runs { ended, .. }, .. }) = self.held.get(other) {
                before.ends.push(ended.subscribe());
            }
        }
        let sticky = spec.group().is_some_and(|group| group.ephemeral_disk.sticky);
        before.data_of = previous.filter(|_| sticky);
        before
    }

    fn begin(&mut self, spec: &AllocSpec, core: AllocCore, before: Before, known: Option<Vec<TaskState>>) {
        let (commands, inbox) = mpsc::channel(COMMANDS_MAX);
        let runner = AllocRunner::new(Arc::clone(&self.context), core, inbox, self.reporter.clone());
        let handle = self.runners.spawn(runner.run(before, known));
        self.by_runner.insert(handle.id(), spec.id());
        let life = Life::Runs { commands, ended: watch::Sender::new(false) };
        self.held.insert(spec.id(), Entry { life, ..Entry::new(spec) });
    }

    /// An allocation's loop has ended, and so have its tasks.
    async fn over(&mut self, runner: Id) {
        let Some(id) = self.by_runner.remove(&runner) else { return };
        let Some(entry) = self.held.get_mut(&id) else { return };
        if let Life::Runs { ended, .. } = std::mem::replace(&mut entry.life, Life::Ended) {
            ended.send_replace(true);
        }
        match entry.doom {
            Some(Doom::Unlisted) => {
                self.held.remove(&id);
                self.forget(id).await;
            }
            Some(Doom::Forsaken) => {
                entry.life = Life::Gone;
                self.forget(id).await;
            }
            None => {
                self.ended.push(id);
                self.collect().await;
            }
        }
    }

    /// Ends an allocation, if it has not, and removes its files.
    async fn doom(&mut self, id: AllocId, doom: Doom) {
        let Some(entry) = self.held.get_mut(&id) else { return };
        entry.doom = Some(doom);
        match &entry.life {
            Life::Runs { commands, .. } => {
                let _ = commands.send(Command::Destroy).await;
            }
            Life::Ended => self.forget(id).await,
            Life::Gone => {}
        }
    }

    async fn forget(&mut self, id: AllocId) {
        self.ended.remove(id);
        let _ = self.reporter.send(Told::Forgotten(id)).await;
        self.remove_files(id);
    }

    /// Removes what has ended, oldest first, while there is too much of anything.
    async fn collect(&mut self) {
        let mut kept = self.held.values().filter(|entry| !matches!(entry.life, Life::Gone)).count();
        let disk = self.context.disk_use();
        // What removing makes of the disk is seen at the next look.
        let most = if kept > self.context.config.gc.allocs_max { usize::MAX } else { REMOVED_AT_ONCE };
        for _ in 0..most {
            let Some(id) = self.ended.take(&self.context.config.gc, kept, disk) else { return };
            tracing::info!(alloc.id = %id, allocs = kept, disk_percent = disk.percent, "removing an ended allocation");
            kept -= 1;
            if let Some(entry) = self.held.get_mut(&id) {
                entry.life = Life::Gone;
            }
            self.forget(id).await;
        }
    }

    fn remove_files(&mut self, id: AllocId) {
        let (context, at_once) = (Arc::clone(&self.context), Arc::clone(&self.at_once));
        self.removing.insert(id);
        self.removals.spawn(async move {
            let _permit = at_once.acquire().await;
            // The state goes last: as long as there is some, the files are known to belong to somebody.
            for dir in [context.dirs(id).root, context.store.alloc(id)] {
                remove(id, &dir).await;
            }
            id
        });
    }

    fn removed(&mut self, removal: Result<AllocId, JoinError>) {
        match removal {
            Ok(id) => drop(self.removing.remove(&id)),
            Err(error) => tracing::error!(error = chain(&error), "removing an allocation's files broke off"),
        }
    }

    /// Waits until nothing is being removed of an allocation: it begins anew, and what it makes must stay.
    async fn until_removed(&mut self, id: AllocId) {
        while self.removing.contains(&id)
            && let Some(removal) = self.removals.join_next().await
        {
            self.removed(removal);
        }
    }

    /// Ends allocations that must not run for so long without the servers.
    async fn stop_the_forsaken(&mut self) {
        let now = clock::monotonic();
        let alone = match self.standing.borrow().heard {
            // Between two heartbeats nobody is missed.
            Some(Heard { at, ttl }) if now < at + ttl => return,
            Some(Heard { at, .. }) => now.saturating_duration_since(at),
            None => now.saturating_duration_since(self.started).saturating_sub(NO_CONTACT_GRACE),
        };
        for id in forsaken(&self.held, alone) {
            tracing::warn!(alloc.id = %id, alone_secs = alone.as_secs(), "the servers are away for too long for an allocation");
            self.doom(id, Doom::Forsaken).await;
        }
    }

    async fn stop_all(&mut self) {
        for entry in self.held.values() {
            if let Life::Runs { commands, .. } = &entry.life {
                let _ = commands.send(Command::Destroy).await;
            }
        }
        while self.runners.join_next().await.is_some() {}
    }
}

impl Entry {
    fn new(spec: &AllocSpec) -> Self {
        Self { index: spec.index(), life: Life::Ended, stop_after: stop_after(spec), doom: None }
    }
}

fn stop_after(spec: &AllocSpec) -> Option<Nanos> {
    spec.group()?.disconnect.as_ref()?.stop_on_client_after
}

fn forsaken(held: &BTreeMap<AllocId, Entry>, alone: Duration) -> Vec<AllocId> {
    let alone = Nanos(i64::try_from(alone.as_nanos()).unwrap_or(i64::MAX));
    let runs =
        held.iter().filter(|(_, entry)| entry.doom.is_none() && matches!(entry.life, Life::Runs { .. }));
    runs.filter(|(_, entry)| entry.stop_after.is_some_and(|after| alone > after)).map(|(id, _)| *id).collect()
}

fn read<T: DeserializeOwned>(id: AllocId, path: &Path) -> Option<T> {
    store::read(path).unwrap_or_else(|error| {
        tracing::warn!(alloc.id = %id, error = chain(&error), "cannot read what is kept of an allocation");
        None
    })
}

async fn remove(id: AllocId, dir: &Path) {
    match tokio::fs::remove_dir_all(dir).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(alloc.id = %id, dir = %dir.display(), error = chain(&error), "cannot remove an allocation's files");
        }
    }
}
