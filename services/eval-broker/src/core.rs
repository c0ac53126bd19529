//! [`Broker`]: the core of the evaluation broker. Keeps every live evaluation in the queue or among the blocked ones,
//! and follows the change feed.
//!
//! Pure: change sets, requests and times go in; answers and commands come out. It is level-triggered: after any change
//! of an evaluation, it moves the evaluation to where its state requires, so a broker that has just taken over manages
//! the same evaluations as one that ran before. A broker that stops loses only leases and superseded evaluations that
//! are not yet written; the applier makes that safe (`docs/architecture/evaluations.md`).

use std::sync::Arc;

use model::change::{Change, Concern, EvalChange, Unblocked, UnblockedChange};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::JobType;
use model::text::quoted;
use model::{Epoch, EvalId, Index, Nanos, RequestId, Text, Timestamp};
use planted_bugs::{Bug, is_planted};
use state::{Snapshot, State, Step};
use wire::WriteGate;
use wire::broker::{Delivery, EvalLeaseAction};
use wire::command::{EvalUpdate, UpdateEvals};

use crate::blocked::{BlockedEvals, Tracked};
use crate::queue::{EvalQueue, Finished, Settings};

/// Maximum number of evaluations in one command.
pub(crate) const WRITE_BATCH_MAX: usize = 728;
/// Interval at which unblock records that are no longer needed are deleted.
const FORGET_EVERY: Nanos = Nanos::from_mins(5);
/// Shortest and longest wait of the follow-up of a failed evaluation.
const FOLLOW_UP_WAIT: (Nanos, Nanos) = (Nanos::from_mins(1), Nanos::from_mins(6));

/// All live evaluations, in the queue or blocked.
#[derive(Debug)]
pub struct Broker {
    settings: Settings,
    state: Snapshot,
    /// An operator has paused the broker: nothing is queued or leased.
    paused: bool,
    queue: EvalQueue,
    blocked: BlockedEvals,
    gate: WriteGate,
    forget_at: Timestamp,
}

impl Broker {
    /// Restores the broker from `state`.
    pub fn restore(settings: Settings, state: Snapshot, now: Timestamp) -> Self {
        let mut broker = Self {
            settings,
            paused: is_paused(&state),
            queue: EvalQueue::new(settings),
            blocked: BlockedEvals::new(state.unblocked()),
            gate: WriteGate::default(),
            forget_at: now + FORGET_EVERY,
            state,
        };
        broker.restore_evals(now);
        broker
    }

    /// Applies changes of the state. Returns the evaluations that schedulers finished.
    pub fn step(&mut self, step: &Step, now: Timestamp) -> Vec<Finished> {
        self.state = Arc::clone(&step.after);
        self.gate.saw(self.state.index());
        if is_paused(&self.state) != self.paused {
            let gate = self.gate;
            *self = Self { gate, ..Self::restore(self.settings, Arc::clone(&step.after), now) };
            return Vec::new();
        }
        if self.paused {
            return Vec::new();
        }
        let now = self.not_before_state(now);
        let changes = || step.changes().map(broker_change);
        let mut finished = Vec::new();
        // Outcomes are handled first. Other changes of the same evaluation must not hide that a scheduler finished it.
        for change in changes() {
            if let BrokerChange::Outcome(eval) = change {
                finished.extend(self.handle_outcome(eval, now));
            }
        }
        for change in changes() {
            match change {
                BrokerChange::Evals(ids) => ids.iter().for_each(|id| self.reconcile(*id, now)),
                BrokerChange::RecordsDeleted(before) => self.blocked.forget_unblocked_before(before),
                BrokerChange::Outcome(_) | BrokerChange::Capacity(_) | BrokerChange::None => {}
            }
        }
        let gained = step.sets.iter().flat_map(|set| set.changes.iter().map(|change| (set.index, change)));
        for (index, change) in gained.filter(|_| !is_planted(Bug::NeverUnblocks)) {
            let BrokerChange::Capacity(unblocked) = broker_change(change) else { continue };
            for eval in self.blocked.unblock(unblocked, index) {
                self.queue.put(&eval, index, Some(now), now);
            }
        }
        finished
    }

    /// Leases the evaluations with the highest priority.
    pub fn dequeue(
        &mut self,
        kinds: &[JobType],
        max: usize,
        now: Timestamp,
        new_token: impl FnMut() -> RequestId,
    ) -> Vec<Delivery> {
        let now = self.not_before_state(now);
        let state = &self.state;
        self.queue.dequeue(kinds, max, now, |job| state.job_index(state::Table::Evals, job), new_token)
    }

    /// Number of ready evaluations of these types.
    pub fn ready_count(&self, kinds: &[JobType]) -> usize {
        self.queue.ready_count(kinds)
    }

    /// Carries out a worker's action on a leased evaluation; `false` if the worker no longer holds the lease.
    pub fn apply_lease_action(
        &mut self,
        id: EvalId,
        token: RequestId,
        action: EvalLeaseAction,
        now: Timestamp,
    ) -> bool {
        let now = self.not_before_state(now);
        self.queue.apply_lease_action(id, token, action, now)
    }

