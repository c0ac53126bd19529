//! The last head that the applier announced, and how the database of this process compares with it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::{Epoch, Nanos, RequestId, Timestamp};
use telemetry::clock;
use tokio::sync::watch;
use wire::feed::Head;

use crate::continuity::LostChangeSet;
use crate::database::DatabaseMatch;

/// How long an announcement keeps those of older epochs from being believed. They may be under way for a moment.
const NEWER_EPOCH_HOLDS: Duration = Duration::from_secs(3);
/// How long to wait for the first head. An applier announces the head every second.
const FIRST_HEAD_WITHIN: Duration = Duration::from_millis(1_200);

/// The last head that the applier announced, when this process received it, and whether this process reads the applier's
/// database. Clones share it.
///
/// [`feed::follow`](crate::feed::follow) keeps it up to date. An agent follows no feed, so its process never receives a
/// head.
#[derive(Debug, Clone, Default)]
pub struct Contact {
    last: Arc<watch::Sender<Option<ReceivedHead>>>,
    loaded: Arc<watch::Sender<bool>>,
    database: Arc<watch::Sender<DatabaseFindings>>,
    log_failure: Arc<Mutex<Option<LogFailure>>>,
}

/// What is known of the database.
#[derive(Debug, Default, PartialEq, Eq)]
struct DatabaseFindings {
    /// How it compares with the announcements.
    compared: DatabaseMatch,
    /// What the applier's database lacks.
    lost: Option<Arc<LostChangeSet>>,
}

impl DatabaseFindings {
    fn result(&self) -> DatabaseMatch {
        match (&self.compared, &self.lost) {
            (DatabaseMatch::Unknown | DatabaseMatch::Same, Some(lost)) => {
                DatabaseMatch::WentBack(lost.clone())
            }
            (compared, _) => compared.clone(),
        }
    }
}

/// A head, and when this process received it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedHead {
    pub(crate) head: Head,
    pub(crate) at: Instant,
    /// The address of the applier's database; `None` if the applier does not announce it.
    pub(crate) database: Option<Arc<str>>,
}

/// The reason why this process cannot read the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFailure {
    /// When the first of the failed attempts failed.
    pub since: Instant,
    /// The error of the last one.
    pub error: String,
}

impl Contact {
    /// The last head that the applier announced.
    pub fn head(&self) -> Option<Head> {
        self.last.borrow().as_ref().map(|received| received.head)
    }

    /// Time since the last head was received.
    pub fn heard_ago(&self) -> Option<Duration> {
        self.last.borrow().as_ref().map(|received| received.at.elapsed())
    }

    /// The cluster's time: the time in the last announcement, advanced by this process's monotonic clock. So it does
    /// not depend on any host's wall clock, except before the first head ([`Self::first_head`]).
    pub fn cluster_now(&self) -> Timestamp {
        let advance = |received: &ReceivedHead| {
            let since = i64::try_from(received.at.elapsed().as_nanos()).unwrap_or(i64::MAX);
            received.head.at + Nanos(since)
        };
        self.last.borrow().as_ref().map_or_else(clock::now, advance)
    }

    /// Waits for the first head, which an applier announces within a second. Returns without one if there is no applier.
    pub async fn first_head(&self) {
        let mut heads = self.heads();
        let _ = tokio::time::timeout(FIRST_HEAD_WITHIN, heads.wait_for(Option::is_some)).await;
    }

    /// Whether this process reads the database that the applier writes.
    pub fn database(&self) -> DatabaseMatch {
        self.database.borrow().result()
    }

    /// Waits until the applier is found to write another database than this process reads, or one that went back. Returns
    /// what is wrong.
    pub async fn database_differs(&self) -> String {
        let mut database = self.database.subscribe();
        loop {
            let contradiction = database.borrow_and_update().result().contradiction();
            if let Some(contradiction) = contradiction {
                return contradiction;
            }
            // This fails only if the sender is dropped, and `self` owns the sender.
            let _ = database.changed().await;
        }
    }

    /// Waits for as long as the applier writes another database than this process reads. The replica of this process is
    /// then not the state of the cluster.
    pub async fn database_agrees(&self) {
        // This fails only if the sender is dropped, and `self` owns the sender.
        let _ = self.database.subscribe().wait_for(|database| !database.result().is_other()).await;
    }

