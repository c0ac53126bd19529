//! [`Stamp`]: the index and time of a change set, which the objects that it changes get.

use model::change::ChangeSet;
use model::{Index, RequestId, Timestamp};

/// The index and cluster time of a change set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Index of the change set.
    pub index: Index,
    /// Cluster time of the change set.
    pub at: Timestamp,
    /// The request that the change set carries out. No two change sets have the same one, whichever history they belong to.
    pub request_id: Option<RequestId>,
}

impl From<&ChangeSet> for Stamp {
    fn from(set: &ChangeSet) -> Self {
        Self { index: set.index, at: set.at, request_id: Some(set.request_id) }
    }
}
