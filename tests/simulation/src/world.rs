//! The world around the processes: virtual time, messages on their way, and what befalls processes, network and
//! database. One seed is one history.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::{Nanos, RequestId, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

use crate::checks::Checks;
use crate::database::Database;
use crate::messages::{Address, Asked, Body, Input, Pid, Reply, Row, Statement, Subject, Timer};

/// When every history begins.
pub(crate) const BEGINNING: Timestamp = Timestamp::from_secs(1_767_225_600);
/// How long a message is on its way, mostly; and at times.
const SHORT: (i64, i64) = (50_000, 2_000_000);
const LONG: (i64, i64) = (2_000_000, 1_500_000_000);
/// How long a process waits for the database.
const DATABASE_PATIENCE: Nanos = Nanos::from_secs(1);

/// A process: what happens goes in, what it does it does to the world.
pub(crate) trait Process {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>);

    /// What outlives it on disk.
    fn into_disk(self: Box<Self>) -> Disk;
}

/// What a process leaves on its disk.
#[derive(Debug, Default)]
pub(crate) struct Disk(pub(crate) Option<crate::agent::AgentDisk>);

/// How a process fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    /// As by SIGSTOP: what happens meanwhile waits.
    Stopped,
    Dead,
}

/// How often things go wrong, each from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Weather {
    pub(crate) lost: f64,
    pub(crate) doubled: f64,
    pub(crate) late: f64,
    pub(crate) database_lost: f64,
    pub(crate) database_fails: f64,
}

impl Weather {
    pub(crate) const FINE: Self =
        Self { lost: 0.0, doubled: 0.0, late: 0.0, database_lost: 0.0, database_fails: 0.0 };
}

/// One place for a process, which may live several times.
pub(crate) struct Slot {
    pub(crate) life: Life,
    /// Counts its lives.
    pub(crate) lives: u32,
    process: Option<Box<dyn Process>>,
    /// How far its wall clock is off.
    skew: Nanos,
    /// Cut off from the network.
    pub(crate) is_cut: bool,
    waiting: Vec<Input>,
}

enum Event {
    Input { pid: Pid, life: u32, input: Input },
    Statement { from: Address, statement: Statement },
}

/// Everything but the processes.
pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) rng: StdRng,
    pub(crate) weather: Weather,
    pub(crate) database: Database,
    pub(crate) checks: Checks,
    pub(crate) slots: Vec<Slot>,
    /// Who listens to what.
    subscriptions: BTreeSet<(Subject, Pid)>,
    events: BTreeMap<(Nanos, u64), Event>,
    numbers: u64,
    epoch: Instant,
}

/// What one process may do.
pub(crate) struct Ctx<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) pid: Pid,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Nanos::ZERO,
            rng: StdRng::seed_from_u64(seed),
            weather: Weather::FINE,
            database: Database::new(),
            checks: Checks::default(),
            slots: Vec::new(),
            subscriptions: BTreeSet::new(),
            events: BTreeMap::new(),
            numbers: 0,
            epoch: telemetry::clock::monotonic(),
        }
    }

    /// Makes room for a process.
    pub(crate) fn add(&mut self, skew: Nanos) -> Pid {
        self.slots.push(Slot {
            life: Life::Dead,
            lives: 0,
            process: None,
            skew,
            is_cut: false,
            waiting: Vec::new(),
        });
        self.slots.len() - 1
    }

    /// Lets a process live.
    pub(crate) fn start(&mut self, pid: Pid, process: Box<dyn Process>) {
        let slot = &mut self.slots[pid];
        slot.process = Some(process);
        slot.life = Life::Runs;
        slot.lives += 1;
        let life = slot.lives;
        self.at(Nanos::ZERO, Event::Input { pid, life, input: Input::Start });
    }

    /// As by `kill -9`. What it leaves on disk is answered.
    pub(crate) fn kill(&mut self, pid: Pid) -> Option<Disk> {
        let slot = &mut self.slots[pid];
        slot.life = Life::Dead;
        slot.waiting.clear();
        self.subscriptions.retain(|(_, other)| *other != pid);
        slot.process.take().map(Process::into_disk)
    }

    pub(crate) fn stop(&mut self, pid: Pid) {
        if self.slots[pid].life == Life::Runs {
            self.slots[pid].life = Life::Stopped;
        }
    }

    pub(crate) fn resume(&mut self, pid: Pid) {
        let slot = &mut self.slots[pid];
        if slot.life != Life::Stopped {
            return;
        }
        slot.life = Life::Runs;
        let life = slot.lives;
        for input in std::mem::take(&mut slot.waiting) {
            self.at(Nanos::ZERO, Event::Input { pid, life, input });
        }
    }

    /// Whether by chance something happens that does so in `share` of all cases.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.random_bool(share)
    }

    /// A length of time by chance.
    pub(crate) fn between(&mut self, (min, max): (i64, i64)) -> Nanos {
        Nanos(self.rng.random_range(min..=max))
    }

    /// The database's clock, and that of whoever looks from outside.
    pub(crate) fn wall(&self) -> Timestamp {
        BEGINNING + self.now
    }

    /// When the next thing happens.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets the next thing happen.
    pub(crate) fn step(&mut self) {
        let Some(((at, _), event)) = self.events.pop_first() else { return };
        self.now = at;
        match event {
            Event::Input { pid, life, input } => self.input(pid, life, input),
            Event::Statement { from, statement } => self.statement(from, statement),
        }
    }

    fn input(&mut self, pid: Pid, life: u32, input: Input) {
        let slot = &mut self.slots[pid];
        if slot.lives != life {
            return;
        }
        match slot.life {
            Life::Dead => {}
            Life::Stopped => slot.waiting.push(input),
            Life::Runs => {
                let Some(mut process) = slot.process.take() else { return };
                process.handle(input, &mut Ctx { world: self, pid });
                self.slots[pid].process = Some(process);
            }
        }
    }

    fn statement(&mut self, from: Address, statement: Statement) {
        let fails = self.weather.database_fails;
        let row = if self.chance(fails) {
            Row::Failed
        } else {
            let now = self.wall();
            self.database.execute(statement, now, &mut self.checks)
        };
        let lost = self.weather.database_lost;
        if !self.chance(lost) {
            let delay = self.travel();
            self.at(
                delay,
                Event::Input { pid: from.pid, life: from.life, input: Input::Row(from.call, row) },
            );
        }
    }

    fn at(&mut self, delay: Nanos, event: Event) {
        self.numbers += 1;
        self.events.insert((self.now + delay, self.numbers), event);
    }

    fn travel(&mut self) -> Nanos {
        let late = self.weather.late;
        let range = if self.chance(late) { LONG } else { SHORT };
        self.between(range)
    }

    /// Sends something on its way, which may be lost, late, or doubled.
    fn send(&mut self, from: Pid, to: Pid, life: u32, input: Input) {
        let Weather { lost, doubled, .. } = self.weather;
        if self.slots[from].is_cut || self.slots[to].is_cut || self.chance(lost) {
            return;
        }
        let delay = self.travel();
        if self.chance(doubled) {
            let later = self.travel();
            self.at(later, Event::Input { pid: to, life, input: input.clone() });
        }
        self.at(delay, Event::Input { pid: to, life, input });
    }
}

