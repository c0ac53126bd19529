//! [`Continuity`]: whether what an applier commits continues what a replica holds. Pure.
//!
//! A database that was restored, or a standby that was promoted without the last writes, has the same history as before and
//! a shorter log. The next applier goes on from there, and its change sets have indexes that a replica may have already. A
//! replica that applied them on top of its own would mix two logs. Each applier therefore tells the index at which it took
//! over. Everything that its predecessors committed is at or before that index; so a replica that has something later from
//! another applier has seen writes that are lost.

use std::fmt;

use model::{Epoch, HistoryId, Index, ProcessId, RequestId};
use planted_bugs::{Bug, is_planted};
use wire::feed::{Committer, Head, LostWrites};

/// What a replica is known to hold.
#[derive(Debug, Default)]
pub struct Continuity {
    /// The last change set whose committer is known. The replica may be further.
    seen: Option<LostWrites>,
    /// The epoch of the last applier that said itself where it took over. The log may have told of a later one already.
    announced_epoch: Epoch,
}

/// How what an applier commits relates to a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Continues {
    /// It continues the replica.
    Yes,
    /// It comes from an applier that another one has deposed.
    Stale,
    /// The log lacks this change set, which the replica has.
    Lacks(LostWrites),
    /// That cannot be told. The log has to be read, or loaded if it was read.
    Unknown,
}

/// A change set that the applier's log lacks although a process has seen it. Its text says what to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostChangeSet(pub(crate) LostWrites);

impl Continuity {
    /// Records that the replica was loaded, or read from the log, up to an index. `head` is that of the log at that time.
    pub fn read(&mut self, index: Index, head: &Head) {
        let Head { history, epoch, applier, .. } = *head;
        self.saw(LostWrites { history, index, epoch, applier, request: None });
    }

    /// Records that the replica holds what an applier has committed up to an index. It continues the replica.
    pub fn holds(&mut self, history: HistoryId, index: Index, by: Committer) {
        let Committer { epoch, applier, .. } = by;
        self.saw(LostWrites { history, index, epoch, applier, request: None });
        self.announced_epoch = epoch;
    }

    /// Messages may overtake each other: what was seen does not go back within a history.
    fn saw(&mut self, new: LostWrites) {
        let earlier =
            self.seen.filter(|seen| seen.history == new.history).map_or(Index(0), |seen| seen.index);
        self.seen = Some(LostWrites { index: new.index.max(earlier), ..new });
    }

    /// Records an announcement that does not contradict the replica. It does not prove that the applier's log has what the
    /// replica has: the log may have gone back and come as far again.
    pub fn announced(&mut self, by: Committer) {
        self.announced_epoch = by.epoch;
    }

    /// How what an applier commits relates to the replica. `newest` is the epoch of the applier that announces itself.
    pub fn check(&self, history: HistoryId, by: Option<Committer>, newest: Option<Epoch>) -> Continues {
        let (Some(seen), Some(by)) = (self.seen, by) else { return Continues::Yes };
        if !seen.is_missing_in(history, by) || is_planted(Bug::MixesHistories) {
            return Continues::Yes;
        }
        // The messages of a deposed applier may still be under way.
        if by.epoch < seen.epoch && newest.is_none_or(|newest| by.epoch < newest) {
            return Continues::Stale;
        }
        // Either a successor has not announced itself yet, or the log, which told of it, went back.
        if by.epoch < seen.epoch && self.announced_epoch < seen.epoch {
            return Continues::Unknown;
        }
        Continues::Lacks(seen)
    }

    /// How change sets that an applier commits relate to the replica. It is at the index before them, where its change set
    /// has the request `last`, and the log's `previous`.
    pub fn check_next(
        &self,
        history: HistoryId,
        by: Committer,
        index: Index,
        last: Option<RequestId>,
        previous: Option<RequestId>,
    ) -> Continues {
        self.follows((history, by.epoch, by.applier), index, last, previous)
    }

