//! The change feed: committed change sets, and the head of the log.

use bytes::Bytes;
use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index, ProcessId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Consecutive change sets of one commit, without a gap. One message holds as many as fit
/// ([`CHANGES_BYTES_MAX`](crate::envelope::CHANGES_BYTES_MAX)); further messages hold the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The history of the log that they belong to. A replica of another history reloads (`docs/architecture/log.md`).
    pub history: HistoryId,
    /// Index of the first change set.
    pub first: Index,
    /// The change sets, each encoded once: these bytes are also the bytes in the log. `None` stands for a change set
    /// that is too large for a message ([`CHANGE_SET_BYTES_MAX`](crate::envelope::CHANGE_SET_BYTES_MAX)); replicas read
    /// it from the log.
    pub sets: Vec<Option<Bytes>>,
}

/// Decodes the message without copying the change sets: they share the bytes of `body`.
fn read_changes(body: &Bytes) -> Result<Changes, rmp_serde::decode::Error> {
    #[derive(Deserialize)]
    struct Borrowed<'a> {
        history: HistoryId,
        first: Index,
        #[serde(borrow)]
        sets: Vec<Option<&'a [u8]>>,
    }
    let Borrowed { history, first, sets } = model::messagepack::from_slice(body)?;
    let sets = sets.into_iter().map(|set| set.map(|set| body.slice_ref(set))).collect();
    Ok(Changes { history, first, sets })
}

/// The head of the log, and its writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The history of the log.
    pub history: HistoryId,
    /// The index of the last committed change set.
    pub index: Index,
    /// The cluster's time: that of the change set, or the current one. Request ids are derived from it.
    pub at: Timestamp,
    /// The epoch of the applier.
    pub epoch: Epoch,
    /// The process id of the applier.
    pub applier: ProcessId,
}

/// Requests the head. The response is [`Head`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHead {}

kinds! {
    Changes => "feed.changes" reads read_changes,
    Head => "feed.head",
    GetHead => "applier.head",
    ChangeSet => "change-set",
}
