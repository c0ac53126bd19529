//! Commands that wait for their batch, and which of them come into the next one (design §4, *Commit*).
//!
//! Three classes: what the node-tracker says, plans by priority, and the rest. Inside a class commands keep the order
//! in which they came, plans aside, and commands of one node or of one singleton are all of one class: so their order
//! never changes. Each class with something waiting gets at least a quarter of every batch, so that no flood starves
//! the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use wire::command::Command;

/// The most commands that wait; more are told to come again.
pub(crate) const WAITING_MAX: usize = 16_384;
/// The most bytes of commands that wait.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 20;
/// About how many bytes of commands one batch takes. Each class may begin with one command of whatever size.
const BATCH_BYTES: usize = 4 << 20;
/// The most commands of one batch.
const BATCH_COMMANDS_MAX: usize = 1024;
/// A plan that was passed over by so many batches is next, whatever its priority.
const PASSED_OVER_MAX: u64 = 4;

/// Which commands share an order and a share of each batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// What the node-tracker says, and what else is about nodes.
    Nodes,
    /// Plans; those of higher priority come first.
    Plans {
        /// The evaluation's priority.
        priority: u16,
    },
    /// Everything else.
    Rest,
}

impl Class {
    /// The class of a command.
    pub(crate) fn of(command: &Command) -> Self {
        match command {
            Command::RegisterNode(_)
            | Command::UpdateNodes(_)
            | Command::ReportAllocs(_)
            | Command::DeregisterNodes(_)
            | Command::SetEligibility(_)
            | Command::EvaluateNode(_) => Self::Nodes,
            Command::SubmitPlan(submit) => Self::Plans { priority: submit.plan.priority },
            Command::RegisterJob(_)
            | Command::DeregisterJob(_)
            | Command::EvaluateJob(_)
            | Command::Transition(_)
            | Command::UpdateEvals(_)
            | Command::DeleteEvals(_)
            | Command::UpdateDeployments(_)
            | Command::FailDeployment(_)
            | Command::CollectGarbage(_)
            | Command::SetNamespace(_)
            | Command::DeleteNamespace(_)
            | Command::SetNodePool(_)
            | Command::DeleteNodePool(_)
            | Command::SetSchedulerConfig(_)
            | Command::AddRootKey(_)
            | Command::TakeLease(_) => Self::Rest,
        }
    }
}

/// No room for another command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// Something that waits, and how many bytes it came in.
#[derive(Debug)]
struct Waiting<T> {
    bytes: usize,
    item: T,
}

/// Commands, or whatever stands for them, that wait.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    nodes: VecDeque<Waiting<T>>,
    plans: Plans<T>,
    rest: VecDeque<Waiting<T>>,
    len: usize,
    bytes: usize,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Self {
        Self { nodes: VecDeque::new(), plans: Plans::new(), rest: VecDeque::new(), len: 0, bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many of them are plans.
    pub(crate) fn plans(&self) -> usize {
        self.plans.waiting.len()
    }

    /// How many bytes those that wait came in.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a command that came in `bytes`.
    pub(crate) fn push(&mut self, class: Class, bytes: usize, item: T) -> Result<(), Full> {
        if self.len >= WAITING_MAX || (self.bytes + bytes > WAITING_BYTES_MAX && !self.is_empty()) {
            return Err(Full);
        }
        self.len += 1;
        self.bytes += bytes;
        let waiting = Waiting { bytes, item };
        match class {
            Class::Nodes => self.nodes.push_back(waiting),
            Class::Plans { priority } => self.plans.push(priority, waiting),
            Class::Rest => self.rest.push_back(waiting),
        }
        Ok(())
    }

    /// Takes what comes into a batch with so much room, in the order in which it is to be judged, each with its bytes.
    pub(crate) fn take(&mut self, room: Room) -> Vec<(usize, T)> {
        let lanes: [&mut dyn Lane<T>; 3] = [&mut self.nodes, &mut self.plans, &mut self.rest];
        let mut lanes = lanes.map(|lane| (lane, Vec::new()));
        let mut left = room;
        // First what each class has a right to, then what is left over, the most urgent class first.
        for (lane, taken) in &mut lanes {
            fill(*lane, taken, Room { bytes: room.bytes / 4, commands: room.commands / 4 }, &mut left);
        }
        for (lane, taken) in &mut lanes {
            fill(*lane, taken, left, &mut left);
        }
        let batch: Vec<_> = lanes.into_iter().flat_map(|(_, taken)| taken).collect();
        self.plans.batch += 1;
        self.len -= batch.len();
        self.bytes -= batch.iter().map(|waiting| waiting.bytes).sum::<usize>();
        batch.into_iter().map(|waiting| (waiting.bytes, waiting.item)).collect()
    }
}

/// How much a batch still takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    /// Bytes of commands.
    pub(crate) bytes: usize,
    /// Commands.
    pub(crate) commands: usize,
}

impl Room {
    /// That of an empty batch.
    pub(crate) const ALL: Self = Self { bytes: BATCH_BYTES, commands: BATCH_COMMANDS_MAX };

    /// Less one command of so many bytes.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.commands = self.commands.saturating_sub(1);
    }

    /// Whether there is none.
    pub(crate) fn is_used_up(self) -> bool {
        self.bytes == 0 || self.commands == 0
    }
}

/// The commands of one class, in their order.
trait Lane<T> {
    fn next_bytes(&self) -> Option<usize>;
    fn pop(&mut self) -> Option<Waiting<T>>;
}

impl<T> Lane<T> for VecDeque<Waiting<T>> {
    fn next_bytes(&self) -> Option<usize> {
        self.front().map(|waiting| waiting.bytes)
    }

    fn pop(&mut self) -> Option<Waiting<T>> {
        self.pop_front()
    }
}