    /// How a page of the log relates to the replica. `head` is that of the log; otherwise as [`Self::check_next`].
    pub fn check_page(
        &self,
        head: &Head,
        index: Index,
        last: Option<RequestId>,
        previous: Option<RequestId>,
    ) -> Continues {
        self.follows((head.history, head.epoch, head.applier), index, last, previous)
    }

    fn follows(
        &self,
        reign: (HistoryId, Epoch, ProcessId),
        index: Index,
        last: Option<RequestId>,
        previous: Option<RequestId>,
    ) -> Continues {
        let Some(seen) = self.seen else { return Continues::Yes };
        match (last, previous) {
            _ if is_planted(Bug::MixesHistories) || !index.is_set() => Continues::Yes,
            (Some(last), Some(previous)) if last == previous => Continues::Yes,
            (Some(_), Some(_)) => Continues::Lacks(LostWrites { index, request: last, ..seen }),
            // The applier that has committed the replica's last change set commits these as well.
            (_, _) if (seen.history, seen.epoch, seen.applier) == reign => Continues::Yes,
            (_, _) => Continues::Unknown,
        }
    }

    /// Whether a log that was loaded lacks something of the replica, which was at an index of a history before.
    pub fn check_loaded(&self, loaded: &Head, history: HistoryId, index: Index) -> Continues {
        let is_shorter = loaded.history == history && loaded.index < index;
        match self.seen {
            Some(seen) if is_shorter && !is_planted(Bug::MixesHistories) => {
                Continues::Lacks(LostWrites { index, ..seen })
            }
            Some(_) | None => Continues::Yes,
        }
    }
}

impl fmt::Display for LostChangeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LostWrites { history, index, .. } = self.0;
        write!(
            f,
            "the plan applier's database lacks the change set at index {index} of the history {history}, which this process \
             has seen: acknowledged writes are lost; let the plan applier use the database that has them, or go on without \
             them by `drover operator accept-database`"
        )
    }
}

#[cfg(test)]
mod tests {
    use model::Timestamp;

    use super::*;

    const HISTORY: HistoryId = HistoryId::from_bytes([1; 16]);

    fn applier(epoch: u64, process: u8, began: u64) -> Committer {
        Committer { epoch: Epoch(epoch), applier: ProcessId::from_bytes([process; 16]), began: Index(began) }
    }

    /// A replica that has what an applier committed up to an index.
    fn replica(index: u64, by: Committer) -> Continuity {
        let mut continuity = Continuity::default();
        continuity.holds(HISTORY, Index(index), by);
        continuity
    }

    fn lacks(continuity: &Continuity, by: Committer, newest: u64) -> Option<u64> {
        match continuity.check(HISTORY, Some(by), Some(Epoch(newest))) {
            Continues::Yes => None,
            Continues::Stale => Some(0),
            Continues::Lacks(lost) => Some(lost.index.0),
            Continues::Unknown => Some(u64::MAX),
        }
    }

    fn head(epoch: u64, index: u64) -> Head {
        Head {
            history: HISTORY,
            index: Index(index),
            at: Timestamp::from_secs(1),
            epoch: Epoch(epoch),
            applier: ProcessId::from_bytes([1; 16]),
            began: None,
        }
    }

    #[test]
    fn the_same_applier_and_its_successors_continue() {
        let continuity = replica(616, applier(7, 1, 500));
        assert_eq!(lacks(&continuity, applier(7, 1, 500), 7), None);
        assert_eq!(lacks(&continuity, applier(8, 2, 616), 8), None);
        assert_eq!(lacks(&continuity, applier(9, 1, 700), 9), None);
    }

    #[test]
    fn an_applier_that_took_over_earlier_lacks_what_was_seen() {
        let continuity = replica(616, applier(7, 1, 500));
        // Whatever epoch the restored database had.
        assert_eq!(lacks(&continuity, applier(8, 2, 611), 8), Some(616));
        assert_eq!(lacks(&continuity, applier(7, 2, 611), 7), Some(616));
        assert_eq!(lacks(&continuity, applier(5, 2, 611), 5), Some(616));
    }

    #[test]
    fn messages_of_a_deposed_applier_are_stale() {
        let continuity = replica(616, applier(7, 1, 611));
        assert_eq!(lacks(&continuity, applier(6, 2, 500), 7), Some(0));
    }

