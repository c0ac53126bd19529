//! Test scenes: evaluations identified by numbers, a state to which change sets are applied, and a broker that follows
//! it. The scene simulates the applier: it commits the broker's commands and the schedulers' outcomes.

use std::sync::Arc;

use model::change::{Cause, Change, ChangeSet, EvalsChanged, Unblocked};
use model::cluster::SchedulerConfig;
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{Job, JobSpec, JobType};
use model::{Epoch, EvalId, HistoryId, Index, JobKey, Nanos, NodeId, RequestId, Timestamp};
use state::{Snapshot, State, Step};
use wire::broker::{Delivery, EvalLeaseAction};
use wire::command::UpdateEvals;

use crate::core::Broker;
use crate::queue::Settings;

pub(crate) const SETTINGS: Settings = Settings { lease: Nanos::from_secs(10), delivery_limit: 3 };

/// No evaluations, as a list of numbers.
pub(crate) const NONE: [u8; 0] = [];

pub(crate) struct Scene {
    pub(crate) state: Snapshot,
    pub(crate) broker: Broker,
    pub(crate) now: Timestamp,
    tokens: u64,
    /// Change sets that the broker has not received yet, and the state before them.
    held: Option<(Snapshot, Vec<Arc<ChangeSet>>)>,
}

pub(crate) fn id(number: u8) -> EvalId {
    EvalId::from_bytes([number; 16])
}

pub(crate) fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

pub(crate) fn job(number: u8) -> JobKey {
    JobKey::new("default", format!("job-{number}"))
}

/// A pending evaluation of a service job.
pub(crate) fn eval(number: u8, job_number: u8) -> Evaluation {
    Evaluation::new(id(number), job(job_number), JobType::Service, 50, EvalTrigger::JobRegister)
}

/// A blocked evaluation for which any class may be feasible.
pub(crate) fn blocked(number: u8, job_number: u8) -> Evaluation {
    Evaluation { status: EvalStatus::Blocked, trigger: EvalTrigger::QueuedAllocs, ..eval(number, job_number) }
}

impl Scene {
    /// No evaluations, and jobs 0 to 9.
    pub(crate) fn new() -> Self {
        let now = Timestamp::from_secs(1_800_000_000);
        let state = Snapshot::new(State::new(HistoryId::default(), crate::SCOPE));
        let broker = Broker::restore(SETTINGS, state.clone(), now);
        let mut scene = Self { state, broker, now, tokens: 0, held: None };
        let registered = |number| {
            let JobKey { namespace, id } = job(number);
            let spec = JobSpec { namespace, id, ..JobSpec::default() };
            Change::Job(Arc::new(Job { spec: Arc::new(spec), create_index: Index(1), ..Job::default() }))
        };
        scene.apply((0..10).map(registered).collect());
        scene
    }

    /// The broker receives what is committed from here on later, in one step.
    pub(crate) fn hold(&mut self) {
        if self.held.is_none() {
            self.held = Some((Arc::clone(&self.state), Vec::new()));
        }
    }

    /// The broker receives what was held.
    pub(crate) fn release(&mut self) {
        let Some((before, sets)) = self.held.take() else { return };
        if !sets.is_empty() {
            let after = Arc::clone(&self.state);
            self.broker.step(&Step::new(before, sets, after), self.now);
        }
    }

