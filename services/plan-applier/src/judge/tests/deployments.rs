//! Findings of the deployment watcher, and users' commands about deployments.

use std::sync::Arc;

use model::alloc::{AllocCommon, ClientStatus};
use model::change::Cause;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::EvalTrigger;
use model::job::JobSpec;
use model::{AllocId, DeploymentId, Epoch, Index, JobKey, Map, Nanos, NodeId, Timestamp};
use wire::RefusalKind;
use wire::command::{
    Command, DeploymentFinding, DeploymentStep, FailDeployment, NodeReport, UpdateDeployments,
};
use wire::node::AllocReport;

use super::scene::{BOOT, EPOCH, Scene, reports, service};

pub(super) const ID: DeploymentId = DeploymentId::from_bytes([5; 16]);
pub(super) const DEADLINE: Nanos = Nanos::from_mins(10);

/// A job with two allocations in a deployment, without pending evaluations.
pub(super) struct Rolling {
    pub(super) scene: Scene,
    node: NodeId,
    pub(super) job: JobKey,
    pub(super) allocs: Vec<AllocId>,
}

/// A group of two allocations.
pub(super) fn group() -> DeploymentGroup {
    DeploymentGroup { progress_deadline: DEADLINE, desired_total: 2, ..DeploymentGroup::default() }
}

/// A job of two allocations.
pub(super) fn spec() -> JobSpec {
    let mut spec = service("web");
    spec.task_groups[0].count = 2;
    spec
}

impl Rolling {
    fn new() -> Self {
        Self::start(Scene::new(), spec(), group())
    }

    /// Registers the next version of the job, and places two allocations of it, which are canaries if the group has some.
    pub(super) fn start(mut scene: Scene, spec: JobSpec, group: DeploymentGroup) -> Self {
        let node = scene.node();
        let job = scene.register(spec);
        let mut plan = scene.plan(&job);
        let mut placements = scene.placements(&plan, &[node, node]);
        let allocs = placements.ids.0.clone();
        placements.common = Arc::new(AllocCommon { deployment_id: Some(ID), ..scene.common(&plan) });
        placements.canary = group.desired_canaries > 0;
        plan.placements = vec![placements];
        plan.deployment = Some(Box::new(Deployment {
            id: ID,
            job: plan.job.clone().expect("the plan has a job"),
            job_modify_index: Index(1),
            job_spec_modify_index: Index(1),
            is_multiregion: false,
            groups: Map::from([("app".into(), group)]),
            status: DeploymentStatus::Running,
            status_description: "Deployment is running".into(),
            eval_priority: 70,
            create_index: Index::ZERO,
            modify_index: Index::ZERO,
            create_time: Timestamp::UNSET,
            modify_time: Timestamp::UNSET,
            trace: None,
        }));
        scene.submit(plan);
        Self { scene, node, job, allocs }
    }

    pub(super) fn verdict(&mut self, alloc: usize, healthy: bool) {
        let report = self.scene.alloc_report(self.allocs[alloc], ClientStatus::Running);
        let report = AllocReport { health: Some((healthy, self.scene.now)), ..report };
        let report = NodeReport { node: self.node, boot: BOOT, all_since: None, allocs: vec![report] };
        self.scene.done(reports(vec![report]));
    }

    pub(super) fn find(&mut self, step: DeploymentStep) -> bool {
        self.scene.done(finding(EPOCH, step)).written
    }

    pub(super) fn status(&self) -> (DeploymentStatus, &str) {
        let deployment = self.scene.state.deployment(ID).expect("the deployment exists");
        (deployment.status, &deployment.status_description)
    }
}

fn finding(epoch: Epoch, step: DeploymentStep) -> Command {
    Command::UpdateDeployments(UpdateDeployments {
        epoch,
        findings: vec![DeploymentFinding { id: ID, step }],
    })
}

#[test]
fn a_deployment_that_gets_on_has_its_job_looked_at() {
    // Progress of a deployment creates an evaluation with the deployment's id and priority (N-14.8).
    let mut rolling = Rolling::new();
    assert!(rolling.find(DeploymentStep::Advance));
    assert_eq!(rolling.scene.cause(), Some(Cause::DeploymentStatusUpdate));
    let evals = rolling.scene.pending(&rolling.job);
    assert_eq!(evals.len(), 1);
    assert_eq!(evals[0].trigger, EvalTrigger::DeploymentWatcher);
    assert_eq!((evals[0].deployment_id, evals[0].priority), (Some(ID), 70));
}

