//! One history: which processes there are, what befalls them, and whether all comes to rest in the end.

use model::{Nanos, NodeId, ProcessId};
use rand::RngExt as _;

use crate::agent::{AgentDisk, AgentProcess};
use crate::applier::ApplierProcess;
use crate::broker::BrokerProcess;
use crate::client::ClientProcess;
use crate::messages::Pid;
use crate::tracker::TrackerProcess;
use crate::worker::WorkerProcess;
use crate::world::{Disk, Life, Process, Weather, World};

/// How long things go wrong.
const STORM: Nanos = Nanos::from_secs(20);
/// How long the cluster has to come to rest after that.
const CALM: Nanos = Nanos::from_secs(120);
/// How often it is looked whether it has.
const LOOK: Nanos = Nanos(500 * Nanos::MILLISECOND.0);
/// How far a clock may be off.
const SKEW_MAX: i64 = 400 * Nanos::MILLISECOND.0;
/// The processes, in this order.
const KINDS: [Kind; 12] = [
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
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Applier,
    Broker,
    Tracker,
    Worker,
    Agent,
    Client,
}

/// How a history ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What did not hold, if anything.
    pub violation: Option<String>,
    /// How many change sets were committed.
    pub commits: u64,
    /// How many steps there were.
    pub steps: u64,
    /// How long it took to come to rest after the last thing that went wrong.
    pub rest_after: Nanos,
}

/// Plays the history of a seed.
pub fn play(seed: u64) -> Report {
    let mut history = History::begin(seed);
    let mut steps = 0;
    let mut looked = Nanos::ZERO;
    while let Some(next) = history.world.next_at() {
        if next >= history.next_blow {
            history.world.now = history.next_blow;
            history.blow();
            continue;
        }
        history.world.step();
        steps += 1;
        if history.world.checks.violation().is_some() {
            break;
        }
        let now = history.world.now;
        if history.is_calm && now.0 - looked.0 >= LOOK.0 {
            looked = now;
            let state = history.world.database.state(history.world.database.index());
            match history.world.checks.unsettled(state) {
                None => break,
                Some(what) if now.0 > STORM.0 + CALM.0 => {
                    history.world.checks.violated(format!("it does not come to rest: {what}"));
                    break;
                }
                Some(_) => {}
            }
        }
    }
    Report {
        violation: history.world.checks.violation().map(str::to_owned),
        commits: history.world.database.index().0,
        steps,
        rest_after: Nanos((history.world.now.0 - STORM.0).max(0)),
    }
}

struct History {
    world: World,
    /// When something is next to befall the processes.
    next_blow: Nanos,
    is_calm: bool,
    /// What dead processes left, and whether they come back.
    disks: Vec<Disk>,
    cut_until: Vec<Nanos>,
    dead_until: Vec<Option<Nanos>>,
}

impl History {
    fn begin(seed: u64) -> Self {
        let mut world = World::new(seed);
        for _ in KINDS {
            let skew = Nanos(world.rng.random_range(-SKEW_MAX..=SKEW_MAX));
            world.add(skew);
        }
        world.weather = weather(&mut world);
        let mut history = Self {
            disks: KINDS.iter().map(|_| Disk::default()).collect(),
            cut_until: vec![Nanos::ZERO; KINDS.len()],
            dead_until: vec![None; KINDS.len()],
            world,
            next_blow: Nanos::from_secs(1),
            is_calm: false,
        };
        for pid in 0..KINDS.len() {
            history.start(pid);
        }
        history
    }

    fn start(&mut self, pid: Pid) {
        let id = {
            let mut bytes = [0; 16];
            (bytes[0], bytes[1]) = (u8::try_from(pid).unwrap_or(u8::MAX), self.world.slots[pid].lives as u8);
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
            Kind::Client => Box::new(ClientProcess::new(STORM)),
        };
        self.world.start(pid, process);
    }

    /// Something befalls a process, or it recovers.
    fn blow(&mut self) {
        let now = self.world.now;
        for pid in 0..KINDS.len() {
            if self.dead_until[pid].is_some_and(|until| until <= now) {
                self.dead_until[pid] = None;
                match self.world.slots[pid].life {
                    Life::Dead => self.start(pid),
                    Life::Stopped => self.world.resume(pid),
                    Life::Runs => {}
                }
            }
            if self.cut_until[pid] <= now {
                self.world.slots[pid].is_cut = false;
            }
        }
        if now >= STORM {
            return self.calm();
        }
        let pid = self.world.rng.random_range(0..KINDS.len());
        let length = self.world.between((50_000_000, 5_000_000_000));
        if KINDS[pid] != Kind::Client && self.dead_until[pid].is_none() {
            match self.world.rng.random_range(0..10) {
                0..3 => {
                    self.disks[pid] = self.world.kill(pid).unwrap_or_default();
                    self.dead_until[pid] = Some(now + length);
                }
                3..5 => {
                    self.world.stop(pid);
                    self.dead_until[pid] = Some(now + length);
                }
                5..7 => {
                    self.world.slots[pid].is_cut = true;
                    self.cut_until[pid] = now + length;
                }
                7 => self.world.weather = weather(&mut self.world),
                _ => {}
            }
        }
        let pause = self.world.between((20_000_000, 800_000_000));
        self.next_blow = (now + pause).min(STORM);
    }

    /// Nothing goes wrong any more; one node may be gone for good.
    fn calm(&mut self) {
        self.is_calm = true;
        self.next_blow = Nanos(i64::MAX);
        self.world.weather = Weather::FINE;
        let lost = self.world.chance(0.3).then_some(8);
        for pid in 0..KINDS.len() {
            self.world.slots[pid].is_cut = false;
            self.world.resume(pid);
            if lost == Some(pid) {
                self.world.kill(pid);
                self.world.checks.gone(node(pid));
            } else if self.world.slots[pid].life == Life::Dead {
                self.start(pid);
            }
        }
    }
}

fn weather(world: &mut World) -> Weather {
    let mut share = |max: f64| if world.chance(0.5) { 0.0 } else { world.rng.random_range(0.0..max) };
    Weather {
        lost: share(0.1),
        doubled: share(0.1),
        late: share(0.1),
        database_lost: share(0.1),
        database_fails: share(0.05),
    }
}

fn node(pid: Pid) -> NodeId {
    NodeId::from_bytes([u8::try_from(pid).unwrap_or(u8::MAX); 16])
}