    /// Commits changes at the next index; the broker follows.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        let set = ChangeSet {
            index: self.state.index().next(),
            at: self.now,
            request_id: RequestId::from_bytes([0; 16]),
            cause: Cause::PlanResult,
            trace: None,
            result: Vec::new(),
            changes,
        };
        let mut after = State::clone(&self.state);
        after.apply(&set).expect("the change applies to the state");
        let (before, after) = (Arc::clone(&self.state), Arc::new(after));
        self.state = Arc::clone(&after);
        if let Some((_, held)) = &mut self.held {
            return held.push(Arc::new(set));
        }
        self.broker.step(&Step::new(before, vec![Arc::new(set)], after), self.now);
    }

    /// Commits new evaluations.
    pub(crate) fn create(&mut self, evals: impl IntoIterator<Item = Evaluation>) {
        let changes = evals.into_iter().map(|eval| Change::Eval(Arc::new(self.stamped(eval)))).collect();
        self.apply(changes);
    }

    /// Commits the outcome of an evaluation, with the evaluations that it creates.
    pub(crate) fn finish(&mut self, number: u8, status: EvalStatus, creates: Vec<Evaluation>) {
        self.finish_from(number, status, self.state.index(), creates);
    }

    /// The same, from a snapshot at an older index.
    pub(crate) fn finish_from(
        &mut self,
        number: u8,
        status: EvalStatus,
        snapshot_index: Index,
        creates: Vec<Evaluation>,
    ) {
        let stored = Evaluation::clone(self.state.eval(id(number)).expect("the evaluation exists"));
        let modify_index = self.state.index().next();
        let outcome = Evaluation { status, snapshot_index, modify_index, ..stored };
        let plan = Change::PlanApplied { job: outcome.job.clone(), eval_id: outcome.id };
        let creates = creates.into_iter().map(|eval| {
            let eval = Evaluation { snapshot_index, ..self.stamped(eval) };
            Change::Eval(Arc::new(eval))
        });
        let changes = [plan, Change::EvalOutcome(Arc::new(outcome))].into_iter().chain(creates).collect();
        self.apply(changes);
    }

    /// Commits a change of evaluations without a scheduler.
    pub(crate) fn change(&mut self, numbers: &[u8], status: Option<EvalStatus>) {
        let status = status.map(|status| (status, "".into()));
        let ids = numbers.iter().copied().map(id).collect();
        self.apply(vec![Change::EvalsChanged(EvalsChanged { ids, status, next_eval: None })]);
    }

    /// Commits a capacity gain of a class.
    pub(crate) fn unblock(&mut self, class: &str) {
        self.unblock_all(Unblocked { classes: vec![class.into()], ..Unblocked::default() });
    }

    pub(crate) fn unblock_all(&mut self, unblocked: Unblocked) {
        self.apply(vec![Change::Unblocked(unblocked)]);
    }

    pub(crate) fn pause(&mut self, pause: bool) {
        let config = SchedulerConfig { pause_eval_broker: pause, ..SchedulerConfig::default() };
        self.apply(vec![Change::SchedulerConfig(config)]);
    }

    /// Another broker takes over.
    pub(crate) fn take_over(&mut self) {
        self.broker = Broker::restore(SETTINGS, Arc::clone(&self.state), self.now);
    }

    /// Time passes.
    pub(crate) fn pass(&mut self, length: Nanos) {
        self.now = self.now + length;
        self.broker.handle_timeout(self.now);
    }

    /// Time passes until the broker has something to do. Returns how long that was.
    pub(crate) fn pass_to_timeout(&mut self) -> Nanos {
        let due = self.broker.poll_timeout().expect("the broker has a timeout");
        let length = due - self.now;
        self.pass(length);
        length
    }

    pub(crate) fn dequeue(&mut self, kinds: &[JobType], max: usize) -> Vec<Delivery> {
        let tokens = &mut self.tokens;
        let new_token = || {
            *tokens += 1;
            RequestId::from_bytes((u128::from(*tokens) << 8).to_be_bytes())
        };
        self.broker.dequeue(kinds, max, self.now, new_token)
    }

    /// Leases one evaluation of any type.
    pub(crate) fn dequeue_one(&mut self) -> Option<Delivery> {
        self.dequeue(JobType::ALL, 1).pop()
    }

    /// Leases all ready evaluations, and returns their numbers.
    pub(crate) fn dequeue_all(&mut self) -> Vec<u8> {
        self.dequeue(JobType::ALL, usize::MAX).into_iter().map(|delivery| number(delivery.eval_id)).collect()
    }

    pub(crate) fn lease_action(&mut self, delivery: Delivery, action: EvalLeaseAction) -> bool {
        self.broker.apply_lease_action(delivery.eval_id, delivery.token, action, self.now)
    }

    /// Commits the broker's commands until there are no more, and returns them.
    pub(crate) fn write(&mut self) -> Vec<UpdateEvals> {
        let mut writes = Vec::new();
        while let Some(write) = self.broker.next_write(Epoch(1), self.now) {
            self.commit(&write);
            self.broker.written(self.state.index());
            writes.push(write);
        }
        writes
    }

    /// Commits a command as the applier does.
    pub(crate) fn commit(&mut self, write: &UpdateEvals) {
        let mut changes = Vec::new();
        for update in &write.updates {
            let since = update.unless_changed_since.unwrap_or(Index(u64::MAX));
            let stored = update.ids.iter().filter_map(|id| self.state.eval(*id));
            let live = stored.filter(|eval| !eval.status.is_terminal() && eval.modify_index <= since);
            let ids: Vec<EvalId> = live.map(|eval| eval.id).collect();
            let status = Some((update.status, update.description.clone()));
            changes.push(Change::EvalsChanged(EvalsChanged { ids, status, next_eval: update.next_eval }));
        }
        changes.extend(write.creates.iter().map(|eval| Change::Eval(Arc::new(self.stamped(eval.clone())))));
        changes.extend(write.forget_unblocked_before.map(Change::UnblockedForgotten));
        self.apply(changes);
    }

    pub(crate) fn stored(&self, number: u8) -> &Evaluation {
        self.state.eval(id(number)).expect("the evaluation exists")
    }

    /// Sets the indexes and times of a new evaluation, as the applier does.
    fn stamped(&self, eval: Evaluation) -> Evaluation {
        let index = self.state.index().next();
        Evaluation {
            create_index: index,
            modify_index: index,
            create_time: self.now,
            modify_time: self.now,
            ..eval
        }
    }
}

/// The number of an evaluation of a scene.
pub(crate) fn number(id: EvalId) -> u8 {
    id.as_bytes()[0]
}
