//! [`Replica`]: the copy of the state that all services of a process share, with its watches.

use std::sync::Arc;

use model::Index;
use model::change::ChangeSet;

use crate::error::Inconsistent;
use crate::follow::{FollowEvent, Follower, Newest, Step, WriteGuard};
use crate::scope::Scope;
use crate::tables::{Snapshot, State};
use crate::watch::{Watch, WatchKey, Watches};

/// A copy of the state that follows the log, shared by all services of a process (`docs/architecture/state.md`).
///
/// Several writers may apply change sets concurrently. Readers never wait for writers, and writers never wait for readers.
#[derive(Debug)]
pub struct Replica {
    newest: Arc<Newest>,
    watches: Arc<Watches>,
}

impl Replica {
    /// Creates a replica with an initial state.
    pub fn new(state: State) -> Self {
        Self { newest: Arc::new(Newest::new(state)), watches: Arc::default() }
    }

    /// The scope of its states.
    pub fn scope(&self) -> Scope {
        self.snapshot().scope()
    }

    /// The newest state.
    pub fn snapshot(&self) -> Snapshot {
        self.newest.snapshot()
    }

    /// Applies the change sets that are newer than the state, and publishes the resulting state to watches and followers.
    /// Older change sets are repeats and are skipped. `sets` must be in index order.
    ///
    /// # Errors
    /// If a change set does not match the state. The replica is then unchanged. Unless the error is
    /// [`Inconsistent::Gap`], where only change sets are missing, the caller should load the state again.
    pub fn apply(&self, sets: Vec<Arc<ChangeSet>>) -> Result<(), Inconsistent> {
        self.apply_sized(sets, 0)
    }

    /// The same for change sets whose encodings have `bytes` bytes together. What waits for slow followers is bounded in
    /// bytes as well as in number.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_sized(&self, sets: Vec<Arc<ChangeSet>>, bytes: usize) -> Result<(), Inconsistent> {
        let guard = self.newest.write();
        let before = guard.snapshot();
        let sets = newer(sets, &before);
        let mut after = State::clone(&before);
        for set in &sets {
            after.apply(set)?;
        }
        self.publish(&guard, before, sets, Arc::new(after), bytes);
        Ok(())
    }

    /// Replaces the state by `after`, which the caller has computed from this replica's state by applying `sets`. The plan
    /// applier adopts its overlay after a commit, so that no change set is applied twice. Change sets that the replica has
    /// already are skipped. `bytes` is as for [`Self::apply_sized`].
    ///
    /// # Errors
    /// If the indexes of the change sets do not lead from the replica's index to the index of `after` without gaps. The
    /// replica is then unchanged.
    pub fn adopt(
        &self,
        sets: Vec<Arc<ChangeSet>>,
        after: Snapshot,
        bytes: usize,
    ) -> Result<(), Inconsistent> {
        let guard = self.newest.write();
        let before = guard.snapshot();
        let sets = newer(sets, &before);
        let Some(last) = sets.last().map(|set| set.index) else { return Ok(()) };
        let mut index = before.index();
        for found in sets.iter().map(|set| set.index) {
            if found != index.next() {
                return Err(Inconsistent::Gap { state: index, found });
            }
            index = found;
        }
        if after.index() != last {
            return Err(Inconsistent::Gap { state: last, found: after.index() });
        }
        self.publish(&guard, before, sets, after, bytes);
        Ok(())
    }

    /// Replaces the state by one that was loaded, and wakes all watches, because the changes in between are unknown.
    pub fn reset(&self, state: State) {
        self.replace(&self.newest.write(), state);
    }

    /// Replaces the state like [`Self::reset`] if `state` is newer. Returns whether it was replaced. A new replica belongs to
    /// no history and accepts even an empty state of a history.
    pub fn catch_up(&self, state: State) -> bool {
        let guard = self.newest.write();
        let current = guard.snapshot();
        let is_first = current.index() == Index::ZERO && current.history() != state.history();
        let is_newer = is_first || state.index() > current.index();
        if is_newer {
            self.replace(&guard, state);
        }
        is_newer
    }

    /// Watches several keys at once. Set the watch first, then take a snapshot, then wait: every change after the snapshot
    /// wakes the watch.
    pub fn watch(&self, keys: impl IntoIterator<Item = WatchKey>) -> Watch {
        self.watches.watch(keys.into_iter().collect())
    }

    /// Follows all changes from now on, in order. The first event is [`FollowEvent::Reset`] with the newest state.
    pub fn follow(&self) -> Follower {
        Follower::new(Arc::clone(&self.newest))
    }

    /// Waits until the state has reached `index`, and returns the state. Use it with a timeout.
    pub async fn wait_for(&self, index: Index) -> Snapshot {
        loop {
            // Starts to wait before taking the snapshot, so that an index reached in between is not missed.
            let wait = self.watches.wait_for(index);
            let snapshot = self.snapshot();
            if snapshot.index() >= index {
                return snapshot;
            }
            wait.reached().await;
        }
    }

    fn replace(&self, guard: &WriteGuard<'_>, state: State) {
        let state = Arc::new(state);
        guard.store(Arc::clone(&state));
        self.watches.wake_until(state.index());
        self.watches.wake_all();
        guard.send(FollowEvent::Reset(state), 0);
    }

    fn publish(
        &self,
        guard: &WriteGuard<'_>,
        before: Snapshot,
        sets: Vec<Arc<ChangeSet>>,
        after: Snapshot,
        bytes: usize,
    ) {
        if sets.is_empty() {
            return;
        }
        guard.store(Arc::clone(&after));
        self.watches.wake_until(after.index());
        if !self.watches.is_idle() {
            sets.iter().for_each(|set| self.watches.wake(set, &before, &after));
        }
        if guard.is_followed() {
            guard.send(FollowEvent::Step(Step::new(before, sets, after)), bytes);
        }
    }
}

/// Removes the change sets that `state` already includes. `sets` must be in index order.
fn newer(mut sets: Vec<Arc<ChangeSet>>, state: &State) -> Vec<Arc<ChangeSet>> {
    let old = sets.iter().take_while(|set| set.index <= state.index()).count();
    sets.drain(..old);
    sets
}
