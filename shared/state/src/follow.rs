//! Following a replica change by change, for services whose cores live from what happened and not only from what is.
//!
//! A follower that is slow never holds up the replica: it falls out, and begins anew from the newest state.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use model::change::ChangeSet;
use tokio::sync::broadcast;

use crate::replica::Snapshot;
use crate::tables::State;

/// How many change sets a follower may be behind before it gets a [`Followed::Reset`]. Each keeps what its state does not
/// share with the next one in memory; at fifteen thousand change sets a second these are a quarter of a second.
const BEHIND_MAX: usize = 4096;

/// One change set and the states on both sides of it.
#[derive(Debug, Clone)]
pub struct Step {
    /// The state that it was applied to.
    pub before: Snapshot,
    /// What changed.
    pub set: Arc<ChangeSet>,
    /// The state at its index.
    pub after: Snapshot,
}

/// What a follower is told.
#[derive(Debug, Clone)]
pub enum Followed {
    /// Forget everything and begin with this state: it was loaded anew, or the follower was too slow.
    Reset(Snapshot),
    /// The state moved on by one change set.
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
        let writing = self.newest.write();
        self.told = Some(self.newest.followers.subscribe());
        Followed::Reset(writing.snapshot())
    }
}
