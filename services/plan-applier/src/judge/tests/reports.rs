//! Nodes' reports about their allocations.

use std::sync::Arc;

use model::alloc::{
    AllocState, ClientStatus, GroupSummary, NetworkStatus, PackedTaskStates, ReportNumber, RescheduleEvent,
    RescheduleTracker, TaskState,
};
use model::change::{AllocsChanged, Cause, Change};
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{JobStatus, JobType, Lifecycle, LifecycleHook, ReschedulePolicy};
use model::node::NodeStatus;
use model::plan::{Plan, Stops, Update, Updates};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, Map, Nanos, NodeId, Timestamp};
use wire::RefusalKind;
use wire::command::{Command, NodeReport};
use wire::node::AllocReport;

use super::scene::{BOOT, EPOCH, Scene, job_spec, patient_service, reports, service};

/// A node with one running allocation of a service, without pending evaluations.
fn running(scene: &mut Scene) -> (NodeId, JobKey, AllocId) {
    let node = scene.node();
    let job = scene.register(service("web"));
    let alloc = scene.place(&job, &[node])[0];
    scene.report(node, &[alloc], ClientStatus::Running);
    (node, job, alloc)
}

fn of_node(node: NodeId, allocs: Vec<AllocReport>) -> Command {
    reports(vec![NodeReport { node, boot: BOOT, all_since: None, allocs }])
}

#[test]
fn a_report_is_stored_and_does_not_come_back_to_its_agent() {
    // A report changes the client fields, but not the allocation's `AllocModifyIndex`, and updates the summary (N-7.7,
    // N-7.9, N-25.4).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let alloc = scene.place(&job, &[node])[0];
    let placed = scene.state.index();
    assert_eq!(scene.summary(&job).groups["app"], GroupSummary { starting: 1, ..GroupSummary::default() });
    let work = scene.state.node(node).unwrap().work_index();
    let network =
        Some(std::sync::Arc::new(NetworkStatus { address: "10.0.0.9".into(), ..NetworkStatus::default() }));
    let report = AllocReport { network: network.clone(), ..scene.alloc_report(alloc, ClientStatus::Running) };
    let done =
        scene.done(of_node(node, vec![AllocReport { description: "Tasks are running".into(), ..report }]));
    let stored = scene.alloc(alloc);
    assert_eq!(
        (stored.client_status, &*stored.client_description),
        (ClientStatus::Running, "Tasks are running")
    );
    assert_eq!((stored.modify_index, stored.alloc_modify_index), (done.index, placed));
    assert_eq!((stored.report, stored.extra.network), (ReportNumber::new(BOOT, 1), network));
    assert_eq!(scene.state.node(node).unwrap().work_index(), work);
    assert_eq!(scene.summary(&job).groups["app"], GroupSummary { running: 1, ..GroupSummary::default() });
    assert_eq!(done.evals, []);
    assert_eq!(scene.cause(), Some(Cause::AllocationUpdated));
}

#[test]
fn a_report_and_an_expiry_may_meet_in_one_batch() {
    // The commands of a batch are judged one after the other, each on the state after those before it (N-5, N-7.3,
    // `docs/architecture/commit-path.md`).
    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    scene.report(node, &[alloc], ClientStatus::Complete);
    scene.complete_pending(&job);
    scene.missed(&[node]);
    assert_eq!(
        (scene.status(node), scene.alloc(alloc).client_status),
        (NodeStatus::Down, ClientStatus::Complete)
    );
    assert_eq!(
        scene.triggers(&job),
        [EvalTrigger::NodeUpdate],
        "the job is evaluated, although its allocation has ended"
    );

    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    scene.missed(&[node]);
    let report = scene.alloc_report(alloc, ClientStatus::Complete);
    let done = scene.done(of_node(node, vec![report]));
    assert_eq!(done.refused_nodes, [node], "the agent reports again once the node is ready");
    assert_eq!(
        scene.alloc(alloc).client_status,
        ClientStatus::Running,
        "unchanged until a scheduler marks it as lost"
    );
    assert_eq!(scene.triggers(&job), [EvalTrigger::NodeUpdate]);
}

