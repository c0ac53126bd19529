//! The newest change sets with the states around them, from which event streams read: those that begin at an earlier index,
//! and those whose clients lag behind.
//!
//! All streams share them, so what they keep in memory does not grow with the number of streams. A stream that lags further
//! behind than this loses its place.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use model::Index;
use model::change::{Change, ChangeSet};
use state::{FollowEvent, Replica, SingleSet, Step};
use telemetry::clock;
use tokio::sync::watch;
use tokio::time::timeout;

use super::shape::{ChangedObject, changed_objects};

/// Number of change sets that are kept for streams that begin later, the reference's default. The change sets of one step
/// stay together.
const CHANGE_SETS_MAX: usize = 100;
/// Maximum memory of the change sets that are kept for streams that begin later, in bytes. Beyond it, only the newest ones
/// are kept.
const BYTES_MAX: usize = 40 << 20;
/// Maximum memory of all kept change sets if a stream lags behind, in bytes.
const BEHIND_BYTES_MAX: usize = 256 << 20;
/// Time after which a change set is not kept for streams that lag behind.
const BEHIND_MAX: Duration = Duration::from_secs(40);
/// Memory that a changed object takes. The states before and after a change set each hold the changed rows and their
/// neighbours: some kilobytes for each allocation, and one change set may change ten thousand.
const OBJECT_BYTES: usize = 4 << 10;
/// A job whose groups are decoded takes four times the memory of the encoded form, beside that.
const JOB_BYTES_PER_ENCODED: usize = 5;
/// How long a new stream waits until the change sets that are in the replica have arrived here.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(5);

/// One change set, with the objects that it changed.
#[derive(Debug, Clone)]
pub(super) struct Changed {
    pub(super) one: SingleSet,
    pub(super) objects: Arc<[ChangedObject]>,
}

/// Why a reader cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    /// The next change set is not kept any more.
    Behind,
    /// The replica was loaded again, so that the changes in between are unknown.
    Reloaded,
}

/// A kept step.
#[derive(Debug, Clone)]
struct KeptStep {
    step: Step,
    /// Memory that it takes, in bytes.
    bytes: usize,
    /// When it arrived.
    at: Instant,
    /// Its change sets with their objects, made for the first reader.
    changed: Arc<OnceLock<Vec<Changed>>>,
}

impl KeptStep {
    /// The first change set after an index.
    fn after(&self, index: Index) -> Option<&Changed> {
        let changed = self.changed.get_or_init(|| {
            let ones = self.step.one_by_one().iter();
            ones.map(|one| Changed { one: one.clone(), objects: changed_objects(&one.set).into() }).collect()
        });
        changed.iter().find(|changed| changed.one.set.index > index)
    }
}

/// The kept steps, the oldest first.
#[derive(Debug, Default)]
struct Window {
    steps: VecDeque<KeptStep>,
    bytes: usize,
    /// Last index that arrived.
    last: Index,
    /// Number of times that the replica was loaded.
    loads: u64,
    /// The index that each reader has reached.
    readers: BTreeMap<u64, Index>,
    next_reader: u64,
}

