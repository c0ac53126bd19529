//! The accepted part of a plan, and fields that are kept because they are newer than the plan.

use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocState, ClientStatus, DesiredStatus, Health, RescheduleOutcome, RescheduleTracker,
};
use model::change::{Cause, Change};
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus, DeploymentUpdate};
use model::eval::EvalTrigger;
use model::job::JobStatus;
use model::plan::{Plan, Stops, Update, Updates};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, Map, Nanos, NodeId};
use wire::command::{Command, EvaluateJob, PlanVerdict};
use wire::node::AllocReport;

use super::super::scene::{Scene, service};
use super::stops;

/// A node with running allocations of a service, and a plan for another evaluation of the job.
fn running(scene: &mut Scene, count: usize) -> (NodeId, JobKey, Vec<AllocId>, Plan) {
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &vec![node; count]);
    scene.report(node, &allocs, ClientStatus::Running);
    let plan = reevaluate(scene, &job);
    (node, job, allocs, plan)
}

fn reevaluate(scene: &mut Scene, job: &JobKey) -> Plan {
    scene.done(Command::EvaluateJob(EvaluateJob { job: job.clone(), force_reschedule: false }));
    scene.plan(job)
}

fn updates(allocs: &[AllocId], change: Update) -> Vec<Updates> {
    vec![Updates { ids: allocs.iter().copied().collect(), change }]
}

#[test]
fn a_stop_says_why_and_what_became_of_it() {
    // A stop sets the desired status and description, and optionally a client status, follow-up evaluation and reschedule
    // outcome.
    let mut scene = Scene::new();
    let (_, job, allocs, mut plan) = running(&mut scene, 2);
    let followup = EvalId::from_bytes([6; 16]);
    let lost = Stops {
        client_status: Some(ClientStatus::Lost),
        followup_eval: Some(followup),
        reschedule: Some(RescheduleOutcome::Ok),
        ..stops(&allocs[..1])
    };
    plan.stops = vec![lost, stops(&allocs[1..])];
    scene.submit(plan);
    let lost = scene.alloc(allocs[0]);
    assert_eq!((lost.desired_status, lost.client_status), (DesiredStatus::Stop, ClientStatus::Lost));
    assert_eq!(&*lost.desired_description, "alloc not needed due to job update");
    let state = AllocState { client_status: Some(ClientStatus::Lost), time: scene.now };
    assert_eq!((lost.extra.states, lost.extra.followup_eval), (vec![state], Some(followup)));
    let tracker = RescheduleTracker { events: Vec::new(), last: Some(RescheduleOutcome::Ok) };
    assert_eq!(lost.extra.reschedule, Some(Arc::new(tracker)));
    assert_eq!(lost.alloc_modify_index, scene.state.index());
    let stopped = scene.alloc(allocs[1]);
    assert_eq!((stopped.desired_status, stopped.client_status), (DesiredStatus::Stop, ClientStatus::Running));
    assert_eq!(stopped.extra.states, []);
    let summary = scene.summary(&job).groups["app"];
    assert_eq!((summary.running, summary.lost), (1, 1));
    assert_eq!(scene.job_status(&job), JobStatus::Dead, "it has no live allocation or evaluation");
}

#[test]
fn a_plan_does_not_change_how_allocs_ended() {
    // A plan does not change the client status of an allocation that has ended since its snapshot (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let (node, _, allocs, mut plan) = running(&mut scene, 1);
    scene.report(node, &allocs, ClientStatus::Failed);
    plan.stops = vec![Stops { client_status: Some(ClientStatus::Lost), ..stops(&allocs) }];
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    let alloc = scene.alloc(allocs[0]);
    assert_eq!((alloc.desired_status, alloc.client_status), (DesiredStatus::Stop, ClientStatus::Failed));
    assert_eq!(alloc.extra.states, []);
}

