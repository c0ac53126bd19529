//! Following a replica change by change, for services whose cores live from what happened and not only from what is.
//!
//! A follower that is slow never holds up the replica: it falls out, and begins anew from the newest state.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use model::change::{Change, ChangeSet};
use tokio::sync::broadcast::{self, error::TryRecvError};

use crate::replica::Snapshot;
use crate::tables::State;

/// How many steps a follower may be behind before it gets a [`Followed::Reset`]. Each keeps what its state does not share
/// with the next one in memory; at 250 commits a second these are four seconds. To begin anew is dear where there is much, so
/// a moment's lag must not lead to it.
const BEHIND_MAX: usize = 1024;

/// Change sets that were committed together, or became known together, and the states on both sides of all of them. What
/// lies in between is not kept: whoever lives from it makes it anew ([`Self::one_by_one`]).
#[derive(Debug, Clone)]
pub struct Step {
    /// The state that they were applied to.
    pub before: Snapshot,
    /// What changed: change sets that follow each other, at least one.
    pub sets: Arc<[Arc<ChangeSet>]>,
    /// The state at the last one's index.
    pub after: Snapshot,
    /// The same one by one, once somebody has asked for it.
    one_by_one: Arc<OnceLock<Vec<OneSet>>>,
}

/// One change set of a step, and the states on both sides of it.
#[derive(Debug, Clone)]
pub struct OneSet {
    /// The state that it was applied to.
    pub before: Snapshot,
    /// What changed.
    pub set: Arc<ChangeSet>,
    /// The state at its index.
    pub after: Snapshot,
}

impl Step {
    /// A step from one state to another by all of `sets`.
    pub fn new(before: Snapshot, sets: Vec<Arc<ChangeSet>>, after: Snapshot) -> Self {
        Self { before, sets: sets.into(), after, one_by_one: Arc::default() }
    }

    /// This step and those that follow it, as one.
    fn with(self, later: &[Self]) -> Self {
        let Some(last) = later.last() else { return self };
        let sets = [&self].into_iter().chain(later).flat_map(|step| step.sets.iter().cloned()).collect();
        Self::new(self.before, sets, Arc::clone(&last.after))
    }

    /// All that changed, in its order.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.sets.iter().flat_map(|set| &set.changes)
    }

    /// Its change sets one by one. The states in between are made anew, once for all who ask.
    pub fn one_by_one(&self) -> &[OneSet] {
        self.one_by_one.get_or_init(|| {
            let mut last = Arc::clone(&self.before);
            let one = |set: &Arc<ChangeSet>| {
                let after = if set.index == self.after.index() {
                    Arc::clone(&self.after)
                } else {
                    let mut after = State::clone(&last);
                    after.apply(set).expect("it was applied to this state before");
                    Arc::new(after)
                };
                let before = std::mem::replace(&mut last, Arc::clone(&after));
                OneSet { before, set: Arc::clone(set), after }
            };
            self.sets.iter().map(one).collect()
        })
    }
}

/// What a follower is told.
#[derive(Debug, Clone)]
pub enum Followed {
    /// Forget everything and begin with this state: it was loaded anew, or the follower was too slow.
    Reset(Snapshot),
    /// The state moved on.
    Step(Step),
}

/// The newest state and those who follow it; what a replica and its followers share.
#[derive(Debug)]
pub(crate) struct Newest {
    state: ArcSwap<State>,
    /// Held while a new state is made, so that no two writers begin from the same one, and while a follower begins.
    writing: Mutex<()>,
    followers: broadcast::Sender<Followed>,
}

impl Newest {
    pub(crate) fn new(state: State) -> Self {
        let followers = broadcast::Sender::new(BEHIND_MAX);
        Self { state: ArcSwap::from_pointee(state), writing: Mutex::new(()), followers }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.state.load_full()
    }

    pub(crate) fn write(&self) -> Writing<'_> {
        // The guarded value is empty: a panic of another writer left nothing half done.
        let guard = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        Writing { newest: self, _guard: guard }
    }
}

/// The right to replace the newest state.
pub(crate) struct Writing<'a> {
    newest: &'a Newest,
    _guard: MutexGuard<'a, ()>,
}

impl Writing<'_> {
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.newest.snapshot()
    }

    pub(crate) fn store(&self, state: Snapshot) {
        self.newest.state.store(state);
    }

    /// Whether anybody follows; nobody begins to while this lives.
    pub(crate) fn is_followed(&self) -> bool {
        self.newest.followers.receiver_count() > 0
    }

    /// Tells all followers. The state that it speaks of has been stored before.
    pub(crate) fn tell(&self, followed: Followed) {
        // Fails when there is nobody to tell.
        let _ = self.newest.followers.send(followed);
    }
}

/// Somebody who follows a replica ([`Replica::follow`](crate::Replica::follow)).
#[derive(Debug)]
pub struct Follower {
    newest: Arc<Newest>,
    /// `None` before the first look, and after falling too far behind.
    told: Option<broadcast::Receiver<Followed>>,
}

impl Follower {
    pub(crate) fn new(newest: Arc<Newest>) -> Self {
        Self { newest, told: None }
    }

    /// What comes next. Never ends; one that falls too far behind gets a [`Followed::Reset`]. May be cancelled without
    /// losing anything.
    pub async fn next(&mut self) -> Followed {
        if let Some(told) = &mut self.told
            && let Ok(followed) = told.recv().await
        {
            return followed;
        }
        self.begin()
    }

    /// What comes next with all that has come by then, as one step; else as [`Self::next`].
    pub async fn next_all(&mut self) -> Followed {
        let Followed::Step(first) = self.next().await else { return self.begin() };
        let mut later = Vec::new();
        while let Some(told) = &mut self.told {
            match told.try_recv() {
                Ok(Followed::Step(step)) => later.push(step),
                Err(TryRecvError::Empty) => break,
                Ok(Followed::Reset(_)) | Err(TryRecvError::Lagged(_) | TryRecvError::Closed) => {
                    return self.begin();
                }
            }
        }
        Followed::Step(first.with(&later))
    }

    /// Forgets what was told, and begins with the newest state.
    fn begin(&mut self) -> Followed {
        let writing = self.newest.write();
        self.told = Some(self.newest.followers.subscribe());
        Followed::Reset(writing.snapshot())
    }
}
