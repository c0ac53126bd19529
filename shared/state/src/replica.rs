//! One process's shared copy of the state, its watches, and waiting for an index.

use std::sync::Arc;

use model::Index;
use model::change::ChangeSet;

use crate::error::Inconsistent;
use crate::follow::{Followed, Follower, Newest, Step, Writing};
use crate::scope::Scope;
use crate::tables::State;
use crate::watch::{Watch, WatchKey, Watches};

/// The state at one index, shared and unchanging.
pub type Snapshot = Arc<State>;

/// A copy of the state that follows the log, for all services of a process (design §4).
///
/// Whoever brings it change sets may do so beside others; anybody reads it at any time, without waiting for them or
/// holding them up.
#[derive(Debug)]
pub struct Replica {
    newest: Arc<Newest>,
    watches: Arc<Watches>,
}

impl Replica {
    /// A replica that begins with `state`.
    pub fn new(state: State) -> Self {
        Self { newest: Arc::new(Newest::new(state)), watches: Arc::default() }
    }

    /// What of the cluster its states keep.
    pub fn scope(&self) -> Scope {
        self.snapshot().scope()
    }

    /// The newest state.
    pub fn snapshot(&self) -> Snapshot {
        self.newest.snapshot()
    }

    /// Applies those of `sets` that are newer than the state (older ones are repeats), publishes the result once, and
    /// tells whoever waits for it or follows.
    ///
    /// # Errors
    /// If they do not fit. The replica then stays as it was; unless only change sets are missing in between
    /// ([`Inconsistent::Gap`]), it should be given a newly loaded state.
    pub fn apply(&self, sets: Vec<Arc<ChangeSet>>) -> Result<(), Inconsistent> {
        let writing = self.newest.write();
        let before = writing.snapshot();
        let sets = newer(sets, &before);
        let mut after = State::clone(&before);
        for set in &sets {
            after.apply(set)?;
        }
        self.publish(&writing, before, sets, Arc::new(after));
        Ok(())
    }

    /// Takes over the state that somebody made from this replica's by applying `sets`: an overlay that has been
    /// committed, so that nothing is applied twice. Those that the replica has already are passed over.
    ///
    /// # Errors
    /// If they do not lead from the replica's index to the state's, one by one. The replica then stays as it was.
    pub fn adopt(&self, sets: Vec<Arc<ChangeSet>>, after: Snapshot) -> Result<(), Inconsistent> {
        let writing = self.newest.write();
        let before = writing.snapshot();
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
        self.publish(&writing, before, sets, after);
        Ok(())
    }

    /// Replaces the state by one that was loaded anew, and wakes everybody: nobody knows what changed in between.
    pub fn reset(&self, state: State) {
        self.replace(&self.newest.write(), state);
    }

    /// The same, unless the replica is as far already; whether it was done. One that has nothing yet is of no history, and
    /// takes even the empty state of one.
    pub fn catch_up(&self, state: State) -> bool {
        let writing = self.newest.write();
        let known = writing.snapshot();
        let is_first = known.index() == Index::ZERO && known.history() != state.history();
        let is_newer = is_first || state.index() > known.index();
        if is_newer {
            self.replace(&writing, state);
        }
        is_newer
    }

    /// Watches several things at once. Set the watch, then look, then wait: what changes after the look wakes it.
    pub fn watch(&self, keys: impl IntoIterator<Item = WatchKey>) -> Watch {
        self.watches.watch(keys.into_iter().collect())
    }

    /// Every change from now on, in order. The first thing that comes is [`Followed::Reset`] with the newest state.
    pub fn follow(&self) -> Follower {
        Follower::new(Arc::clone(&self.newest))
    }

    /// Waits until the state has reached `index`, and returns it. Put a time-out around it.
    pub async fn wait_for(&self, index: Index) -> Snapshot {
        loop {
            // Waiting begins before looking: an index reached in between is not missed.
            let wait = self.watches.wait_for(index);
            let snapshot = self.snapshot();
            if snapshot.index() >= index {
                return snapshot;
            }
            wait.reached().await;
        }
    }

    fn replace(&self, writing: &Writing<'_>, state: State) {
        let state = Arc::new(state);
        writing.store(Arc::clone(&state));
        self.watches.wake_until(state.index());
        self.watches.wake_all();
        writing.tell(Followed::Reset(state));
    }

    fn publish(&self, writing: &Writing<'_>, before: Snapshot, sets: Vec<Arc<ChangeSet>>, after: Snapshot) {
        if sets.is_empty() {
            return;
        }
        writing.store(Arc::clone(&after));
        self.watches.wake_until(after.index());
        if !self.watches.is_idle() {
            sets.iter().for_each(|set| self.watches.wake(set, &before, &after));
        }
        if writing.is_followed() {
            writing.tell(Followed::Step(Step::new(before, sets, after)));
        }
    }
}

/// Those of `sets`, in index order, that lead on from a state.
fn newer(mut sets: Vec<Arc<ChangeSet>>, state: &State) -> Vec<Arc<ChangeSet>> {
    let old = sets.iter().take_while(|set| set.index <= state.index()).count();
    sets.drain(..old);
    sets
}
