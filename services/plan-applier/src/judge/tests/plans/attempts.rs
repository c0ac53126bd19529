//! Which attempts count, and how they change their evaluation.

use std::sync::Arc;

use model::alloc::AllocMetric;
use model::change::Change;
use model::cluster::NodePool;
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{JobStatus, JobType};
use model::plan::{Outcome, Plan};
use model::{EvalId, Index, JobVersionKey, RequestId};
use wire::RefusalKind;
use wire::broker::SCHEDULER_VERSION;
use wire::command::{Command, DeregisterJob, EvaluateJob, PlanVerdict, SetNodePool, SubmitPlan};

use super::super::describe::assert_same;
use super::super::scene::{Scene, service, submission};
use super::{eval, stops};
use crate::batch::{Batch, Incoming, Reply};
use crate::judge::Settings;

#[test]
fn a_worker_of_another_version_places_nothing() {
    // Plans of schedulers of another version are refused.
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let outcome = scene.complete(&plan);
    let scheduler_version = SCHEDULER_VERSION + 1;
    let refused =
        scene.refused(Command::SubmitPlan(Box::new(SubmitPlan { plan, outcome, scheduler_version })));
    let text = "plan disallowed: calling scheduler version is 2; applier version is 1";
    assert_eq!(refused, (RefusalKind::Outdated, text.to_owned()));
}

#[test]
fn an_empty_plan_is_an_attempt_and_finishes_its_evaluation() {
    // An empty plan counts as an attempt, and its outcome is written (`docs/architecture/evaluations.md`, R-1.21).
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let eval_id = plan.eval_id;
    let snapshot = plan.snapshot_index;
    let result = scene.submit(plan);
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Whole, Index::ZERO));
    let index = scene.state.index();
    assert_eq!(scene.state.plan_index(&job), index);
    let eval = scene.eval(eval_id);
    assert_eq!(
        (eval.status, eval.modify_index, eval.snapshot_index),
        (EvalStatus::Complete, index, snapshot)
    );
    assert!(eval.modify_time > eval.create_time, "R-1.3");
    assert!(scene.last().iter().any(|change| matches!(change, Change::EvalOutcome(_))));
    assert_eq!(scene.job_status(&job), JobStatus::Dead);
}

#[test]
fn of_two_workers_on_one_job_the_second_starts_over() {
    // An attempt is stale if another one for the same job was accepted after its snapshot (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.register(service("web"));
    let mut second = scene.plan(&job);
    second.eval_id = scene.pending(&job)[1].id;
    second.placements = vec![scene.placements(&second, &[node])];
    scene.place(&job, &[node]);
    let taken = scene.state.index();
    let result = scene.submit(second.clone());
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Stale, taken));
    assert_eq!(scene.state.alloc_count(), 1);
    let result = scene.submit(Plan { snapshot_index: taken, ..second });
    assert_eq!(result.verdict, PlanVerdict::Whole);
}

#[test]
fn an_evaluation_that_is_over_takes_no_more_plans() {
    // A terminal or deleted evaluation refuses plans permanently (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let outcome = scene.complete(&plan);
    scene.submit(plan.clone());
    let again = Plan { snapshot_index: scene.state.index(), ..plan.clone() };
    assert_eq!(scene.refused(submission(again, outcome.clone())).0, RefusalKind::Conflict);
    let gone = Plan { eval_id: EvalId::from_bytes([9; 16]), ..plan };
    assert_eq!(scene.refused(submission(gone, outcome)).0, RefusalKind::NotFound);
}

#[test]
fn a_plan_that_contradicts_itself_is_refused() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let other = scene.register(service("other"));
    let plan = scene.plan(&job);
    let outcome = scene.complete(&plan);
    let placements = scene.placements(&plan, &[node, node]);

    let foreign = Plan { job: scene.plan(&other).job, ..plan.clone() };
    let mut uneven = placements.clone();
    uneven.name_index.pop();
    let mut twice = placements.clone();
    twice.ids.0[1] = twice.ids.0[0];
    let ahead = Plan { snapshot_index: scene.state.index().next(), ..plan.clone() };
    let with = |placements| Plan { placements: vec![placements], ..plan.clone() };
    let plans = [
        (foreign, RefusalKind::Invalid),
        (with(uneven), RefusalKind::Invalid),
        (with(twice), RefusalKind::Invalid),
        (ahead, RefusalKind::Conflict),
    ];
    for (plan, kind) in plans {
        assert_eq!(scene.refused(submission(plan, outcome.clone())).0, kind);
    }
    let other = scene.complete(&scene.plan(&other));
    let pending = Box::new(Evaluation { status: EvalStatus::Pending, ..(*outcome.eval).clone() });
    let existing = Outcome { creates: vec![(*outcome.eval).clone()], ..outcome.clone() };
    for outcome in [other, Outcome { eval: pending, creates: Vec::new() }, existing] {
        assert_eq!(scene.refused(submission(plan.clone(), outcome)).0, RefusalKind::Invalid);
    }
}