#[test]
fn older_reports_are_dropped() {
    // Reports of another boot, or with an older sequence number, are dropped (`docs/architecture/agents.md`).
    let mut scene = Scene::new();
    let (node, _, alloc) = running(&mut scene);
    let report = AllocReport { count: 1, ..scene.alloc_report(alloc, ClientStatus::Pending) };
    assert!(!scene.done(of_node(node, vec![report.clone()])).written, "an older sequence number");
    let old = NodeReport { node, boot: BOOT - 1, all_since: None, allocs: vec![report.clone()] };
    let done = scene.done(reports(vec![old]));
    assert_eq!((done.written, done.refused_nodes), (false, vec![]), "another boot");
    let early = NodeReport { node, boot: BOOT + 1, all_since: None, allocs: vec![report] };
    assert_eq!(scene.done(reports(vec![early])).refused_nodes, [node], "the node must register first");
}

#[test]
fn of_two_reports_in_one_command_both_count_in_their_order() {
    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    let first = scene.alloc_report(alloc, ClientStatus::Complete);
    let second = AllocReport { count: first.count + 1, ..scene.alloc_report(alloc, ClientStatus::Running) };
    let third = AllocReport { count: first.count + 2, ..scene.alloc_report(alloc, ClientStatus::Failed) };
    scene.done(of_node(node, vec![first.clone(), second, first, third]));
    let stored = scene.alloc(alloc);
    assert_eq!((stored.client_status, stored.report.0 as u32), (ClientStatus::Failed, 4));
    let summary = scene.summary(&job).groups["app"];
    assert_eq!(
        (summary.running, summary.complete, summary.failed),
        (0, 1, 1),
        "the counts of complete and failed only grow"
    );
}

#[test]
fn reports_do_not_restart_terminal_allocs() {
    // A terminal client status never becomes non-terminal (`docs/architecture/agents.md`).
    let mut scene = Scene::new();
    let (node, _, alloc) = running(&mut scene);
    scene.report(node, &[alloc], ClientStatus::Complete);
    for status in [ClientStatus::Running, ClientStatus::Pending] {
        assert!(!scene.report(node, &[alloc], status).written);
    }
    for status in [ClientStatus::Lost, ClientStatus::Unknown] {
        assert!(!scene.report(node, &[alloc], status).written, "only the servers set this status");
    }
}

#[test]
fn nodes_speak_of_their_own_allocations_only() {
    let mut scene = Scene::new();
    let (_, _, alloc) = running(&mut scene);
    let other = scene.node();
    assert!(!scene.report(other, &[alloc], ClientStatus::Failed).written);
    assert!(!scene.report(other, &[AllocId::from_bytes([7; 16])], ClientStatus::Failed).written);
    let unknown = NodeId::from_bytes([8; 16]);
    assert_eq!(scene.report(unknown, &[alloc], ClientStatus::Failed).refused_nodes, [unknown]);
}

#[test]
fn only_the_active_tracker_brings_reports() {
    let mut scene = Scene::new();
    let command = wire::command::ReportAllocs { epoch: model::Epoch(EPOCH.0 + 1), reports: Vec::new() };
    assert_eq!(scene.refused(Command::ReportAllocs(command)).0, RefusalKind::Deposed);
}

#[test]
fn an_end_makes_room_and_settles_the_job() {
    // The end of an allocation frees its resources, and the job's status is updated (N-7.13, N-25.1).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(job_spec("count", JobType::Batch));
    let alloc = scene.place(&job, &[node])[0];
    assert_eq!(scene.job_status(&job), JobStatus::Running, "N-8.4");
    let done = scene.report(node, &[alloc], ClientStatus::Complete);
    assert_eq!(done.evals, [], "a successful end requires no evaluation");
    assert_eq!(scene.job_status(&job), JobStatus::Dead);
    let class = scene.whole_node(node).spec.computed_class.clone();
    let unblocked =
        model::change::Unblocked { classes: vec![class], nodes: vec![node], ..Default::default() };
    assert!(scene.last().contains(&Change::Unblocked(unblocked)));
}

