//! [`Follower`]: receives the changes of a replica step by step, for services whose cores need the changes and not only the
//! current state.
//!
//! A slow follower does not block the replica. It loses its steps and restarts from the newest state.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use model::change::{Change, ChangeSet};

use crate::follow_queue::{FollowQueue, Next, Subscription};
use crate::tables::{Snapshot, State};

/// Change sets that were committed or received together, with the states before the first and after the last of them. The
/// states in between are not stored; [`Self::one_by_one`] recomputes them.
#[derive(Debug, Clone)]
pub struct Step {
    /// The state before the first change set.
    pub before: Snapshot,
    /// Consecutive change sets, at least one.
    pub sets: Arc<[Arc<ChangeSet>]>,
    /// The state after the last change set.
    pub after: Snapshot,
    /// The result of [`Self::one_by_one`], computed on the first call.
    one_by_one: Arc<OnceLock<Vec<SingleSet>>>,
}

/// One change set of a step, with the states before and after it.
#[derive(Debug, Clone)]
pub struct SingleSet {
    /// The state before the change set.
    pub before: Snapshot,
    /// The change set.
    pub set: Arc<ChangeSet>,
    /// The state after the change set.
    pub after: Snapshot,
}

impl Step {
    /// Creates a step that leads from `before` to `after` by applying `sets`.
    pub fn new(before: Snapshot, sets: Vec<Arc<ChangeSet>>, after: Snapshot) -> Self {
        Self { before, sets: sets.into(), after, one_by_one: Arc::default() }
    }

    /// Merges this step with the steps that follow it.
    fn merge(self, later: &[Self]) -> Self {
        let Some(last) = later.last() else { return self };
        let sets = [&self].into_iter().chain(later).flat_map(|step| step.sets.iter().cloned()).collect();
        Self::new(self.before, sets, Arc::clone(&last.after))
    }

    /// The changes of all change sets, in order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.sets.iter().flat_map(|set| &set.changes)
    }

    /// The change sets one by one, with the states in between. These are recomputed on the first call, and shared by all
    /// clones of the step.
    pub fn one_by_one(&self) -> &[SingleSet] {
        self.one_by_one.get_or_init(|| {
            let mut last = Arc::clone(&self.before);
            let apply = |set: &Arc<ChangeSet>| {
                let after = if set.index == self.after.index() {
                    Arc::clone(&self.after)
                } else {
                    let mut after = State::clone(&last);
                    after.apply(set).expect("the change set was applied to this state before");
                    Arc::new(after)
                };
                let before = std::mem::replace(&mut last, Arc::clone(&after));
                SingleSet { before, set: Arc::clone(set), after }
            };
            self.sets.iter().map(apply).collect()
        })
    }
}

/// An event for a follower.
#[derive(Debug, Clone)]
pub enum FollowEvent {
    /// The follower must discard what it derived from earlier states and restart from this one. The state was loaded again,
    /// or the follower was too slow.
    Reset(Snapshot),
    /// The state advanced.
    Step(Step),
}

/// The newest state and the channel to its followers, shared by a replica and its followers.
#[derive(Debug)]
pub(crate) struct Newest {
    state: ArcSwap<State>,
    /// Held while a new state is computed, so that no two writers start from the same state, and while a follower starts.
    write_lock: Mutex<()>,
    followers: Arc<FollowQueue<FollowEvent>>,
}

impl Newest {
    pub(crate) fn new(state: State) -> Self {
        Self { state: ArcSwap::from_pointee(state), write_lock: Mutex::new(()), followers: Arc::default() }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state.load_full()
    }

    pub(crate) fn write(&self) -> WriteGuard<'_> {
        // The mutex guards no data, so a panic of another writer leaves nothing inconsistent.
        let guard = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        WriteGuard { newest: self, _guard: guard }
    }
}

/// Exclusive permission to replace the newest state.
pub(crate) struct WriteGuard<'a> {
    newest: &'a Newest,
    _guard: MutexGuard<'a, ()>,
}

impl WriteGuard<'_> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.newest.snapshot()
    }

    pub(crate) fn store(&self, state: Snapshot) {
        self.newest.state.store(state);
    }

    /// Whether there are followers. No follower starts while the guard is held.
    pub(crate) fn is_followed(&self) -> bool {
        self.newest.followers.is_followed()
    }

    /// Sends an event to all followers. The caller has already stored the state that the event contains. The encoded change
    /// sets of the event have `bytes` bytes.
    pub(crate) fn send(&self, event: FollowEvent, bytes: usize) {
        self.newest.followers.send(event, bytes);
    }
}

/// Receives the changes of a replica ([`Replica::follow`](crate::Replica::follow)).
#[derive(Debug)]
pub struct Follower {
    newest: Arc<Newest>,
    /// `None` before the first event.
    events: Option<Subscription<FollowEvent>>,
}

impl Follower {
    pub(crate) fn new(newest: Arc<Newest>) -> Self {
        Self { newest, events: None }
    }

    /// Waits for the next event. The stream never ends; a follower that lags too far behind gets a [`FollowEvent::Reset`].
    /// Cancelling the future loses no event.
    pub async fn next(&mut self) -> FollowEvent {
        if let Some(events) = &self.events
            && let Some(event) = events.next().await
        {
            return event;
        }
        self.restart()
    }

    /// Waits like [`Self::next`], and merges all steps that have arrived by then into one.
    pub async fn next_merged(&mut self) -> FollowEvent {
        let FollowEvent::Step(first) = self.next().await else { return self.restart() };
        let mut later = Vec::new();
        while let Some(events) = &self.events {
            match events.next_now() {
                Next::Event(FollowEvent::Step(step)) => later.push(step),
                Next::Nothing => break,
                Next::Event(FollowEvent::Reset(_)) | Next::Lagged => return self.restart(),
            }
        }
        FollowEvent::Step(first.merge(&later))
    }

    /// Discards all pending events and restarts from the newest state.
    fn restart(&mut self) -> FollowEvent {
        let guard = self.newest.write();
        self.events = Some(self.newest.followers.subscribe());
        FollowEvent::Reset(guard.snapshot())
    }
}
