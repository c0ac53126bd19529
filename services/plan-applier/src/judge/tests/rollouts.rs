//! Promotion, pauses, health by request, and the return to a stable version.

use model::change::Cause;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::EvalTrigger;
use model::job::JobSpec;
use model::{AllocId, Timestamp};
use wire::RefusalKind;
use wire::command::{
    Command, DeploymentStep, DeregisterJob, FailDeployment, PauseDeployment, PromoteDeployment,
    SetAllocHealth, SetJobStability,
};

use super::deployments::{DEADLINE, ID, Rolling, group, spec};
use super::scene::Scene;

fn with_canaries(auto_promote: bool) -> Rolling {
    let group = DeploymentGroup { desired_canaries: 2, auto_promote, ..group() };
    Rolling::start(Scene::new(), spec(), group)
}

fn promote(groups: Option<&str>) -> Command {
    let groups = groups.map(|name| vec![name.into()]);
    Command::PromoteDeployment(PromoteDeployment { id: ID, groups })
}

fn pause(pause: bool) -> Command {
    Command::PauseDeployment(PauseDeployment { id: ID, pause })
}

fn fail() -> Command {
    Command::FailDeployment(FailDeployment { id: ID })
}

fn stored(rolling: &Rolling) -> &Deployment {
    rolling.scene.state.deployment(ID).expect("the deployment exists")
}

fn group_of(rolling: &Rolling) -> &DeploymentGroup {
    &stored(rolling).groups["app"]
}

#[test]
fn canaries_are_promoted_once_all_are_healthy() {
    // A promotion needs all canaries healthy; it marks the groups, restarts their clocks, and takes the canary flag away
    // so that agents see it (N-13.5, R-7.93).
    let mut rolling = with_canaries(false);
    rolling.verdict(0, true);
    let text = "1 error occurred:\n\t* Task group \"app\" has 1/2 healthy allocations\n\n";
    assert_eq!(rolling.scene.refused(promote(None)), (RefusalKind::Conflict, text.to_owned()));
    rolling.verdict(1, true);
    rolling.scene.complete_pending(&rolling.job);
    let done = rolling.scene.done(promote(Some("app")));
    assert_eq!((done.evals.len(), done.object_index), (1, rolling.scene.state.index()));
    assert_eq!(rolling.scene.cause(), Some(Cause::DeploymentPromotion));
    assert_eq!(rolling.status(), (DeploymentStatus::Running, "Deployment is running"));
    let group = group_of(&rolling);
    assert_eq!((group.promoted, group.placed_canaries.len()), (true, 2));
    assert_eq!(group.require_progress_by, rolling.scene.now + DEADLINE);
    for id in &rolling.allocs {
        let alloc = rolling.scene.alloc(*id);
        let health = alloc.health.expect("the allocation has a verdict");
        assert_eq!((health.canary, health.healthy), (false, Some(true)));
        assert_eq!(alloc.alloc_modify_index, rolling.scene.state.index(), "its agent is told");
    }
    assert_eq!(rolling.scene.triggers(&rolling.job), [EvalTrigger::DeploymentWatcher]);
}

#[test]
fn a_promotion_without_anything_to_promote_only_evaluates() {
    // An unknown group, no group, and groups that are promoted already are no errors (http-api §16).
    let mut rolling = with_canaries(false);
    let none = Command::PromoteDeployment(PromoteDeployment { id: ID, groups: Some(Vec::new()) });
    for command in [promote(Some("nope")), none] {
        let done = rolling.scene.done(command);
        assert_eq!((done.evals.len(), group_of(&rolling).promoted), (1, false));
    }
    rolling.verdict(0, true);
    rolling.verdict(1, true);
    rolling.scene.done(promote(None));
    let promoted = stored(&rolling).clone();
    assert_eq!(rolling.scene.done(promote(None)).evals.len(), 1);
    assert_eq!(*stored(&rolling), promoted);
}

#[test]
fn groups_that_ask_for_it_are_promoted_without_a_user() {
    // The watcher's promotion is carried out only if exactly as many canaries are healthy as are desired (N-14.7, R-7.94).
    let mut by_hand = with_canaries(false);
    by_hand.verdict(0, true);
    by_hand.verdict(1, true);
    assert!(!by_hand.find(DeploymentStep::Promote), "the group waits for a user");
    let mut rolling = with_canaries(true);
    rolling.verdict(0, true);
    assert!(!rolling.find(DeploymentStep::Promote), "a canary has no verdict yet");
    rolling.verdict(1, true);
    rolling.scene.done(pause(true));
    assert!(!rolling.find(DeploymentStep::Promote), "the deployment is paused");
    rolling.scene.done(pause(false));
    assert!(rolling.find(DeploymentStep::Promote));
    assert!(group_of(&rolling).promoted);
    assert!(!rolling.find(DeploymentStep::Promote), "there is nothing left to promote");
}

