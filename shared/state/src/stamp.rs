//! [`Stamp`]: the index and time of a change set, which the objects that it changes get.

use model::change::ChangeSet;
use model::{Index, Timestamp};

/// The index and cluster time of a change set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Index of the change set.
    pub index: Index,
    /// Cluster time of the change set.
    pub at: Timestamp,
}

impl From<&ChangeSet> for Stamp {
    fn from(set: &ChangeSet) -> Self {
        Self { index: set.index, at: set.at }
    }
}