    /// When [`Self::handle_timeout`] next has something to do.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        let write =
            self.gate.from().map(|from| if self.has_to_write() { from } else { from.max(self.forget_at) });
        [self.queue.poll_timeout(), self.blocked.poll_timeout(), write].into_iter().flatten().min()
    }

    /// Handles what is due. Returns the evaluations whose leases expired.
    pub fn handle_timeout(&mut self, now: Timestamp) -> Vec<EvalId> {
        let now = self.not_before_state(now);
        let index = self.state.index();
        for eval in self.blocked.handle_timeout(now) {
            self.queue.put(&eval, index, Some(now), now);
        }
        self.queue.handle_timeout(now)
    }

    /// The next command, if any. No other command is returned until [`Self::written`] or [`Self::not_written`] is
    /// called.
    pub fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<UpdateEvals> {
        let now = self.not_before_state(now);
        if self.gate.from().is_none_or(|from| now < from) {
            return None;
        }
        let mut write =
            UpdateEvals { epoch, updates: Vec::new(), creates: Vec::new(), forget_unblocked_before: None };
        self.write_failed(&mut write, now);
        self.write_duplicates(&mut write);
        self.write_superseded(&mut write);
        if now >= self.forget_at {
            self.forget_at = now + FORGET_EVERY;
            write.forget_unblocked_before = self.forgettable();
        }
        if write.updates.is_empty() && write.forget_unblocked_before.is_none() {
            return None;
        }
        self.gate.begin();
        Some(write)
    }

    /// Reports that the command was committed at `index`.
    pub fn written(&mut self, index: Index) {
        self.gate.written(index, self.state.index());
    }

    /// Reports that the command was not committed, or that its outcome is unknown.
    pub fn not_written(&mut self, now: Timestamp) {
        self.gate.not_written(self.not_before_state(now));
    }

    pub(crate) fn queue(&self) -> &EvalQueue {
        &self.queue
    }

    pub(crate) fn blocked(&self) -> &BlockedEvals {
        &self.blocked
    }

    #[cfg(test)]
    pub(crate) fn holds(&self, delivery: &Delivery) -> bool {
        self.queue.holds(delivery.eval_id, delivery.token)
    }

    fn restore_evals(&mut self, now: Timestamp) {
        if self.paused || is_planted(Bug::ForgetsPendingEvals) {
            return;
        }
        let now = self.not_before_state(now);
        let state = Arc::clone(&self.state);
        let mut evals: Vec<&Arc<Evaluation>> = state.live_evals().collect();
        evals.sort_unstable_by_key(|eval| (eval.create_index, eval.id));
        evals.into_iter().for_each(|eval| self.route(eval, None, now));
    }

    /// Moves an evaluation to where its state requires.
    fn reconcile(&mut self, id: EvalId, now: Timestamp) {
        let state = Arc::clone(&self.state);
        match state.eval(id).filter(|eval| !eval.status.is_terminal()) {
            Some(eval) => self.route(eval, Some(now), now),
            None => {
                self.queue.remove(id);
                self.blocked.remove(id);
            }
        }
    }

    /// Handles a committed outcome of a scheduler. An outcome with a terminal status ends the evaluation's lease. An
    /// outcome that blocks the evaluation again ends it only if its snapshot is at the lease's wait index or later.
    fn handle_outcome(&mut self, outcome: &Evaluation, now: Timestamp) -> Option<Finished> {
        let id = outcome.id;
        let ends = outcome.status.is_terminal() || self.queue.is_ended_by(id, outcome.snapshot_index);
        let finished = ends.then(|| self.queue.finish(id, now)).flatten();
        self.reconcile(id, now);
        finished
    }

    /// Puts a live evaluation into the queue or among the blocked ones. One that was unblocked stays in the queue,
    /// whatever its status, until a scheduler has processed it.
    fn route(&mut self, eval: &Arc<Evaluation>, since: Option<Timestamp>, now: Timestamp) {
        let waits = eval.status == EvalStatus::Blocked && !self.queue.knows(eval.id);
        if waits && self.blocked.track(eval, now) == Tracked::Blocked {
            return;
        }
        self.blocked.remove(eval.id);
        let unblocked_at = if waits { self.state.index() } else { Index::ZERO };
        self.queue.put(eval, unblocked_at, since, now);
    }

    fn has_to_write(&self) -> bool {
        let queue = self.queue.failed().next().is_some() || self.queue.superseded().next().is_some();
        queue || self.blocked.duplicates().next().is_some()
    }

    /// Fails evaluations that reached the delivery limit, and creates a follow-up for each unless its job is gone
    ///
    fn write_failed(&self, write: &mut UpdateEvals, now: Timestamp) {
        let limit = self.settings.delivery_limit;
        for (eval, token) in self.queue.failed().take(WRITE_BATCH_MAX) {
            let follow_up = self.state.job(&eval.job).map(|_| follow_up(eval, token, now));
            write.updates.push(EvalUpdate {
                ids: vec![eval.id],
                status: EvalStatus::Failed,
                description: format!("evaluation reached delivery limit ({limit})").into(),
                next_eval: follow_up.as_ref().map(|follow_up| follow_up.id),
                unless_changed_since: None,
            });
            write.creates.extend(follow_up);
        }
    }

    /// Cancels duplicate blocked evaluations.
    fn write_duplicates(&self, write: &mut UpdateEvals) {
        let remaining = WRITE_BATCH_MAX - write.updates.len();
        for (id, job) in self.blocked.duplicates().take(remaining) {
            let description = format!("existing blocked evaluation exists for job {}", quoted(&job.id));
            write.updates.push(self.canceled(vec![id], description.into()));
        }
    }

    /// Cancels superseded evaluations.
    fn write_superseded(&self, write: &mut UpdateEvals) {
        let remaining = WRITE_BATCH_MAX - write.updates.len();
        let ids: Vec<EvalId> = self.queue.superseded().take(remaining).collect();
        if !ids.is_empty() {
            write.updates.push(self.canceled(ids, "canceled after more recent eval was processed".into()));
        }
    }

    fn canceled(&self, ids: Vec<EvalId>, description: Text) -> EvalUpdate {
        EvalUpdate {
            ids,
            status: EvalStatus::Canceled,
            description,
            next_eval: None,
            unless_changed_since: Some(self.state.index()),
        }
    }

    /// The index below which unblock records are not needed: no evaluation is blocked, or can still become blocked,
    /// with a snapshot older than that index. `None` if there are no such records.
    ///
    /// A pending evaluation can become blocked, or create a blocked one, with a snapshot as old as its modify index.
    fn forgettable(&self) -> Option<Index> {
        let snapshot_of = |eval: &Arc<Evaluation>| match eval.status {
            EvalStatus::Blocked => eval.snapshot_index,
            EvalStatus::Pending | EvalStatus::Complete | EvalStatus::Failed | EvalStatus::Canceled => {
                eval.modify_index
            }
        };
        let before = self.state.live_evals().map(snapshot_of).min().unwrap_or(self.state.index());
        self.state.unblocked().any(|(_, index)| index < before).then_some(before)
    }

    /// The later of `now` and the time of the state. With a slow clock, something that the cluster knows to be due
    /// would not be due here.
    fn not_before_state(&self, now: Timestamp) -> Timestamp {
        now.max(self.state.at())
    }
}