impl Ctx<'_> {
    /// The process's wall clock.
    pub(crate) fn wall(&self) -> Timestamp {
        self.world.wall() + self.world.slots[self.pid].skew
    }

    /// Its monotonic clock.
    pub(crate) fn monotonic(&self) -> Instant {
        self.world.epoch + Duration::from_nanos(self.world.now.0.unsigned_abs())
    }

    /// A number that nothing else has.
    pub(crate) fn number(&mut self) -> u64 {
        self.world.numbers += 1;
        self.world.numbers
    }

    pub(crate) fn id(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.world.rng.fill_bytes(&mut bytes);
        bytes
    }

    /// An id of the cluster's time, as every sender makes it.
    pub(crate) fn request_id(&mut self) -> RequestId {
        let millis = u64::try_from(self.world.wall().0 / Nanos::MILLISECOND.0).unwrap_or_default();
        let [random @ .., _, _, _, _, _, _] = self.id();
        RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    pub(crate) fn timer(&mut self, delay: Nanos, timer: Timer) {
        let (pid, life) = (self.pid, self.world.slots[self.pid].lives);
        self.world.at(delay, Event::Input { pid, life, input: Input::Timer(timer) });
    }

    pub(crate) fn serve(&mut self, subject: Subject) {
        self.world.subscriptions.insert((subject, self.pid));
    }

    pub(crate) fn leave(&mut self, subject: Subject) {
        self.world.subscriptions.remove(&(subject, self.pid));
    }

    /// Asks whoever listens; the answer comes as [`Input::Reply`] under the number.
    pub(crate) fn request(&mut self, subject: Subject, body: Body, within: Nanos) -> u64 {
        let call = self.number();
        let (pid, life) = (self.pid, self.world.slots[self.pid].lives);
        let reply = |reply| Event::Input { pid, life, input: Input::Reply(call, reply) };
        self.world.at(within, reply(Reply::TimedOut));
        let is_heard = self.tell(subject, Asked { from: Some(Address { pid, life, call }), body });
        if !is_heard && !self.world.slots[pid].is_cut {
            let delay = self.world.travel();
            self.world.at(delay, reply(Reply::NoResponders));
        }
        call
    }

    pub(crate) fn publish(&mut self, subject: Subject, body: Body) {
        self.tell(subject, Asked { from: None, body });
    }

    /// Whether anybody listens.
    fn tell(&mut self, subject: Subject, asked: Asked) -> bool {
        let all = self.world.subscriptions.range((subject, 0)..=(subject, Pid::MAX));
        let all: Vec<Pid> = all.map(|(_, pid)| *pid).filter(|pid| *pid != self.pid).collect();
        for to in &all {
            let life = self.world.slots[*to].lives;
            self.world.send(self.pid, *to, life, Input::Asked(asked.clone()));
        }
        !all.is_empty()
    }

    pub(crate) fn answer(&mut self, to: Option<Address>, reply: Reply) {
        if let Some(Address { pid, life, call }) = to {
            self.world.send(self.pid, pid, life, Input::Reply(call, reply));
        }
    }

    /// Has the database do something; what comes of it comes as [`Input::Row`] under the number, lost in the end.
    pub(crate) fn database(&mut self, statement: Statement) -> u64 {
        let call = self.number();
        let (pid, life) = (self.pid, self.world.slots[self.pid].lives);
        let lost = Event::Input { pid, life, input: Input::Row(call, Row::Lost) };
        self.world.at(DATABASE_PATIENCE, lost);
        let share = self.world.weather.database_lost;
        if !self.world.chance(share) {
            let delay = self.world.travel();
            self.world.at(delay, Event::Statement { from: Address { pid, life, call }, statement });
        }
        call
    }
}
