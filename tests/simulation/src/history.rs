//! One history: the processes, the faults that hit them, and the check that the cluster settles in the end.

use model::{HistoryId, Index, Nanos, NodeId, ProcessId};
use rand::RngExt as _;

use crate::agent::AgentProcess;
use crate::applier::ApplierProcess;
use crate::broker::BrokerProcess;
use crate::client::ClientProcess;
use crate::disk::{AgentDisk, Disk};
use crate::messages::Pid;
use crate::promises;
use crate::tracker::TrackerProcess;
use crate::watcher::WatcherProcess;
use crate::worker::WorkerProcess;
use crate::workload::Workload;
use crate::world::{Faults, Process, RunState, World};

/// How long faults are injected.
const FAULT_PERIOD: Nanos = Nanos::from_secs(20);
/// How long the cluster may take to settle after that.
const SETTLE_TIMEOUT: Nanos = Nanos::from_secs(120);
/// How often the simulation checks whether the cluster has settled.
const CHECK_INTERVAL: Nanos = Nanos(500 * Nanos::MILLISECOND.0);
/// The largest offset of a clock at the beginning.
const SKEW_MAX: i64 = 400 * Nanos::MILLISECOND.0;
/// By how much a clock jumps, forward or back.
const JUMPS: [Nanos; 4] = [
    Nanos::from_secs(15),
    Nanos::from_secs(10 * 60),
    Nanos::from_secs(5 * 60 * 60),
    Nanos::from_secs(40 * 24 * 60 * 60),
];
/// How many change sets a restored database lacks at most.
const LOST_SETS_MAX: u64 = 40;
/// How many it has at least.
const KEPT_SETS_MIN: u64 = 5;
/// The share of histories in which the database is restored.
const RESTORED_SHARE: f64 = 0.25;
/// The share of kills of an agent that damage its state, and the share of its allocations that they damage.
const DAMAGED_SHARE: f64 = 0.3;
/// How long an operator takes to accept a database.
const ACCEPTED_AFTER: Nanos = Nanos::from_secs(2);
/// The processes. A process's index here is its [`Pid`].
const KINDS: [Kind; 14] = [
    Kind::Applier,
    Kind::Applier,
    Kind::Broker,
    Kind::Broker,
    Kind::Tracker,
    Kind::Tracker,
    Kind::Worker,
    Kind::Worker,
    Kind::Agent,
    Kind::Agent,
    Kind::Agent,
    Kind::Client,
    Kind::Watcher,
    Kind::Watcher,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Applier,
    Broker,
    Tracker,
    Worker,
    Agent,
    Client,
    Watcher,
}

/// How a history ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The first violation, if any.
    pub violation: Option<String>,
    /// Number of change sets that were committed.
    pub commits: u64,
    /// Number of events.
    pub steps: u64,
    /// How often a process stalled between a decision and what it sent.
    pub stalls: u64,
    /// How often a clock jumped.
    pub jumps: u64,
    /// How long the cluster took to settle after the last fault.
    pub settled_after: Nanos,
}

/// Plays the history of a seed.
pub fn play(seed: u64) -> Report {
    let mut history = History::begin(seed);
    let mut steps = 0;
    let mut last_check = Nanos::ZERO;
    while let Some(next) = history.world.next_at() {
        if next >= history.next_fault {
            history.world.now = history.next_fault;
            history.inject_fault();
            continue;
        }
        history.world.step();
        steps += 1;
        if history.world.checks.violation().is_some() {
            break;
        }
        let now = history.world.now;
        history.accept_database();
        if history.is_settling && now.0 - last_check.0 >= CHECK_INTERVAL.0 {
            last_check = now;
            match history.why_not_settled() {
                None => break,
                Some(reason) if now.0 > FAULT_PERIOD.0 + SETTLE_TIMEOUT.0 => {
                    history.world.checks.record_violation(format!("the cluster does not settle: {reason}"));
                    break;
                }
                Some(_) => {}
            }
        }
    }
    Report {
        violation: history
            .world
            .checks
            .violation()
            .map(|violation| format!("{violation} (workload: {})", history.workload)),
        commits: history.world.database.index().0,
        steps,
        stalls: history.world.counts.stalls,
        jumps: history.world.counts.jumps,
        settled_after: Nanos((history.world.now.0 - FAULT_PERIOD.0).max(0)),
    }
}