#[test]
fn stopped_allocs_do_not_run_again_but_may_be_lost() {
    // An allocation that was stopped keeps its desired status, but may become lost (`docs/architecture/evaluations.md`, R-7.6).
    let mut scene = Scene::new();
    let (_, job, allocs, mut plan) = running(&mut scene, 1);
    plan.stops = vec![stops(&allocs)];
    scene.submit(plan);
    let before = scene.alloc(allocs[0]);
    let mut plan = reevaluate(&mut scene, &job);
    plan.updates = updates(&allocs, Update::InPlace(Arc::new(scene.common(&plan))));
    plan.updates.extend(updates(&allocs, Update::RescheduleFailed));
    plan.stops = vec![Stops { description: "again".into(), ..stops(&allocs) }];
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    assert_eq!(scene.alloc(allocs[0]), before);
    let mut plan = reevaluate(&mut scene, &job);
    let description = "alloc is lost since its node is down".into();
    plan.stops = vec![Stops { client_status: Some(ClientStatus::Lost), description, ..stops(&allocs) }];
    scene.submit(plan);
    let lost = scene.alloc(allocs[0]);
    assert_eq!(lost.client_status, ClientStatus::Lost);
    assert_eq!(lost.desired_description, before.desired_description);
}

#[test]
fn allocations_that_are_gone_or_somebody_elses_are_passed_over() {
    let mut scene = Scene::new();
    let (node, _, _, mut plan) = running(&mut scene, 1);
    let other = scene.register(service("other"));
    let others = scene.place(&other, &[node]);
    plan.stops = vec![stops(&[others[0], AllocId::from_bytes([9; 16])])];
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    assert_eq!(scene.alloc(others[0]).desired_status, DesiredStatus::Run);
}

#[test]
fn a_replacement_is_known_to_what_it_replaces() {
    // A placement that names a previous allocation becomes its next allocation (N-8.3, R-3.38).
    let mut scene = Scene::new();
    let (node, _, allocs, mut plan) = running(&mut scene, 1);
    let mut placements = scene.placements(&plan, &[node]);
    placements.previous = allocs.iter().copied().collect();
    let next = placements.ids.0[0];
    plan.placements = vec![placements];
    scene.submit(plan);
    assert_eq!(scene.alloc(allocs[0]).extra.next, Some(next));
    assert_eq!(scene.alloc(next).extra.previous, Some(allocs[0]));
}

#[test]
fn updates_change_what_they_name() {
    // Reconnects, later reschedules and failed reschedules are recorded in the allocations.
    let mut scene = Scene::new();
    let (node, _, allocs, mut plan) = running(&mut scene, 3);
    scene.report(node, &allocs[2..], ClientStatus::Failed);
    let followup_eval = EvalId::from_bytes([6; 16]);
    plan.updates = updates(&allocs[..2], Update::Reconnect);
    plan.updates.extend(updates(&allocs[2..], Update::RescheduleLater { followup_eval }));
    plan.updates.extend(updates(&allocs[2..], Update::RescheduleFailed));
    scene.submit(plan);
    let running = AllocState { client_status: Some(ClientStatus::Running), time: scene.now };
    assert_eq!(scene.alloc(allocs[0]).extra.states, [running]);
    let failed = scene.alloc(allocs[2]);
    assert_eq!(failed.extra.followup_eval, Some(followup_eval));
    assert_eq!(failed.extra.reschedule.unwrap().last, Some(RescheduleOutcome::NoPlacement));
    assert_eq!((failed.desired_status, failed.client_status), (DesiredStatus::Run, ClientStatus::Failed));
}