impl Window {
    fn push(&mut self, step: Step, now: Instant) {
        let bytes = step.sets.iter().map(|set| bytes(set)).sum();
        self.last = step.after.index();
        self.bytes += bytes;
        self.steps.push_back(KeptStep { step, bytes, at: now, changed: Arc::default() });
        while self.steps.len() > 1 && !self.is_oldest_needed(now) {
            let gone = self.steps.pop_front();
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
        if let Some(oldest) = self.steps.front() {
            let before = oldest.step.before.index();
            // Nothing is kept for readers that have lost their place.
            self.readers.retain(|_, reached| *reached >= before);
        }
    }

    fn is_oldest_needed(&self, now: Instant) -> bool {
        let Some(oldest) = self.steps.front() else { return false };
        let end = oldest.step.after.index();
        let is_recent = self.bytes <= BYTES_MAX && end.0 + CHANGE_SETS_MAX as u64 > self.last.0;
        let is_waited_for = self.readers.values().any(|reached| *reached < end);
        let may_wait =
            self.bytes <= BEHIND_BYTES_MAX && now.saturating_duration_since(oldest.at) <= BEHIND_MAX;
        is_recent || (is_waited_for && may_wait)
    }

    fn reset(&mut self, index: Index) {
        let (loads, next_reader) = (self.loads + 1, self.next_reader);
        *self = Self { last: index, loads, next_reader, ..Self::default() };
    }

    /// The step with the first change set after an index; `None` if it has not arrived.
    fn after(&self, index: Index) -> Result<Option<&KeptStep>, Lost> {
        let position = self.steps.partition_point(|kept| kept.step.after.index() <= index);
        let found = self.steps.get(position);
        let is_gap = found.map_or(index < self.last, |kept| kept.step.before.index() > index);
        if is_gap { Err(Lost::Behind) } else { Ok(found) }
    }
}

/// Memory that a change set takes with the states around it, in bytes.
fn bytes(set: &ChangeSet) -> usize {
    set.changes
        .iter()
        .map(|change| {
            #[allow(clippy::wildcard_enum_match_arm, reason = "other changes affect one small object")]
            match change {
                Change::AllocsPlaced(placed) => placed.len() * OBJECT_BYTES,
                Change::AllocsChanged(changed) => changed.ids.len() * OBJECT_BYTES,
                Change::AllocsDeleted(ids) => ids.len() * OBJECT_BYTES,
                Change::NodesChanged(changed) => changed.ids.len() * OBJECT_BYTES,
                Change::EvalsChanged(changed) => changed.ids.len() * OBJECT_BYTES,
                Change::EvalsDeleted(ids) => ids.len() * OBJECT_BYTES,
                Change::Job(job) => {
                    OBJECT_BYTES + job.spec.task_groups.encoded_bytes() * JOB_BYTES_PER_ENCODED
                }
                Change::JobSubmission(submission) => OBJECT_BYTES + submission.source.size(),
                _ => OBJECT_BYTES,
            }
        })
        .sum()
}

/// The newest change sets of a replica.
#[derive(Debug)]
pub(crate) struct RecentChanges {
    window: Mutex<Window>,
    reached: watch::Sender<Index>,
}

impl Default for RecentChanges {
    fn default() -> Self {
        Self { window: Mutex::default(), reached: watch::Sender::new(Index::ZERO) }
    }
}

impl RecentChanges {
    /// Follows a replica for as long as the future is polled.
    pub(crate) async fn follow(self: Arc<Self>, replica: Arc<Replica>) {
        let mut follower = replica.follow();
        loop {
            let index = match follower.next().await {
                FollowEvent::Reset(state) => {
                    self.window().reset(state.index());
                    state.index()
                }
                FollowEvent::Step(step) => {
                    let index = step.after.index();
                    self.window().push(step, clock::monotonic());
                    index
                }
            };
            self.reached.send_replace(index);
        }
    }

