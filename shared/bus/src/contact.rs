//! What is known of the applier from what it announces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::{Epoch, Nanos, RequestId, Timestamp};
use telemetry::clock;
use tokio::sync::watch;
use wire::feed::Head;

/// What is known of the applier: the head that it announced last, and when. Clones share it.
///
/// [`feed::follow`](crate::feed::follow) keeps it up to date. A process that follows no feed, an agent's, never hears of
/// any head.
#[derive(Debug, Clone, Default)]
pub struct Contact {
    heard: Arc<watch::Sender<Option<Heard>>>,
    loaded: Arc<watch::Sender<bool>>,
}

/// A head, and when this process heard of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    pub(crate) head: Head,
    pub(crate) at: Instant,
}

impl Contact {
    /// The head that was announced last.
    pub fn head(&self) -> Option<Head> {
        self.heard().map(|heard| heard.head)
    }

    /// How long ago that was.
    pub fn heard_ago(&self) -> Option<Duration> {
        self.heard().map(|heard| heard.at.elapsed())
    }

    /// The cluster's time: as announced last and carried on by this process's own clock, so that no machine's wall clock
    /// comes into it; except before the first head, when there is nothing better.
    pub fn cluster_now(&self) -> Timestamp {
        let carried_on = |heard: Heard| {
            let since = i64::try_from(heard.at.elapsed().as_nanos()).unwrap_or(i64::MAX);
            heard.head.at + Nanos(since)
        };
        self.heard().map_or_else(clock::now, carried_on)
    }

    /// Whether this process's replica has been loaded.
    pub fn is_loaded(&self) -> bool {
        *self.loaded.borrow()
    }

    /// Waits until this process's replica has been loaded for the first time.
    pub async fn loaded(&self) {
        // Fails when the sender is gone, which is here.
        let _ = self.loaded.subscribe().wait_for(|loaded| *loaded).await;
    }

    /// Takes in an announced head; [`feed::follow`](crate::feed::follow) does so, and simulations. One of an older epoch
    /// comes from an applier that was deposed, and is passed over.
    pub fn hear(&self, head: Head) {
        let at = clock::monotonic();
        self.heard.send_if_modified(|heard| {
            let is_deposed = heard.is_some_and(|Heard { head: known, .. }| {
                known.history == head.history && known.epoch > head.epoch
            });
            if !is_deposed {
                *heard = Some(Heard { head, at });
            }
            !is_deposed
        });
    }

    pub(crate) fn set_loaded(&self) {
        self.loaded.send_replace(true);
    }

    pub(crate) fn heard(&self) -> Option<Heard> {
        *self.heard.borrow()
    }

    /// Told of each head.
    pub(crate) fn heads(&self) -> watch::Receiver<Option<Heard>> {
        self.heard.subscribe()
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.head().map(|head| head.epoch)
    }

    /// Waits for an applier of another epoch than `epoch` to announce itself.
    pub(crate) async fn another_applier(&self, epoch: Option<Epoch>) {
        let is_another = |heard: &Option<Heard>| heard.map(|heard| heard.head.epoch) != epoch;
        // Fails when the sender is gone, which is here.
        let _ = self.heads().wait_for(is_another).await;
    }

    /// A new id of cluster time.
    pub(crate) fn new_request_id(&self) -> RequestId {
        let millis = u64::try_from(self.cluster_now().0 / Nanos::MILLISECOND.0).unwrap_or_default();
        let [random @ .., _, _, _, _, _, _] = clock::random_bytes();
        RequestId(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }
}

#[cfg(test)]
mod tests {
    use model::{HistoryId, Index, ProcessId};

    use super::*;

    const AT: Timestamp = Timestamp::from_secs(1_767_225_600);

    fn head(epoch: u64, index: u64) -> Head {
        Head {
            history: HistoryId::from_bytes([1; 16]),
            index: Index(index),
            at: AT,
            epoch: Epoch(epoch),
            applier: ProcessId::from_bytes([2; 16]),
        }
    }

    #[test]
    fn a_deposed_applier_is_not_heard() {
        let contact = Contact::default();
        assert_eq!(contact.head(), None);
        contact.hear(head(2, 7));
        contact.hear(head(1, 9));
        assert_eq!(contact.head(), Some(head(2, 7)));
        let restored = Head { history: HistoryId::from_bytes([3; 16]), ..head(1, 5) };
        contact.hear(restored);
        assert_eq!(contact.head(), Some(restored), "epochs of another history mean nothing");
    }

    #[test]
    fn ids_are_made_of_cluster_time() {
        let contact = Contact::default();
        contact.hear(head(1, 1));
        let ids = [contact.new_request_id(), contact.new_request_id()];
        assert_ne!(ids[0], ids[1]);
        for id in ids {
            assert_eq!(id.0.get_version(), Some(uuid::Version::SortRand));
            let (secs, _) = id.0.get_timestamp().unwrap().to_unix();
            assert!(secs.abs_diff(AT.as_secs() as u64) < 60, "{secs}");
        }
    }
}