#[test]
fn victims_make_room_and_their_jobs_are_looked_at() {
    // Preempted allocations are evicted unless they have ended, and each of their jobs gets one evaluation (R-1.17, R-3.4,
    //
    let mut scene = Scene::new();
    let (node, low, allocs, plan) = running(&mut scene, 10);
    scene.submit(plan);
    scene.complete_pending(&low);
    let high = scene.register(service("high"));
    let mut plan = scene.plan(&high);
    let mut placements = scene.placements(&plan, &[node, node]);
    placements.preempted = vec![allocs[..1].to_vec(), vec![allocs[0], AllocId::from_bytes([9; 16])]];
    plan.placements = vec![placements.clone()];
    assert_eq!(scene.submit(plan.clone()).verdict, PlanVerdict::Nothing, "its resources are freed once");
    placements.preempted = vec![allocs[..1].to_vec(), allocs[1..3].to_vec()];
    plan.placements = vec![placements.clone()];
    scene.report(node, &allocs[2..3], ClientStatus::Complete);
    scene.complete_pending(&low);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    let by = placements.ids.0[0];
    let victim = scene.alloc(allocs[0]);
    assert_eq!((victim.desired_status, victim.extra.preempted_by), (DesiredStatus::Evict, Some(by)));
    assert_eq!(*victim.desired_description, *format!("Preempted by alloc ID {by}"));
    assert_eq!(scene.alloc(allocs[2]).desired_status, DesiredStatus::Run, "the allocation had ended");
    assert_eq!(scene.alloc(by).extra.preempted, allocs[..1]);
    assert_eq!(scene.triggers(&low), [EvalTrigger::Preemption]);
}

fn deployment(plan: &Plan) -> Deployment {
    let group = DeploymentGroup {
        progress_deadline: Nanos::from_mins(10),
        desired_total: 2,
        desired_canaries: 1,
        // The scheduler's counters are ignored.
        placed_allocs: 7,
        placed_canaries: vec![AllocId::from_bytes([1; 16])],
        ..DeploymentGroup::default()
    };
    Deployment {
        id: DeploymentId::from_bytes([5; 16]),
        job: plan.job.clone().unwrap(),
        job_modify_index: Index(1),
        job_spec_modify_index: Index(1),
        is_multiregion: false,
        groups: Map::from([("app".into(), group)]),
        status: DeploymentStatus::Running,
        status_description: "Deployment is running".into(),
        eval_priority: 60,
        create_index: Index::ZERO,
        modify_index: Index::ZERO,
        create_time: model::Timestamp::UNSET,
        modify_time: model::Timestamp::UNSET,
        trace: None,
    }
}

#[test]
fn a_deployment_counts_what_was_placed_for_it() {
    // A deployment counts only accepted placements; the first one starts its progress deadline (R-3.32, R-3.39, N-12.8 to
    // N-12.10).
    let mut scene = Scene::new();
    let [node, full] = [scene.node(), scene.node()];
    let job = scene.register(service("web"));
    let mut plan = scene.plan(&job);
    let begun = deployment(&plan);
    let id = begun.id;
    let mut on = vec![node, node];
    on.extend([full; 11]);
    let mut placements = scene.placements(&plan, &on);
    placements.common = Arc::new(AllocCommon { deployment_id: Some(id), ..scene.common(&plan) });
    placements.canary = true;
    let canaries = placements.ids.0[..2].to_vec();
    plan.placements = vec![placements];
    plan.deployment = Some(Box::new(begun));
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Part);
    let stored = scene.state.deployment(id).unwrap();
    assert_eq!((stored.create_index, stored.create_time), (scene.state.index(), scene.now));
    let group = &stored.groups["app"];
    assert_eq!((group.placed_allocs, &group.placed_canaries), (2, &canaries));
    assert_eq!(group.require_progress_by, scene.now + Nanos::from_mins(10));
    let alloc = scene.alloc(canaries[0]);
    assert!(alloc.health.unwrap().canary);
    assert!(
        stored.trace.is_some() && alloc.common.trace == stored.trace,
        "both continue the trace of the plan's command"
    );
}