struct History {
    world: World,
    /// What the user does.
    workload: Workload,
    /// When the next fault is injected.
    next_fault: Nanos,
    is_settling: bool,
    /// The data that dead processes left on disk.
    disks: Vec<Disk>,
    /// When a process that is cut off is reconnected.
    cut_until: Vec<Nanos>,
    /// When a dead or stopped process is started or resumed, if it is.
    down_until: Vec<Option<Nanos>>,
    /// When the database is restored, if it is still to be.
    restored_at: Option<Nanos>,
    /// A process that has seen what the restored database lacks. Without any, nobody can know. It is not killed before the
    /// database is accepted.
    informed: Option<Pid>,
    /// When an operator accepts the database.
    accepted_at: Option<Nanos>,
}

impl History {
    fn begin(seed: u64) -> Self {
        let mut world = World::new(seed);
        for _ in KINDS {
            let skew = Nanos(world.rng.random_range(-SKEW_MAX..=SKEW_MAX));
            world.add(skew);
        }
        world.faults = random_faults(&mut world);
        let is_restored = world.chance(RESTORED_SHARE);
        let restored_at = is_restored.then(|| world.between((4_000_000_000, 16_000_000_000)));
        let workload = Workload::random(&mut world);
        let mut history = Self {
            workload,
            disks: KINDS.iter().map(|_| Disk::default()).collect(),
            cut_until: vec![Nanos::ZERO; KINDS.len()],
            down_until: vec![None; KINDS.len()],
            world,
            next_fault: Nanos::from_secs(1),
            is_settling: false,
            restored_at,
            informed: None,
            accepted_at: None,
        };
        for pid in 0..KINDS.len() {
            history.start(pid);
        }
        history
    }

    fn start(&mut self, pid: Pid) {
        let id = {
            let mut bytes = [0; 16];
            (bytes[0], bytes[1]) =
                (u8::try_from(pid).unwrap_or(u8::MAX), self.world.slots[pid].incarnation as u8);
            ProcessId::from_bytes(bytes)
        };
        let process: Box<dyn Process> = match KINDS[pid] {
            Kind::Applier => Box::new(ApplierProcess::new(id)),
            Kind::Broker => Box::new(BrokerProcess::new(id)),
            Kind::Tracker => Box::new(TrackerProcess::new(id)),
            Kind::Worker => Box::new(WorkerProcess::new()),
            Kind::Agent => {
                let disk: AgentDisk = self.disks[pid].0.take().unwrap_or_default();
                Box::new(AgentProcess::new(node(pid), disk))
            }
            Kind::Client => Box::new(ClientProcess::new(FAULT_PERIOD, self.workload, nodes())),
            Kind::Watcher => Box::new(WatcherProcess::new(id)),
        };
        self.world.start(pid, process);
    }

    /// Ends the faults that are over, and injects a new one.
    fn inject_fault(&mut self) {
        let now = self.world.now;
        for pid in 0..KINDS.len() {
            if self.down_until[pid].is_some_and(|until| until <= now) {
                self.down_until[pid] = None;
                match self.world.slots[pid].run_state {
                    RunState::Dead => self.start(pid),
                    RunState::Stopped | RunState::Running => self.world.resume(pid),
                }
            }
            if self.cut_until[pid] <= now {
                self.world.slots[pid].is_cut = false;
            }
        }
        if now >= FAULT_PERIOD {
            return self.stop_faults();
        }
        if self.restored_at.is_some_and(|at| at <= now) {
            self.restore_database();
        }
        let pid = self.world.rng.random_range(0..KINDS.len());
        let length = self.world.between((50_000_000, 5_000_000_000));
        if KINDS[pid] != Kind::Client && self.down_until[pid].is_none() {
            match self.world.rng.random_range(0..11) {
                0..3 if self.informed != Some(pid) => {
                    self.disks[pid] = self.world.kill(pid).unwrap_or_default();
                    self.damage_disk(pid);
                    self.down_until[pid] = Some(now + length);
                }
                3..5 => {
                    self.world.stop(pid);
                    self.down_until[pid] = Some(now + length);
                }
                5..7 => {
                    self.world.slots[pid].is_cut = true;
                    self.cut_until[pid] = now + length;
                }
                7 => self.world.faults = random_faults(&mut self.world),
                8..10 => {
                    self.world.stall(pid);
                    self.down_until[pid] = Some(now + length);
                }
                10 => {
                    let jump = JUMPS[self.world.rng.random_range(0..JUMPS.len())];
                    let sign = if self.world.chance(0.5) { 1 } else { -1 };
                    self.world.jump(pid, Nanos(sign * jump.0));
                }
                _ => {}
            }
        }
        let pause = self.world.between((20_000_000, 800_000_000));
        self.next_fault = (now + pause).min(FAULT_PERIOD);
    }

