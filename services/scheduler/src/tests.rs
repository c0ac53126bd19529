//! Tests of workers with a simulated broker and applier, over a real nats-server.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, Requests};
use model::change::Change;
use model::cluster::SchedulerConfig;
use model::eval::{EvalStatus, Evaluation};
use model::job::JobType;
use model::plan::{Outcome, Plan};
use model::{HistoryId, Index, NodeId, RequestId};
use private_servers::Nats;
use scheduling::{Attempt, NewId, Proposal};
use state::{Replica, State};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use wire::broker::{Delivery, Dequeue, Dequeued, EvalLeaseAction, EvalLeaseRequest, EvalLeaseResponse};
use wire::command::{Answer, Command, Done, PlanResult, PlanVerdict, SubmitPlan};
use wire::{Role, Subject};

use super::{Args, Workers};
use crate::testing::{self, eval};
use crate::worker::Schedule;

/// Makes a test fail instead of hang.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the simulated broker holds a request.
const POLL: Duration = Duration::from_millis(200);
/// Priority of an evaluation on which the simulated scheduler panics.
const FAILING: u16 = 13;

struct Scene {
    _nats: Nats,
    replica: Arc<Replica>,
    workers: Workers,
    stop: CancellationToken,
    /// Evaluations that the broker leases.
    deliveries: mpsc::Sender<Delivery>,
    lease_requests: Requests,
    commands: Requests,
}

impl Scene {
    /// Workers whose replica starts with these changes.
    async fn new(changes: Vec<Change>) -> Self {
        Self::with(changes, schedule).await
    }

    async fn with(changes: Vec<Change>, schedule: Schedule) -> Self {
        let nats = soon(Nats::temporary()).await.unwrap();
        let args = |role| {
            let credentials = nats.credentials(role).unwrap();
            bus::Args { credentials, ..bus::Args::new(vec![nats.url().parse().unwrap()]) }
        };
        let services = soon(Bus::connect(&args(Role::Observer), Role::Observer)).await.unwrap();
        let (deliveries, to_deliver) = mpsc::channel(8);
        let dequeues = services.serve(Subject::Dequeue.to_string()).await.unwrap();
        tokio::spawn(broker(dequeues, to_deliver));
        let lease_requests = services.serve(Subject::EvalLease.to_string()).await.unwrap();
        let commands = services.serve(Subject::EVERY_COMMAND).await.unwrap();

        let replica = Arc::new(Replica::new(State::new(HistoryId::default(), crate::SCOPE)));
        replica.apply(vec![Arc::new(testing::following(&State::default(), changes))]).unwrap();
        let stop = CancellationToken::new();
        let bus = soon(Bus::connect(&args(Role::Scheduler), Role::Scheduler)).await.unwrap();
        let settings = Args { workers: Some(2), schedulers: JobType::ALL.to_vec() };
        let workers =
            Workers::start_with(&settings, bus, Arc::clone(&replica), stop.clone(), schedule).unwrap();
        Self { _nats: nats, replica, workers, stop, deliveries, lease_requests, commands }
    }

    fn apply(&self, changes: Vec<Change>) {
        let following = testing::following(&self.replica.snapshot(), changes);
        self.replica.apply(vec![Arc::new(following)]).unwrap();
    }

    async fn deliver(&self, eval: &Evaluation, wait_index: u64, lease_ms: u32) {
        let delivery = Delivery {
            eval_id: eval.id,
            priority: eval.priority,
            kind: eval.kind,
            token: RequestId::from_bytes([9; 16]),
            wait_index: Index(wait_index),
            lease_ms,
        };
        self.deliveries.send(delivery).await.unwrap();
    }

    /// The next plan, which is answered with this verdict.
    async fn plan(&mut self, verdict: PlanVerdict, refresh_index: u64) -> SubmitPlan {
        let request = soon(self.commands.next()).await.unwrap();
        let Command::SubmitPlan(plan) = request.body().unwrap() else { panic!("workers submit plans only") };
        let result = PlanResult { verdict, refresh_index: Index(refresh_index), rejected_nodes: Vec::new() };
        request.answer(&Answer::Done(Done { plan: Some(result), ..Done::default() })).await;
        *plan
    }

    /// The next lease action that a worker sends to the broker.
    async fn lease_action(&mut self, held: bool) -> EvalLeaseAction {
        let request = soon(self.lease_requests.next()).await.unwrap();
        let EvalLeaseRequest { action, .. } = request.body().unwrap();
        request.answer(&EvalLeaseResponse { held }).await;
        action
    }

    async fn end(self) {
        self.stop.cancel();
        soon(self.workers.stopped(&self.stop)).await.unwrap();
    }
}

async fn broker(mut dequeues: Requests, mut to_deliver: mpsc::Receiver<Delivery>) {
    while let Some(request) = dequeues.next().await {
        let dequeue: Dequeue = request.body().unwrap();
        assert!(dequeue.max > 1, "workers request several evaluations");
        let evals = tokio::time::timeout(POLL, to_deliver.recv()).await.ok().flatten();
        request.answer(&Dequeued { evals: evals.into_iter().collect() }).await;
    }
}

/// Finishes evaluations. The plan's priority is the number of attempts without progress.
fn schedule(attempt: &Attempt<'_>, new_id: NewId<'_>) -> Proposal {
    assert_ne!(attempt.eval.priority, FAILING);
    assert_ne!(new_id(), new_id());
    let plan = Plan {
        priority: attempt.attempts_without_progress.into(),
        ..Plan::new(attempt.eval, None, attempt.state.index())
    };
    let eval = Evaluation { status: EvalStatus::Complete, ..attempt.eval.clone() };
    Proposal { plan, outcome: Outcome { eval: Box::new(eval), creates: Vec::new() } }
}