#[test]
fn one_that_has_all_that_it_wants_is_done_without_another_look() {
    // A deployment whose groups are complete becomes successful without an evaluation (N-12.6, R-7.89).
    let mut rolling = Rolling::new();
    rolling.verdict(0, true);
    rolling.scene.complete_pending(&rolling.job);
    assert!(
        rolling.find(DeploymentStep::Advance),
        "one allocation is not healthy yet, so the job is evaluated"
    );
    assert_eq!(rolling.scene.triggers(&rolling.job), [EvalTrigger::DeploymentWatcher]);
    rolling.verdict(1, true);
    rolling.scene.complete_pending(&rolling.job);
    assert!(rolling.find(DeploymentStep::Advance));
    assert_eq!(rolling.status(), (DeploymentStatus::Successful, "Deployment completed successfully"));
    assert!(rolling.scene.pending(&rolling.job).is_empty());
    let job = rolling.scene.state.job(&rolling.job).expect("the job exists");
    assert!(job.stable, "N-13.3");
}

#[test]
fn only_the_active_watcher_is_heeded() {
    let mut rolling = Rolling::new();
    let command = finding(Epoch(EPOCH.0 + 1), DeploymentStep::Advance);
    assert_eq!(rolling.scene.refused(command).0, RefusalKind::Deposed);
}

#[test]
fn an_unhealthy_allocation_is_marked_for_replacement_once() {
    // An unhealthy allocation is marked once, with an evaluation (N-14.6).
    let mut rolling = Rolling::new();
    rolling.verdict(0, false);
    rolling.scene.complete_pending(&rolling.job);
    let replace = DeploymentStep::Replace { allocs: rolling.allocs.clone() };
    assert!(rolling.find(replace.clone()));
    let marked = |rolling: &Rolling| {
        let allocs = rolling.allocs.iter().map(|id| rolling.scene.alloc(*id));
        allocs.map(|alloc| alloc.desired_transition.reschedule).collect::<Vec<_>>()
    };
    assert_eq!(marked(&rolling), [Some(true), None], "the other one has no verdict");
    assert_eq!(rolling.scene.triggers(&rolling.job), [EvalTrigger::DeploymentWatcher]);
    assert!(!rolling.find(replace), "the allocation is marked already");
}

#[test]
fn a_deployment_fails_for_what_is_still_so() {
    // A failed deployment gets a description of the cause, and its job an evaluation (N-14.9).
    let mut rolling = Rolling::new();
    let unhealthy = DeploymentStep::FailUnhealthy { allocs: rolling.allocs.clone() };
    assert!(!rolling.find(unhealthy.clone()), "none of them is unhealthy");
    rolling.verdict(1, false);
    rolling.scene.complete_pending(&rolling.job);
    assert!(rolling.find(unhealthy.clone()));
    assert_eq!(rolling.status(), (DeploymentStatus::Failed, "Failed due to unhealthy allocations"));
    assert_eq!(rolling.scene.triggers(&rolling.job), [EvalTrigger::DeploymentWatcher]);
    assert!(!rolling.find(unhealthy) && !rolling.find(DeploymentStep::Advance), "the deployment is terminal");
}

#[test]
fn progress_that_came_in_time_after_all_saves_it() {
    // A deadline that progress has postponed does not fail the deployment (N-12.10, N-14.4).
    let mut rolling = Rolling::new();
    let progress_by = rolling.scene.now + DEADLINE;
    rolling.scene.wait(DEADLINE);
    rolling.verdict(0, true);
    assert!(!rolling.find(DeploymentStep::FailLate { progress_by }));
    let progress_by = rolling.scene.now + DEADLINE;
    rolling.scene.wait(DEADLINE);
    assert!(rolling.find(DeploymentStep::FailLate { progress_by }));
    assert_eq!(rolling.status(), (DeploymentStatus::Failed, "Failed due to progress deadline"));
}

#[test]
fn a_user_gives_a_deployment_up() {
    // A user may fail a deployment that is not terminal (N-15, N-15.1).
    let mut rolling = Rolling::new();
    let fail = Command::FailDeployment(FailDeployment { id: ID });
    let done = rolling.scene.done(fail.clone());
    assert_eq!((done.evals.len(), done.object_index), (1, rolling.scene.state.index()));
    assert_eq!(rolling.status(), (DeploymentStatus::Failed, "Deployment marked as failed"));
    let (kind, text) = rolling.scene.refused(fail);
    assert_eq!((kind, &*text), (RefusalKind::Invalid, "can't fail terminal deployment"));
    let id = DeploymentId::from_bytes([6; 16]);
    assert_eq!(
        rolling.scene.refused(Command::FailDeployment(FailDeployment { id })),
        (RefusalKind::NotFound, "deployment not found".to_owned())
    );
}
