//! [`EvalQueue`]: evaluations for schedulers to process. Each is ready, unacked (leased to a worker), delayed, or
//! pending (waiting for another evaluation of its job).
//!
//! Pure: `now` and tokens come from the caller. [`Broker`](crate::core::Broker) decides which evaluations belong
//! here, and writes the status of failed and superseded ones.

mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::eval::Evaluation;
use model::job::JobType;
use model::{EvalId, Index, JobKey, Nanos, RequestId, Timestamp};
use planted_bugs::{Bug, is_planted};
use wire::broker::{Delivery, EvalLeaseAction};

use order::{PendingRank, ReadyRank};

/// Delay after the first failed delivery.
const FIRST_RETRY_DELAY: Nanos = Nanos::SECOND;
/// Additional delay after each further failed delivery.
const RETRY_DELAY_STEP: Nanos = Nanos::from_secs(20);

/// Settings of the queue.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Duration of a lease that is not renewed.
    pub lease: Nanos,
    /// Number of failed deliveries after which an evaluation fails.
    pub delivery_limit: u8,
}

/// Evaluations for schedulers to process.
#[derive(Debug)]
pub(crate) struct EvalQueue {
    settings: Settings,
    entries: HashMap<EvalId, Entry>,
    /// Jobs with an evaluation that is ready, leased, failed, or waiting for redelivery; each with the other
    /// evaluations of the job that are pending behind it.
    slots: HashMap<JobKey, BTreeSet<PendingRank>>,
    ready: BTreeMap<JobType, BTreeSet<ReadyRank>>,
    delayed: BTreeSet<(Timestamp, EvalId)>,
    /// Leased evaluations by the end of their lease.
    unacked: BTreeSet<(Timestamp, EvalId)>,
    failed: BTreeSet<EvalId>,
    superseded: BTreeSet<EvalId>,
    /// Number of pending evaluations.
    pending: usize,
}

#[derive(Debug)]
struct Entry {
    eval: Arc<Evaluation>,
    /// An index that the snapshot must have reached, in addition to the indexes of the job's evaluations: the index
    /// that unblocked this evaluation.
    unblocked_at: Index,
    /// Number of failed deliveries: nacks and expired leases.
    failures: u8,
    /// When it was enqueued or its delay ended; `None` if it was there when the broker took over.
    since: Option<Timestamp>,
    state: QueueState,
}

/// The state of an evaluation in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QueueState {
    /// Can be leased.
    Ready,
    /// Waits until another evaluation of its job is finished.
    Pending,
    /// Waits for its time, without holding its job's slot.
    Delayed { due: Timestamp },
    /// Waits for redelivery after a failed one, and holds its job's slot.
    Redelivered { due: Timestamp },
    /// Leased to a worker.
    Unacked(Lease),
    /// Has reached the delivery limit. The token is that of the last delivery.
    Failed { token: RequestId },
    /// Unnecessary because of a more recent evaluation of its job.
    Superseded,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Lease {
    token: RequestId,
    since: Timestamp,
    until: Timestamp,
    wait_index: Index,
}

impl Entry {
    /// Time from enqueuing to a delivery; `None` if the evaluation was there when the broker took over.
    fn waited(&self, delivery: Lease) -> Option<Nanos> {
        self.since.map(|since| delivery.since - since)
    }
}

/// An evaluation that a scheduler finished, with its times.
#[derive(Debug)]
pub struct Finished {
    pub(crate) eval: Arc<Evaluation>,
    /// From enqueuing to its last delivery; `None` if the evaluation was there when the broker took over.
    pub(crate) waited: Option<Nanos>,
    /// From that delivery to the outcome.
    pub(crate) worked: Nanos,
}

/// Number of evaluations by queue state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QueueStats {
    pub(crate) ready: BTreeMap<JobType, usize>,
    pub(crate) unacked: BTreeMap<JobType, usize>,
    pub(crate) pending: usize,
    pub(crate) delayed: usize,
    pub(crate) failed: usize,
    pub(crate) superseded: usize,
}

