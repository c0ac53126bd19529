//! Deployments: what they mean for allocations that end meanwhile, and how those of system jobs go on.

use std::sync::Arc;

use model::AllocId;
use model::Nanos;
use model::alloc::{AllocExtra, AllocState, Allocation, ClientStatus, Health};
use model::deployment::{DeploymentGroup, DeploymentStatus};
use model::job::{DisconnectStrategy, JobType, UpdateStrategy};
use model::node::NodeStatus;

use crate::testing::{DEPLOYMENT, NOW, Scene};

/// Three nodes, and a job of the type `kind` that is updated one by one, with one canary first: for a system job, the
/// tenth part of three nodes, rounded up.
fn scene(kind: JobType) -> Scene {
    let scene = Scene::default().node(1, 4_000, 8_000).node(2, 4_000, 8_000).node(3, 4_000, 8_000);
    scene.eval_with(|eval| eval.kind = kind).job_with(|spec| {
        spec.kind = kind;
        let canary = if kind == JobType::System { 10 } else { 1 };
        spec.task_groups[0].update =
            Some(UpdateStrategy { max_parallel: 1, canary, ..UpdateStrategy::default() });
    })
}

/// Changes the job so that its allocations have to be replaced.
fn updated(scene: Scene) -> Scene {
    scene.updated(|spec| {
        spec.task_groups[0].tasks[0].env.insert("a".into(), "b".into());
    })
}

/// Makes an allocation a canary of the scene's deployment.
fn canary(alloc: &mut Allocation) {
    Arc::make_mut(&mut alloc.common).deployment_id = Some(DEPLOYMENT);
    alloc.health = Some(Health { healthy: Some(true), canary: true, ..Health::default() });
}

/// A group with one canary, the allocation number `placed` of the scene.
fn with_canary(placed: u8) -> DeploymentGroup {
    let mut id = [0xa; 16];
    (id[14], id[15]) = (placed, 0);
    DeploymentGroup {
        placed_canaries: vec![AllocId::from_bytes(id)],
        desired_canaries: 1,
        desired_total: 3,
        ..DeploymentGroup::default()
    }
}

#[test]
fn an_unknown_allocation_that_is_replaced_beside_canaries_stops() {
    let scene = scene(JobType::Service).rescheduling(Nanos::ZERO).job_with(|spec| {
        let lost_after = Nanos::from_mins(10);
        spec.task_groups[0].disconnect =
            Some(DisconnectStrategy { lost_after, ..DisconnectStrategy::default() });
    });
    let own_eval = scene.propose().1.outcome.eval.id;
    let scene = scene.server_side(2, |server| server.status = NodeStatus::Disconnected);
    let scene = updated(scene.alloc_with(0, 2, |alloc| {
        alloc.client_status = ClientStatus::Unknown;
        let unknown = AllocState { client_status: Some(ClientStatus::Unknown), time: NOW };
        let followup_eval = Some(own_eval);
        alloc.extra = AllocExtra { states: vec![unknown], followup_eval, ..AllocExtra::default() };
    }));
    // Nothing else of the group may be placed, so it stops.
    let waiting =
        scene.clone().alloc_with(0, 1, canary).deployment(DeploymentStatus::Running, with_canary(1));
    let text = waiting.describe();
    assert!(text.contains("stop job.web[0] on node-2: alloc was rescheduled because it failed"), "{text}");
    assert!(text.contains("for job.web[0] on node-2, rescheduled 1 times"), "{text}");
    // Otherwise it may reconnect.
    let promoted = DeploymentGroup { promoted: true, ..with_canary(1) };
    let text = scene.alloc_with(0, 1, canary).deployment(DeploymentStatus::Running, promoted).describe();
    assert!(!text.contains("rescheduled because it failed"), "{text}");
}

#[test]
fn a_paused_deployment_of_a_system_job_keeps_its_description() {
    // Its total changes, its description only while it runs.
    let of = |status| {
        let scene = updated(scene(JobType::System).running(0, 1).running(0, 2));
        scene
            .alloc_with(0, 3, canary)
            .deployment(status, DeploymentGroup { desired_total: 9, ..with_canary(2) })
    };
    let description = |status| {
        let deployment = of(status).propose().1.plan.deployment.expect("the total changed");
        (deployment.groups["web"].desired_total, deployment.status_description.to_string())
    };
    assert_eq!(description(DeploymentStatus::Paused), (3, String::new()));
    let running = description(DeploymentStatus::Running);
    assert_eq!(running, (3, "Deployment is running but requires manual promotion".to_owned()));
}

#[test]
fn the_replacement_of_a_failed_canary_counts_as_a_canary() {
    // Otherwise another allocation of the old version would be replaced as well.
    let scene = updated(scene(JobType::System).running(0, 1).running(0, 2)).alloc_with(0, 3, |alloc| {
        canary(alloc);
        alloc.client_status = ClientStatus::Failed;
    });
    let text = scene.deployment(DeploymentStatus::Running, with_canary(2)).describe();
    assert!(text.contains("place job.web[0] on node-3 for job.web[0] on node-3"), "{text}");
    assert!(!text.contains("stop"), "{text}");
}

#[test]
fn a_new_version_of_a_system_job_has_its_own_deployment() {
    // Also if the deployment of the version before it failed.
    let failed = scene(JobType::System).running(0, 1).deployment(DeploymentStatus::Failed, with_canary(0));
    let (_, proposal) = updated(failed).propose();
    let deployment = proposal.plan.deployment.unwrap();
    assert_eq!((deployment.job.version, deployment.status), (1, DeploymentStatus::Running));
}

#[test]
fn a_stopped_system_job_does_not_refer_to_a_successful_deployment() {
    //
    let deployed =
        scene(JobType::System).running(0, 1).deployment(DeploymentStatus::Successful, with_canary(0));
    let (_, proposal) = deployed.updated(|spec| spec.stop = true).propose();
    assert_eq!(proposal.outcome.eval.deployment_id, None);
    assert_eq!((proposal.plan.stops.len(), proposal.plan.deployment), (1, None));
}
