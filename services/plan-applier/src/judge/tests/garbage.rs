//! Garbage collection: objects that are deleted, and objects that must be kept.

use clap::Parser as _;
use model::alloc::ClientStatus;
use model::change::{Cause, Change};
use model::cluster::SchedulerConfig;
use model::job::{JobSpec, JobStatus, JobType, ReschedulePolicy};
use model::plan::Stops;
use model::{AllocId, JobKey, Nanos, NodeId};
use wire::RefusalKind;
use wire::command::{
    CollectGarbage, Command, DeleteEvals, DeregisterJob, GARBAGE_SLICE_MAX, Garbage, RegisterJob,
    SetSchedulerConfig,
};

use super::scene::{Scene, job_spec, registration, service};
use crate::garbage::Args;
use crate::garbage::find::{Ages, find};

const DAY: Nanos = Nanos::from_hours(24);

/// What remains of a job: evaluations, allocations, and whether it is registered.
fn left(scene: &Scene, job: &JobKey) -> (usize, usize, bool) {
    let state = &scene.state;
    (state.evals_of_job(job).count(), state.allocs_of_job(job).len(), state.job(job).is_some())
}

/// Finds and deletes garbage, as the active applier does periodically.
fn collect(scene: &mut Scene, ages: Ages) {
    for garbage in find(&scene.state, ages, scene.now) {
        scene.done(Command::CollectGarbage(garbage));
    }
}

/// A forced collection, two minutes later.
fn force(scene: &mut Scene) {
    scene.wait(Nanos::from_mins(2));
    collect(scene, Ages::FORCED);
}

/// The ages from these flags, with defaults for the others.
fn ages_of(flags: &[&str]) -> Ages {
    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }
    Cli::parse_from(["test"].iter().chain(flags)).args.ages()
}

fn ages() -> Ages {
    ages_of(&[])
}

fn placed(scene: &mut Scene, spec: JobSpec) -> (NodeId, JobKey, AllocId) {
    let node = scene.node();
    let job = scene.register(spec);
    let alloc = scene.place(&job, &[node])[0];
    scene.report(node, &[alloc], ClientStatus::Running);
    (node, job, alloc)
}

fn stop(scene: &mut Scene, job: &JobKey) {
    let stop =
        DeregisterJob { job: job.clone(), purge: false, eval_priority: None, no_shutdown_delay: false };
    scene.done(Command::DeregisterJob(stop));
}

/// Stops an allocation by a plan, and reports that it has ended.
fn end(scene: &mut Scene, node: NodeId, job: &JobKey, alloc: AllocId) {
    let mut plan = scene.plan(job);
    plan.stops = vec![Stops {
        ids: [alloc].into_iter().collect(),
        description: "alloc not needed due to job update".into(),
        client_status: None,
        followup_eval: None,
        reschedule: None,
    }];
    scene.submit(plan);
    scene.report(node, &[alloc], ClientStatus::Complete);
}

#[test]
fn a_job_that_was_stopped_goes_with_all_that_belongs_to_it() {
    // A stopped and dead job is deleted with its evaluations and allocations.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    stop(&mut scene, &job);
    force(&mut scene);
    assert_eq!(left(&scene, &job), (2, 1, true), "the job has an allocation (R-12.8)");
    end(&mut scene, node, &job, alloc);
    assert_eq!(scene.job_status(&job), JobStatus::Dead);
    force(&mut scene);
    assert_eq!(left(&scene, &job), (0, 0, false));
    assert_eq!(scene.cause(), Some(Cause::Garbage));
    assert!(scene.state.job_summary(&job).is_none());
}

#[test]
fn nothing_goes_before_its_time() {
    // Objects younger than their threshold are kept.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    stop(&mut scene, &job);
    end(&mut scene, node, &job, alloc);
    scene.wait(Nanos::from_mins(59));
    collect(&mut scene, ages());
    assert_eq!(left(&scene, &job), (2, 1, true));
    scene.wait(Nanos::from_mins(2));
    collect(&mut scene, ages());
    assert_eq!(left(&scene, &job), (0, 0, true), "jobs are kept for four hours");
    scene.wait(Nanos::from_hours(3));
    collect(&mut scene, ages());
    assert_eq!(left(&scene, &job), (0, 0, false));
}

#[test]
fn garbage_goes_when_the_settings_say_so() {
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    stop(&mut scene, &job);
    end(&mut scene, node, &job, alloc);
    scene.wait(Nanos::from_mins(1));
    collect(&mut scene, ages_of(&["--job-gc-threshold-secs", "61"]));
    assert_eq!(left(&scene, &job), (2, 1, true));
    collect(&mut scene, ages_of(&["--eval-gc-threshold-secs", "0"]));
    assert_eq!(left(&scene, &job), (0, 0, true));
    collect(&mut scene, ages_of(&["--job-gc-threshold-secs", "60"]));
    assert_eq!(left(&scene, &job), (0, 0, false));
}

#[test]
fn a_service_that_runs_or_died_stays() {
    // A dead service is deleted only if it was stopped.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    force(&mut scene);
    assert_eq!(left(&scene, &job), (1, 1, true));
    scene.report(node, &[alloc], ClientStatus::Complete);
    scene.complete_pending(&job);
    force(&mut scene);
    assert_eq!(scene.job_status(&job), JobStatus::Dead);
    assert_eq!(left(&scene, &job), (0, 0, true), "the job was not stopped");
}

