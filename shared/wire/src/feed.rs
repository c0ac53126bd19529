//! The change feed: what was committed, and how far the log is.

use bytes::Bytes;
use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index, ProcessId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Change sets of one commit, without a gap; as many as fit one message
/// ([`CHANGES_BYTES_MAX`](crate::envelope::CHANGES_BYTES_MAX)), the rest in further ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The history that they belong to; a replica of another one reloads (design §4).
    pub history: HistoryId,
    /// The index of the first one.
    pub first: Index,
    /// The change sets, each encoded once: these are the bytes of the log. `None` is one too large for a message
    /// ([`CHANGE_SET_BYTES_MAX`](crate::envelope::CHANGE_SET_BYTES_MAX)), which is read from there.
    pub sets: Vec<Option<Bytes>>,
}

/// Reads them, and leaves the sets where they are: in the message that came.
fn read_changes(body: &Bytes) -> Result<Changes, rmp_serde::decode::Error> {
    #[derive(Deserialize)]
    struct Borrowed<'a> {
        history: HistoryId,
        first: Index,
        #[serde(borrow)]
        sets: Vec<Option<&'a [u8]>>,
    }
    let Borrowed { history, first, sets } = rmp_serde::from_slice(body)?;
    let sets = sets.into_iter().map(|set| set.map(|set| body.slice_ref(set))).collect();
    Ok(Changes { history, first, sets })
}

/// How far the log is, and who writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The history.
    pub history: HistoryId,
    /// The index of the last committed change set.
    pub index: Index,
    /// The cluster's time at that change set, or now; ids of requests are made from it.
    pub at: Timestamp,
    /// The applier's epoch.
    pub epoch: Epoch,
    /// The applier.
    pub applier: ProcessId,
}

/// Asks for the head. Answered by [`Head`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskHead {}

kinds! {
    Changes => "feed.changes" reads read_changes,
    Head => "feed.head",
    AskHead => "applier.head",
    ChangeSet => "change-set",
}
