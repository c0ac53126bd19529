//! Children: launches of periodic jobs, dispatches of parameterized ones, and the counts of both in their parents.

use model::change::{Cause, ChildrenSummary};
use model::eval::EvalTrigger;
use model::job::{
    Base64, JobSpec, JobStatus, JobType, PAYLOAD_BYTES_MAX, ParameterizedJobConfig, PeriodicConfig,
};
use model::{Epoch, JobKey, Nanos, Timestamp};
use wire::RefusalKind;
use wire::command::{
    Command, DeregisterJob, DispatchJob, Done, ForceLaunch, Launch, LaunchJobs, ReconcileSummaries,
};

use super::scene::{EPOCH, Scene, job_spec, registration};
use crate::garbage::find::{Ages, find};

fn cron() -> JobSpec {
    let periodic =
        PeriodicConfig { enabled: true, specs: vec!["* * * * *".into()], ..PeriodicConfig::default() };
    JobSpec { periodic: Some(periodic), ..job_spec("cron", JobType::Batch) }
}

fn overlapping(prohibit_overlap: bool) -> JobSpec {
    let periodic = cron().periodic.map(|periodic| PeriodicConfig { prohibit_overlap, ..periodic });
    JobSpec { periodic, ..cron() }
}

fn call(max_children_running: Option<u32>) -> JobSpec {
    let config = ParameterizedJobConfig {
        meta_optional: vec!["key".into()],
        max_children_running,
        ..ParameterizedJobConfig::default()
    };
    JobSpec { parameterized_job: Some(config), ..job_spec("call", JobType::Batch) }
}

fn key(id: &str) -> JobKey {
    JobKey::new("default", id)
}

fn launch(parent: &JobKey, moment: Timestamp) -> Command {
    Command::LaunchJobs(LaunchJobs { epoch: EPOCH, launches: vec![Launch { job: parent.clone(), moment }] })
}

fn force(parent: &JobKey) -> Command {
    Command::ForceLaunch(ForceLaunch { job: parent.clone() })
}

fn dispatch(id: &str) -> DispatchJob {
    DispatchJob {
        parent: key("call"),
        id: format!("call/dispatch-{id}").into(),
        payload: None,
        meta: Default::default(),
        priority: None,
        idempotency_token: "".into(),
    }
}

fn dispatched(scene: &mut Scene, id: &str) -> (JobKey, Done) {
    let done = scene.done(Command::DispatchJob(Box::new(dispatch(id))));
    (key(&format!("call/dispatch-{id}")), done)
}

fn remove(job: &JobKey, purge: bool) -> Command {
    let job = job.clone();
    Command::DeregisterJob(DeregisterJob { job, purge, eval_priority: None, no_shutdown_delay: false })
}

fn children(scene: &Scene, parent: &JobKey) -> ChildrenSummary {
    scene.summary(parent).children.unwrap_or_default()
}

/// The numbers of pending, running and dead children.
fn counts(scene: &Scene, parent: &JobKey) -> [u64; 3] {
    let children = children(scene, parent);
    [children.pending, children.running, children.dead]
}

/// Registers a periodic job, and waits for its first moment.
fn due(scene: &mut Scene, spec: JobSpec) -> (JobKey, Timestamp) {
    let parent = scene.register(spec);
    scene.wait(Nanos::from_mins(1));
    (parent, scene.now)
}