#[test]
fn canaries_that_wait_for_a_user_are_not_late() {
    // A group whose canaries are healthy does not fail at its progress deadline (N-14.4, N-31a).
    let mut rolling = with_canaries(false);
    let progress_by = rolling.scene.now + DEADLINE;
    rolling.verdict(0, true);
    rolling.scene.wait(DEADLINE);
    rolling.verdict(1, true);
    rolling.scene.wait(DEADLINE);
    let late = DeploymentStep::FailLate { progress_by: rolling.scene.now };
    assert!(group_of(&rolling).require_progress_by >= progress_by);
    assert!(!rolling.find(late));
}

#[test]
fn a_pause_stops_the_clock_and_its_end_restarts_it() {
    // Both restart the progress deadlines; only the end of the pause makes an evaluation (N-13.2, N-15, R-7.99).
    let mut rolling = Rolling::start(Scene::new(), spec(), group());
    let begun = rolling.scene.now;
    rolling.scene.wait(DEADLINE);
    for _ in 0..2 {
        let done = rolling.scene.done(pause(true));
        assert_eq!((done.written, done.evals.len()), (true, 0));
    }
    assert_eq!(rolling.status(), (DeploymentStatus::Paused, "Deployment is paused"));
    assert!(!rolling.find(DeploymentStep::FailLate { progress_by: begun + DEADLINE + DEADLINE }));
    rolling.scene.wait(DEADLINE);
    assert_eq!(rolling.scene.done(pause(false)).evals.len(), 1);
    assert_eq!(rolling.status(), (DeploymentStatus::Running, "Deployment is running"));
    assert_eq!(group_of(&rolling).require_progress_by, rolling.scene.now + DEADLINE);
    assert!(!rolling.find(DeploymentStep::FailLate { progress_by: rolling.scene.now }));
}

#[test]
fn what_has_ended_is_left_alone() {
    // N-15.1.
    let mut rolling = Rolling::start(Scene::new(), spec(), group());
    let allocs = vec![rolling.allocs[0]];
    rolling.scene.done(fail());
    let health = SetAllocHealth { id: ID, healthy: allocs, unhealthy: Vec::new() };
    for (command, text) in [
        (promote(None), "can't promote terminal deployment"),
        (pause(true), "can't pause terminal deployment"),
        (pause(false), "can't resume terminal deployment"),
        (fail(), "can't fail terminal deployment"),
        (Command::SetAllocHealth(health), "can't set health of allocations for a terminal deployment"),
    ] {
        assert_eq!(rolling.scene.refused(command), (RefusalKind::Invalid, text.to_owned()));
    }
    assert!(!rolling.find(DeploymentStep::Promote));
}

fn health(healthy: &[AllocId], unhealthy: &[AllocId]) -> Command {
    let (healthy, unhealthy) = (healthy.to_vec(), unhealthy.to_vec());
    Command::SetAllocHealth(SetAllocHealth { id: ID, healthy, unhealthy })
}

#[test]
fn users_may_say_what_is_healthy() {
    // Healthy allocations count and make an evaluation; an unhealthy one fails the deployment (N-13.6, N-15.3).
    let mut rolling = Rolling::start(Scene::new(), spec(), group());
    let [one, other] = [rolling.allocs[0], rolling.allocs[1]];
    let stranger = AllocId::from_bytes([7; 16]);
    let (kind, text) = rolling.scene.refused(health(&[one, stranger], &[]));
    assert_eq!((kind, text), (RefusalKind::Invalid, format!("unknown alloc \"{stranger}\"")));
    let (_, text) = rolling.scene.refused(health(&[], &[]));
    assert_eq!(text, "must specify at least one healthy/unhealthy allocation ID");
    let done = rolling.scene.done(health(&[one], &[]));
    assert_eq!((done.evals.len(), done.reverted_version), (1, None));
    assert_eq!(rolling.scene.cause(), Some(Cause::DeploymentAllocHealth));
    assert_eq!((group_of(&rolling).healthy_allocs, rolling.status().0), (1, DeploymentStatus::Running));
    let verdict = rolling.scene.alloc(one).health.expect("the allocation has a verdict");
    assert_eq!((verdict.healthy, verdict.timestamp), (Some(true), rolling.scene.now));
    rolling.scene.done(health(&[other], &[other]));
    assert_eq!((group_of(&rolling).healthy_allocs, group_of(&rolling).unhealthy_allocs), (1, 1));
    assert_eq!(rolling.status(), (DeploymentStatus::Failed, "Failed due to unhealthy allocations"));
}

