//! One process's shared copy of the state, its watches, and waiting for an index.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use model::Index;
use model::change::ChangeSet;

use crate::error::Inconsistent;
use crate::tables::State;
use crate::watch::{Watch, WatchKey, Watches};

/// The state at one index, shared and unchanging.
pub type Snapshot = Arc<State>;

/// A copy of the state that follows the log, for all services of a process (design §4).
///
/// One task feeds it; anybody reads it at any time, without waiting for that task or holding it up.
#[derive(Debug)]
pub struct Replica {
    published: ArcSwap<State>,
    /// Held while a new state is made, so that no two writers begin from the same one.
    writing: Mutex<()>,
    watches: Arc<Watches>,
}

impl Replica {
    /// A replica that begins with `state`.
    pub fn new(state: State) -> Self {
        Self { published: ArcSwap::from_pointee(state), writing: Mutex::new(()), watches: Arc::default() }
    }

    /// The newest state.
    pub fn snapshot(&self) -> Snapshot {
        self.published.load_full()
    }

    /// Applies change sets that follow each other, publishes the result once, and wakes whoever waits for it.
    ///
    /// # Errors
    /// If they do not fit. The replica then stays as it was, and should be given a newly loaded state.
    pub fn apply(&self, sets: &[ChangeSet]) -> Result<(), Inconsistent> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.snapshot();
        let mut after = State::clone(&before);
        for set in sets {
            after.apply(set)?;
        }
        self.publish(after, &before, sets);
        Ok(())
    }

    /// Takes over `after`, which somebody made from this replica's state by applying `sets`; an overlay that has been
    /// committed, so that nothing is applied twice.
    ///
    /// # Errors
    /// If `sets` do not lead from the replica's index to that of `after`. The replica then stays as it was.
    pub fn adopt(&self, after: State, sets: &[ChangeSet]) -> Result<(), Inconsistent> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.snapshot();
        let mut index = before.index();
        for set in sets {
            if set.index != index.next() {
                return Err(Inconsistent::Gap { state: index, found: set.index });
            }
            index = set.index;
        }
        if after.index() != index {
            return Err(Inconsistent::Gap { state: index, found: after.index() });
        }
        self.publish(after, &before, sets);
        Ok(())
    }

    /// Replaces the state by one that was loaded anew, and wakes everybody: nobody knows what changed in between.
    pub fn reset(&self, state: State) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let index = state.index();
        self.published.store(Arc::new(state));
        self.watches.wake_until(index);
        self.watches.wake_all();
    }

    /// Watches several things at once. Set the watch, then look, then wait: what changes after the look wakes it.
    pub fn watch(&self, keys: impl IntoIterator<Item = WatchKey>) -> Watch {
        self.watches.watch(keys.into_iter().collect())
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

    fn publish(&self, after: State, before: &State, sets: &[ChangeSet]) {
        let after = Arc::new(after);
        self.published.store(Arc::clone(&after));
        self.watches.wake_until(after.index());
        if !self.watches.is_idle() {
            sets.iter().for_each(|set| self.watches.wake(set, before, &after));
        }
    }
}