#[test]
fn a_service_that_its_agent_has_ended_is_evaluated() {
    // After a database lost the stop of an allocation, its agent reports an end that the servers do not expect. The job gets an
    // evaluation, which replaces the allocation (N-7.5).
    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    let done = scene.report(node, &[alloc], ClientStatus::Complete);
    let eval = scene.eval(done.evals[0]);
    assert_eq!((done.evals.len(), &eval.trigger, eval.priority), (1, &EvalTrigger::AllocStop, 60));
    scene.complete_pending(&job);
    assert_eq!(scene.report(node, &[alloc], ClientStatus::Complete).evals, [], "it was reported before");

    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    scene.register(service("web"));
    let stops = Stops {
        ids: [alloc].into_iter().collect(),
        description: "alloc not needed due to job update".into(),
        client_status: None,
        followup_eval: None,
        reschedule: None,
    };
    let plan = Plan { stops: vec![stops], ..scene.plan(&job) };
    scene.submit(plan);
    assert_eq!(scene.report(node, &[alloc], ClientStatus::Complete).evals, [], "the servers stopped it");

    let mut scene = Scene::new();
    let node = scene.node();
    let mut spec = service("setup");
    let hook = Lifecycle { hook: LifecycleHook::Prestart, sidecar: false };
    spec.task_groups[0].tasks[0].lifecycle = Some(hook);
    let job = scene.register(spec);
    let alloc = scene.place(&job, &[node])[0];
    assert_eq!(scene.report(node, &[alloc], ClientStatus::Complete).evals, [], "it ends by itself");
}

#[test]
fn a_failure_that_may_be_rescheduled_makes_one_evaluation_for_each_job() {
    // A failure that may be rescheduled creates one evaluation per job (N-7.5, N-7.6, R-1.13).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node, node]);
    let done = scene.report(node, &allocs, ClientStatus::Failed);
    let eval = scene.eval(done.evals[0]);
    assert_eq!((done.evals.len(), &eval.trigger, eval.priority), (1, &EvalTrigger::AllocFailure, 60));
    scene.complete_pending(&job);
    assert_eq!(
        scene.report(node, &allocs, ClientStatus::Failed).evals,
        [],
        "the failure was reported before"
    );
}

#[test]
fn a_failure_for_which_no_attempt_is_left_makes_none() {
    // A failure without attempts left creates no evaluation.
    let mut scene = Scene::new();
    let node = scene.node();
    let mut spec = service("web");
    let interval = Nanos::from_mins(10);
    spec.task_groups[0].reschedule_policy =
        Some(ReschedulePolicy { attempts: 1, interval, ..ReschedulePolicy::default() });
    let job = scene.register(spec);
    let plan = scene.plan(&job);
    let mut placements = scene.placements(&plan, &[node, node, node]);
    let failed_before = |minutes: i64| {
        let event = RescheduleEvent {
            time: scene.now + Nanos::from_mins(-minutes),
            previous: AllocId::from_bytes([1; 16]),
            previous_node: node,
            delay: Nanos::ZERO,
        };
        Some(std::sync::Arc::new(RescheduleTracker { events: vec![event], last: None }))
    };
    placements.reschedule = vec![failed_before(5), failed_before(15), None];
    let ids = placements.ids.0.clone();
    scene.submit(Plan { placements: vec![placements], ..plan });
    for (id, evals) in ids.iter().zip([0, 1, 1]) {
        assert_eq!(scene.report(node, &[*id], ClientStatus::Failed).evals.len(), evals);
        scene.complete_pending(&job);
    }
}

#[test]
fn a_failure_in_a_group_that_is_gone_makes_none() {
    // A failure in a group that the job no longer has creates no evaluation (N-7.5).
    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    let mut spec = service("web");
    spec.task_groups[0].name = "other".into();
    scene.register(spec);
    scene.complete_pending(&job);
    assert_eq!(scene.report(node, &[alloc], ClientStatus::Failed).evals, []);
}

/// A service with two unknown allocations, on a node that was disconnected and is initializing. Both refer to one delayed
/// evaluation.
fn back(scene: &mut Scene) -> (NodeId, JobKey, Vec<AllocId>, EvalId) {
    let node = scene.node();
    let job = scene.register(patient_service("web"));
    let allocs = scene.place(&job, &[node, node]);
    scene.missed(&[node]);
    let plan = scene.plan(&job);
    let id = EvalId::from_bytes(scene.id());
    let followup = Evaluation::new(id, job.clone(), JobType::Service, 60, EvalTrigger::MaxDisconnectTimeout);
    let change = Update::Unknown { followup_eval: Some(id) };
    let updates = vec![Updates { ids: allocs.iter().copied().collect(), change }];
    let mut outcome = scene.complete(&plan);
    outcome.creates.push(followup);
    scene.submit_with(Plan { updates, ..plan }, outcome);
    scene.heard(&[node]);
    for eval in scene.pending(&job).into_iter().filter(|eval| eval.id != id) {
        let version = scene.job(&job).version_key();
        scene.submit(Plan::new(&eval, Some(version), scene.state.index()));
    }
    (node, job, allocs, id)
}

