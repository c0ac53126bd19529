//! Property tests: the broker loses no evaluation, leases none twice, and leases them in order; a broker that takes
//! over knows the same evaluations.

use std::collections::{BTreeMap, BTreeSet};

use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::JobType;
use model::{EvalId, Index, JobKey, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;
use wire::broker::{Delivery, EvalLeaseAction};

use crate::core::Broker;
use crate::testing::{self, Scene, blocked, eval, number};

const CLASSES: [&str; 3] = ["a", "b", "c"];
/// Evaluations of a scene are identified by one byte. Follow-ups of failed ones have other ids.
const EVALS_MAX: u8 = 120;

#[derive(Debug, Clone)]
enum Event {
    /// A new evaluation of a job.
    Created { job: u8, priority: u16, batch: bool, wait_secs: u8 },
    /// Workers dequeue.
    Dequeued { max: usize },
    /// A worker submits an outcome, which may block the evaluation or create a blocked one.
    Finished { which: usize, blocks: bool, creates_blocked: bool, ineligible: u8, refused: bool },
    /// A worker sends a lease action.
    Said { which: usize, action: EvalLeaseAction },
    /// A class gains capacity.
    Unblocked { class: usize },
    /// The modify index of a pending evaluation rises.
    Raised { which: usize },
    /// An evaluation is canceled.
    Canceled { which: usize },
    /// Time passes.
    Passed { secs: u8 },
    /// The broker's commands are committed.
    Written,
}

impl Event {
    /// Whether the event commits a change, which the broker receives.
    fn is_commit(&self) -> bool {
        match self {
            Self::Created { .. }
            | Self::Finished { .. }
            | Self::Unblocked { .. }
            | Self::Raised { .. }
            | Self::Canceled { .. } => true,
            Self::Dequeued { .. } | Self::Said { .. } | Self::Passed { .. } | Self::Written => false,
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let action = prop_oneof![
        Just(EvalLeaseAction::Renew),
        Just(EvalLeaseAction::GiveBack),
        Just(EvalLeaseAction::Fail)
    ];
    prop_oneof![
        6 => (0..4u8, 1..4u16, any::<bool>(), prop_oneof![Just(0), 1..30u8]).prop_map(
            |(job, priority, batch, wait_secs)| Event::Created { job, priority, batch, wait_secs }
        ),
        5 => (1..3usize).prop_map(|max| Event::Dequeued { max }),
        5 => (0..4usize, any::<bool>(), any::<bool>(), 0..8u8, any::<bool>()).prop_map(
            |(which, blocks, creates_blocked, ineligible, refused)| {
                Event::Finished { which, blocks, creates_blocked, ineligible, refused }
            }
        ),
        3 => (0..4usize, action).prop_map(|(which, action)| Event::Said { which, action }),
        3 => (0..3usize).prop_map(|class| Event::Unblocked { class }),
        1 => any::<usize>().prop_map(|which| Event::Raised { which }),
        1 => any::<usize>().prop_map(|which| Event::Canceled { which }),
        2 => (1..40u8).prop_map(|secs| Event::Passed { secs }),
        2 => Just(Event::Written),
    ]
}

struct History {
    scene: Scene,
    created: u8,
    /// Deliveries that workers believe to hold.
    deliveries: Vec<Delivery>,
}

impl History {
    fn new() -> Self {
        Self { scene: Scene::new(), created: 0, deliveries: Vec::new() }
    }

    fn next_number(&mut self) -> Option<u8> {
        (self.created < EVALS_MAX).then(|| {
            self.created += 1;
            self.created
        })
    }

    fn live(&self) -> Vec<Evaluation> {
        self.scene.state.live_evals().map(|eval| Evaluation::clone(eval)).collect()
    }

    fn apply(&mut self, event: &Event) {
        match *event {
            Event::Created { job, priority, batch, wait_secs } => {
                let Some(number) = self.next_number() else { return };
                let kind = if batch { JobType::Batch } else { JobType::Service };
                let wait = Nanos::from_secs(wait_secs.into());
                self.scene.create([Evaluation { priority, kind, wait, ..eval(number, job) }]);
            }
            Event::Dequeued { max } => self.dequeue(max),
            Event::Finished { which, blocks, creates_blocked, ineligible, refused } => {
                let Some(delivery) = self.deliveries.get(which).copied() else { return };
                self.deliveries.remove(which);
                let Some(stored) = self.scene.state.eval(delivery.eval_id) else { return };
                if stored.status.is_terminal() || delivery.wait_index < stored.modify_index {
                    return; // the applier refuses the outcome
                }
                let (job, status) =
                    (stored.job.clone(), if blocks { EvalStatus::Blocked } else { EvalStatus::Complete });
                let created = if creates_blocked { self.next_number() } else { None };
                let created = created.map(|number| blocked_of(number, &job, ineligible, refused));
                let seen = delivery.wait_index;
                self.finish(delivery.eval_id, status, seen, created);
            }
            Event::Said { which, action } => {
                let Some(delivery) = self.deliveries.get(which).copied() else { return };
                self.scene.lease_action(delivery, action);
                if action != EvalLeaseAction::Renew {
                    self.deliveries.remove(which);
                }
            }
            Event::Unblocked { class } => self.scene.unblock(CLASSES[class]),
            Event::Raised { which } => self.change(which, None),
            Event::Canceled { which } => self.change(which, Some(EvalStatus::Canceled)),
            Event::Passed { secs } => self.scene.pass(Nanos::from_secs(secs.into())),
            Event::Written => {
                self.scene.write();
            }
        }
    }

    fn finish(&mut self, id: EvalId, status: EvalStatus, seen: Index, created: Option<Evaluation>) {
        // Follow-ups of failed evaluations have ids that a scene cannot name; they are not finished here.
        if testing::id(number(id)) == id {
            self.scene.finish_from(number(id), status, seen, created.into_iter().collect());
        }
    }

    fn change(&mut self, which: usize, status: Option<EvalStatus>) {
        let pending: Vec<EvalId> = self
            .live()
            .iter()
            .filter(|eval| eval.status == EvalStatus::Pending && testing::id(number(eval.id)) == eval.id)
            .map(|eval| eval.id)
            .collect();
        if !pending.is_empty() {
            self.scene.change(&[number(pending[which % pending.len()])], status);
        }
    }

    fn dequeue(&mut self, max: usize) {
        let ready_before = self.scene.broker.ready_count(JobType::ALL);
        let deliveries = self.scene.dequeue(JobType::ALL, max);
        assert_eq!(deliveries.len(), max.min(ready_before));
        let rank = |delivery: &Delivery| {
            let eval = self.scene.state.eval(delivery.eval_id).expect("leased evaluations exist");
            (std::cmp::Reverse(eval.priority), eval.create_index)
        };
        assert!(deliveries.is_sorted_by_key(rank), "the most urgent first, then the oldest");
        for delivery in &deliveries {
            let eval = self.scene.state.eval(delivery.eval_id).expect("leased evaluations exist");
            assert!(delivery.wait_index >= eval.modify_index);
            assert!(delivery.wait_index <= self.scene.state.index());
        }
        self.deliveries.extend(deliveries);
    }

    /// Checks that every live evaluation is in one place, and no other evaluation is in any.
    fn check(&mut self) {
        let live: BTreeSet<EvalId> = self.live().iter().map(|eval| eval.id).collect();
        assert_eq!(known(&self.scene.broker), live);

        // At most one evaluation of a job is leased, and no evaluation has two valid leases.
        let mut jobs = BTreeMap::<JobKey, EvalId>::new();
        for delivery in self.deliveries.clone() {
            if !self.scene.broker.holds(&delivery) {
                continue;
            }
            let job = self.scene.state.eval(delivery.eval_id).expect("leased evaluations exist").job.clone();
            assert_eq!(jobs.insert(job, delivery.eval_id), None, "two evaluations of a job are leased");
        }
    }

    /// Checks that a broker that takes over now loses nothing: it knows the same evaluations, and each job with a
    /// blocked evaluation still has one, blocked or queued.
    ///
    /// Which evaluation of a job is blocked may change. The new broker does not know that an evaluation was to be
    /// retried. It may also see at once that one is a duplicate of a newer one: either the one that was unblocked, or
    /// the one that is blocked while the newer one is unblocked.
    fn check_take_over(&mut self) {
        self.scene.write();
        let (known_before, blocked_before) = (known(&self.scene.broker), self.blocked_jobs());
        self.scene.take_over();
        self.scene.write();
        self.check();
        let known = known(&self.scene.broker);
        assert!(known.is_subset(&known_before));
        for id in known_before.difference(&known) {
            let eval = self.scene.state.eval(*id).expect("evaluations are not deleted here");
            assert!(eval.status_description.starts_with("existing blocked evaluation"), "{eval:?}");
        }
        let blocked =
            |id: &EvalId| self.scene.state.eval(*id).filter(|eval| eval.status == EvalStatus::Blocked);
        let blocked_or_queued = known.iter().filter_map(blocked).map(|eval| eval.job.clone()).collect();
        assert!(blocked_before.is_subset(&blocked_or_queued));
    }

    fn blocked_jobs(&self) -> BTreeSet<JobKey> {
        let blocked = self.scene.broker.blocked().ids().into_iter();
        blocked.filter_map(|id| self.scene.state.eval(id)).map(|eval| eval.job.clone()).collect()
    }
}

fn known(broker: &Broker) -> BTreeSet<EvalId> {
    let mut known = broker.queue().check();
    let duplicates = broker.blocked().duplicates().map(|(id, _)| id);
    for id in broker.blocked().ids().into_iter().chain(duplicates) {
        assert!(known.insert(id), "{id} is both queued and blocked");
    }
    known
}

fn blocked_of(number: u8, job: &JobKey, ineligible: u8, refused: bool) -> Evaluation {
    let class_eligibility = (0..3).map(|bit| (CLASSES[bit].into(), ineligible & (1 << bit) == 0)).collect();
    let trigger = if refused { EvalTrigger::MaxPlanAttempts } else { EvalTrigger::QueuedAllocs };
    Evaluation { job: job.clone(), class_eligibility, trigger, ..blocked(number, 0) }
}

proptest! {
    #[test]
    fn nothing_is_lost_and_nothing_is_worked_on_twice(events in vec(event(), 1..120)) {
        let mut history = History::new();
        for event in &events {
            history.apply(event);
            history.check();
        }
    }

    #[test]
    fn nothing_is_lost_if_the_broker_handles_changes_in_batches(events in vec((event(), any::<bool>()), 1..120)) {
        let mut history = History::new();
        for (event, is_alone) in &events {
            if *is_alone || !event.is_commit() {
                history.scene.release();
                history.check();
            }
            if event.is_commit() {
                history.scene.hold();
            }
            history.apply(event);
        }
        history.scene.release();
        history.check();
    }

    #[test]
    fn a_takeover_restores_the_same_state(events in vec(event(), 1..120), take_over_at in 0..120usize) {
        let mut history = History::new();
        for (number, event) in events.iter().enumerate() {
            // Retries without a capacity gain are not part of the state.
            if matches!(event, Event::Finished { refused: true, .. }) {
                continue;
            }
            history.apply(event);
            if number == take_over_at {
                history.check_take_over();
            }
        }
        history.check_take_over();
    }
}