#[test]
fn a_plan_that_is_refused_leaves_nothing_of_itself_in_its_batch() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let mut twice = scene.placements(&plan, &[node, node]);
    twice.ids.0[1] = twice.ids.0[0];
    let outcome = scene.complete(&plan);
    let contradictory = submission(Plan { placements: vec![twice], ..plan }, outcome);

    let mut overlay = scene.state.clone();
    let mut batch = Batch::on(&overlay);
    let pool = |name: &str| {
        let pool = NodePool { name: name.into(), ..NodePool::default() };
        Command::SetNodePool(Box::new(SetNodePool { pool }))
    };
    for (number, command) in (1..).zip([pool("first"), contradictory, pool("second")]) {
        let id = RequestId::from_bytes([number; 16]);
        let incoming = Incoming { id, trace: None, command };
        batch.add(&mut overlay, incoming, scene.now, &|_| true, Settings::default());
    }
    let is_refused: Vec<bool> =
        batch.replies.iter().map(|(_, reply)| matches!(reply, Reply::Refuse(_))).collect();
    assert_eq!(is_refused, [false, true, false]);
    let mut applied = scene.state.clone();
    batch.sets.iter().for_each(|set| applied.apply(set).unwrap());
    assert_same(&overlay, &applied);
    assert!(overlay.node_pool("first").is_some() && overlay.node_pool("second").is_some());
}

#[test]
fn a_late_attempt_may_place_but_does_not_finish_its_evaluation() {
    // An attempt whose snapshot is older than its evaluation's modify index may place, but its outcome is dropped
    // (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let nodes = [scene.node(), scene.node()];
    let job = scene.register(service("web"));
    scene.place(&job, &nodes);
    scene.missed(&nodes[..1]);
    let mut plan = scene.plan(&job);
    let eval_id = plan.eval_id;
    scene.missed(&nodes[1..]);
    let raised = scene.eval(eval_id).modify_index;

    let empty = scene.submit(plan.clone());
    assert_eq!(
        (empty.verdict, empty.refresh_index),
        (PlanVerdict::Stale, raised),
        "the attempt does not count"
    );
    let node = scene.node();
    plan.placements = vec![scene.placements(&plan, &[node])];
    let result = scene.submit(plan);
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Part, scene.state.index()));
    assert_eq!(scene.eval(eval_id).status, EvalStatus::Pending);
    assert_eq!(scene.state.alloc_count(), 3);
}

#[test]
fn a_job_that_was_stopped_meanwhile_gets_nothing_new() {
    // Placements for a stopped job are dropped (N-8.1, R-3.36).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let mut plan = scene.plan(&job);
    plan.placements = vec![scene.placements(&plan, &[node])];
    let (purge, eval_priority, no_shutdown_delay) = (false, None, false);
    let stop = DeregisterJob { job, purge, eval_priority, no_shutdown_delay };
    scene.done(Command::DeregisterJob(stop));
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    assert_eq!(scene.state.alloc_count(), 0);
}

#[test]
fn an_attempt_that_saw_no_job_starts_over_when_there_is_one() {
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let (purge, eval_priority, no_shutdown_delay) = (true, None, false);
    scene.done(Command::DeregisterJob(DeregisterJob {
        job: job.clone(),
        purge,
        eval_priority,
        no_shutdown_delay,
    }));
    let plan = scene.plan(&job);
    assert_eq!(plan.job, None);
    scene.register(service("web"));
    let registered = scene.state.index();
    let result = scene.submit(plan);
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Stale, registered));
}

#[test]
fn a_version_that_was_forgotten_meanwhile_starts_the_attempt_over() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let mut plan = scene.plan(&job);
    plan.placements = vec![scene.placements(&plan, &[node])];
    for count in 2..9 {
        let mut spec = service("web");
        spec.task_groups[0].count = count;
        scene.register(spec);
    }
    let result = scene.submit(plan.clone());
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Stale, scene.state.index()));
    let version = JobVersionKey { create_index: Index(999), ..plan.job.clone().unwrap() };
    let outcome = scene.complete(&plan);
    let purged = submission(Plan { job: Some(version), ..plan }, outcome);
    assert_eq!(scene.refused(purged).0, RefusalKind::Conflict);
}

