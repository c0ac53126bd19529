//! The request log: which commands were committed recently, so that a repeated command is answered instead of executed
//! again (`docs/architecture/commit-path.md`).
//!
//! Only commands that changed something are recorded. A refused command, or one with nothing to do, can safely be judged
//! again. The answers themselves are in the log of change sets.

use std::collections::{HashMap, VecDeque};

use model::{Index, Nanos, RequestId, Timestamp};
use wire::feed::{Head, LostWrites};

/// Minimum time for which request ids are kept: as long as the log is certain to contain their answers. Callers give up
/// after a minute.
pub(crate) const REQUEST_RETENTION: Nanos = store::LOG_KEEP_MIN;
/// Maximum size of the request log in memory, in bytes. At more than five thousand commands a second, request ids are kept
/// for a shorter time. A repeat of an older command is then refused, because its outcome is unknown.
const BYTES_MAX: usize = 256 << 20;
/// Approximate size of one request: its entries in the map and in the list.
const ENTRY_BYTES: usize = 80;
/// Maximum number of requests.
pub(crate) const REQUESTS_MAX: usize = BYTES_MAX / ENTRY_BYTES;

/// What the request log knows about a request id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// The request is new.
    New,
    /// The request was committed at this index.
    Committed(Index),
    /// The request is older than the request log, so its outcome is unknown.
    TooOld,
}

/// The ids of requests that were committed recently.
#[derive(Debug)]
pub struct RequestLog {
    indexes: HashMap<RequestId, Index>,
    /// The same ids, the oldest first.
    by_age: VecDeque<(Timestamp, RequestId)>,
    /// The request log contains every id that was committed at or after this time.
    since: Timestamp,
    /// Maximum number of requests.
    max: usize,
}

impl Default for RequestLog {
    fn default() -> Self {
        let since = Timestamp::default();
        Self { indexes: HashMap::new(), by_age: VecDeque::new(), since, max: REQUESTS_MAX }
    }
}

impl RequestLog {
    /// A request log with the requests that were committed since `since`, the oldest first.
    pub fn new(since: Timestamp, committed: impl IntoIterator<Item = (RequestId, Index, Timestamp)>) -> Self {
        let mut request_log = Self { since, ..Self::default() };
        committed.into_iter().for_each(|(id, index, at)| request_log.record(id, index, at));
        request_log
    }

    /// Records a committed request, and drops those that are old enough.
    pub fn record(&mut self, id: RequestId, index: Index, at: Timestamp) {
        self.indexes.insert(id, index);
        self.by_age.push_back((at, id));
        let until = Timestamp(at.0.saturating_sub(REQUEST_RETENTION.0));
        while let Some((at, id)) = self.by_age.front().copied()
            && (at < until || self.by_age.len() > self.max)
        {
            self.by_age.pop_front();
            self.indexes.remove(&id);
            self.since = self.since.max(Timestamp(at.0 + 1));
        }
    }

    /// Looks up a request id.
    pub(crate) fn lookup(&self, id: RequestId) -> Known {
        match self.indexes.get(&id) {
            Some(index) => Known::Committed(*index),
            // A command is committed after its id was created. So an id that was created before `since` may belong to a
            // dropped request.
            None if created_at(id).is_some_and(|created| created < self.since) => Known::TooOld,
            None => Known::New,
        }
    }

    /// Whether the log that has this head has another change set at an index than the one of a request. It went back then, and
    /// went on differently.
    pub(crate) fn has_another(&self, head: &Head, index: Index, request: RequestId) -> bool {
        let is_recent = created_at(request).is_some_and(|created| created >= self.since);
        index <= head.index && is_recent && self.indexes.get(&request) != Some(&index)
    }

    /// Whether the log that has this head lacks a change set that another process has seen. Either it is after the index at
    /// which this applier took over, but not its own; or the log, which went back earlier, has another one at that index.
    pub(crate) fn lacks(&self, head: &Head, lost: &LostWrites) -> bool {
        let has_another = |request| self.has_another(head, lost.index, request);
        let is_overtaken = lost.history == head.history && lost.request.is_some_and(has_another);
        is_overtaken || head.committer().is_some_and(|own| lost.is_missing_in(head.history, own))
    }
}

