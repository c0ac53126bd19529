//! Scaling of task groups, and summaries that are computed from scratch.

use std::sync::Arc;

use model::alloc::ClientStatus;
use model::change::{Cause, Change, JobSummary};
use model::eval::EvalTrigger;
use model::job::{JobSpec, JobType, SCALING_EVENTS_MAX, ScalingEvent, ScalingMeta};
use model::{Index, JobKey, Text};
use wire::RefusalKind;
use wire::command::{Command, DeregisterJob, RECONCILED_SUMMARIES_MAX, ReconcileSummaries, ScaleJob};

use super::scene::{Scene, service};

/// A job whose first group may have a count from 1 to 4.
fn bounded(scene: &mut Scene) -> JobKey {
    let mut spec = service("web");
    for group in spec.task_groups.iter_mut() {
        group.count = 2;
        let policy = group.scaling.get_or_insert_default();
        (policy.min, policy.max) = (Some(1), Some(4));
    }
    scene.register(spec)
}

fn group_name(scene: &Scene, job: &JobKey) -> Text {
    scene.job(job).spec.task_groups[0].name.clone()
}

fn scale(scene: &Scene, job: &JobKey, count: Option<u32>) -> ScaleJob {
    let group = scene.state.job(job).map_or_else(|| "web".into(), |job| job.spec.task_groups[0].name.clone());
    ScaleJob {
        job: job.clone(),
        group,
        count,
        count_max: 50_000,
        message: "more load".into(),
        error: false,
        meta: None,
        enforce_index: None,
    }
}

fn events(scene: &Scene, job: &JobKey) -> Vec<ScalingEvent> {
    let events = scene.summary(job).scaling_events.as_deref();
    events.and_then(|events| events.get(&group_name(scene, job))).cloned().unwrap_or_default()
}

#[test]
fn a_count_becomes_a_new_version_with_an_evaluation_and_an_event() {
    // N-26.3, N-26.4.
    let mut scene = Scene::new();
    let job = bounded(&mut scene);
    let meta = ScalingMeta::from([("load".to_owned(), 3.into())]);
    let command = ScaleJob { meta: Some(meta.clone()), ..scale(&scene, &job, Some(4)) };
    let done = scene.done(Command::ScaleJob(command));
    let current = scene.job(&job);
    assert_eq!((current.version, current.spec.task_groups[0].count), (1, 4));
    assert_eq!(done.object_index, current.job_modify_index);
    assert_eq!(scene.eval(done.evals[0]).trigger, EvalTrigger::JobScaling);
    let event = ScalingEvent {
        at: scene.now,
        count: Some(4),
        previous_count: 2,
        message: "more load".into(),
        error: false,
        meta: Some(meta),
        eval_id: Some(done.evals[0]),
        create_index: done.index,
    };
    assert_eq!(events(&scene, &job), [event]);
    // The same count is a new version, too.
    scene.done(Command::ScaleJob(scale(&scene, &job, Some(4))));
    assert_eq!(scene.job(&job).version, 2);
    assert_eq!(events(&scene, &job)[0].previous_count, 4);
}

#[test]
fn without_a_count_only_an_event_is_recorded() {
    // N-26.3.
    let mut scene = Scene::new();
    let job = bounded(&mut scene);
    let command = ScaleJob { error: true, ..scale(&scene, &job, None) };
    let done = scene.done(Command::ScaleJob(command));
    assert_eq!((done.evals.len(), done.written, scene.job(&job).version), (0, true, 0));
    let found = events(&scene, &job);
    assert_eq!((found[0].count, found[0].eval_id, found[0].error), (None, None, true));
}

#[test]
fn the_last_events_are_kept_and_no_other_change_repeats_them() {
    // N-26.4.
    let mut scene = Scene::new();
    let job = bounded(&mut scene);
    for number in 0..SCALING_EVENTS_MAX + 3 {
        let message = number.to_string().into();
        scene.done(Command::ScaleJob(ScaleJob { message, ..scale(&scene, &job, None) }));
    }
    let found = events(&scene, &job);
    assert_eq!(found.len(), SCALING_EVENTS_MAX);
    assert_eq!((&*found[0].message, &*found[SCALING_EVENTS_MAX - 1].message), ("22", "3"));
    let node = scene.node();
    let allocs = scene.place(&job, &[node]);
    scene.report(node, &allocs, ClientStatus::Running);
    let repeats =
        |change: &Change| matches!(change, Change::JobSummary(summary) if summary.scaling_events.is_some());
    assert!(!scene.last().iter().any(repeats), "{:?}", scene.last());
    assert_eq!(events(&scene, &job), found);
    let purge =
        DeregisterJob { job: job.clone(), purge: true, eval_priority: None, no_shutdown_delay: false };
    scene.done(Command::DeregisterJob(purge));
    let job = bounded(&mut scene);
    assert!(events(&scene, &job).is_empty());
}