    /// A reader from the change set `first` on, as far back as they are kept; after `now` if `first` is not set.
    pub(super) async fn reader(self: &Arc<Self>, first: Index, now: Index) -> Reader {
        let mut arrivals = self.reached.subscribe();
        // Fails if nothing follows the replica any more, when the process ends.
        let _ = timeout(CATCH_UP_TIMEOUT, arrivals.wait_for(|reached| *reached >= now)).await;
        let mut window = self.window();
        let oldest = window.steps.front().map_or(window.last, |kept| kept.step.before.index());
        let reached = match first.0.checked_sub(1) {
            Some(before) => Index(before).max(oldest).min(now),
            None => now,
        };
        let id = window.next_reader;
        window.next_reader += 1;
        window.readers.insert(id, reached);
        let loads = window.loads;
        drop(window);
        Reader { changes: Arc::clone(self), arrivals, id, loads, reached }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        // A panic while the lock is held leaves no partial update behind.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads change set by change set. Until it is dropped, what it has not read is kept, within limits.
#[derive(Debug)]
pub(super) struct Reader {
    changes: Arc<RecentChanges>,
    arrivals: watch::Receiver<Index>,
    id: u64,
    loads: u64,
    reached: Index,
}

impl Reader {
    /// The next change set. Cancel safe.
    pub(super) async fn next(&mut self) -> Result<Changed, Lost> {
        loop {
            // What arrives from here on wakes this reader.
            self.arrivals.mark_unchanged();
            if let Some(changed) = self.take()? {
                return Ok(changed);
            }
            if self.arrivals.changed().await.is_err() {
                // Nothing arrives any more, because the process ends.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The next change set if it has arrived.
    fn take(&mut self) -> Result<Option<Changed>, Lost> {
        let kept = {
            let window = self.changes.window();
            if window.loads != self.loads {
                return Err(Lost::Reloaded);
            }
            window.after(self.reached)?.cloned()
        };
        // The states in between may have to be made, so the lock is not held meanwhile.
        let Some(changed) = kept.as_ref().and_then(|kept| kept.after(self.reached)).cloned() else {
            return Ok(None);
        };
        self.reached = changed.one.set.index;
        if let Some(reached) = self.changes.window().readers.get_mut(&self.id) {
            *reached = self.reached;
        }
        Ok(Some(changed))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.changes.window().readers.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use model::change::EvalsChanged;
    use model::{EvalId, RequestId};
    use state::State;

    use super::*;
    use crate::testing;

    /// Number of objects that fill the memory for streams that begin later.
    const MANY: usize = BYTES_MAX / OBJECT_BYTES;

    /// A step that changes `objects` objects.
    fn step(before: &Arc<State>, objects: usize) -> Step {
        let ids = (0..objects).map(|n| EvalId::derived(RequestId::from_bytes([1; 16]), n as u32)).collect();
        let changes = vec![Change::EvalsChanged(EvalsChanged { ids, ..EvalsChanged::default() })];
        let set = testing::set(before.index().next().0, changes);
        let mut after = State::clone(before);
        after.apply(&set).unwrap();
        Step::new(Arc::clone(before), vec![set.into()], after.into())
    }

    struct Scene {
        changes: Arc<RecentChanges>,
        state: Arc<State>,
        now: Instant,
    }

    impl Scene {
        fn new() -> Self {
            let state = Arc::new(testing::state_of(Vec::new()));
            let changes = Arc::<RecentChanges>::default();
            changes.window().last = state.index();
            changes.reached.send_replace(state.index());
            Self { changes, state, now: clock::monotonic() }
        }

        fn push(&mut self, objects: usize) {
            let step = step(&self.state, objects);
            self.state = Arc::clone(&step.after);
            self.changes.window().push(step, self.now);
            self.changes.reached.send_replace(self.state.index());
        }

        fn kept(&self) -> usize {
            let window = self.changes.window();
            assert_eq!(window.bytes, window.steps.iter().map(|kept| kept.bytes).sum::<usize>());
            window.steps.len()
        }

        async fn reader(&self, first: u64) -> Reader {
            self.changes.reader(Index(first), self.state.index()).await
        }
    }

    fn kept_of(steps: &[usize]) -> usize {
        let mut scene = Scene::new();
        steps.iter().for_each(|objects| scene.push(*objects));
        scene.kept()
    }

    #[test]
    fn a_hundred_are_kept_unless_they_are_large() {
        assert_eq!(kept_of(&[1; 99]), 99);
        assert_eq!(kept_of(&[1; 250]), CHANGE_SETS_MAX);
        assert_eq!(kept_of(&[MANY / 4; 9]), 4);
        assert_eq!(kept_of(&[1, 1, MANY + 1]), 1, "the newest step is always kept");
        assert_eq!(kept_of(&[MANY + 1, 1, 1]), 2);
    }

    #[tokio::test]
    async fn readers_begin_where_they_want_as_far_as_it_is_kept() {
        let mut scene = Scene::new();
        (0..250).for_each(|_| scene.push(1));
        let last = scene.state.index().0;
        let first_read = async |first| {
            let mut reader = scene.reader(first).await;
            reader.take().unwrap().map(|changed| changed.one.set.index.0)
        };
        assert_eq!(first_read(last - 5).await, Some(last - 5));
        assert_eq!(first_read(1).await, Some(last - 99), "the oldest that is kept");
        assert_eq!(first_read(0).await, None);
        assert_eq!(first_read(last + 7).await, None);
    }

    #[tokio::test]
    async fn change_sets_for_slow_readers_are_kept_within_limits() {
        let mut scene = Scene::new();
        let (mut slow, mut stopped) = (scene.reader(0).await, scene.reader(0).await);
        (0..250).for_each(|_| scene.push(1));
        assert_eq!(scene.kept(), 250, "longer than for new readers");
        for expected in 3..200 {
            assert_eq!(slow.next().await.unwrap().one.set.index, Index(expected));
        }
        (0..3).for_each(|_| scene.push(MANY));
        assert_eq!(scene.kept(), 253);
        scene.now += BEHIND_MAX + Duration::from_secs(1);
        scene.push(1);
        assert_eq!(scene.kept(), 1, "too late for both");
        assert_eq!(slow.next().await.unwrap_err(), Lost::Behind);
        assert_eq!(stopped.next().await.unwrap_err(), Lost::Behind);
        scene.push(1);
        assert_eq!(scene.kept(), 2, "nothing is kept for them any more");

        let late = scene.reader(0).await;
        (0..9).for_each(|_| scene.push(MANY));
        assert!(scene.kept() <= BEHIND_BYTES_MAX / BYTES_MAX + 1, "memory is limited, too");
        drop((slow, stopped, late));
        assert!(scene.changes.window().readers.is_empty());
    }

    #[tokio::test]
    async fn a_reload_ends_readers() {
        let mut scene = Scene::new();
        let mut reader = scene.reader(0).await;
        scene.push(1);
        scene.changes.window().reset(Index(40));
        assert_eq!(reader.next().await.unwrap_err(), Lost::Reloaded);
    }
}
