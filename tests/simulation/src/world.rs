//! The environment of the processes: virtual time, messages in flight, and the faults of processes, network and
//! database. One seed determines one history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Index, Nanos, RequestId, Timestamp};
use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use state::State;

use crate::checks::Checks;
use crate::database::Database;
use crate::disk::Disk;
use crate::messages::{Address, Body, DbReply, Input, Message, Pid, Reply, Statement, Subject, Timer};

/// Wall-clock time at which every history begins.
pub(crate) const BEGINNING: Timestamp = Timestamp::from_secs(1_767_225_600);
/// Usual delay of a message, and the delay of one that the fault `delayed` hits, as ranges in nanoseconds.
const DELAY_SHORT: (i64, i64) = (50_000, 2_000_000);
const DELAY_LONG: (i64, i64) = (2_000_000, 1_500_000_000);
/// How long a process waits for a reply of the database.
const DATABASE_TIMEOUT: Nanos = Nanos::from_secs(1);

/// A simulated process: it handles inputs and acts through `ctx`.
pub(crate) trait Process {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>);

    /// Returns the part of the process that outlives it on disk.
    fn into_disk(self: Box<Self>) -> Disk;

    /// The state of the process's replica, if it has one.
    fn replica(&self) -> Option<&Arc<State>> {
        None
    }
}

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunState {
    Running,
    /// Stopped as by SIGSTOP: inputs wait until it is resumed, and so does what it was about to send.
    Stopped,
    Dead,
}

/// The probability of each kind of fault, from 0 to 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Faults {
    pub(crate) lost: f64,
    pub(crate) duplicated: f64,
    pub(crate) delayed: f64,
    pub(crate) database_lost: f64,
    pub(crate) database_fails: f64,
}

impl Faults {
    pub(crate) const NONE: Self =
        Self { lost: 0.0, duplicated: 0.0, delayed: 0.0, database_lost: 0.0, database_fails: 0.0 };
}

/// The slot of one process, which can be started several times.
pub(crate) struct Slot {
    pub(crate) run_state: RunState,
    /// How often the process was started.
    pub(crate) incarnation: u32,
    process: Option<Box<dyn Process>>,
    /// Offset of the process's wall clock.
    pub(crate) skew: Nanos,
    /// Whether the process is cut off from the network.
    pub(crate) is_cut: bool,
    /// Whether the process is stopped when it has handled its next input, before it sends anything.
    is_to_stall: bool,
    waiting: Vec<Input>,
    /// What a process that stalled was about to send.
    held: Vec<Outgoing>,
}

/// What a process sends to NATS or to the database.
enum Outgoing {
    Subscribe(Subject),
    Unsubscribe(Subject),
    Message(Subject, Message),
    Answer(Address, Reply),
    Statement(Address, Statement),
}

/// How often processes stalled and clocks jumped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct FaultCounts {
    pub(crate) stalls: u64,
    pub(crate) jumps: u64,
}

enum Event {
    Input { pid: Pid, incarnation: u32, input: Input },
    Statement { from: Address, statement: Statement },
}

/// All state of the simulation except that inside the processes.
pub(crate) struct World {
    pub(crate) now: Nanos,
    pub(crate) rng: StdRng,
    pub(crate) faults: Faults,
    pub(crate) counts: FaultCounts,
    pub(crate) database: Database,
    pub(crate) checks: Checks,
    pub(crate) slots: Vec<Slot>,
    /// The processes that are subscribed to each subject.
    subscriptions: BTreeSet<(Subject, Pid)>,
    events: BTreeMap<(Nanos, u64), Event>,
    last_number: u64,
    epoch: Instant,
}