#[test]
fn a_request_to_scale_that_cannot_be_is_refused() {
    // N-26.2.
    let mut scene = Scene::new();
    let job = bounded(&mut scene);
    let none = JobKey::new("default", "none");
    let index = scene.job(&job).job_modify_index;
    let unknown = ScaleJob { group: "x".into(), ..scale(&scene, &job, Some(1)) };
    let stale = ScaleJob { enforce_index: Some(Index(1)), ..scale(&scene, &job, Some(3)) };
    let too_many = ScaleJob { count_max: 3, ..scale(&scene, &job, Some(4)) };
    for (command, kind, text) in [
        (scale(&scene, &none, Some(1)), RefusalKind::NotFound, "job \"none\" not found".to_owned()),
        (
            unknown,
            RefusalKind::Invalid,
            "task group \"x\" specified for scaling does not exist in job".to_owned(),
        ),
        (
            scale(&scene, &job, Some(0)),
            RefusalKind::Invalid,
            "group count was less than scaling policy minimum: 0 < 1".to_owned(),
        ),
        (
            scale(&scene, &job, Some(5)),
            RefusalKind::Invalid,
            "group count was greater than scaling policy maximum: 5 > 4".to_owned(),
        ),
        (
            too_many,
            RefusalKind::Invalid,
            "total count was greater than configured job_max_count: 4 > 3".to_owned(),
        ),
        (
            stale,
            RefusalKind::Conflict,
            format!("Enforcing job modify index 1: job exists with conflicting job modify index: {index}"),
        ),
    ] {
        assert_eq!(scene.refused(Command::ScaleJob(command)), (kind, text));
    }
    assert!(events(&scene, &job).is_empty());
}

#[test]
fn a_system_job_is_scaled_to_one_at_most() {
    // N-26.2.
    let mut scene = Scene::new();
    let job = scene.register(JobSpec { kind: JobType::System, ..service("web") });
    let text = "jobs of type \"system\" can only be scaled between 0 and 1";
    let refused = scene.refused(Command::ScaleJob(scale(&scene, &job, Some(2))));
    assert_eq!(refused, (RefusalKind::Invalid, text.to_owned()));
    scene.done(Command::ScaleJob(scale(&scene, &job, Some(0))));
    assert_eq!(scene.job(&job).spec.task_groups[0].count, 0);
}

#[test]
fn summaries_are_computed_from_the_allocations() {
    // N-25.8.
    let mut scene = Scene::new();
    let job = bounded(&mut scene);
    scene.done(Command::ScaleJob(scale(&scene, &job, None)));
    let node = scene.node();
    let allocs = scene.place(&job, &[node, node]);
    scene.report(node, &allocs[..1], ClientStatus::Running);
    let right = scene.summary(&job).clone();
    let wrong = JobSummary { groups: Default::default(), ..right.clone() };
    scene.commit(Cause::Settings, vec![Change::JobSummary(Arc::new(wrong))]);
    assert_ne!(scene.summary(&job).groups, right.groups);
    let command = || Command::ReconcileSummaries(ReconcileSummaries { jobs: vec![job.clone()] });
    assert!(scene.done(command()).written);
    let group = right.groups.get(&group_name(&scene, &job)).expect("the group is counted");
    assert_eq!((group.running, group.starting), (1, 1));
    assert_eq!(scene.summary(&job).groups, right.groups);
    assert_eq!(scene.summary(&job).scaling_events, right.scaling_events);
    assert!(!scene.done(command()).written, "nothing is wrong");
    let jobs = vec![job.clone(); RECONCILED_SUMMARIES_MAX + 1];
    let refused = scene.refused(Command::ReconcileSummaries(ReconcileSummaries { jobs }));
    assert_eq!(refused.0, RefusalKind::Invalid);
}
