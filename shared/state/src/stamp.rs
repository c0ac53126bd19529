//! When something happens: the index and the moment that a change set gives to all it changes.

use model::change::ChangeSet;
use model::{Index, Timestamp};

/// The index and the cluster's time of a change set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Its place in the log.
    pub index: Index,
    /// The cluster's time.
    pub at: Timestamp,
}

impl From<&ChangeSet> for Stamp {
    fn from(set: &ChangeSet) -> Self {
        Self { index: set.index, at: set.at }
    }
}
