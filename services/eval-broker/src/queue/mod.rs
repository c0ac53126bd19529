//! [`EvalQueue`]: evaluations that a scheduler should look at. Which are ready, which wait for their time or behind
//! another of their job, who has which and until when.
//!
//! Pure: `now` and tokens come from the caller. Which evaluations belong here, and writing down what became of those
//! that are given up, is [`Broker`](crate::broker::Broker)'s business.

mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::eval::Evaluation;
use model::job::JobType;
use model::{EvalId, Index, JobKey, Nanos, RequestId, Timestamp};
use planted_bugs::{Bug, is_planted};
use wire::broker::{Delivery, HandOutAction};

use order::{BehindRank, ReadyRank};

/// How long an evaluation waits after its first failed delivery.
const FIRST_RETRY_DELAY: Nanos = Nanos::SECOND;
/// What each further failed delivery adds.
const RETRY_DELAY_STEP: Nanos = Nanos::from_secs(20);

/// What may be set of the queue.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// How long a worker has an evaluation that it does not renew.
    pub lease: Nanos,
    /// After how many failed deliveries an evaluation is given up.
    pub delivery_limit: u8,
}

/// Evaluations to be worked on.
#[derive(Debug)]
pub(crate) struct EvalQueue {
    settings: Settings,
    entries: HashMap<EvalId, Entry>,
    /// Jobs of which an evaluation is ready, handed out, given up, or delayed after a failed delivery; and the others of
    /// the job that wait behind it.
    slots: HashMap<JobKey, BTreeSet<BehindRank>>,
    ready: BTreeMap<JobType, BTreeSet<ReadyRank>>,
    delayed: BTreeSet<(Timestamp, EvalId)>,
    /// Hand-outs by the end of their lease.
    out: BTreeSet<(Timestamp, EvalId)>,
    failed: BTreeSet<EvalId>,
    needless: BTreeSet<EvalId>,
    /// How many wait behind another of their job.
    behind: usize,
}

#[derive(Debug)]
struct Entry {
    eval: Arc<Evaluation>,
    /// An index that a snapshot must have reached beside those of the job's evaluations: the one that unblocked it.
    needs: Index,
    /// How often a scheduler failed on it, or let its lease run out.
    failures: u8,
    /// When it came in, or its time came; `None` for those that were there when the broker took over.
    since: Option<Timestamp>,
    place: Place,
}

/// Where an evaluation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Can be handed out.
    Ready,
    /// Waits until another of its job is done with.
    Behind,
    /// Waits for its time, and holds nothing up meanwhile.
    Delayed { due: Timestamp },
    /// Waits after a failed delivery, and keeps its job's slot.
    Redelivered { due: Timestamp },
    /// A worker has it.
    Out(HandOut),
    /// Was delivered too often. The token is the last delivery's.
    Failed { token: RequestId },
    /// A more recent one of its job does for it.
    Needless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct HandOut {
    token: RequestId,
    since: Timestamp,
    until: Timestamp,
    wait_index: Index,
}

impl Entry {
    /// From coming in to a delivery; not known where it was there before the broker.
    fn waited(&self, delivery: HandOut) -> Option<Nanos> {
        self.since.map(|since| delivery.since - since)
    }
}

/// An evaluation left a worker's hands for good: how long that took.
#[derive(Debug)]
pub struct Finished {
    pub(crate) eval: Arc<Evaluation>,
    /// From coming in to its last delivery; `None` where it was there before the broker.
    pub(crate) waited: Option<Nanos>,
    /// From that delivery on.
    pub(crate) worked: Nanos,
}

/// How many evaluations are where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct QueueStats {
    pub(crate) ready: BTreeMap<JobType, usize>,
    pub(crate) out: BTreeMap<JobType, usize>,
    pub(crate) behind: usize,
    pub(crate) delayed: usize,
    pub(crate) failed: usize,
    pub(crate) needless: usize,
}