fn created(eval: &Evaluation) -> Change {
    Change::Eval(Arc::new(eval.clone()))
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("timed out")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_is_attempted_until_its_plan_is_taken_whole() {
    let eval = eval(1);
    let mut scene = Scene::new(Vec::new()).await;
    scene.deliver(&eval, 3, 60_000).await;
    scene.apply(vec![created(&eval)]);
    scene.apply(Vec::new());

    let first = scene.plan(PlanVerdict::Nothing, 4).await;
    assert_eq!(first.plan.eval_id, eval.id);
    assert_eq!(first.plan.snapshot_index, Index(3));
    assert_eq!(first.outcome.eval.status, EvalStatus::Complete);
    scene.apply(Vec::new());
    let second = scene.plan(PlanVerdict::Stale, 5).await;
    assert_eq!((second.plan.snapshot_index, second.plan.priority), (Index(4), 1));
    scene.apply(Vec::new());
    let third = scene.plan(PlanVerdict::Whole, 0).await;
    assert_eq!((third.plan.snapshot_index, third.plan.priority), (Index(5), 1));

    // The next message must be about the next evaluation.
    let failing = Evaluation { priority: FAILING, ..testing::eval(2) };
    scene.apply(vec![created(&failing)]);
    scene.deliver(&failing, 6, 60_000).await;
    assert_eq!(scene.lease_action(true).await, EvalLeaseAction::Fail);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_waits_renews_and_stops_when_it_is_told_to() {
    let (first, second) = (eval(1), eval(2));
    let mut scene = Scene::new(vec![created(&first), created(&second)]).await;
    scene.deliver(&first, 2, 100).await; // the replica has not reached index 2
    assert_eq!(scene.lease_action(true).await, EvalLeaseAction::Renew);
    assert_eq!(scene.lease_action(false).await, EvalLeaseAction::Renew);
    scene.deliver(&second, 1, 60_000).await;
    let plan = scene.plan(PlanVerdict::Whole, 0).await;
    assert_eq!(plan.plan.eval_id, second.id);
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unfinished_evaluations_are_returned_when_the_workers_stop() {
    let eval = eval(1);
    let mut scene = Scene::new(vec![created(&eval)]).await;
    scene.deliver(&eval, 1, 60_000).await;
    let unanswered = soon(scene.commands.next()).await.unwrap();
    scene.stop.cancel();
    assert_eq!(scene.lease_action(true).await, EvalLeaseAction::GiveBack);
    scene.end().await;
    drop(unanswered);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_dequeued_while_workers_pause() {
    let eval = eval(1);
    let pause = |pause_eval_broker| {
        Change::SchedulerConfig(SchedulerConfig { pause_eval_broker, ..SchedulerConfig::default() })
    };
    let mut scene = Scene::new(vec![created(&eval), pause(true)]).await;
    scene.workers.pause();
    scene.deliver(&eval, 1, 60_000).await;
    scene.apply(vec![pause(false)]);
    assert_eq!(scene.deliveries.capacity(), scene.deliveries.max_capacity() - 1, "no worker sent a request");
    scene.workers.resume();
    let plan = scene.plan(PlanVerdict::Whole, 0).await;
    assert_eq!(plan.plan.snapshot_index, Index(2), "it was dequeued after the pause");
    scene.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn outstanding_plans_do_not_use_the_same_capacity() {
    // Two nodes, each with capacity for two jobs. The first two jobs fill the best node, the next two the other one.
    let evals = [1, 2, 3, 4, 5].map(eval);
    let jobs = (1..=5).map(|number| Change::Job(Arc::new(testing::job(number))));
    let changes =
        [testing::ready(1), testing::ready(2)].into_iter().chain(jobs).chain(evals.iter().map(created));
    let mut scene = Scene::with(changes.collect(), scheduling::schedule).await;
    let mut unanswered = Vec::new();
    let mut chosen: Vec<NodeId> = Vec::new();
    for eval in &evals {
        scene.deliver(eval, 1, 60_000).await;
        let request = soon(scene.commands.next()).await.unwrap();
        let Command::SubmitPlan(submitted) = request.body().unwrap() else { panic!("workers submit plans") };
        assert_eq!(submitted.plan.eval_id, eval.id);
        assert_eq!(submitted.outcome.eval.failed_groups, BTreeMap::new());
        chosen.extend(&submitted.plan.placements[0].nodes);
        if chosen.len() == 1 {
            // The plan is committed, but the replica does not receive the result.
            let plan = PlanResult {
                verdict: PlanVerdict::Whole,
                refresh_index: Index::default(),
                rejected_nodes: Vec::new(),
            };
            let done = Done { index: Index(100), written: true, plan: Some(plan), ..Done::default() };
            request.answer(&Answer::Done(done)).await;
        } else {
            unanswered.push(request);
        }
    }
    assert_eq!((chosen[0], chosen[2]), (chosen[1], chosen[3]));
    assert_ne!(chosen[0], chosen[2]);
    // With the outstanding placements there is no capacity for the last job. It is placed without them, because they may
    // fail to commit.
    assert_eq!(chosen[4], chosen[0]);
    scene.stop.cancel();
    for _ in &unanswered {
        assert_eq!(scene.lease_action(true).await, EvalLeaseAction::GiveBack);
    }
    scene.end().await;
}