/// The environment of a process while it handles an input.
pub(crate) struct Ctx<'a> {
    pub(crate) world: &'a mut World,
    pub(crate) pid: Pid,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            now: Nanos::ZERO,
            rng: StdRng::seed_from_u64(seed),
            faults: Faults::NONE,
            counts: FaultCounts::default(),
            database: Database::new(),
            checks: Checks::default(),
            slots: Vec::new(),
            subscriptions: BTreeSet::new(),
            events: BTreeMap::new(),
            last_number: 0,
            epoch: telemetry::clock::monotonic(),
        }
    }

    /// Adds a slot for a process.
    pub(crate) fn add(&mut self, skew: Nanos) -> Pid {
        self.slots.push(Slot {
            run_state: RunState::Dead,
            incarnation: 0,
            process: None,
            skew,
            is_cut: false,
            is_to_stall: false,
            waiting: Vec::new(),
            held: Vec::new(),
        });
        self.slots.len() - 1
    }

    /// Starts a process in its slot.
    pub(crate) fn start(&mut self, pid: Pid, process: Box<dyn Process>) {
        let slot = &mut self.slots[pid];
        slot.process = Some(process);
        slot.run_state = RunState::Running;
        slot.incarnation += 1;
        let incarnation = slot.incarnation;
        self.enqueue(Nanos::ZERO, Event::Input { pid, incarnation, input: Input::Start });
    }

    /// Kills a process as `kill -9` does. Returns what it leaves on disk.
    pub(crate) fn kill(&mut self, pid: Pid) -> Option<Disk> {
        let slot = &mut self.slots[pid];
        slot.run_state = RunState::Dead;
        slot.is_to_stall = false;
        slot.waiting.clear();
        slot.held.clear();
        self.subscriptions.retain(|(_, other)| *other != pid);
        slot.process.take().map(Process::into_disk)
    }

    pub(crate) fn stop(&mut self, pid: Pid) {
        if self.slots[pid].run_state == RunState::Running {
            self.slots[pid].run_state = RunState::Stopped;
        }
    }

    /// Stops a process while it handles its next input: it has decided, and sends nothing before it is resumed.
    pub(crate) fn stall(&mut self, pid: Pid) {
        let slot = &mut self.slots[pid];
        slot.is_to_stall = slot.run_state == RunState::Running;
    }

    /// Lets the wall clock of a process's host jump.
    pub(crate) fn jump(&mut self, pid: Pid, to: Nanos) {
        self.slots[pid].skew = to;
        self.counts.jumps += 1;
    }

    /// Resumes a process that was stopped or stalled, or was to stall.
    pub(crate) fn resume(&mut self, pid: Pid) {
        let slot = &mut self.slots[pid];
        slot.is_to_stall = false;
        if slot.run_state != RunState::Stopped {
            return;
        }
        slot.run_state = RunState::Running;
        let incarnation = slot.incarnation;
        let (mut waiting, held) = (std::mem::take(&mut slot.waiting), std::mem::take(&mut slot.held));
        held.into_iter().for_each(|outgoing| self.transmit(pid, outgoing));
        // The process may act on its timers before it reads what arrived meanwhile.
        if self.chance(0.5) {
            waiting.sort_by_key(|input| !matches!(input, Input::Timer(_)));
        }
        for input in waiting {
            self.enqueue(Nanos::ZERO, Event::Input { pid, incarnation, input });
        }
    }

    /// The replica of a process that runs.
    pub(crate) fn replica(&self, pid: Pid) -> Option<&Arc<State>> {
        let slot = &self.slots[pid];
        let process = slot.process.as_ref().filter(|_| slot.run_state == RunState::Running);
        process.and_then(|process| process.replica())
    }

    /// Replaces the database with an earlier copy of itself. All connections to it end.
    pub(crate) fn restore_database(&mut self, index: Index) {
        let lost = self.database.restore(index);
        self.checks.restored(index, &lost);
        self.events.retain(|_, event| match event {
            Event::Statement { .. } => false,
            Event::Input { input: Input::DbReply(_, reply), .. } => matches!(reply, DbReply::Lost),
            Event::Input { .. } => true,
        });
    }

    /// Returns true with the probability `share`.
    pub(crate) fn chance(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.random_bool(share)
    }

    /// Returns a random length of time within the bounds, in nanoseconds.
    pub(crate) fn between(&mut self, (min, max): (i64, i64)) -> Nanos {
        Nanos(self.rng.random_range(min..=max))
    }

    /// Time of the database's clock, which is the true time.
    pub(crate) fn wall(&self) -> Timestamp {
        BEGINNING + self.now
    }

    /// Time of the next event.
    pub(crate) fn next_at(&self) -> Option<Nanos> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) {
        let Some(((at, _), event)) = self.events.pop_first() else { return };
        self.now = at;
        match event {
            Event::Input { pid, incarnation, input } => self.input(pid, incarnation, input),
            Event::Statement { from, statement } => self.statement(from, statement),
        }
    }

    fn input(&mut self, pid: Pid, incarnation: u32, input: Input) {
        let slot = &mut self.slots[pid];
        if slot.incarnation != incarnation {
            return;
        }
        match slot.run_state {
            RunState::Dead => {}
            RunState::Stopped => slot.waiting.push(input),
            RunState::Running => {
                let Some(mut process) = slot.process.take() else { return };
                if std::mem::take(&mut slot.is_to_stall) {
                    slot.run_state = RunState::Stopped;
                    self.counts.stalls += 1;
                }
                process.handle(input, &mut Ctx { world: self, pid });
                self.slots[pid].process = Some(process);
            }
        }
    }

    fn statement(&mut self, from: Address, statement: Statement) {
        let fails = self.faults.database_fails;
        let row = if self.chance(fails) {
            DbReply::Failed
        } else {
            let now = self.wall();
            self.database.execute(statement, now, &mut self.checks)
        };
        let lost = self.faults.database_lost;
        if !self.chance(lost) {
            let delay = self.network_delay();
            self.enqueue(
                delay,
                Event::Input {
                    pid: from.pid,
                    incarnation: from.incarnation,
                    input: Input::DbReply(from.call, row),
                },
            );
        }
    }

    fn enqueue(&mut self, delay: Nanos, event: Event) {
        self.last_number += 1;
        self.events.insert((self.now + delay, self.last_number), event);
    }

    fn network_delay(&mut self) -> Nanos {
        let delayed = self.faults.delayed;
        let range = if self.chance(delayed) { DELAY_LONG } else { DELAY_SHORT };
        self.between(range)
    }

    /// Sends what a process has to send.
    fn transmit(&mut self, pid: Pid, outgoing: Outgoing) {
        match outgoing {
            Outgoing::Subscribe(subject) => {
                self.subscriptions.insert((subject, pid));
            }
            Outgoing::Unsubscribe(subject) => {
                self.subscriptions.remove(&(subject, pid));
            }
            Outgoing::Message(subject, message) => self.deliver(pid, subject, &message),
            Outgoing::Answer(Address { pid: to, incarnation, call }, reply) => {
                self.send(pid, to, incarnation, Input::Reply(call, reply));
            }
            Outgoing::Statement(from, statement) => {
                let share = self.faults.database_lost;
                if !self.chance(share) {
                    let delay = self.network_delay();
                    self.enqueue(delay, Event::Statement { from, statement });
                }
            }
        }
    }

    /// Sends the message to every subscriber. A requester is told if there is none.
    fn deliver(&mut self, pid: Pid, subject: Subject, message: &Message) {
        let all = self.subscriptions.range((subject, 0)..=(subject, Pid::MAX));
        let all: Vec<Pid> = all.map(|(_, pid)| *pid).filter(|other| *other != pid).collect();
        for to in &all {
            let incarnation = self.slots[*to].incarnation;
            self.send(pid, *to, incarnation, Input::Message(message.clone()));
        }
        if let Some(Address { incarnation, call, .. }) = message.from
            && all.is_empty()
            && !self.slots[pid].is_cut
        {
            let delay = self.network_delay();
            let input = Input::Reply(call, Reply::NoResponders);
            self.enqueue(delay, Event::Input { pid, incarnation, input });
        }
    }

    /// Sends an input over the network, which may lose, delay or duplicate it.
    fn send(&mut self, from: Pid, to: Pid, incarnation: u32, input: Input) {
        let Faults { lost, duplicated, .. } = self.faults;
        if self.slots[from].is_cut || self.slots[to].is_cut || self.chance(lost) {
            return;
        }
        let delay = self.network_delay();
        if self.chance(duplicated) {
            let later = self.network_delay();
            self.enqueue(later, Event::Input { pid: to, incarnation, input: input.clone() });
        }
        self.enqueue(delay, Event::Input { pid: to, incarnation, input });
    }
}