/// The effect of a change on the broker.
enum BrokerChange<'a> {
    Evals(&'a [EvalId]),
    Outcome(&'a Evaluation),
    Capacity(&'a Unblocked),
    RecordsDeleted(Index),
    None,
}

fn broker_change(change: &Change) -> BrokerChange<'_> {
    match change.concern() {
        Concern::Evals(change) => match change {
            EvalChange::Eval(eval) => BrokerChange::Evals(std::slice::from_ref(&eval.id)),
            EvalChange::EvalOutcome(eval) => BrokerChange::Outcome(eval),
            EvalChange::PlanApplied { eval_id, .. } => BrokerChange::Evals(std::slice::from_ref(eval_id)),
            EvalChange::EvalsChanged(changed) => BrokerChange::Evals(&changed.ids),
            EvalChange::EvalsDeleted(ids) => BrokerChange::Evals(ids),
        },
        Concern::Unblocked(UnblockedChange::Unblocked(unblocked)) => BrokerChange::Capacity(unblocked),
        Concern::Unblocked(UnblockedChange::UnblockedForgotten(before)) => {
            BrokerChange::RecordsDeleted(*before)
        }
        Concern::Jobs(_)
        | Concern::JobSubmissions(_)
        | Concern::JobSummaries(_)
        | Concern::Deployments(_)
        | Concern::Nodes(_)
        | Concern::Allocs(_)
        | Concern::SchedulerConfig(_)
        | Concern::Leases(_)
        | Concern::Small(_) => BrokerChange::None,
    }
}

fn is_paused(state: &State) -> bool {
    state.scheduler_config().is_some_and(|config| config.pause_eval_broker)
}

/// The follow-up of an evaluation that reached the delivery limit. Its id, and thereby its wait, is derived
/// from the token of the last delivery, so repeating the command creates the same evaluation.
fn follow_up(eval: &Evaluation, token: RequestId, now: Timestamp) -> Evaluation {
    let id = EvalId::derived(token, 0);
    let (shortest, longest) = FOLLOW_UP_WAIT;
    let jitter = id.0.as_u64_pair().1 % (longest.0 - shortest.0).unsigned_abs();
    Evaluation {
        wait: shortest + Nanos(i64::try_from(jitter).expect("the jitter is less than the longest wait")),
        previous_eval: Some(eval.id),
        trace: eval.trace,
        create_time: now,
        modify_time: now,
        ..Evaluation::new(id, eval.job.clone(), eval.kind, eval.priority, EvalTrigger::FailedFollowUp)
    }
}
