//! [`Queue`]: commands that wait to be judged, and the selection of those for the next batch (`docs/architecture/commit-path.md`).
//!
//! There are three classes: commands of the node-tracker, plans by priority, and the rest. Commands of one class keep the
//! order of their arrival, except for plans. All commands about one node, or from one singleton, are in one class, so their
//! order never changes. Each class with waiting commands gets at least a quarter of every batch, so that no flood of
//! commands in one class starves the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use wire::command::Class;

/// Maximum number of waiting commands. Further ones are told to retry.
pub(crate) const WAITING_MAX: usize = 16_384;
/// Maximum size of all waiting commands, in bytes.
pub(crate) const WAITING_BYTES_MAX: usize = 256 << 20;
/// Approximate size of the commands in a batch, in bytes. The first command of each class may have any size.
const BATCH_BYTES: usize = 4 << 20;
/// Maximum number of commands in a batch.
const BATCH_COMMANDS_MAX: usize = 1024;
/// Approximate maximum size of the change sets of a batch, in bytes. A small command can have large consequences, such as
/// one for a node with many allocations. The last command of a batch may exceed the limit.
const BATCH_WRITTEN_MAX: usize = 16 << 20;
/// A plan that was passed over by this many batches is next, whatever its priority.
const PASSED_OVER_MAX: u64 = 4;

/// The queue has no room for another command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Full;

/// A waiting item with its size.
#[derive(Debug)]
struct Waiting<T> {
    bytes: usize,
    item: T,
}

/// Commands that wait to be judged, as items of any type.
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

    /// The size of all waiting commands, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a command with a size of `bytes`.
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

    /// Takes the commands for a batch with this budget, and passes each to `judge`, which returns the size of what it
    /// writes. Returns what is left of the budget.
    pub(crate) fn take(&mut self, budget: Budget, mut judge: impl FnMut(T) -> usize) -> Budget {
        let lanes: [&mut dyn Lane<T>; 3] = [&mut self.nodes, &mut self.plans, &mut self.rest];
        let mut lanes = lanes.map(|lane| (lane, false));
        let mut left = budget;
        let (len, bytes) = (&mut self.len, &mut self.bytes);
        let mut take = |waiting: Waiting<T>| {
            *len -= 1;
            *bytes -= waiting.bytes;
            judge(waiting.item)
        };
        // First, each class takes its guaranteed share. Then the remaining budget is filled, beginning with the most urgent
        // class.
        for (lane, has_taken) in &mut lanes {
            fill(*lane, has_taken, budget.share(), &mut left, &mut take);
        }
        for (lane, has_taken) in &mut lanes {
            fill(*lane, has_taken, left, &mut left, &mut take);
        }
        self.plans.batch += 1;
        left
    }
}

/// How much more a batch may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Bytes of commands.
    bytes: usize,
    /// Number of commands.
    commands: usize,
    /// Bytes of change sets.
    written: usize,
}

impl Budget {
    /// The budget of an empty batch.
    pub(crate) const FULL: Self =
        Self { bytes: BATCH_BYTES, commands: BATCH_COMMANDS_MAX, written: BATCH_WRITTEN_MAX };

    /// The guaranteed share of one class.
    fn share(self) -> Self {
        Self { bytes: self.bytes / 4, commands: self.commands / 4, written: self.written / 4 }
    }

    /// Subtracts one command with a size of `bytes`, which wrote `written` bytes.
    fn spend(&mut self, bytes: usize, written: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        self.commands = self.commands.saturating_sub(1);
        self.written = self.written.saturating_sub(written);
    }

    /// Whether nothing is left.
    pub(crate) fn is_exhausted(self) -> bool {
        self.bytes == 0 || self.commands == 0 || self.written == 0
    }
}

/// The waiting commands of one class, in their order.
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

/// Takes commands from a lane within `allowed`. The first command is always taken, so that every class makes progress.
fn fill<T>(
    lane: &mut dyn Lane<T>,
    has_taken: &mut bool,
    mut allowed: Budget,
    left: &mut Budget,
    take: &mut dyn FnMut(Waiting<T>) -> usize,
) {
    while let Some(bytes) = lane.next_bytes() {
        let fits = bytes <= allowed.bytes && allowed.commands > 0 && allowed.written > 0;
        if !fits && *has_taken {
            return;
        }
        let Some(waiting) = lane.pop() else { return };
        let written = take(waiting);
        allowed.spend(bytes, written);
        left.spend(bytes, written);
        *has_taken = true;
    }
}

/// The order of plans: by priority, then by arrival.
type PlanKey = (Reverse<u16>, u64);

/// Plans by priority, which also counts the batches that passed over each.
#[derive(Debug)]
struct Plans<T> {
    /// With the number of the next batch at the plan's arrival.
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
        let (arrived, _) = self.waiting.get(oldest)?;
        if self.batch - arrived >= PASSED_OVER_MAX {
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
        take_that_write(queue, 0)
    }

    /// Takes a batch of commands that write `written` bytes each.
    fn take_that_write<T>(queue: &mut Queue<T>, written: usize) -> Vec<T> {
        let mut taken = Vec::new();
        queue.take(Budget::FULL, |item| {
            taken.push(item);
            written
        });
        taken
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
    fn a_batch_is_bounded_in_what_it_writes_but_every_class_goes_on() {
        let mut queue = Queue::new();
        for _ in 0..100 {
            queue.push(Class::Nodes, 1, "node").unwrap();
            queue.push(Class::Rest, 1, "rest").unwrap();
        }
        let batch = take_that_write(&mut queue, BATCH_WRITTEN_MAX / 8);
        let count = |name| batch.iter().filter(|found| **found == name).count();
        assert_eq!((count("node"), count("rest")), (6, 2));
        assert_eq!(take_that_write(&mut queue, BATCH_WRITTEN_MAX), ["node", "rest"]);
        assert_eq!(queue.bytes(), queue.len());
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
    fn waiting_commands_are_bounded() {
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