#[test]
fn the_return_of_an_allocation_is_looked_at_and_not_waited_for_any_more() {
    // A reconnected allocation triggers an evaluation; its follow-up evaluation is cancelled once no allocation refers to
    // it (N-7.5, N-7.11, R-1.22).
    let mut scene = Scene::new();
    let (node, _, allocs, followup) = back(&mut scene);
    let unknown = Some(ClientStatus::Unknown);
    assert_eq!(scene.alloc(allocs[0]).extra.states, [AllocState { client_status: unknown, time: scene.now }]);
    let done = scene.report(node, &allocs[..1], ClientStatus::Running);
    assert_eq!(scene.eval(done.evals[0]).trigger, EvalTrigger::Reconnect);
    assert_eq!(scene.alloc(allocs[0]).extra.followup_eval, None);
    assert_eq!(scene.eval(followup).status, EvalStatus::Pending, "the other allocation is still unknown");
    scene.report(node, &allocs[1..], ClientStatus::Failed);
    let eval = scene.eval(followup);
    assert_eq!((eval.status, &*eval.status_description), (EvalStatus::Canceled, "allocations reconnected"));
}

#[test]
fn a_failure_of_what_was_away_counts_as_its_return() {
    // A failure of an unknown allocation triggers an evaluation for its reconnection (N-7.5).
    let mut scene = Scene::new();
    let (node, _, allocs, _) = back(&mut scene);
    let done = scene.report(node, &allocs[..1], ClientStatus::Failed);
    assert_eq!(scene.eval(done.evals[0]).trigger, EvalTrigger::Reconnect);
}

#[test]
fn verdicts_are_counted_in_the_deployment() {
    // Health verdicts are counted in the deployment: the first one, and changes from healthy to unhealthy (N-7.8, N-12.8,
    // N-12.10, N-12.11).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let plan = scene.plan(&job);
    let deployment = deployment(&scene, &plan);
    let id = deployment.id;
    let mut placements = scene.placements(&plan, &[node, node]);
    let common = model::alloc::AllocCommon { deployment_id: Some(id), ..scene.common(&plan) };
    placements.common = std::sync::Arc::new(common);
    let allocs = placements.ids.0.clone();
    scene.submit(Plan { placements: vec![placements], deployment: Some(Box::new(deployment)), ..plan });
    let group = |scene: &Scene| scene.state.deployment(id).unwrap().groups["app"].clone();
    assert_eq!(group(&scene).placed_allocs, 2);
    assert_eq!(group(&scene).require_progress_by, scene.now + Nanos::from_mins(10));

    let verdict = |scene: &mut Scene, alloc, healthy, at: Timestamp| {
        let report = scene.alloc_report(alloc, ClientStatus::Running);
        scene.done(of_node(node, vec![AllocReport { health: Some((healthy, at)), ..report }]))
    };
    let later = scene.now + Nanos::from_mins(1);
    let done = verdict(&mut scene, allocs[0], true, later);
    assert_eq!((group(&scene).healthy_allocs, group(&scene).unhealthy_allocs), (1, 0));
    assert_eq!(group(&scene).require_progress_by, later + Nanos::from_mins(10));
    let health = scene.alloc(allocs[0]).health.unwrap();
    assert_eq!((health.healthy, health.timestamp, health.modify_index), (Some(true), later, done.index));
    verdict(&mut scene, allocs[0], true, later);
    verdict(&mut scene, allocs[1], false, later);
    assert_eq!((group(&scene).healthy_allocs, group(&scene).unhealthy_allocs), (1, 1));
    verdict(&mut scene, allocs[0], false, later);
    assert_eq!((group(&scene).healthy_allocs, group(&scene).unhealthy_allocs), (0, 2));
    verdict(&mut scene, allocs[0], true, later);
    assert_eq!(
        (group(&scene).healthy_allocs, group(&scene).unhealthy_allocs),
        (0, 2),
        "unhealthy stays unhealthy"
    );
}