    /// By chance, damages the state of some of the allocations on the disk of an agent that was killed.
    fn damage_disk(&mut self, pid: Pid) {
        let Some(disk) = &mut self.disks[pid].0 else { return };
        if self.world.chance(DAMAGED_SHARE) {
            disk.unreadable =
                disk.allocs.keys().copied().filter(|_| self.world.chance(DAMAGED_SHARE)).collect();
        }
    }

    /// Restores the database while no applier runs. At least one other process has seen what it lacks then.
    fn restore_database(&mut self) {
        let head = self.world.database.index();
        if head.0 <= KEPT_SETS_MIN {
            return;
        }
        self.restored_at = None;
        let lost = self.world.rng.random_range(1..=LOST_SETS_MAX.min(head.0 - KEPT_SETS_MIN));
        let index = Index(head.0 - lost);
        let is_informed = |pid: &Pid| {
            matches!(KINDS[*pid], Kind::Broker | Kind::Tracker)
                && self.world.replica(*pid).is_some_and(|state| state.index() > index)
        };
        let Some(informed) = (0..KINDS.len()).find(is_informed) else { return };
        self.informed = Some(informed);
        let length = self.world.between((50_000_000, 5_000_000_000));
        for pid in (0..KINDS.len()).filter(|pid| KINDS[*pid] == Kind::Applier) {
            drop(self.world.kill(pid));
            self.down_until[pid] = Some(self.world.now + length);
        }
        self.world.restore_database(index);
    }

    /// An operator accepts a marked database after a while.
    fn accept_database(&mut self) {
        if !self.world.database.is_marked() {
            return;
        }
        let now = self.world.now;
        let at = *self.accepted_at.get_or_insert(now + ACCEPTED_AFTER);
        if now >= at {
            self.accepted_at = None;
            self.informed = None;
            let [number, ..] = self.world.database.history().0.into_bytes();
            self.world.database.accept(HistoryId::from_bytes([number + 1; 16]));
        }
    }

    /// Why the cluster has not reached its desired state, or `None` if it has.
    fn why_not_settled(&self) -> Option<String> {
        let World { database, checks, .. } = &self.world;
        let is_foreign = |pid: &Pid| self.world.replica(*pid).is_some_and(|state| !database.contains(state));
        if let Some(pid) = (0..KINDS.len()).find(is_foreign) {
            return Some(format!(
                "the {:?} {pid} has change sets that the database does not have",
                KINDS[pid]
            ));
        }
        let state = database.state(database.index());
        checks.why_not_settled(state).or_else(|| promises::why_not_settled(state))
    }

    /// Ends all faults. By chance, one node is killed for good.
    fn stop_faults(&mut self) {
        self.is_settling = true;
        self.next_fault = Nanos(i64::MAX);
        self.world.faults = Faults::NONE;
        let lost = self.world.chance(0.3).then_some(8);
        for pid in 0..KINDS.len() {
            self.world.slots[pid].is_cut = false;
            self.world.resume(pid);
            if lost == Some(pid) {
                self.world.kill(pid);
                self.world.checks.node_removed(node(pid));
            } else if self.world.slots[pid].run_state == RunState::Dead {
                self.start(pid);
            }
        }
    }
}

fn random_faults(world: &mut World) -> Faults {
    let mut share = |max: f64| if world.chance(0.5) { 0.0 } else { world.rng.random_range(0.0..max) };
    Faults {
        lost: share(0.1),
        duplicated: share(0.1),
        delayed: share(0.1),
        database_lost: share(0.1),
        database_fails: share(0.05),
    }
}

/// The nodes of the agents.
fn nodes() -> Vec<NodeId> {
    (0..KINDS.len()).filter(|pid| KINDS[*pid] == Kind::Agent).map(node).collect()
}

fn node(pid: Pid) -> NodeId {
    NodeId::from_bytes([u8::try_from(pid).unwrap_or(u8::MAX); 16])
}