impl EvalQueue {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            entries: HashMap::new(),
            slots: HashMap::new(),
            ready: JobType::ALL.iter().map(|kind| (*kind, BTreeSet::new())).collect(),
            delayed: BTreeSet::new(),
            unacked: BTreeSet::new(),
            failed: BTreeSet::new(),
            superseded: BTreeSet::new(),
            pending: 0,
        }
    }

    pub(crate) fn knows(&self, id: EvalId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Whether an attempt from a snapshot at `snapshot_index` ends the evaluation's lease. An attempt from a snapshot
    /// before the lease's wait index belongs to an earlier lease, and has not seen the change for which this lease was
    /// made.
    pub(crate) fn is_ended_by(&self, id: EvalId, snapshot_index: Index) -> bool {
        match self.entries.get(&id).map(|entry| entry.state) {
            Some(QueueState::Unacked(lease)) => snapshot_index >= lease.wait_index,
            Some(_) | None => true,
        }
    }

    /// Adds an evaluation, or updates a known one. `unblocked_at` is the index that unblocked it.
    pub(crate) fn put(
        &mut self,
        eval: &Arc<Evaluation>,
        unblocked_at: Index,
        since: Option<Timestamp>,
        now: Timestamp,
    ) {
        let Some(entry) = self.entries.get_mut(&eval.id) else {
            let (eval, state) = (Arc::clone(eval), QueueState::Pending);
            let id = eval.id;
            self.entries.insert(id, Entry { eval, unblocked_at, failures: 0, since, state });
            return self.delay_or_enqueue(id, now);
        };
        let state = entry.state;
        if matches!(
            state,
            QueueState::Ready | QueueState::Pending | QueueState::Delayed { .. } | QueueState::Superseded
        ) {
            self.remove_from_index(eval.id);
        }
        let entry = self.entries.get_mut(&eval.id).expect("the entry exists");
        entry.eval = Arc::clone(eval);
        entry.unblocked_at = entry.unblocked_at.max(unblocked_at);
        match state {
            QueueState::Ready | QueueState::Pending => self.add_to_index(eval.id, state),
            // Its time may have changed. A superseded evaluation is needed again, because something happened since.
            QueueState::Delayed { .. } | QueueState::Superseded => self.delay_or_enqueue(eval.id, now),
            QueueState::Redelivered { .. } | QueueState::Unacked(_) | QueueState::Failed { .. } => {}
        }
    }

    /// Removes an evaluation that a scheduler finished. If it held its job's slot, the best pending evaluation gets the
    /// slot, and the others are superseded.
    pub(crate) fn finish(&mut self, id: EvalId, now: Timestamp) -> Option<Finished> {
        let entry = self.forget(id)?;
        let QueueState::Unacked(lease) = entry.state else { return None };
        let waited = entry.waited(lease);
        Some(Finished { eval: entry.eval, waited, worked: now - lease.since })
    }

    /// Removes an evaluation that ended without a scheduler. Evaluations that it superseded are needed again, unless
    /// their cancellation is already written.
    pub(crate) fn remove(&mut self, id: EvalId) {
        let Some(entry) = self.forget(id).filter(|entry| entry.state.holds_slot()) else { return };
        let is_of_job = |id: &&EvalId| self.entries[*id].eval.job == entry.eval.job;
        let needed: Vec<EvalId> = self.superseded.iter().filter(is_of_job).copied().collect();
        for id in needed {
            self.remove_from_index(id);
            self.enqueue(id);
        }
    }

    /// Number of ready evaluations of these types.
    pub(crate) fn ready_count(&self, kinds: &[JobType]) -> usize {
        kinds.iter().map(|kind| self.ready[kind].len()).sum()
    }

    /// Leases the evaluations of these types with the highest priority, at most `max`. `index_of` returns the
    /// last index at which an evaluation of a job changed.
    ///
    /// If priorities are equal, the older evaluation comes first, also between types, where asks for a random
    /// choice.
    pub(crate) fn dequeue(
        &mut self,
        kinds: &[JobType],
        max: usize,
        now: Timestamp,
        index_of: impl Fn(&JobKey) -> Index,
        mut new_token: impl FnMut() -> RequestId,
    ) -> Vec<Delivery> {
        let mut deliveries = Vec::new();
        while deliveries.len() < max {
            let heads = kinds.iter().filter_map(|kind| self.ready[kind].first());
            let Some(id) = heads.min().map(|rank| rank.id()) else { break };
            let token = new_token();
            let entry = &self.entries[&id];
            let wait_index = index_of(&entry.eval.job).max(entry.eval.modify_index).max(entry.unblocked_at);
            let delivery = Delivery {
                eval_id: id,
                priority: entry.eval.priority,
                kind: entry.eval.kind,
                token,
                wait_index,
                lease_ms: u32::try_from(self.settings.lease.0 / Nanos::MILLISECOND.0).unwrap_or(u32::MAX),
            };
            let until = now + self.settings.lease;
            self.set_state(id, QueueState::Unacked(Lease { token, since: now, until, wait_index }));
            deliveries.push(delivery);
        }
        deliveries
    }

    /// Carries out a worker's action on a leased evaluation; `false` if the worker no longer holds the lease.
    pub(crate) fn apply_lease_action(
        &mut self,
        id: EvalId,
        token: RequestId,
        action: EvalLeaseAction,
        now: Timestamp,
    ) -> bool {
        let Some(QueueState::Unacked(lease)) = self.entries.get(&id).map(|entry| entry.state) else {
            return false;
        };
        if lease.token != token {
            return false;
        }
        match action {
            EvalLeaseAction::Renew => {
                let until = now + self.settings.lease;
                self.set_state(id, QueueState::Unacked(Lease { until, ..lease }));
            }
            EvalLeaseAction::GiveBack => self.set_state(id, QueueState::Ready),
            EvalLeaseAction::Fail => self.fail(id, token, now),
        }
        true
    }

    /// A leased evaluation, and how long it had waited; `None` if it was there when the broker took over.
    pub(crate) fn leased(&self, id: EvalId) -> Option<(&Evaluation, Option<Nanos>)> {
        let entry = self.entries.get(&id)?;
        let QueueState::Unacked(lease) = entry.state else { return None };
        Some((&entry.eval, entry.waited(lease)))
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let next = [self.delayed.first(), self.unacked.first()];
        next.into_iter().flatten().map(|(due, _)| *due).min()
    }

    /// Ends delays, and takes back evaluations whose leases expired. Returns the latter.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> Vec<EvalId> {
        while let Some((due, id)) = self.delayed.first().copied()
            && due <= now
        {
            let entry = self.entries.get_mut(&id).expect("delayed evaluations have entries");
            if matches!(entry.state, QueueState::Redelivered { .. }) {
                self.set_state(id, QueueState::Ready);
            } else {
                entry.since = Some(due);
                self.remove_from_index(id);
                self.enqueue(id);
            }
        }
        let mut expired = Vec::new();
        while let Some((until, id)) = self.unacked.first().copied()
            && until <= now
        {
            let QueueState::Unacked(lease) = self.entries[&id].state else {
                unreachable!("`unacked` contains leased evaluations only")
            };
            if is_planted(Bug::LosesExpiredLeases) {
                self.remove(id);
                continue;
            }
            self.fail(id, lease.token, now);
            expired.push(id);
        }
        expired
    }

    /// Evaluations that reached the delivery limit, each with the token of its last delivery.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&Arc<Evaluation>, RequestId)> {
        self.failed.iter().map(|id| {
            let entry = &self.entries[id];
            let QueueState::Failed { token } = entry.state else {
                unreachable!("`failed` contains failed evaluations only")
            };
            (&entry.eval, token)
        })
    }

    /// Superseded evaluations.
    pub(crate) fn superseded(&self) -> impl Iterator<Item = EvalId> {
        self.superseded.iter().copied()
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let mut unacked = BTreeMap::new();
        for (_, id) in &self.unacked {
            *unacked.entry(self.entries[id].eval.kind).or_default() += 1;
        }
        QueueStats {
            ready: self.ready.iter().map(|(kind, ranks)| (*kind, ranks.len())).collect(),
            unacked,
            pending: self.pending,
            delayed: self.delayed.len(),
            failed: self.failed.len(),
            superseded: self.superseded.len(),
        }
    }

    /// Jobs with delayed evaluations, each with the earliest due time; among the first `max` delayed evaluations.
    pub(crate) fn delayed(&self, max: usize) -> BTreeMap<JobKey, Timestamp> {
        let mut delayed = BTreeMap::new();
        for (due, id) in self.delayed.iter().take(max) {
            delayed.entry(self.entries[id].eval.job.clone()).or_insert(*due);
        }
        delayed
    }

    #[cfg(test)]
    pub(crate) fn holds(&self, id: EvalId, token: RequestId) -> bool {
        matches!(self.entries.get(&id), Some(Entry { state: QueueState::Unacked(lease), .. }) if lease.token == token)
    }

    /// All known evaluations. Asserts that each is in exactly the index of its state.
    #[cfg(test)]
    pub(crate) fn check(&self) -> BTreeSet<EvalId> {
        let mut found = Vec::new();
        found.extend(self.ready.values().flatten().map(|rank| rank.id()));
        found.extend(self.slots.values().flatten().map(|rank| rank.id()));
        found.extend(self.delayed.iter().chain(&self.unacked).map(|(_, id)| *id));
        found.extend(self.failed.iter().chain(&self.superseded));
        let known: BTreeSet<EvalId> = self.entries.keys().copied().collect();
        assert_eq!(found.len(), known.len(), "each evaluation is in exactly one index");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), known);
        assert_eq!(self.pending, self.slots.values().map(BTreeSet::len).sum::<usize>());
        let held = self.entries.values().filter(|entry| entry.state.holds_slot());
        let jobs: Vec<&JobKey> = held.map(|entry| &entry.eval.job).collect();
        assert!(jobs.iter().all(|job| self.slots.contains_key(job)));
        assert_eq!(jobs.len(), self.slots.len(), "each slot is held by one evaluation");
        known
    }

    /// Handles a failed delivery: a nack or an expired lease.
    fn fail(&mut self, id: EvalId, token: RequestId, now: Timestamp) {
        let entry = self.entries.get_mut(&id).expect("only leased evaluations fail");
        entry.failures = entry.failures.saturating_add(1);
        let state = match entry.failures {
            failures if failures >= self.settings.delivery_limit => QueueState::Failed { token },
            failures => QueueState::Redelivered { due: now + retry_delay(failures) },
        };
        self.set_state(id, state);
    }

    /// Puts an evaluation among the delayed ones if it is not due yet, otherwise enqueues it.
    fn delay_or_enqueue(&mut self, id: EvalId, now: Timestamp) {
        match due(&self.entries[&id].eval) {
            Some(due) if due > now => self.add_to_index(id, QueueState::Delayed { due }),
            Some(_) | None => self.enqueue(id),
        }
    }

    /// Enqueues a due evaluation: the first of a job is ready, the others are pending behind it.
    fn enqueue(&mut self, id: EvalId) {
        let job = &self.entries[&id].eval.job;
        if self.slots.contains_key(job) {
            self.add_to_index(id, QueueState::Pending);
        } else {
            self.slots.insert(job.clone(), BTreeSet::new());
            self.add_to_index(id, QueueState::Ready);
        }
    }

    fn forget(&mut self, id: EvalId) -> Option<Entry> {
        self.remove_from_index(id)?;
        let entry = self.entries.remove(&id)?;
        if entry.state.holds_slot() {
            self.free_slot(&entry.eval.job);
        }
        Some(entry)
    }

    fn free_slot(&mut self, job: &JobKey) {
        let Some(pending) = self.slots.remove(job) else { return };
        self.pending -= pending.len();
        let mut pending = pending.iter().map(|rank| rank.id());
        let Some(best) = pending.next() else { return };
        for id in pending {
            self.entries.get_mut(&id).expect("pending evaluations have entries").state =
                QueueState::Superseded;
            self.superseded.insert(id);
        }
        self.enqueue(best);
    }

    fn set_state(&mut self, id: EvalId, state: QueueState) {
        self.remove_from_index(id);
        self.add_to_index(id, state);
    }

    /// Adds an evaluation to the index of a state.
    fn add_to_index(&mut self, id: EvalId, state: QueueState) {
        let entry = self.entries.get_mut(&id).expect("the evaluation has an entry");
        entry.state = state;
        let eval = &entry.eval;
        match state {
            QueueState::Ready => {
                self.ready.entry(eval.kind).or_default().insert(ReadyRank::of(eval));
            }
            QueueState::Pending => {
                let slot = self.slots.get_mut(&eval.job).expect("the job of a pending evaluation has a slot");
                slot.insert(PendingRank::of(eval));
                self.pending += 1;
            }
            QueueState::Delayed { due } | QueueState::Redelivered { due } => {
                self.delayed.insert((due, id));
            }
            QueueState::Unacked(lease) => {
                self.unacked.insert((lease.until, id));
            }
            QueueState::Failed { .. } => {
                self.failed.insert(id);
            }
            QueueState::Superseded => {
                self.superseded.insert(id);
            }
        }
    }

    /// Removes an evaluation from the index of its state. Its job's slot does not change.
    fn remove_from_index(&mut self, id: EvalId) -> Option<()> {
        let entry = self.entries.get(&id)?;
        let eval = &entry.eval;
        match entry.state {
            QueueState::Ready => {
                self.ready.entry(eval.kind).or_default().remove(&ReadyRank::of(eval));
            }
            QueueState::Pending => {
                let slot = self.slots.get_mut(&eval.job).expect("the job of a pending evaluation has a slot");
                slot.remove(&PendingRank::of(eval));
                self.pending -= 1;
            }
            QueueState::Delayed { due } | QueueState::Redelivered { due } => {
                self.delayed.remove(&(due, id));
            }
            QueueState::Unacked(lease) => {
                self.unacked.remove(&(lease.until, id));
            }
            QueueState::Failed { .. } => {
                self.failed.remove(&id);
            }
            QueueState::Superseded => {
                self.superseded.remove(&id);
            }
        }
        Some(())
    }
}

impl QueueState {
    fn holds_slot(self) -> bool {
        match self {
            Self::Ready | Self::Redelivered { .. } | Self::Unacked(_) | Self::Failed { .. } => true,
            Self::Pending | Self::Delayed { .. } | Self::Superseded => false,
        }
    }
}

/// When a delayed evaluation is due; `None` if it has no delay.
fn due(eval: &Evaluation) -> Option<Timestamp> {
    if eval.wait > Nanos::ZERO {
        // Counted from its creation, not from when this broker first saw it, so that a takeover does not restart the
        // delay.
        return Some(eval.create_time + eval.wait);
    }
    eval.wait_until.is_set().then_some(eval.wait_until)
}

/// Delay after a number of failed deliveries.
fn retry_delay(failures: u8) -> Nanos {
    match failures {
        0 | 1 => FIRST_RETRY_DELAY,
        failures => Nanos(RETRY_DELAY_STEP.0 * (i64::from(failures) - 1)),
    }
}