/// Takes from a lane for as long as `allowed` lasts. The first command always fits: one must, or nothing goes on.
fn fill<T>(lane: &mut dyn Lane<T>, taken: &mut Vec<Waiting<T>>, mut allowed: Room, left: &mut Room) {
    while let Some(bytes) = lane.next_bytes() {
        let fits = bytes <= allowed.bytes && allowed.commands > 0;
        if !fits && !taken.is_empty() {
            return;
        }
        let Some(waiting) = lane.pop() else { return };
        allowed.take(bytes);
        left.take(bytes);
        taken.push(waiting);
    }
}

/// Where a plan stands among the others: by priority, and by arrival where that is the same.
type PlanKey = (Reverse<u16>, u64);

/// Plans by priority, with an eye on those that were passed over.
#[derive(Debug)]
struct Plans<T> {
    /// With the batch that was the next when the plan came.
    waiting: BTreeMap<PlanKey, (u64, Waiting<T>)>,
    by_arrival: BTreeMap<u64, PlanKey>,
    arrivals: u64,
    batch: u64,
}

impl<T> Plans<T> {
    fn new() -> Self {
        Self { waiting: BTreeMap::new(), by_arrival: BTreeMap::new(), arrivals: 0, batch: 0 }
    }

    fn push(&mut self, priority: u16, waiting: Waiting<T>) {
        let key = (Reverse(priority), self.arrivals);
        self.by_arrival.insert(self.arrivals, key);
        self.waiting.insert(key, (self.batch, waiting));
        self.arrivals += 1;
    }

    fn next(&self) -> Option<PlanKey> {
        let oldest = self.by_arrival.values().next()?;
        let (came, _) = self.waiting.get(oldest)?;
        if self.batch - came >= PASSED_OVER_MAX {
            return Some(*oldest);
        }
        self.waiting.keys().next().copied()
    }
}

impl<T> Lane<T> for Plans<T> {
    fn next_bytes(&self) -> Option<usize> {
        let (_, waiting) = self.waiting.get(&self.next()?)?;
        Some(waiting.bytes)
    }

    fn pop(&mut self) -> Option<Waiting<T>> {
        let key = self.next()?;
        self.by_arrival.remove(&key.1);
        self.waiting.remove(&key).map(|(_, waiting)| waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Class = Class::Plans { priority: 50 };

    fn take<T>(queue: &mut Queue<T>) -> Vec<T> {
        queue.take(Room::ALL).into_iter().map(|(_, item)| item).collect()
    }

    fn queue(commands: &[(Class, usize, &'static str)]) -> Queue<&'static str> {
        let mut queue = Queue::new();
        for (class, bytes, name) in commands {
            queue.push(*class, *bytes, *name).unwrap();
        }
        queue
    }

    #[test]
    fn nodes_come_first_then_plans_by_priority_then_the_rest() {
        let mut queue = queue(&[
            (Class::Rest, 1, "job"),
            (Class::Plans { priority: 10 }, 1, "low"),
            (Class::Plans { priority: 90 }, 1, "high"),
            (Class::Plans { priority: 10 }, 1, "low, later"),
            (Class::Nodes, 1, "report"),
            (Class::Nodes, 1, "expiry"),
        ]);
        assert_eq!(take(&mut queue), ["report", "expiry", "high", "low", "low, later", "job"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn a_flood_in_one_class_leaves_the_others_their_quarter() {
        let mut queue = Queue::new();
        for _ in 0..3 * BATCH_COMMANDS_MAX {
            queue.push(Class::Nodes, 1, "node").unwrap();
            queue.push(Class::Rest, 1, "rest").unwrap();
            queue.push(PLAN, 1, "plan").unwrap();
        }
        let batch = take(&mut queue);
        let count = |name| batch.iter().filter(|found| **found == name).count();
        assert_eq!(batch.len(), BATCH_COMMANDS_MAX);
        assert_eq!(count("node"), BATCH_COMMANDS_MAX / 2);
        assert_eq!(count("plan"), BATCH_COMMANDS_MAX / 4);
        assert_eq!(count("rest"), BATCH_COMMANDS_MAX / 4);
    }

    #[test]
    fn a_batch_is_bounded_in_bytes_but_every_class_goes_on() {
        let huge = wire::envelope::COMMAND_BYTES_MAX;
        let mut queue = queue(&[
            (PLAN, huge, "plan 1"),
            (PLAN, huge, "plan 2"),
            (Class::Rest, huge, "job 1"),
            (Class::Rest, 1, "job 2"),
        ]);
        assert_eq!(take(&mut queue), ["plan 1", "job 1"]);
        assert_eq!(take(&mut queue), ["plan 2", "job 2"]);
    }

    #[test]
    fn a_plan_that_was_passed_over_four_times_is_next() {
        let mut queue = queue(&[(Class::Plans { priority: 1 }, BATCH_BYTES, "patient")]);
        for batch in 0..=PASSED_OVER_MAX {
            queue.push(Class::Plans { priority: 90 }, BATCH_BYTES, "pushy").unwrap();
            let expected = if batch < PASSED_OVER_MAX { "pushy" } else { "patient" };
            assert_eq!(take(&mut queue), [expected], "batch {batch}");
        }
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut queue = Queue::new();
        for n in 0..WAITING_MAX {
            queue.push(Class::Rest, 1, n).unwrap();
        }
        assert_eq!(queue.push(Class::Rest, 1, 0), Err(Full));
        while !queue.is_empty() {
            assert_eq!(take(&mut queue).len(), BATCH_COMMANDS_MAX);
        }
        queue.push(PLAN, WAITING_BYTES_MAX, 1).unwrap();
        assert_eq!(queue.push(PLAN, 1, 2), Err(Full));
    }
}
