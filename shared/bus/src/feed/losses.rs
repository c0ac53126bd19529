//! [`LossDetector`]: detects that the applier's database lacks change sets which the replica has, and reports that: to those
//! who ask this process, and to the applier. It needs no database for that.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::HistoryId;
use state::Replica;
use telemetry::clock;
use wire::Subject;
use wire::feed::{Committer, LostWrites};
use wire::permissions::reports_lost_writes;

use crate::connection::Bus;
use crate::contact::Contact;
use crate::continuity::{Continues, Continuity, LostChangeSet};

/// Minimum time between two reports to the applier.
const REPORTS_APART: Duration = Duration::from_millis(250);

pub(super) struct LossDetector {
    bus: Bus,
    replica: Arc<Replica>,
    contact: Contact,
    /// What the replica is known to hold.
    continuity: Mutex<Continuity>,
    /// When the applier was last told.
    reported: Mutex<Option<Instant>>,
}

impl LossDetector {
    pub(super) fn new(bus: Bus, replica: Arc<Replica>, contact: Contact) -> Self {
        Self { bus, replica, contact, continuity: Mutex::default(), reported: Mutex::default() }
    }

    pub(super) fn continuity(&self) -> MutexGuard<'_, Continuity> {
        self.continuity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How what an applier commits relates to the replica. If its database lacks something that the replica has, says so.
    pub(super) async fn check(&self, history: HistoryId, by: Option<Committer>) -> Continues {
        let newest = self.contact.head().filter(|head| head.history == history).map(|head| head.epoch);
        let continues = self.continuity().check(history, by, newest);
        if let Continues::Lacks(lost) = continues {
            self.report(lost).await;
        }
        continues
    }

    /// Says what the applier's database lacks.
    pub(super) async fn report(&self, lost: LostWrites) {
        let lost = self.newest(lost);
        if self.contact.set_lost(Some(LostChangeSet(lost))) {
            tracing::error!(error = LostChangeSet(lost).to_string(), "the database went back");
        }
        if reports_lost_writes(self.bus.role())
            && self.is_due()
            && let Err(error) = self.bus.publish(Subject::LostWrites, &lost).await
        {
            tracing::debug!(error = telemetry::chain(&error), "cannot tell the applier of lost writes");
        }
    }

    /// Records that the applier's database has everything that the replica has.
    pub(super) fn lacks_nothing(&self) {
        if self.contact.set_lost(None) {
            tracing::info!("the plan applier's database has everything that this process has seen");
        }
    }

    /// The same with the replica's last change set, which the applier's database lacks as well.
    fn newest(&self, lost: LostWrites) -> LostWrites {
        let snapshot = self.replica.snapshot();
        if snapshot.history() == lost.history && snapshot.index() >= lost.index {
            LostWrites { index: snapshot.index(), request: snapshot.last_request(), ..lost }
        } else {
            lost
        }
    }

    fn is_due(&self) -> bool {
        let now = clock::monotonic();
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = reported.is_none_or(|reported| now.duration_since(reported) >= REPORTS_APART);
        if is_due {
            *reported = Some(now);
        }
        is_due
    }
}