#[test]
fn a_launch_makes_a_child_with_an_evaluation_at_one_index() {
    // The child has the parent's version and stability, and an evaluation of trigger periodic-job; the launch is recorded
    // (N-23.4). Registering the parent creates no evaluation.
    let mut scene = Scene::new();
    let registered = scene.done(Command::RegisterJob(Box::new(registration(cron()))));
    assert_eq!(registered.evals, []);
    scene.register(JobSpec { priority: 70, ..cron() });
    let parent = key("cron");
    assert_eq!(scene.job_status(&parent), JobStatus::Running);
    scene.wait(Nanos::from_mins(1));
    let done = scene.done(launch(&parent, scene.now));
    let child = key(&format!("cron/periodic-{}", scene.now.as_secs()));
    let job = scene.job(&child).clone();
    assert_eq!((job.version, job.status, job.submit_time), (1, JobStatus::Pending, scene.now));
    assert_eq!((job.create_index, job.spec.priority), (done.index, 70));
    assert_eq!((&*job.spec.parent_id, &job.spec.name), ("cron", &child.id));
    assert!(job.spec.periodic.is_none() && !job.spec.dispatched);
    assert_eq!(scene.triggers(&child), [EvalTrigger::PeriodicJob]);
    assert_eq!(done.evals, [scene.pending(&child)[0].id]);
    assert_eq!(scene.cause(), Some(Cause::JobRegistered));
    let expected = ChildrenSummary { pending: 1, last_launch: scene.now, ..ChildrenSummary::default() };
    assert_eq!(children(&scene, &parent), expected);
    assert_eq!(scene.summary(&parent).modify_index, done.index);
}

#[test]
fn a_moment_is_launched_once() {
    let mut scene = Scene::new();
    let (parent, moment) = due(&mut scene, cron());
    assert!(scene.done(launch(&parent, moment)).written);
    // Again, earlier, before the job's last change, and too early.
    let early = moment + Nanos::from_secs(60);
    for again in [moment, Timestamp::from_secs(moment.as_secs() - 60), early] {
        assert!(!scene.done(launch(&parent, again)).written, "{again:?}");
    }
    assert!(!scene.done(launch(&key("other"), moment)).written);
    let old = LaunchJobs { epoch: Epoch(0), launches: Vec::new() };
    assert_eq!(scene.refused(Command::LaunchJobs(old)).0, RefusalKind::Deposed);
}

#[test]
fn a_changed_job_is_not_launched_for_moments_before_the_change() {
    // The next time is computed from the update (N-23.6), and a job that is disabled or stopped is not launched (N-23.1).
    let mut scene = Scene::new();
    let (parent, moment) = due(&mut scene, cron());
    scene.wait(Nanos::from_secs(5));
    scene.register(JobSpec { priority: 70, ..cron() });
    assert!(!scene.done(launch(&parent, moment)).written);
    let periodic = cron().periodic.map(|periodic| PeriodicConfig { enabled: false, ..periodic });
    scene.register(JobSpec { periodic, ..cron() });
    scene.wait(Nanos::from_mins(2));
    assert!(!scene.done(launch(&parent, scene.now)).written);
    assert_eq!(scene.job_status(&parent), JobStatus::Running, "a disabled job is running");
    scene.register(cron());
    scene.done(remove(&parent, false));
    assert_eq!(scene.job_status(&parent), JobStatus::Dead);
    scene.wait(Nanos::from_mins(2));
    assert!(!scene.done(launch(&parent, scene.now)).written);
    assert_eq!(counts(&scene, &parent), [0, 0, 0]);
}

#[test]
fn a_launch_that_would_overlap_is_skipped_for_good() {
    // A skipped launch is not made up for (N-23.5).
    let mut scene = Scene::new();
    let (parent, first) = due(&mut scene, overlapping(true));
    scene.done(launch(&parent, first));
    let child = key(&format!("cron/periodic-{}", first.as_secs()));
    scene.wait(Nanos::from_mins(1));
    let skipped = scene.now;
    assert!(scene.done(launch(&parent, skipped)).evals.is_empty());
    assert_eq!((counts(&scene, &parent), children(&scene, &parent).last_launch), ([1, 0, 0], skipped));
    scene.complete_pending(&child);
    assert_eq!(counts(&scene, &parent), [0, 0, 1]);
    assert!(!scene.done(launch(&parent, skipped)).written);
    scene.wait(Nanos::from_mins(1));
    assert_eq!(scene.done(launch(&parent, scene.now)).evals.len(), 1);
    // Without the prohibition, children overlap.
    scene.register(overlapping(false));
    scene.wait(Nanos::from_mins(1));
    assert_eq!(scene.done(launch(&parent, scene.now)).evals.len(), 1);
    assert_eq!(counts(&scene, &parent), [2, 0, 1]);
}