impl Ctx<'_> {
    /// The process's wall clock.
    pub(crate) fn wall(&self) -> Timestamp {
        self.world.wall() + self.world.slots[self.pid].skew
    }

    /// The process's steady clock, which is never set.
    pub(crate) fn steady(&self) -> Timestamp {
        self.world.wall()
    }

    /// The process's monotonic clock.
    pub(crate) fn monotonic(&self) -> Instant {
        self.world.epoch + Duration::from_nanos(self.world.now.0.unsigned_abs())
    }

    /// Returns a unique number.
    pub(crate) fn number(&mut self) -> u64 {
        self.world.last_number += 1;
        self.world.last_number
    }

    pub(crate) fn id(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.world.rng.fill_bytes(&mut bytes);
        bytes
    }

    /// Makes a request id that holds the cluster's time, as every sender does.
    pub(crate) fn request_id(&mut self) -> RequestId {
        let millis = u64::try_from(self.world.wall().0 / Nanos::MILLISECOND.0).unwrap_or_default();
        let [random @ .., _, _, _, _, _, _] = self.id();
        RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    pub(crate) fn timer(&mut self, delay: Nanos, timer: Timer) {
        let (pid, incarnation) = (self.pid, self.world.slots[self.pid].incarnation);
        self.world.enqueue(delay, Event::Input { pid, incarnation, input: Input::Timer(timer) });
    }

    pub(crate) fn subscribe(&mut self, subject: Subject) {
        self.send(Outgoing::Subscribe(subject));
    }

    pub(crate) fn unsubscribe(&mut self, subject: Subject) {
        self.send(Outgoing::Unsubscribe(subject));
    }

    /// Sends a request to the subscribers. The reply arrives as [`Input::Reply`] with the returned number.
    pub(crate) fn request(&mut self, subject: Subject, body: Body, within: Nanos) -> u64 {
        let from = self.address();
        let Address { pid, incarnation, call } = from;
        let timed_out = Event::Input { pid, incarnation, input: Input::Reply(call, Reply::TimedOut) };
        self.world.enqueue(within, timed_out);
        self.send(Outgoing::Message(subject, Message { from: Some(from), body }));
        call
    }

    pub(crate) fn publish(&mut self, subject: Subject, body: Body) {
        self.send(Outgoing::Message(subject, Message { from: None, body }));
    }

    pub(crate) fn answer(&mut self, to: Option<Address>, reply: Reply) {
        if let Some(to) = to {
            self.send(Outgoing::Answer(to, reply));
        }
    }

    /// Sends a statement to the database. The reply arrives as [`Input::DbReply`] with the returned number; it is
    /// [`DbReply::Lost`] if none arrives in time.
    pub(crate) fn database(&mut self, statement: Statement) -> u64 {
        let from = self.address();
        let Address { pid, incarnation, call } = from;
        let lost = Event::Input { pid, incarnation, input: Input::DbReply(call, DbReply::Lost) };
        self.world.enqueue(DATABASE_TIMEOUT, lost);
        self.send(Outgoing::Statement(from, statement));
        call
    }

    /// The address for the reply to a new call of this process.
    fn address(&mut self) -> Address {
        let call = self.number();
        Address { pid: self.pid, incarnation: self.world.slots[self.pid].incarnation, call }
    }

    /// Sends something, or holds it if the process has stalled.
    fn send(&mut self, outgoing: Outgoing) {
        let slot = &mut self.world.slots[self.pid];
        if slot.run_state == RunState::Stopped {
            slot.held.push(outgoing);
        } else {
            self.world.transmit(self.pid, outgoing);
        }
    }
}