#[test]
fn a_failure_that_may_be_tried_elsewhere_is_remembered() {
    // A failed allocation that may be rescheduled is kept, because it contains the count of its attempts.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    scene.place_another(&job, node);
    scene.report(node, &[alloc], ClientStatus::Failed);
    scene.complete_pending(&job);
    force(&mut scene);
    assert!(scene.state.alloc(alloc).is_some());
    let mut spec = service("web");
    spec.task_groups[0].reschedule_policy = Some(ReschedulePolicy::default());
    scene.register(spec);
    force(&mut scene);
    assert!(scene.state.alloc(alloc).is_none(), "the policy no longer allows a reschedule");
}

#[test]
fn work_that_is_done_is_remembered_while_its_job_may_be_looked_at() {
    // Completed allocations of a batch job's current version are kept, because the scheduler would run them again (R-12.9,
    //
    let mut scene = Scene::new();
    for (id, kind) in [("batch", JobType::Batch), ("sysbatch", JobType::SysBatch)] {
        let mut spec = job_spec(id, kind);
        let (node, job, alloc) = placed(&mut scene, spec.clone());
        scene.place_another(&job, node);
        scene.report(node, &[alloc], ClientStatus::Complete);
        scene.complete_pending(&job);
        force(&mut scene);
        assert!(scene.state.alloc(alloc).is_some(), "{id}");
        spec.priority += 1;
        let again = RegisterJob { enforce_index: None, ..registration(spec) };
        scene.done(Command::RegisterJob(Box::new(again)));
        scene.complete_pending(&job);
        force(&mut scene);
        assert!(scene.state.alloc(alloc).is_none(), "{id}: the allocation belongs to an older version");
    }
}

#[test]
fn batch_jobs_that_are_done_go() {
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, job_spec("once", JobType::Batch));
    scene.report(node, &[alloc], ClientStatus::Complete);
    scene.wait(DAY);
    collect(&mut scene, ages());
    assert_eq!(left(&scene, &job), (0, 0, false));
}

#[test]
fn objects_that_are_needed_again_are_not_collected() {
    // Objects that changed after the snapshot of the search are protected by the command's own checks.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    stop(&mut scene, &job);
    end(&mut scene, node, &job, alloc);
    scene.wait(Nanos::from_mins(2));
    let found = find(&scene.state, Ages::FORCED, scene.now);
    assert_eq!(found.len(), 3, "allocations, evaluations, the job");
    scene.register(service("web"));
    for garbage in found {
        scene.done(Command::CollectGarbage(garbage));
    }
    assert!(scene.state.job(&job).is_some());
    assert_eq!(scene.pending(&job).len(), 1);
}

#[test]
fn an_evaluation_never_goes_before_its_allocations() {
    // An evaluation is deleted only without allocations, in whatever order the commands arrive.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    stop(&mut scene, &job);
    end(&mut scene, node, &job, alloc);
    scene.wait(Nanos::from_mins(2));
    for garbage in find(&scene.state, Ages::FORCED, scene.now).into_iter().rev() {
        scene.done(Command::CollectGarbage(garbage));
    }
    assert_eq!(left(&scene, &job), (1, 0, true), "only the evaluation without allocations is deleted");
}

#[test]
fn allocations_whose_evaluation_a_user_forgot_go_too() {
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    scene.place_another(&job, node);
    let config = SchedulerConfig { pause_eval_broker: true, ..SchedulerConfig::default() };
    scene.done(Command::SetSchedulerConfig(SetSchedulerConfig { config, enforce_index: None }));
    let forgotten = scene.alloc(alloc).common.eval_id;
    scene.done(Command::DeleteEvals(DeleteEvals { ids: vec![forgotten] }));
    force(&mut scene);
    assert!(scene.state.alloc(alloc).is_some(), "the allocation is running");
    scene.report(node, &[alloc], ClientStatus::Complete);
    scene.complete_pending(&job);
    force(&mut scene);
    assert!(scene.state.eval(forgotten).is_none() && scene.state.alloc(alloc).is_none());
}

#[test]
fn nodes_that_are_gone_go() {
    // A node that is down is deleted when all its allocations are terminal.
    let mut scene = Scene::new();
    let (node, job, alloc) = placed(&mut scene, service("web"));
    scene.missed(&[node]);
    scene.complete_pending(&job);
    force(&mut scene);
    assert!(scene.state.node(node).is_some(), "the node has an allocation that is not terminal");
    scene.missed(&[node]);
    end(&mut scene, node, &job, alloc);
    scene.wait(DAY);
    collect(&mut scene, ages());
    assert!(scene.state.node(node).is_none());
}

#[test]
fn a_slice_that_is_too_long_is_refused() {
    let mut scene = Scene::new();
    let ids = vec![AllocId::from_bytes([1; 16]); GARBAGE_SLICE_MAX + 1];
    let garbage = Garbage::Allocs { ids, with_jobs: false };
    let command = Command::CollectGarbage(CollectGarbage { before: scene.now, garbage });
    assert_eq!(scene.refused(command).0, RefusalKind::Invalid);
}

impl Scene {
    /// Places one more allocation, so that the job keeps running after the others have ended.
    fn place_another(&mut self, job: &JobKey, node: NodeId) {
        let evaluate = wire::command::EvaluateJob { job: job.clone(), force_reschedule: false };
        self.done(Command::EvaluateJob(evaluate));
        let alloc = self.place(job, &[node])[0];
        self.report(node, &[alloc], ClientStatus::Running);
        let is_deleted = |change: &Change| matches!(change, Change::AllocsDeleted(_));
        assert!(!self.last().iter().any(is_deleted));
    }
}