#[test]
fn a_user_launches_a_job_whatever_runs() {
    // Force ignores prohibit_overlap, and launches now (N-23.8). Two within a second are one child.
    let mut scene = Scene::new();
    let parent = scene.register(overlapping(true));
    scene.now = scene.now + Nanos(1_500_000_000);
    let second = Timestamp::from_secs(scene.now.as_secs());
    assert_eq!(scene.done(force(&parent)).evals.len(), 1);
    let child = key(&format!("cron/periodic-{}", second.as_secs()));
    assert_eq!(scene.triggers(&child), [EvalTrigger::PeriodicJob]);
    assert_eq!(scene.done(force(&parent)).evals.len(), 1);
    assert_eq!(counts(&scene, &parent), [1, 0, 0]);
    scene.wait(Nanos::SECOND);
    scene.done(force(&parent));
    assert_eq!(counts(&scene, &parent), [2, 0, 0]);

    let refused = |scene: &mut Scene, id: &str| scene.refused(force(&key(id))).1;
    assert_eq!(refused(&mut scene, "unknown"), "job not found");
    assert_eq!(refused(&mut scene, &child.id), "can't force launch non-periodic job");
    scene.done(remove(&parent, false));
    let text = "force launch for job \"cron\" failed: can't force run non-tracked job \"cron\" (default)";
    assert_eq!(refused(&mut scene, "cron"), text);
}

#[test]
fn a_dispatch_makes_a_child_with_its_input() {
    // Child and evaluation (N-24.6, N-24.7).
    let mut scene = Scene::new();
    let parent = scene.register(call(None));
    assert_eq!(scene.job_status(&parent), JobStatus::Running);
    let command = DispatchJob {
        payload: Some(Base64(b"input".to_vec())),
        meta: [("key".into(), "value".into())].into(),
        priority: Some(80),
        ..dispatch("1")
    };
    let done = scene.done(Command::DispatchJob(Box::new(command)));
    let child = key("call/dispatch-1");
    let job = scene.job(&child).clone();
    assert!(job.spec.dispatched);
    assert_eq!(job.spec.payload, Some(Base64(b"input".to_vec())));
    assert_eq!((&*job.spec.meta["key"], job.submit_time), ("value", scene.now));
    let eval = &scene.pending(&child)[0];
    assert_eq!((eval.trigger.clone(), eval.priority), (EvalTrigger::JobRegister, 80));
    assert_eq!((done.evals, done.object_index), (vec![eval.id], done.index));
    assert_eq!(counts(&scene, &parent), [1, 0, 0]);
    // The same id again would be another child.
    assert_eq!(scene.refused(Command::DispatchJob(Box::new(dispatch("1")))).0, RefusalKind::Conflict);
}

#[test]
fn a_dispatch_that_does_not_fit_is_refused() {
    // N-24.1 to N-24.3.
    let mut scene = Scene::new();
    let refused =
        |scene: &mut Scene, command: DispatchJob| scene.refused(Command::DispatchJob(Box::new(command))).1;
    assert_eq!(refused(&mut scene, dispatch("1")), "parameterized job not found");
    scene.register(call(None));
    let long = DispatchJob { payload: Some(Base64(vec![0; PAYLOAD_BYTES_MAX + 1])), ..dispatch("1") };
    assert_eq!(refused(&mut scene, long), "Payload exceeds maximum size; 16385 > 16384");
    let strange = DispatchJob { meta: [("x".into(), "".into())].into(), ..dispatch("1") };
    assert_eq!(refused(&mut scene, strange), "Dispatch request included unpermitted metadata keys: [x]");
    scene.done(remove(&key("call"), false));
    assert_eq!(refused(&mut scene, dispatch("1")), "Specified job \"call\" is stopped");
}

#[test]
fn a_dispatch_with_a_token_is_made_once() {
    // An existing child with the same token: nothing is made (N-24.5).
    let mut scene = Scene::new();
    scene.register(call(None));
    let with_token = |id| DispatchJob { idempotency_token: "token".into(), ..dispatch(id) };
    assert!(scene.done(Command::DispatchJob(Box::new(with_token("1")))).written);
    assert!(!scene.done(Command::DispatchJob(Box::new(with_token("2")))).written);
    scene.complete_pending(&key("call/dispatch-1"));
    assert!(!scene.done(Command::DispatchJob(Box::new(with_token("3")))).written, "a dead child counts");
    scene.done(remove(&key("call/dispatch-1"), true));
    assert!(scene.done(Command::DispatchJob(Box::new(with_token("4")))).written);
}

