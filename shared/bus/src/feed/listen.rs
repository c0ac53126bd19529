//! What is done beside the feed, also while it is busy: recording the applier's announcements, and comparing databases.

use std::sync::Arc;

use wire::feed::Head;

use super::log::Log;
use super::losses::LossDetector;
use crate::contact::{Contact, ReceivedHead};
use crate::database::{Comparison, DatabaseMatch, LocatedHead};
use crate::serve::Requests;

/// Records the applier's announcements, and checks whether they continue the replica.
pub(super) async fn receive_heads(mut heads: Requests, contact: Contact, losses: Arc<LossDetector>) {
    while let Some(request) = heads.next().await {
        if let Some((request, head)) = request.read::<Head>().await {
            contact.record_announcement(head, request.database().map(Arc::from));
            losses.check(head.history, head.committer()).await;
        }
    }
}

/// Compares the log with the applier's announcements, and records whether it is the log that the applier writes. A database
/// that does not answer delays neither the feed nor the announcements.
pub(super) async fn compare_databases<L: Log>(log: Arc<L>, contact: Contact) {
    let address: Arc<str> = log.address().into();
    let mut comparison = Comparison::default();
    let mut heads = contact.heads();
    while heads.changed().await.is_ok() {
        let received = heads.borrow_and_update().clone();
        let Some(ReceivedHead { head, at, database }) = received else { continue };
        let was_other = comparison.result().is_other();
        if comparison.announced(&head, at) {
            let own = match log.head().await {
                Ok(head) => LocatedHead { head, address: Some(Arc::clone(&address)) },
                Err(error) => {
                    contact.record_log_read(Err(telemetry::chain(error.as_ref())));
                    continue;
                }
            };
            contact.record_log_read(Ok(()));
            comparison.compare(LocatedHead { head, address: database }, own, at);
        }
        contact.set_database(comparison.result());
        match (was_other, comparison.result()) {
            (false, DatabaseMatch::Other(other)) => {
                tracing::error!(error = other.to_string(), "the plan applier writes another database");
            }
            (true, DatabaseMatch::Same) => tracing::info!("the plan applier writes this database again"),
            (_, _) => {}
        }
    }
}
