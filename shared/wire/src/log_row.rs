//! One row of the log: an encoded change set with its index, time and request id.

use bytes::Bytes;
use model::change::ChangeSet;
use model::{Index, RequestId, Timestamp};

use crate::envelope::{DecodeError, Wire, decode, encode};

/// One row of the log: a change set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// The index of the change set.
    pub index: Index,
    /// The cluster's time at that index.
    pub at: Timestamp,
    /// The request id of the command that made the change set.
    pub request_id: RequestId,
    /// The encoded change set ([`encode`]).
    pub bytes: Bytes,
}

impl LogRow {
    /// The row of a change set.
    pub fn new(set: &ChangeSet) -> Self {
        Self { index: set.index, at: set.at, request_id: set.request_id, bytes: encode(set).into() }
    }

    /// Decodes the change set.
    ///
    /// # Errors
    /// If this program cannot read the bytes.
    pub fn change_set(&self) -> Result<ChangeSet, DecodeError> {
        decode(ChangeSet::KIND, ChangeSet::VERSION, &self.bytes)
    }
}