    #[test]
    fn rows_of_the_log_were_committed_by_their_applier_or_earlier() {
        let mut continuity = Continuity::default();
        continuity.read(Index(616), &head(7, 620));
        assert_eq!(lacks(&continuity, applier(7, 1, 600), 7), None);
        assert_eq!(lacks(&continuity, applier(8, 2, 615), 8), Some(616));
        assert_eq!(
            lacks(&continuity, applier(6, 2, 500), 6),
            Some(u64::MAX),
            "its successor has announced nothing yet, or the log went back"
        );
        continuity.announced(applier(8, 2, 616));
        assert_eq!(lacks(&continuity, applier(8, 2, 616), 8), None);
        assert_eq!(lacks(&continuity, applier(7, 1, 600), 8), None, "its last messages may be under way");
        continuity.holds(HISTORY, Index(617), applier(8, 2, 616));
        assert_eq!(lacks(&continuity, applier(7, 1, 600), 8), Some(0));
    }

    #[test]
    fn late_announcements_do_not_lower_the_index() {
        let mut continuity = replica(616, applier(7, 1, 500));
        continuity.holds(HISTORY, Index(610), applier(7, 1, 500));
        assert_eq!(lacks(&continuity, applier(8, 2, 612), 8), Some(616));
        let other = HistoryId::from_bytes([2; 16]);
        continuity.read(Index(3), &Head { history: other, ..head(9, 3) });
        assert_eq!(continuity.check(other, Some(applier(10, 2, 3)), None), Continues::Yes);
    }

    #[test]
    fn a_page_continues_the_change_set_before_it() {
        let continuity = replica(616, applier(7, 1, 500));
        let (own, other) = (Some(RequestId::from_bytes([1; 16])), Some(RequestId::from_bytes([2; 16])));
        let check =
            |epoch, last, previous| continuity.check_page(&head(epoch, 700), Index(616), last, previous);
        assert_eq!(check(9, own, own), Continues::Yes);
        assert!(matches!(check(7, own, other), Continues::Lacks(LostWrites { index: Index(616), .. })));
        // The log was trimmed, or the state loaded without it.
        assert_eq!((check(7, own, None), check(7, None, other)), (Continues::Yes, Continues::Yes));
        assert_eq!((check(8, own, None), check(8, None, None)), (Continues::Unknown, Continues::Unknown));
        assert_eq!(
            continuity.check_page(&head(8, 700), Index(0), None, None),
            Continues::Yes,
            "nothing is before it"
        );
    }

    #[test]
    fn a_loaded_log_has_everything_that_was_seen() {
        let continuity = replica(616, applier(7, 1, 500));
        let check = |history, index| {
            continuity.check_loaded(&Head { history, ..head(8, index) }, HISTORY, Index(616))
        };
        assert_eq!((check(HISTORY, 616), check(HISTORY, 700)), (Continues::Yes, Continues::Yes));
        assert!(matches!(check(HISTORY, 615), Continues::Lacks(LostWrites { index: Index(616), .. })));
        assert_eq!(check(HistoryId::from_bytes([2; 16]), 3), Continues::Yes);
    }

    #[test]
    fn another_history_or_an_applier_that_does_not_tell_proves_nothing() {
        let continuity = replica(616, applier(7, 1, 500));
        let other = HistoryId::from_bytes([2; 16]);
        assert_eq!(continuity.check(other, Some(applier(8, 2, 611)), None), Continues::Yes);
        assert_eq!(continuity.check(HISTORY, None, None), Continues::Yes);
        assert_eq!(Continuity::default().check(HISTORY, Some(applier(8, 2, 0)), None), Continues::Yes);
    }

    #[test]
    fn it_is_said_what_is_lost_and_what_to_do() {
        let lost = replica(616, applier(7, 1, 500)).seen.expect("something was seen");
        let text = LostChangeSet(lost).to_string();
        assert!(text.contains("index 616") && text.contains("accept-database"), "{text}");
    }
}