#[test]
fn a_dispatched_child_that_is_periodic_waits_for_its_moments() {
    // No evaluation: it becomes a tracked periodic job (N-24.7).
    let mut scene = Scene::new();
    let parent = scene.register(JobSpec { periodic: cron().periodic, ..call(None) });
    scene.wait(Nanos::from_mins(1));
    assert!(!scene.done(launch(&parent, scene.now)).written, "a parameterized job is not launched");
    let (child, done) = dispatched(&mut scene, "1");
    assert_eq!((done.evals, scene.job_status(&child)), (vec![], JobStatus::Running));
    assert_eq!(counts(&scene, &parent), [0, 1, 0]);
    scene.wait(Nanos::from_mins(1));
    assert_eq!(scene.done(launch(&child, scene.now)).evals.len(), 1);
    assert_eq!(counts(&scene, &child), [1, 0, 0]);
}

#[test]
fn parents_count_their_children_by_status() {
    // A status change takes 1 from the old count and adds 1 to the new one; deleting a child that was not dead counts it as
    // dead, deleting a dead one changes nothing (N-21.8, N-25.7).
    let mut scene = Scene::new();
    let node = scene.node();
    let parent = scene.register(call(None));
    let (one, _) = dispatched(&mut scene, "1");
    let (two, _) = dispatched(&mut scene, "2");
    assert_eq!(counts(&scene, &parent), [2, 0, 0]);
    let allocs = scene.place(&one, &[node]);
    assert_eq!(counts(&scene, &parent), [1, 1, 0]);
    scene.report(node, &allocs, model::alloc::ClientStatus::Complete);
    assert_eq!((scene.job_status(&one), counts(&scene, &parent)), (JobStatus::Dead, [1, 0, 1]));
    scene.done(remove(&one, true));
    assert_eq!(counts(&scene, &parent), [1, 0, 1]);
    scene.done(remove(&two, true));
    assert_eq!(counts(&scene, &parent), [0, 0, 2]);
}

#[test]
fn dispatches_above_the_limit_wait_for_their_turn() {
    let mut scene = Scene::new();
    let parent = scene.register(call(Some(1)));
    let (first, _) = dispatched(&mut scene, "9");
    // Held back in the order of the dispatches, not of the ids.
    let (second, done) = dispatched(&mut scene, "5");
    let (third, _) = dispatched(&mut scene, "1");
    let (fourth, _) = dispatched(&mut scene, "3");
    assert_eq!((done.evals, scene.job_status(&second)), (vec![], JobStatus::Pending));
    assert_eq!((counts(&scene, &parent), children(&scene, &parent).held), ([4, 0, 0], 3));
    let waiting = |scene: &Scene, child: &JobKey| scene.pending(child).is_empty();
    assert!(!waiting(&scene, &first) && waiting(&scene, &second) && waiting(&scene, &third));

    scene.complete_pending(&first);
    assert!(!waiting(&scene, &second) && waiting(&scene, &third));
    assert_eq!(scene.triggers(&second), [EvalTrigger::JobRegister]);
    assert_eq!((counts(&scene, &parent), children(&scene, &parent).held), ([3, 0, 1], 2));
    // A child that is stopped while it waits gives up its place.
    scene.done(remove(&third, false));
    scene.complete_pending(&third);
    assert_eq!(children(&scene, &parent).held, 1);
    scene.done(remove(&second, true));
    assert!(!waiting(&scene, &fourth));
    assert_eq!(children(&scene, &parent).held, 0);
}