    /// Why the log cannot be read; `None` if the last attempt succeeded.
    pub fn log_failure(&self) -> Option<LogFailure> {
        self.log_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether this process's replica has been loaded.
    pub fn is_loaded(&self) -> bool {
        *self.loaded.borrow()
    }

    /// Waits until this process's replica has been loaded for the first time.
    pub async fn loaded(&self) {
        // This fails only if the sender is dropped, and `self` owns the sender.
        let _ = self.loaded.subscribe().wait_for(|loaded| *loaded).await;
    }

    /// Records an announced head. [`feed::follow`](crate::feed::follow) calls this, and simulations do. A head with an
    /// older epoch comes from a deposed applier, and is ignored, unless the newer one has been silent for a while: then the
    /// database went back to the older epoch.
    pub fn record_head(&self, head: Head) {
        self.record_announcement(head, None);
    }

    /// The same with the address of the applier's database.
    pub(crate) fn record_announcement(&self, head: Head, database: Option<Arc<str>>) {
        self.record_at(head, database, clock::monotonic());
    }

    fn record_at(&self, head: Head, database: Option<Arc<str>>, at: Instant) {
        self.last.send_if_modified(|last| {
            let is_deposed =
                last.as_ref().is_some_and(|ReceivedHead { head: known, .. }| {
                    known.history == head.history && known.epoch > head.epoch
                }) && last.as_ref().is_some_and(|last| at.duration_since(last.at) < NEWER_EPOCH_HOLDS);
            if !is_deposed {
                *last = Some(ReceivedHead { head, at, database });
            }
            !is_deposed
        });
    }

    /// Records how the database compares with the announcements.
    pub(crate) fn set_database(&self, database: &DatabaseMatch) {
        self.database.send_if_modified(|known| {
            let is_new = known.compared != *database;
            if is_new {
                known.compared.clone_from(database);
            }
            is_new
        });
    }

    /// Records what the applier's database lacks. Returns whether that has changed.
    pub(crate) fn set_lost(&self, lost: Option<LostChangeSet>) -> bool {
        self.database.send_if_modified(|known| {
            let is_new = known.lost.as_deref() != lost.as_ref();
            if is_new {
                known.lost = lost.map(Arc::new);
            }
            is_new
        })
    }

    /// Whether the applier's database lacks something that this process has seen.
    pub(crate) fn has_lost(&self) -> bool {
        self.database.borrow().lost.is_some()
    }

    /// Records the result of an attempt to read the log.
    pub(crate) fn record_log_read(&self, result: Result<(), String>) {
        let mut failure = self.log_failure.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failure.as_ref().map_or_else(clock::monotonic, |failure| failure.since);
        *failure = result.err().map(|error| LogFailure { since, error });
    }

    pub(crate) fn set_loaded(&self) {
        self.loaded.send_replace(true);
    }

    /// Receives each head.
    pub(crate) fn heads(&self) -> watch::Receiver<Option<ReceivedHead>> {
        self.last.subscribe()
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.head().map(|head| head.epoch)
    }

    /// Waits until an applier of another epoch than `epoch` announces itself.
    pub(crate) async fn another_applier(&self, epoch: Option<Epoch>) {
        let is_another =
            |last: &Option<ReceivedHead>| last.as_ref().map(|received| received.head.epoch) != epoch;
        // This fails only if the sender is dropped, and `self` owns the sender.
        let _ = self.heads().wait_for(is_another).await;
    }

    /// A new id with the cluster's time.
    pub(crate) fn new_request_id(&self) -> RequestId {
        let millis = u64::try_from(self.cluster_now().0 / Nanos::MILLISECOND.0).unwrap_or_default();
        let [random @ .., _, _, _, _, _, _] = clock::random_bytes();
        RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use model::{HistoryId, Index, ProcessId};
    use wire::feed::LostWrites;

    use super::*;

    const AT: Timestamp = Timestamp::from_secs(1_767_225_600);

    fn head(epoch: u64, index: u64) -> Head {
        Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index(index),
            at: AT,
            epoch: Epoch(epoch),
            applier: ProcessId::from_bytes([2; 16]),
            began: None,
        }
    }

    #[test]
    fn heads_of_a_deposed_applier_are_ignored() {
        let contact = Contact::default();
        assert_eq!(contact.head(), None);
        contact.record_head(head(2, 7));
        contact.record_head(head(1, 9));
        assert_eq!(contact.head(), Some(head(2, 7)));
        let restored = Head { history: HistoryId::from_bytes([3; 16]), ..head(1, 5) };
        contact.record_head(restored);
        assert_eq!(contact.head(), Some(restored), "epochs of another history mean nothing");
    }

    #[test]
    fn heads_of_an_older_epoch_are_believed_when_the_newer_one_is_silent() {
        let (contact, begun) = (Contact::default(), clock::monotonic());
        let hear = |epoch, secs| {
            contact.record_at(head(epoch, 7), None, begun + Duration::from_secs(secs));
            contact.epoch()
        };
        assert_eq!(hear(5, 0), Some(Epoch(5)));
        assert_eq!(hear(3, 2), Some(Epoch(5)), "a deposed applier's message was under way");
        assert_eq!(hear(3, 3), Some(Epoch(3)), "the database went back");
    }

    #[test]
    fn lost_writes_differ_from_a_matching_database() {
        let lost = LostWrites {
            history: HistoryId::from_bytes([1; 16]),
            index: Index(616),
            epoch: Epoch(2),
            applier: ProcessId::from_bytes([2; 16]),
            request: None,
        };
        let contact = Contact::default();
        contact.set_database(&DatabaseMatch::Same);
        assert!(contact.set_lost(Some(LostChangeSet(lost))) && !contact.set_lost(Some(LostChangeSet(lost))));
        assert!(matches!(contact.database(), DatabaseMatch::WentBack(_)));
        assert!(contact.set_lost(None) && !contact.database().is_other());
    }

    #[test]
    fn ids_are_made_of_cluster_time() {
        let contact = Contact::default();
        contact.record_head(head(1, 1));
        let ids = [contact.new_request_id(), contact.new_request_id()];
        assert_ne!(ids[0], ids[1]);
        for id in ids {
            assert_eq!(id.0.get_version(), Some(uuid::Version::SortRand));
            let (secs, _) = id.0.get_timestamp().unwrap().to_unix();
            assert!(secs.abs_diff(AT.as_secs() as u64) < 60, "{secs}");
        }
    }
}
