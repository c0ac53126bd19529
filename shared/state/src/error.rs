//! Change sets that do not fit the state that they should be applied to.

use model::plan::Uneven;
use model::{AllocId, Index, JobVersionKey, NodeId};

/// Why a change set cannot be applied. The state it was meant for is not to be used any further: reload.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistent {
    /// Change sets are missing in between, or were applied already.
    #[error("change set {found} does not follow index {state}")]
    Gap {
        /// The state's index.
        state: Index,
        /// The change set's.
        found: Index,
    },
    /// A placement of an allocation that is already there.
    #[error("allocation {0} exists already")]
    AllocExists(AllocId),
    /// A change of an allocation that is not there.
    #[error("allocation {0} does not exist")]
    NoAlloc(AllocId),
    /// An update in place to another job.
    #[error("allocation {0} belongs to another job")]
    AnotherJob(AllocId),
    /// A reference to a version of a job that is not there.
    #[error("job version {0} does not exist")]
    NoJobVersion(Box<JobVersionKey>),
    /// A change of a node that is not there.
    #[error("node {0} does not exist")]
    NoNode(NodeId),
    /// Columns that do not fit each other.
    #[error(transparent)]
    Uneven(#[from] Uneven),
}