impl EvalQueue {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            entries: HashMap::new(),
            slots: HashMap::new(),
            ready: JobType::ALL.iter().map(|kind| (*kind, BTreeSet::new())).collect(),
            delayed: BTreeSet::new(),
            out: BTreeSet::new(),
            failed: BTreeSet::new(),
            needless: BTreeSet::new(),
            behind: 0,
        }
    }

    pub(crate) fn knows(&self, id: EvalId) -> bool {
        self.entries.contains_key(&id)
    }

    /// Whether an attempt from a snapshot at `snapshot_index` is the word that its hand-out waits for. One from before
    /// the hand-out's wait index comes from an earlier hand-out, which had not seen what this one was made for.
    pub(crate) fn is_answered_by(&self, id: EvalId, snapshot_index: Index) -> bool {
        match self.entries.get(&id).map(|entry| entry.place) {
            Some(Place::Out(hand_out)) => snapshot_index >= hand_out.wait_index,
            Some(_) | None => true,
        }
    }

    /// Takes in an evaluation, or what is new of one that is known. `needs` is the index that unblocked it.
    pub(crate) fn put(
        &mut self,
        eval: &Arc<Evaluation>,
        needs: Index,
        since: Option<Timestamp>,
        now: Timestamp,
    ) {
        let Some(entry) = self.entries.get_mut(&eval.id) else {
            let (eval, place) = (Arc::clone(eval), Place::Behind);
            let id = eval.id;
            self.entries.insert(id, Entry { eval, needs, failures: 0, since, place });
            return self.enter(id, now);
        };
        let place = entry.place;
        if matches!(place, Place::Ready | Place::Behind | Place::Delayed { .. } | Place::Needless) {
            self.unplace(eval.id);
        }
        let entry = self.entries.get_mut(&eval.id).expect("it was there a moment ago");
        entry.eval = Arc::clone(eval);
        entry.needs = entry.needs.max(needs);
        match place {
            Place::Ready | Place::Behind => self.place(eval.id, place),
            // Its time may be another. What was needless stands for something that has happened since.
            Place::Delayed { .. } | Place::Needless => self.enter(eval.id, now),
            Place::Redelivered { .. } | Place::Out(_) | Place::Failed { .. } => {}
        }
    }

    /// Forgets an evaluation that a scheduler is done with. If it held its job's slot, the best of those behind it gets
    /// that; the others have become needless.
    pub(crate) fn finish(&mut self, id: EvalId, now: Timestamp) -> Option<Finished> {
        let entry = self.forget(id)?;
        let Place::Out(hand_out) = entry.place else { return None };
        let waited = entry.waited(hand_out);
        Some(Finished { eval: entry.eval, waited, worked: now - hand_out.since })
    }

    /// Forgets an evaluation that came to an end without a scheduler. What it was to do for others of its job it does not
    /// any more: those that are needless, as long as that is not written down, are wanted again.
    pub(crate) fn remove(&mut self, id: EvalId) {
        let Some(entry) = self.forget(id).filter(|entry| entry.place.holds_slot()) else { return };
        let is_of_job = |id: &&EvalId| self.entries[*id].eval.job == entry.eval.job;
        let wanted: Vec<EvalId> = self.needless.iter().filter(is_of_job).copied().collect();
        for id in wanted {
            self.unplace(id);
            self.enqueue(id);
        }
    }

    /// How many evaluations of these types are ready.
    pub(crate) fn ready_count(&self, kinds: &[JobType]) -> usize {
        kinds.iter().map(|kind| self.ready[kind].len()).sum()
    }

    /// Hands out the most urgent evaluations of these types, at most `max`. `index_of` is the last index at which
    /// an evaluation of a job changed.
    ///
    /// Between types, as within one, the older of two equally urgent evaluations comes first; would draw lots.
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
            let wait_index = index_of(&entry.eval.job).max(entry.eval.modify_index).max(entry.needs);
            let delivery = Delivery {
                eval_id: id,
                priority: entry.eval.priority,
                kind: entry.eval.kind,
                token,
                wait_index,
                lease_ms: u32::try_from(self.settings.lease.0 / Nanos::MILLISECOND.0).unwrap_or(u32::MAX),
            };
            let until = now + self.settings.lease;
            self.move_to(id, Place::Out(HandOut { token, since: now, until, wait_index }));
            deliveries.push(delivery);
        }
        deliveries
    }

    /// Does what a worker wants done with an evaluation that it has; `false` if it has it no longer.
    pub(crate) fn hand_out(
        &mut self,
        id: EvalId,
        token: RequestId,
        action: HandOutAction,
        now: Timestamp,
    ) -> bool {
        let Some(Place::Out(hand_out)) = self.entries.get(&id).map(|entry| entry.place) else { return false };
        if hand_out.token != token {
            return false;
        }
        match action {
            HandOutAction::Renew => {
                let until = now + self.settings.lease;
                self.move_to(id, Place::Out(HandOut { until, ..hand_out }));
            }
            HandOutAction::GiveBack => self.move_to(id, Place::Ready),
            HandOutAction::Fail => self.fail(id, token, now),
        }
        true
    }

    /// An evaluation that a worker has, and how long it had waited; not known where it was there before the broker.
    pub(crate) fn handed_out(&self, id: EvalId) -> Option<(&Evaluation, Option<Nanos>)> {
        let entry = self.entries.get(&id)?;
        let Place::Out(hand_out) = entry.place else { return None };
        Some((&entry.eval, entry.waited(hand_out)))
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Timestamp> {
        let next = [self.delayed.first(), self.out.first()];
        next.into_iter().flatten().map(|(due, _)| *due).min()
    }

    /// Makes ready what has waited long enough, and takes back what workers were silent about. Returns the latter.
    pub(crate) fn handle_timeout(&mut self, now: Timestamp) -> Vec<EvalId> {
        while let Some((due, id)) = self.delayed.first().copied()
            && due <= now
        {
            let entry = self.entries.get_mut(&id).expect("only what is known is delayed");
            if matches!(entry.place, Place::Redelivered { .. }) {
                self.move_to(id, Place::Ready);
            } else {
                entry.since = Some(due);
                self.unplace(id);
                self.enqueue(id);
            }
        }
        let mut expired = Vec::new();
        while let Some((until, id)) = self.out.first().copied()
            && until <= now
        {
            let Place::Out(hand_out) = self.entries[&id].place else {
                unreachable!("only hand-outs are in `out`")
            };
            if is_planted(Bug::LosesExpiredHandOuts) {
                self.remove(id);
                continue;
            }
            self.fail(id, hand_out.token, now);
            expired.push(id);
        }
        expired
    }

    /// Evaluations that were delivered too often, each with its last delivery's token.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&Arc<Evaluation>, RequestId)> {
        self.failed.iter().map(|id| {
            let entry = &self.entries[id];
            let Place::Failed { token } = entry.place else {
                unreachable!("only failed ones are in `failed`")
            };
            (&entry.eval, token)
        })
    }

    /// Evaluations that a more recent one does for.
    pub(crate) fn needless(&self) -> impl Iterator<Item = EvalId> {
        self.needless.iter().copied()
    }

    pub(crate) fn stats(&self) -> QueueStats {
        let mut out = BTreeMap::new();
        for (_, id) in &self.out {
            *out.entry(self.entries[id].eval.kind).or_default() += 1;
        }
        QueueStats {
            ready: self.ready.iter().map(|(kind, ranks)| (*kind, ranks.len())).collect(),
            out,
            behind: self.behind,
            delayed: self.delayed.len(),
            failed: self.failed.len(),
            needless: self.needless.len(),
        }
    }

    /// Jobs of which evaluations wait for their time, and when the first of each is due; the first `max` evaluations.
    pub(crate) fn delayed(&self, max: usize) -> BTreeMap<JobKey, Timestamp> {
        let mut delayed = BTreeMap::new();
        for (due, id) in self.delayed.iter().take(max) {
            delayed.entry(self.entries[id].eval.job.clone()).or_insert(*due);
        }
        delayed
    }

    #[cfg(test)]
    pub(crate) fn holds(&self, id: EvalId, token: RequestId) -> bool {
        matches!(self.entries.get(&id), Some(Entry { place: Place::Out(hand_out), .. }) if hand_out.token == token)
    }

    /// All that is known. Asserts that every evaluation is found by way of its place, and nothing else is.
    #[cfg(test)]
    pub(crate) fn check(&self) -> BTreeSet<EvalId> {
        let mut found = Vec::new();
        found.extend(self.ready.values().flatten().map(|rank| rank.id()));
        found.extend(self.slots.values().flatten().map(|rank| rank.id()));
        found.extend(self.delayed.iter().chain(&self.out).map(|(_, id)| *id));
        found.extend(self.failed.iter().chain(&self.needless));
        let known: BTreeSet<EvalId> = self.entries.keys().copied().collect();
        assert_eq!(found.len(), known.len(), "every evaluation is in one place");
        assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), known);
        assert_eq!(self.behind, self.slots.values().map(BTreeSet::len).sum::<usize>());
        let held = self.entries.values().filter(|entry| entry.place.holds_slot());
        let jobs: Vec<&JobKey> = held.map(|entry| &entry.eval.job).collect();
        assert!(jobs.iter().all(|job| self.slots.contains_key(job)));
        assert_eq!(jobs.len(), self.slots.len(), "one of a job holds its slot");
        known
    }

    /// A delivery came to nothing, through the scheduler's fault or in silence.
    fn fail(&mut self, id: EvalId, token: RequestId, now: Timestamp) {
        let entry = self.entries.get_mut(&id).expect("only what is handed out fails");
        entry.failures = entry.failures.saturating_add(1);
        let place = match entry.failures {
            failures if failures >= self.settings.delivery_limit => Place::Failed { token },
            failures => Place::Redelivered { due: now + retry_delay(failures) },
        };
        self.move_to(id, place);
    }

    /// An evaluation begins, or begins again, to wait for its time or its turn.
    fn enter(&mut self, id: EvalId, now: Timestamp) {
        match due(&self.entries[&id].eval) {
            Some(due) if due > now => self.place(id, Place::Delayed { due }),
            Some(_) | None => self.enqueue(id),
        }
    }

    /// Its time has come: the first of a job is ready, the others wait behind it.
    fn enqueue(&mut self, id: EvalId) {
        let job = &self.entries[&id].eval.job;
        if self.slots.contains_key(job) {
            self.place(id, Place::Behind);
        } else {
            self.slots.insert(job.clone(), BTreeSet::new());
            self.place(id, Place::Ready);
        }
    }

    fn forget(&mut self, id: EvalId) -> Option<Entry> {
        self.unplace(id)?;
        let entry = self.entries.remove(&id)?;
        if entry.place.holds_slot() {
            self.free_slot(&entry.eval.job);
        }
        Some(entry)
    }

    fn free_slot(&mut self, job: &JobKey) {
        let Some(behind) = self.slots.remove(job) else { return };
        self.behind -= behind.len();
        let mut behind = behind.iter().map(|rank| rank.id());
        let Some(best) = behind.next() else { return };
        for id in behind {
            self.entries.get_mut(&id).expect("ranks are of evaluations that are known").place =
                Place::Needless;
            self.needless.insert(id);
        }
        self.enqueue(best);
    }

    fn move_to(&mut self, id: EvalId, place: Place) {
        self.unplace(id);
        self.place(id, place);
    }

    /// Enters an evaluation into the index of its place.
    fn place(&mut self, id: EvalId, place: Place) {
        let entry = self.entries.get_mut(&id).expect("only what is known has a place");
        entry.place = place;
        let eval = &entry.eval;
        match place {
            Place::Ready => {
                self.ready.entry(eval.kind).or_default().insert(ReadyRank::of(eval));
            }
            Place::Behind => {
                let slot = self.slots.get_mut(&eval.job).expect("nobody waits behind nothing");
                slot.insert(BehindRank::of(eval));
                self.behind += 1;
            }
            Place::Delayed { due } | Place::Redelivered { due } => {
                self.delayed.insert((due, id));
            }
            Place::Out(hand_out) => {
                self.out.insert((hand_out.until, id));
            }
            Place::Failed { .. } => {
                self.failed.insert(id);
            }
            Place::Needless => {
                self.needless.insert(id);
            }
        }
    }

    /// Takes an evaluation out of the index of its place. Its job's slot stays as it is.
    fn unplace(&mut self, id: EvalId) -> Option<()> {
        let entry = self.entries.get(&id)?;
        let eval = &entry.eval;
        match entry.place {
            Place::Ready => {
                self.ready.entry(eval.kind).or_default().remove(&ReadyRank::of(eval));
            }
            Place::Behind => {
                let slot = self.slots.get_mut(&eval.job).expect("nobody waits behind nothing");
                slot.remove(&BehindRank::of(eval));
                self.behind -= 1;
            }
            Place::Delayed { due } | Place::Redelivered { due } => {
                self.delayed.remove(&(due, id));
            }
            Place::Out(hand_out) => {
                self.out.remove(&(hand_out.until, id));
            }
            Place::Failed { .. } => {
                self.failed.remove(&id);
            }
            Place::Needless => {
                self.needless.remove(&id);
            }
        }
        Some(())
    }
}

impl Place {
    fn holds_slot(self) -> bool {
        match self {
            Self::Ready | Self::Redelivered { .. } | Self::Out(_) | Self::Failed { .. } => true,
            Self::Behind | Self::Delayed { .. } | Self::Needless => false,
        }
    }
}

/// When an evaluation that waits for its time is due.
fn due(eval: &Evaluation) -> Option<Timestamp> {
    if eval.wait > Nanos::ZERO {
        // From its creation, not from when this broker first saw it: a take-over does not begin the wait anew.
        return Some(eval.create_time + eval.wait);
    }
    eval.wait_until.is_set().then_some(eval.wait_until)
}

/// How long an evaluation waits after so many failed deliveries.
fn retry_delay(failures: u8) -> Nanos {
    match failures {
        0 | 1 => FIRST_RETRY_DELAY,
        failures => Nanos(RETRY_DELAY_STEP.0 * (i64::from(failures) - 1)),
    }
}