#[test]
fn a_plan_for_a_job_that_was_purged_and_registered_again_is_refused_for_good() {
    // A plan for another incarnation of the job is refused permanently (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let mut plan = scene.plan(&job);
    plan.placements = vec![scene.placements(&plan, &[node])];
    let (purge, eval_priority, no_shutdown_delay) = (true, None, false);
    let stop = DeregisterJob { job: job.clone(), purge, eval_priority, no_shutdown_delay };
    scene.done(Command::DeregisterJob(stop));
    scene.register(service("web"));
    assert_eq!(scene.job(&job).version, 0, "a new job with the same name");
    let outcome = scene.complete(&plan);
    assert_eq!(scene.refused(submission(plan, outcome)).0, RefusalKind::Conflict);
    assert_eq!(scene.state.alloc_count(), 0);
}

#[test]
fn an_outcome_comes_with_what_follows_it() {
    // An outcome is written with its blocked evaluation and the queued counts (R-1.18, R-1.46, N-25.5).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let mut plan = scene.plan(&job);
    plan.placements = vec![scene.placements(&plan, &[node])];
    let blocked = eval(&mut scene, &job, EvalStatus::Blocked);
    let mut outcome = scene.complete(&plan);
    outcome.eval.failed_groups = [("app".into(), AllocMetric::default())].into();
    outcome.eval.queued = [("app".into(), 4), ("gone".into(), 1)].into();
    outcome.eval.blocked_eval = Some(blocked.id);
    outcome.creates = vec![blocked.clone()];
    let snapshot = plan.snapshot_index;
    scene.submit_with(plan, outcome);
    let index = scene.state.index();
    let stored = scene.eval(blocked.id);
    assert_eq!(
        (stored.create_index, stored.snapshot_index, stored.status),
        (index, snapshot, EvalStatus::Blocked)
    );
    assert!(stored.trace.is_some() && stored.create_time == scene.now);
    let groups = &scene.summary(&job).groups;
    assert_eq!((groups.len(), groups["app"].queued, groups["app"].starting), (1, 4, 1));
}

#[test]
fn success_cancels_what_waited_for_room() {
    // A complete evaluation without failed groups cancels the job's blocked evaluations whose snapshot is not newer
    // (R-1.19, `docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let [older, newer] = [plan.snapshot_index, plan.snapshot_index.next()].map(|snapshot_index| {
        let waiting = Evaluation { snapshot_index, ..eval(&mut scene, &job, EvalStatus::Blocked) };
        scene.commit(model::change::Cause::PlanResult, vec![Change::Eval(Arc::new(waiting.clone()))]);
        waiting.id
    });
    let id = plan.eval_id;
    scene.submit(plan);
    let eval = scene.eval(older);
    let text = format!("evaluation \"{id}\" successful");
    assert_eq!((eval.status, &*eval.status_description), (EvalStatus::Canceled, &*text));
    assert_eq!(scene.eval(newer).status, EvalStatus::Blocked, "its snapshot is newer");
    assert_eq!(scene.job_status(&job), JobStatus::Pending);
}

#[test]
fn waiting_again_is_an_outcome_too() {
    // An evaluation that stays blocked is written with its new class eligibility.
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let mut outcome = scene.complete(&plan);
    outcome.eval.status = EvalStatus::Blocked;
    outcome.eval.class_eligibility = [("v1:1".into(), true)].into();
    let id = plan.eval_id;
    scene.submit_with(plan, outcome);
    let eval = scene.eval(id);
    assert_eq!((eval.status, eval.class_eligibility.len()), (EvalStatus::Blocked, 1));
    assert!(scene.last().iter().any(|change| matches!(change, Change::EvalOutcome(_))));
}

#[test]
fn taken_in_part_a_plan_brings_the_evaluations_that_allocations_wait_for() {
    // A partly accepted plan creates only the follow-up evaluations that its accepted part names (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let [full, free] = [scene.node(), scene.node()];
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[free]);
    scene.done(Command::EvaluateJob(EvaluateJob { job: job.clone(), force_reschedule: false }));
    let mut plan = scene.plan(&job);
    let id = plan.eval_id;
    plan.placements = vec![scene.placements(&plan, &[full; 11])];
    let [named, other] = [(); 2].map(|()| eval(&mut scene, &job, EvalStatus::Pending));
    plan.stops = vec![model::plan::Stops { followup_eval: Some(named.id), ..stops(&allocs) }];
    let mut outcome = scene.complete(&plan);
    outcome.creates = vec![named.clone(), other.clone()];
    let result = scene.submit_with(plan, outcome);
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Part, scene.state.index()));
    assert_eq!(result.rejected_nodes, [full]);
    assert_eq!(scene.eval(named.id).create_index, scene.state.index());
    assert!(scene.state.eval(other.id).is_none());
    assert_eq!(
        (scene.eval(id).status, scene.eval(id).modify_index),
        (EvalStatus::Pending, scene.state.index())
    );
    assert_eq!(scene.eval(id).kind, JobType::Service);
    assert_eq!(scene.eval(id).trigger, EvalTrigger::JobRegister);
}