/// The second version of a job, whose deployment returns to a stable version if it fails. The first version is stable if
/// `stable`.
fn reverting(first: JobSpec, stable: bool) -> Rolling {
    let mut scene = Scene::new();
    let job = scene.register(first);
    scene.complete_pending(&job);
    if stable {
        let version = 0;
        scene.done(Command::SetJobStability(SetJobStability { job, version, stable }));
    }
    Rolling::start(scene, spec(), DeploymentGroup { auto_revert: true, ..group() })
}

fn older() -> JobSpec {
    JobSpec { priority: 40, ..spec() }
}

#[test]
fn a_failed_deployment_returns_to_the_stable_version() {
    // The specification of the latest stable version becomes a new version in the same write (N-14.9, N-31a).
    let mut rolling = reverting(older(), true);
    rolling.verdict(0, false);
    rolling.scene.complete_pending(&rolling.job);
    let allocs = rolling.allocs.clone();
    assert!(rolling.find(DeploymentStep::FailUnhealthy { allocs }));
    let text = "Failed due to unhealthy allocations - rolling back to job version 0";
    assert_eq!(rolling.status(), (DeploymentStatus::Failed, text));
    let job = rolling.scene.job(&rolling.job);
    assert_eq!((job.version, job.spec.priority, job.stable), (2, 40, false));
    let evals = rolling.scene.pending(&rolling.job);
    assert_eq!(evals.len(), 1);
    assert_eq!((evals[0].deployment_id, evals[0].job_modify_index), (Some(ID), job.job_modify_index));
}

#[test]
fn without_a_version_to_return_to_the_description_says_so() {
    // N-12.5.
    let mut rolling = reverting(older(), false);
    assert_eq!(rolling.scene.done(fail()).reverted_version, None);
    assert_eq!(rolling.status().1, "Deployment marked as failed - no stable job version to auto revert to");
    assert_eq!(rolling.scene.job(&rolling.job).version, 1);

    let mut same = reverting(older(), false);
    let (job, version) = (same.job.clone(), 1);
    same.scene.done(Command::SetJobStability(SetJobStability { job, version, stable: true }));
    assert_eq!(same.scene.done(fail()).reverted_version, None);
    let text = "Deployment marked as failed - not rolling back to stable job version 1 as current job has same \
                specification";
    assert_eq!(same.status().1, text);
    assert_eq!(same.scene.job(&same.job).version, 1);
}

#[test]
fn users_who_fail_a_deployment_learn_where_the_job_returns_to() {
    // N-15.2.
    let mut rolling = reverting(older(), true);
    assert_eq!(rolling.scene.done(fail()).reverted_version, Some(0));
    let mut judged = reverting(older(), true);
    let one = judged.allocs[0];
    assert_eq!(judged.scene.done(health(&[], &[one])).reverted_version, Some(0));
    assert_eq!(judged.scene.job(&judged.job).version, 2);
}

#[test]
fn what_a_user_has_decided_since_is_not_undone() {
    // A deployment that a newer version, or the job's stop, has overtaken does not return to an older version.
    let mut newer = reverting(older(), true);
    newer.scene.register(JobSpec { priority: 30, ..spec() });
    assert_eq!(newer.scene.done(fail()).reverted_version, None);
    assert_eq!(newer.status().1, "Deployment marked as failed");
    assert_eq!(newer.scene.job(&newer.job).spec.priority, 30);

    let mut stopped = reverting(older(), true);
    let job = stopped.job.clone();
    let stop = DeregisterJob { job, purge: false, eval_priority: None, no_shutdown_delay: false };
    stopped.scene.done(Command::DeregisterJob(stop));
    assert_eq!(stopped.scene.done(fail()).reverted_version, None);
    assert!(stopped.scene.job(&stopped.job).spec.stop);
}

#[test]
fn a_deployment_without_deadlines_keeps_none() {
    // A promotion and a pause start no clock where there is none (N-12.10, N-13.2).
    let group = DeploymentGroup { desired_canaries: 2, desired_total: 2, ..DeploymentGroup::default() };
    let mut rolling = Rolling::start(Scene::new(), spec(), group);
    rolling.verdict(0, true);
    rolling.verdict(1, true);
    for command in [promote(None), pause(true), pause(false)] {
        rolling.scene.done(command);
        assert_eq!(group_of(&rolling).require_progress_by, Timestamp::UNSET);
    }
}
