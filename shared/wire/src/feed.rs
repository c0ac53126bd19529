//! The change feed: committed change sets, and the head of the log.

use bytes::Bytes;
use model::change::ChangeSet;
use model::{Epoch, HistoryId, Index, ProcessId, RequestId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Consecutive change sets of one commit, without a gap. One message holds as many as fit
/// ([`CHANGES_BYTES_MAX`](crate::envelope::CHANGES_BYTES_MAX)); further messages hold the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// The history of the log that they belong to. A replica of another history reloads (`docs/architecture/log.md`).
    pub history: HistoryId,
    /// Who committed them; `None` from an applier that does not tell.
    #[serde(default)]
    pub by: Option<Committer>,
    /// The request of the change set before the first one, if the sender knows it.
    #[serde(default)]
    pub previous: Option<RequestId>,
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
        #[serde(default)]
        by: Option<Committer>,
        #[serde(default)]
        previous: Option<RequestId>,
        first: Index,
        #[serde(borrow)]
        sets: Vec<Option<&'a [u8]>>,
    }
    let Borrowed { history, by, previous, first, sets } = model::messagepack::from_slice(body)?;
    let sets = sets.into_iter().map(|set| set.map(|set| body.slice_ref(set))).collect();
    Ok(Changes { history, by, previous, first, sets })
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
    /// The index at which the applier took over. Only announcements have it.
    #[serde(default)]
    pub began: Option<Index>,
}

impl Head {
    /// The applier, if the index at which it took over is known.
    pub fn committer(&self) -> Option<Committer> {
        let began = self.began?;
        Some(Committer { epoch: self.epoch, applier: self.applier, began })
    }
}

/// An applier that commits change sets, and the index at which it took over. Everything that it commits is later, and
/// everything that another applier committed before is not: so a replica that is beyond that index by another applier's
/// change sets has seen writes that this applier's database lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committer {
    /// The epoch of the applier.
    pub epoch: Epoch,
    /// The process id of the applier.
    pub applier: ProcessId,
    /// The index at which it took over: that of the last change set of its predecessors.
    pub began: Index,
}

/// Tells the applier that its database lacks change sets that a replica has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWrites {
    /// The history of the log.
    pub history: HistoryId,
    /// The index of the last change set in the replica.
    pub index: Index,
    /// The epoch in which it was committed, or a later one.
    pub epoch: Epoch,
    /// The applier of that epoch.
    pub applier: ProcessId,
    /// The request that this change set carries out, if the replica knows it.
    #[serde(default)]
    pub request: Option<RequestId>,
}

impl LostWrites {
    /// Whether the change set is missing in the log of an applier: another one committed it, and it is after the index at
    /// which this one took over.
    pub fn is_missing_in(&self, history: HistoryId, log: Committer) -> bool {
        let is_of_another = (self.epoch, self.applier) != (log.epoch, log.applier);
        self.history == history && is_of_another && self.index > log.began
    }
}

/// Requests the head. The response is [`Head`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHead {}

kinds! {
    Changes => "feed.changes" reads read_changes,
    Head => "feed.head",
    GetHead => "applier.head",
    LostWrites => "feed.lost-writes",
    ChangeSet => "change-set",
}