/// When a request id was created; `None` if it is not a UUIDv7.
fn created_at(id: RequestId) -> Option<Timestamp> {
    let (secs, nanos) = id.0.get_timestamp()?.to_unix();
    let nanos = i128::from(secs) * 1_000_000_000 + i128::from(nanos);
    i64::try_from(nanos).ok().map(Timestamp)
}

#[cfg(test)]
mod tests {
    use model::{Epoch, HistoryId, ProcessId};

    use super::*;

    const MINUTE: i64 = 60;

    /// An id that was created `secs` seconds after the Unix epoch.
    fn id_at(secs: i64, number: u8) -> RequestId {
        let millis = u64::try_from(secs * 1000).unwrap();
        RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &[number; 10]).into_uuid())
    }

    #[test]
    fn committed_requests_are_known_until_they_are_old() {
        let at = |secs| Timestamp::from_secs(secs);
        let first = id_at(100, 1);
        let mut request_log = RequestLog::new(Timestamp::UNSET, [(first, Index(1), at(100))]);
        assert_eq!(request_log.lookup(first), Known::Committed(Index(1)));
        assert_eq!(request_log.lookup(id_at(100, 2)), Known::New);

        request_log.record(id_at(101, 3), Index(2), at(100 + 10 * MINUTE));
        assert_eq!(request_log.lookup(first), Known::Committed(Index(1)), "ten minutes are kept");

        request_log.record(id_at(102, 4), Index(3), at(101 + 10 * MINUTE));
        assert_eq!(request_log.lookup(first), Known::TooOld);
        assert_eq!(request_log.lookup(id_at(100, 2)), Known::TooOld, "it may belong to a dropped request");
        assert_eq!(request_log.lookup(id_at(101, 2)), Known::New);
    }

    #[test]
    fn a_change_set_that_was_seen_is_missing_by_its_index_or_its_request() {
        let at = Timestamp::from_secs;
        let log = RequestLog::new(at(100), [(id_at(101, 1), Index(5), at(101))]);
        let head = Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index(9),
            at: at(102),
            epoch: Epoch(7),
            applier: ProcessId::from_bytes([1; 16]),
            began: Some(Index(7)),
        };
        let seen = |index, request| {
            let (history, epoch, applier) = (head.history, Epoch(6), ProcessId::from_bytes([2; 16]));
            log.lacks(&head, &LostWrites { history, index: Index(index), epoch, applier, request })
        };
        assert!(seen(8, None), "this applier committed something else there");
        assert!(!seen(7, None) && !seen(5, Some(id_at(101, 1))));
        assert!(seen(5, Some(id_at(101, 2))), "it is not in the log");
        assert!(!seen(5, Some(id_at(99, 2))), "the request log does not go back that far");
    }

    #[test]
    fn more_requests_than_fit_are_kept_for_a_shorter_time() {
        let mut request_log = RequestLog { max: 2, ..RequestLog::default() };
        let ids = [1, 2, 3].map(|secs| id_at(secs, 1));
        for (id, number) in ids.into_iter().zip(1..) {
            request_log.record(id, Index(number), Timestamp::from_secs(number.cast_signed()));
        }
        let known = ids.map(|id| request_log.lookup(id));
        assert_eq!(known, [Known::TooOld, Known::Committed(Index(2)), Known::Committed(Index(3))]);
    }

    #[test]
    fn ids_from_before_the_log_that_was_read_are_too_old() {
        let request_log = RequestLog::new(Timestamp::from_secs(50), []);
        assert_eq!(request_log.lookup(id_at(49, 1)), Known::TooOld);
        assert_eq!(request_log.lookup(id_at(50, 1)), Known::New);
    }

    #[test]
    fn ids_without_a_time_are_never_too_old() {
        let id = RequestId::from_bytes([7; 16]);
        assert_eq!(RequestLog::new(Timestamp::from_secs(50), []).lookup(id), Known::New);
    }
}