fn deployment(scene: &Scene, plan: &Plan) -> Deployment {
    let group = DeploymentGroup { progress_deadline: Nanos::from_mins(10), ..DeploymentGroup::default() };
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
        create_time: scene.now,
        modify_time: scene.now,
        trace: None,
    }
}

#[test]
fn allocations_of_an_older_incarnation_are_not_counted() {
    // Allocations of an older incarnation of the job do not change its summary (N-25.6).
    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    let old = scene.alloc(alloc);
    let purge = wire::command::DeregisterJob {
        job: job.clone(),
        purge: true,
        eval_priority: None,
        no_shutdown_delay: false,
    };
    let version = scene.job(&job).clone();
    scene.done(Command::DeregisterJob(purge));
    scene.register(service("web"));
    // As if the purge had missed it.
    scene.commit(Cause::PlanResult, vec![Change::Job(Arc::new(version)), Change::Alloc(Box::new(old))]);
    scene.report(node, &[alloc], ClientStatus::Failed);
    assert_eq!(scene.summary(&job).groups["app"], GroupSummary::default());
}

#[test]
fn a_job_stays_dead_when_its_evaluations_are_forgotten() {
    // A dead job stays dead after its evaluations are deleted (N-25.1).
    let mut scene = Scene::new();
    let (node, job, alloc) = running(&mut scene);
    scene.missed(&[node]);
    let mut plan = scene.plan(&job);
    plan.stops = vec![model::plan::Stops {
        ids: [alloc].into_iter().collect(),
        description: "alloc is lost since its node is down".into(),
        client_status: Some(ClientStatus::Lost),
        followup_eval: None,
        reschedule: None,
    }];
    scene.submit(plan);
    assert_eq!(scene.job_status(&job), JobStatus::Dead);
    let evals = scene.state.evals_of_job(&job).map(|eval| eval.id).collect();
    scene.commit(Cause::EvaluationUpdated, vec![Change::EvalsDeleted(evals)]);
    scene.heard(&[node]);
    scene.report(node, &[alloc], ClientStatus::Complete);
    assert_eq!(scene.job_status(&job), JobStatus::Dead);
    let summary = scene.summary(&job).groups["app"];
    assert_eq!((summary.lost, summary.complete), (0, 1), "the agent reports that it completed");
}

#[test]
fn reports_that_say_the_same_are_one_change() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node, node, node]);
    scene.report(node, &allocs, ClientStatus::Running);
    let mut changes: Vec<&AllocsChanged> = Vec::new();
    for change in scene.last() {
        if let Change::AllocsChanged(change) = change {
            changes.push(change);
        }
    }
    assert_eq!((changes.len(), changes[0].ids.len()), (1, 3));
    assert!(changes[0].verdicts.is_empty() && changes[0].network.is_empty() && !changes[0].by_servers);
}

#[test]
fn tasks_of_which_there_is_no_news_are_not_written_again() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node, node]);
    let states = PackedTaskStates::pack(&[TaskState::pending("web".into())]);
    let say = |scene: &mut Scene, told: &[(AllocId, bool)]| {
        let report = |(id, knows): &(AllocId, bool)| AllocReport {
            task_states: if *knows { states.clone() } else { PackedTaskStates::default() },
            health: Some((true, scene.now)),
            ..scene.alloc_report(*id, ClientStatus::Running)
        };
        let reports = told.iter().map(report).collect();
        scene.done(of_node(node, reports));
        let mut told = Vec::new();
        for change in scene.last() {
            if let Change::AllocsChanged(change) = change {
                told.push((change.ids.len(), change.task_states.len()));
            }
        }
        told
    };
    assert_eq!(say(&mut scene, &[(allocs[0], true)]), [(1, 1)]);
    assert_eq!(say(&mut scene, &[(allocs[0], true), (allocs[1], true)]), [(1, 0), (1, 1)]);
    assert_eq!(say(&mut scene, &[(allocs[0], true), (allocs[1], true)]), [(2, 0)]);
    assert_eq!(scene.alloc(allocs[0]).task_states, states, "the known task states are kept");
    assert_eq!(say(&mut scene, &[(allocs[0], false)]), [(1, 1)]);
    assert_eq!(scene.alloc(allocs[0]).task_states, PackedTaskStates::default());
}