#[test]
fn children_are_released_when_their_limit_goes() {
    let mut scene = Scene::new();
    let parent = scene.register(call(Some(1)));
    let held: Vec<JobKey> = ["1", "2", "3", "4"].map(|id| dispatched(&mut scene, id).0).to_vec();
    let begun = |scene: &Scene| held.iter().filter(|child| !scene.pending(child).is_empty()).count();
    assert_eq!((begun(&scene), children(&scene, &parent).held), (1, 3));
    let done = scene.done(Command::RegisterJob(Box::new(registration(call(Some(2))))));
    assert_eq!(done.evals, [], "the evaluation is not that of the registration");
    assert_eq!((begun(&scene), children(&scene, &parent).held), (2, 2));
    scene.register(call(None));
    assert_eq!((begun(&scene), children(&scene, &parent).held), (4, 0));

    let parent = scene.register(call(Some(1)));
    dispatched(&mut scene, "5");
    assert_eq!(children(&scene, &parent).held, 1);
    let child = key("call/dispatch-5");
    assert_eq!(scene.pending(&child).len(), 0);
    scene.done(remove(&parent, true));
    assert_eq!(scene.pending(&child).len(), 1, "the children of a job that is gone have no limit");
}

#[test]
fn a_reconciliation_keeps_what_decides_about_the_next_children() {
    // N-25.8.
    let mut scene = Scene::new();
    let called = scene.register(call(Some(1)));
    for id in ["1", "2"] {
        dispatched(&mut scene, id);
    }
    let (launched, moment) = due(&mut scene, cron());
    scene.done(launch(&launched, moment));
    let jobs = vec![called.clone(), launched.clone()];
    scene.done(Command::ReconcileSummaries(ReconcileSummaries { jobs }));
    assert_eq!((counts(&scene, &called), children(&scene, &called).held), ([2, 0, 0], 1));
    assert_eq!((counts(&scene, &launched), children(&scene, &launched).last_launch), ([1, 0, 0], moment));
    scene.done(launch(&launched, moment));
    assert_eq!(counts(&scene, &launched), [1, 0, 0], "no moment is launched twice");
}

#[test]
fn children_are_garbage_once_they_are_dead_and_their_parent_stays() {
    // A dead batch job is collected; a parent only if it is stopped.
    let mut scene = Scene::new();
    let (parent, moment) = due(&mut scene, cron());
    scene.done(launch(&parent, moment));
    let child = key(&format!("cron/periodic-{}", moment.as_secs()));
    scene.complete_pending(&child);
    let collect = |scene: &mut Scene| {
        scene.wait(Nanos::from_mins(2));
        for garbage in find(&scene.state, Ages::FORCED, scene.now) {
            scene.done(Command::CollectGarbage(garbage));
        }
    };
    collect(&mut scene);
    assert_eq!((scene.state.job(&child), scene.state.job(&parent).is_some()), (None, true));
    assert_eq!((counts(&scene, &parent), children(&scene, &parent).last_launch), ([0, 0, 1], moment));
    scene.done(remove(&parent, false));
    collect(&mut scene);
    assert_eq!(scene.state.job(&parent), None);
}

#[test]
fn a_job_that_has_the_id_of_a_child_is_left_alone() {
    let mut scene = Scene::new();
    let (parent, moment) = due(&mut scene, cron());
    let id = format!("cron/periodic-{}", moment.as_secs());
    let other = scene.register(job_spec(&id, JobType::Batch));
    let evals = scene.pending(&other).len();
    let done = scene.done(launch(&parent, moment));
    assert_eq!((done.evals, scene.pending(&other).len()), (vec![], evals));
    assert_eq!(children(&scene, &parent).last_launch, moment, "the launch is skipped for good");
}

#[test]
fn a_child_that_a_user_registers_again_is_on_its_own() {
    let mut scene = Scene::new();
    let (parent, moment) = due(&mut scene, cron());
    scene.done(launch(&parent, moment));
    let id = format!("cron/periodic-{}", moment.as_secs());
    let spec = job_spec(&id, JobType::Batch);
    scene.done(Command::RegisterJob(Box::new(registration(spec))));
    assert_eq!(counts(&scene, &parent), [0, 0, 1]);
    scene.complete_pending(&key(&id));
    assert_eq!(counts(&scene, &parent), [0, 0, 1]);
}