#[test]
fn of_a_deployment_that_exists_the_newest_holds() {
    // Counters, status and promotion of an existing deployment are kept (R-3.35, `docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let (node, job, _, mut plan) = running(&mut scene, 1);
    let begun = deployment(&plan);
    plan.deployment = Some(Box::new(begun.clone()));
    scene.submit(plan);
    let mut stored = Deployment::clone(scene.state.deployment(begun.id).unwrap());
    stored.status = DeploymentStatus::Paused;
    let group = stored.groups.get_mut("app").unwrap();
    (group.promoted, group.healthy_allocs) = (true, 1);
    stored.groups.insert("other".into(), DeploymentGroup::default());
    scene.commit(Cause::PlanResult, vec![Change::Deployment(Arc::new(stored.clone()))]);

    let mut plan = reevaluate(&mut scene, &job);
    let mut wider = begun.clone();
    wider.groups.get_mut("app").unwrap().desired_total = 5;
    plan.deployment = Some(Box::new(wider.clone()));
    scene.submit(plan);
    stored.groups.get_mut("app").unwrap().desired_total = 5;
    (stored.modify_index, stored.modify_time) = (scene.state.index(), scene.now);
    assert_eq!(**scene.state.deployment(begun.id).unwrap(), stored);
    assert_eq!(scene.state.node(node).unwrap().allocs().count(), 1);
}

#[test]
fn a_plan_changes_the_status_of_deployments_that_go_on() {
    // A status update of a running deployment is applied; one of a terminal deployment is ignored (R-3.40, N-13.2, N-13.3).
    let mut scene = Scene::new();
    let (_, job, _, mut plan) = running(&mut scene, 1);
    let begun = deployment(&plan);
    let id = begun.id;
    plan.deployment = Some(Box::new(begun));
    scene.submit(plan);
    let update = |scene: &mut Scene, status| {
        let plan = reevaluate(scene, &job);
        let update = DeploymentUpdate { id, status, description: status.to_string().into() };
        scene.submit(Plan { deployment_updates: vec![update], ..plan });
        Deployment::clone(scene.state.deployment(id).unwrap())
    };
    scene.wait(Nanos::from_mins(5));
    let paused = update(&mut scene, DeploymentStatus::Paused);
    assert_eq!((paused.status, &*paused.status_description), (DeploymentStatus::Paused, "paused"));
    assert_eq!(paused.groups["app"].require_progress_by, scene.now + Nanos::from_mins(10));
    update(&mut scene, DeploymentStatus::Successful);
    assert!(scene.job(&job).stable);
    let late = update(&mut scene, DeploymentStatus::Cancelled);
    assert_eq!(late.status, DeploymentStatus::Successful, "a terminal status is kept");
    assert_eq!(scene.job_status(&job), JobStatus::Running, "its allocation is running");
}

#[test]
fn an_update_in_place_into_another_deployment_opens_the_question_of_health() {
    // An allocation that moves to another deployment loses its health verdict and counts as placed (R-7.82, N-12.8).
    let mut scene = Scene::new();
    let (node, job, allocs, mut plan) = running(&mut scene, 2);
    let report = scene.alloc_report(allocs[0], ClientStatus::Running);
    let report = AllocReport { health: Some((true, scene.now)), ..report };
    let report = wire::command::NodeReport {
        node,
        boot: super::super::scene::BOOT,
        all_since: None,
        allocs: vec![report],
    };
    scene.done(super::super::scene::reports(vec![report]));
    assert!(matches!(scene.alloc(allocs[0]).health, Some(Health { healthy: Some(true), .. })));
    let common = Arc::new(scene.common(&plan));
    plan.updates = updates(&allocs, Update::InPlace(common));
    scene.submit(plan);
    assert!(scene.alloc(allocs[0]).health.is_some(), "its deployment is the same");

    let mut plan = reevaluate(&mut scene, &job);
    let begun = deployment(&plan);
    let id = begun.id;
    let common = AllocCommon { deployment_id: Some(id), ..scene.common(&plan) };
    plan.updates = updates(&allocs, Update::InPlace(Arc::new(common)));
    plan.deployment = Some(Box::new(begun));
    scene.submit(plan);
    let moved = scene.alloc(allocs[0]);
    assert_eq!((moved.health, moved.common.deployment_id), (None, Some(id)));
    assert_eq!(moved.client_status, ClientStatus::Running, "without a restart");
    assert_eq!(scene.state.deployment(id).unwrap().groups["app"].placed_allocs, 2);
}
