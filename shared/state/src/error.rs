//! [`Inconsistent`]: the error for change sets that do not match the state to which they are applied.

use model::plan::Uneven;
use model::{AllocId, Index, JobVersionKey, NodeId};

/// Why a change set cannot be applied. The state must not be used any further; the process must load it again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistent {
    /// The change set is not the next one: change sets between are missing, or it has been applied already.
    #[error("change set {found} does not follow index {state}")]
    Gap {
        /// Index of the state.
        state: Index,
        /// Index of the change set.
        found: Index,
    },
    /// A placed allocation exists already.
    #[error("allocation {0} already exists")]
    AllocExists(AllocId),
    /// A changed allocation does not exist.
    #[error("allocation {0} does not exist")]
    NoAlloc(AllocId),
    /// An in-place update would move an allocation to another job.
    #[error("allocation {0} belongs to another job")]
    AnotherJob(AllocId),
    /// A referenced job version does not exist.
    #[error("job version {0} does not exist")]
    NoJobVersion(Box<JobVersionKey>),
    /// A changed node does not exist.
    #[error("node {0} does not exist")]
    NoNode(NodeId),
    /// The columns of a change have different lengths.
    #[error(transparent)]
    Uneven(#[from] Uneven),
}
