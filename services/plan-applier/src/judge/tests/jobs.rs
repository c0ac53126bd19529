//! Jobs: registration, evaluation, stopping, and deletion.

use std::sync::Arc;

use model::alloc::{ClientStatus, DesiredStatus, DesiredTransition, GroupSummary};
use model::change::{Cause, Change, JobFields};
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{JobSource, JobSpec, JobStatus, JobType, ParameterizedJobConfig, PeriodicConfig, TaskGroup};
use model::{Index, JobKey};
use wire::RefusalKind;
use wire::command::{Command, DeregisterJob, EvaluateJob, RegisterJob, Transition};

use super::scene::{Scene, job_spec, registration, service};

fn register(command: RegisterJob) -> Command {
    Command::RegisterJob(Box::new(command))
}

fn deregister(job: &JobKey) -> DeregisterJob {
    DeregisterJob { job: job.clone(), purge: false, eval_priority: None, no_shutdown_delay: false }
}

fn stop(job: &JobKey) -> Command {
    Command::DeregisterJob(deregister(job))
}

fn purge(job: &JobKey) -> Command {
    Command::DeregisterJob(DeregisterJob { purge: true, ..deregister(job) })
}

fn counted(mut spec: JobSpec, count: u32) -> JobSpec {
    spec.task_groups[0].count = count;
    spec
}

#[test]
fn a_new_job_gets_version_0_a_summary_and_an_evaluation() {
    // A registration writes version 0, a summary and an evaluation (N-17.16, N-20.1, N-25.4).
    let mut scene = Scene::new();
    let done = scene.done(register(registration(service("web"))));
    let key = JobKey::new("default", "web");
    let job = scene.job(&key).clone();
    assert_eq!((job.version, job.status, job.stable), (0, JobStatus::Pending, false));
    assert_eq!([job.create_index, job.modify_index, job.job_modify_index], [done.index; 3]);
    assert_eq!((done.object_index, job.submit_time), (done.index, scene.now));
    assert_eq!(scene.summary(&key).groups, [("app".into(), GroupSummary::default())].into());
    let eval = &scene.pending(&key)[0];
    assert_eq!(done.evals, [eval.id]);
    assert_eq!(
        (eval.trigger.clone(), eval.priority, eval.kind),
        (EvalTrigger::JobRegister, 60, JobType::Service)
    );
    assert_eq!((eval.create_index, eval.job_modify_index), (done.index, done.index));
    assert!(eval.trace.is_some(), "each evaluation has a trace");
    assert_eq!(scene.cause(), Some(Cause::JobRegistered));
}

#[test]
fn the_evaluation_takes_the_priority_asked_for() {
    // An evaluation priority in the command replaces the job's if it is positive (R-1.4, N-17.16).
    let mut scene = Scene::new();
    for (asked, expected) in [(Some(80), 80), (Some(0), 60), (None, 60)] {
        let command = RegisterJob { eval_priority: asked, ..registration(service("web")) };
        let done = scene.done(register(command));
        assert_eq!(scene.eval(done.evals[0]).priority, expected);
    }
}

#[test]
fn the_same_specification_is_the_same_version() {
    // An unchanged specification creates an evaluation, but no version (N-17.14, R-1.9).
    let mut scene = Scene::new();
    let key = scene.register(service("web"));
    let before = scene.job(&key).clone();
    let done = scene.done(register(registration(service("web"))));
    assert_eq!(*scene.job(&key), before);
    assert_eq!((done.object_index, done.evals.len()), (before.job_modify_index, 1));
}

#[test]
fn another_specification_is_the_next_version_of_the_same_incarnation() {
    // A changed specification creates the next version (N-20.1).
    let mut scene = Scene::new();
    let key = scene.register(service("web"));
    let first = scene.job(&key).clone();
    let mut spec = counted(service("web"), 3);
    spec.task_groups.to_mut().push(TaskGroup { name: "db".into(), ..TaskGroup::default() });
    scene.register(spec);
    let second = scene.job(&key);
    assert_eq!((second.version, second.create_index), (1, first.create_index));
    assert_eq!(second.job_modify_index, scene.state.index());
    assert_eq!(scene.state.job_version(&first.version_key()).map(|job| job.version), Some(0));
    assert_eq!(scene.summary(&key).groups.len(), 2);
}

#[test]
fn a_registration_for_another_state_of_the_job_is_refused() {
    // An enforced index must equal the job's modify index; 0 means that the job must not exist (N-17.11).
    let mut scene = Scene::new();
    let at =
        |index| register(RegisterJob { enforce_index: Some(Index(index)), ..registration(service("web")) });
    let refused = |scene: &mut Scene, index| scene.refused(at(index));
    let text = "Enforcing job modify index 7: job does not exist";
    assert_eq!(refused(&mut scene, 7), (RefusalKind::Conflict, text.to_owned()));
    scene.done(at(0));
    let text = "Enforcing job modify index 0: job already exists";
    assert_eq!(refused(&mut scene, 0), (RefusalKind::Conflict, text.to_owned()));
    let found = scene.state.index();
    let text = format!("Enforcing job modify index 1: job exists with conflicting job modify index: {found}");
    assert_eq!(refused(&mut scene, 1), (RefusalKind::Conflict, text));
    scene.done(at(found.0));
}

#[test]
fn a_job_needs_its_namespace_and_its_node_pool() {
    // An unknown namespace or node pool is refused (N-17.17).
    let mut scene = Scene::new();
    let strange = JobSpec { namespace: "else".into(), ..service("web") };
    let text = r#"job "web" is in nonexistent namespace "else""#;
    assert_eq!(scene.refused(register(registration(strange))), (RefusalKind::Invalid, text.to_owned()));
    let strange = JobSpec { node_pool: "gpu".into(), ..service("web") };
    let text = r#"job "web" is in nonexistent node pool "gpu""#;
    assert_eq!(scene.refused(register(registration(strange))), (RefusalKind::Invalid, text.to_owned()));
}

#[test]
fn a_job_does_not_turn_into_another_kind() {
    // A job's type, and whether it is periodic, parameterized or dispatched, must not change (N-17.12).
    let mut scene = Scene::new();
    scene.register(service("web"));
    let changed = [
        (job_spec("web", JobType::Batch), r#"cannot update job from type "service" to "batch""#),
        (
            JobSpec { periodic: Some(PeriodicConfig::default()), ..service("web") },
            "cannot update non-periodic job to being periodic",
        ),
        (
            JobSpec { parameterized_job: Some(ParameterizedJobConfig::default()), ..service("web") },
            "cannot update non-parameterized job to being parameterized",
        ),
        (JobSpec { dispatched: true, ..service("web") }, "cannot change whether a job is dispatched"),
        (JobSpec { dispatched: true, ..service("new") }, "job can't be submitted with 'Dispatched' set"),
    ];
    for (spec, text) in changed {
        assert_eq!(scene.refused(register(registration(spec))), (RefusalKind::Invalid, text.to_owned()));
    }
}

#[test]
fn templates_for_jobs_are_never_evaluated() {
    // Registering a periodic or parameterized job creates no evaluation (R-1.8). It runs until it is stopped (N-25.1).
    let mut scene = Scene::new();
    let periodic = JobSpec { periodic: Some(PeriodicConfig::default()), ..service("cron") };
    let parameterized =
        JobSpec { parameterized_job: Some(ParameterizedJobConfig::default()), ..service("call") };
    for spec in [periodic, parameterized] {
        let done = scene.done(register(registration(spec.clone())));
        assert_eq!((done.evals, scene.job_status(&spec.key())), (vec![], JobStatus::Running));
        let done = scene.done(register(registration(JobSpec { stop: true, ..spec.clone() })));
        assert_eq!((done.evals, scene.job_status(&spec.key())), (vec![], JobStatus::Dead));
    }
}

#[test]
fn counts_and_resources_stay_where_asked() {
    // On request, a registration preserves the counts and resources of existing groups (N-17.15).
    let mut scene = Scene::new();
    let mut spec = counted(service("web"), 5);
    spec.task_groups[0].tasks[0].resources.cpu_mhz = 500;
    let key = scene.register(spec);
    let mut spec = counted(service("web"), 1);
    spec.task_groups[0].tasks[0].resources.cpu_mhz = 100;
    spec.task_groups.to_mut().push(TaskGroup { name: "db".into(), count: 2, ..TaskGroup::default() });
    let command =
        RegisterJob { preserve_counts: true, preserve_resources: true, ..registration(spec.clone()) };
    scene.done(register(command));
    let groups = |scene: &Scene| {
        let groups = scene.job(&key).spec.task_groups.iter();
        groups.map(|group| (group.count, group.tasks.first().map(|task| task.resources.cpu_mhz))).collect()
    };
    let kept: Vec<_> = groups(&scene);
    assert_eq!(kept, [(5, Some(500)), (2, None)]);
    scene.done(register(registration(spec)));
    let given: Vec<_> = groups(&scene);
    assert_eq!(given, [(1, Some(100)), (2, None)]);
}

#[test]
fn six_versions_are_kept_and_those_that_are_still_of_use() {
    // Six untagged versions are kept, and the newest stable one; versions that allocations run are kept as well (N-20.2).
    let mut scene = Scene::new();
    let node = scene.node();
    let key = scene.register(counted(service("web"), 0));
    scene.place(&key, &[node]);
    for count in 1..4 {
        scene.register(counted(service("web"), count));
    }
    let stable = scene.job(&key).clone();
    scene.commit(
        Cause::JobRegistered,
        vec![Change::JobFields(JobFields {
            key: stable.version_key(),
            status: stable.status,
            status_description: "".into(),
            stable: true,
            version_tag: None,
        })],
    );
    for count in 4..12 {
        scene.register(counted(service("web"), count));
    }
    let versions: Vec<u64> = scene.state.job_versions(&key).map(|job| job.version).collect();
    // Version 0 is running and version 3 is the newest stable one; six versions are kept with the latter.
    assert_eq!(versions, [0, 3, 7, 8, 9, 10, 11]);
}

/// Registers the job with `count` allocations, from a source with this text.
fn register_from(scene: &mut Scene, count: u32, text: &str) -> JobKey {
    let source = JobSource { text: text.into(), format: "hcl2".into(), ..JobSource::default() };
    let spec = counted(service("web"), count);
    let key = spec.key();
    scene.done(register(RegisterJob { source: Some(Arc::new(source)), ..registration(spec) }));
    key
}

/// The version, whether it is a copy, and the text of each stored source.
fn sources(scene: &Scene, key: &JobKey) -> Vec<(u64, bool, String)> {
    let kept = scene.state.job_submissions(key);
    kept.map(|kept| (kept.version.version, kept.is_copy, kept.source.text.to_string())).collect()
}

#[test]
fn a_version_keeps_its_source_and_those_without_take_it_over() {
    // A version without a source gets a copy of the previous version's (N-27.2).
    let mut scene = Scene::new();
    let key = register_from(&mut scene, 1, "one");
    scene.register(counted(service("web"), 2));
    scene.done(stop(&key));
    let index = scene.state.index();
    register_from(&mut scene, 3, "three");
    let own = |version, text: &str| (version, false, text.to_owned());
    let taken_over = |version, text: &str| (version, true, text.to_owned());
    let expected = [own(0, "one"), taken_over(1, "one"), taken_over(2, "one"), own(3, "three")];
    assert_eq!(sources(&scene, &key), expected);
    let indexes: Vec<_> = scene.state.job_submissions(&key).map(|kept| kept.job_modify_index).collect();
    let versions: Vec<_> = scene.state.job_versions(&key).map(|job| job.job_modify_index).collect();
    assert_eq!((&indexes, indexes[2]), (&versions, index));
}

#[test]
fn a_source_that_is_kept_stays_as_it_is() {
    // The source of an existing version is not replaced (N-27.2).
    let mut scene = Scene::new();
    let key = scene.register(counted(service("web"), 1));
    assert_eq!(sources(&scene, &key), []);
    let job_modify_index = scene.job(&key).job_modify_index;
    for text in ["late", "later"] {
        register_from(&mut scene, 1, text);
        assert_eq!(sources(&scene, &key), [(0, false, "late".to_owned())]);
    }
    let kept = scene.state.job_submissions(&key).next();
    assert_eq!(kept.map(|kept| kept.job_modify_index), Some(job_modify_index));
    scene.register(counted(service("web"), 1));
    assert!(!scene.last().iter().any(|change| matches!(change, Change::JobSubmissionCopied { .. })));
}

#[test]
fn six_sources_are_kept_and_a_purge_forgets_them() {
    // Six sources are kept; a purge deletes them (N-21.4, N-27.2).
    let mut scene = Scene::new();
    let key = register_from(&mut scene, 0, "0");
    for count in 1..5 {
        register_from(&mut scene, count, &count.to_string());
    }
    for count in 5..9 {
        scene.register(counted(service("web"), count));
    }
    let kept: Vec<u64> = sources(&scene, &key).into_iter().map(|(version, ..)| version).collect();
    assert_eq!(kept, [3, 4, 5, 6, 7, 8]);
    scene.done(purge(&key));
    assert_eq!(sources(&scene, &key), []);
    scene.register(service("web"));
    assert_eq!(sources(&scene, &key), [], "the new job has no sources");
}

#[test]
fn a_stopped_job_is_a_new_version_each_time_and_dead_in_the_end() {
    // Each stop writes a new version and an evaluation of type *service* (N-21.3, N-21.5, N-25.1).
    let mut scene = Scene::new();
    let key = scene.register(job_spec("web", JobType::Batch));
    let node = scene.node();
    let allocs = scene.place(&key, &[node]);
    let done = scene.done(stop(&key));
    let eval = scene.eval(done.evals[0]);
    assert_eq!(
        (eval.trigger.clone(), eval.kind, eval.priority),
        (EvalTrigger::JobDeregister, JobType::Service, 60)
    );
    assert_eq!((scene.job(&key).version, scene.job(&key).spec.stop), (1, true));
    assert_eq!(scene.job_status(&key), JobStatus::Running, "its allocation is still running");
    scene.done(stop(&key));
    assert_eq!(scene.job(&key).version, 2);
    scene.report(node, &allocs, ClientStatus::Complete);
    assert_eq!(scene.job_status(&key), JobStatus::Pending, "an evaluation is pending");
    scene.complete_pending(&key);
    assert_eq!(scene.job_status(&key), JobStatus::Dead);
}

#[test]
fn a_job_that_is_registered_again_after_its_stop_comes_back() {
    let mut scene = Scene::new();
    let key = scene.register(service("web"));
    let create_index = scene.job(&key).create_index;
    scene.done(stop(&key));
    scene.complete_pending(&key);
    assert_eq!(scene.job_status(&key), JobStatus::Dead);
    scene.register(service("web"));
    let job = scene.job(&key);
    assert_eq!((job.version, job.create_index, job.spec.stop), (2, create_index, false));
    assert_eq!(job.status, JobStatus::Pending);
}

#[test]
fn stopping_what_is_not_there_does_nothing() {
    // Stopping a job that does not exist succeeds and writes nothing (N-21.2).
    let mut scene = Scene::new();
    let done = scene.done(stop(&JobKey::new("default", "web")));
    assert_eq!((done.written, done.evals.len()), (false, 0));
}

#[test]
fn shutdown_delays_are_left_out_where_asked() {
    // The job's allocations are marked to skip their shutdown delays (N-21.6).
    let mut scene = Scene::new();
    let node = scene.node();
    let key = scene.register(service("web"));
    let allocs = scene.place(&key, &[node, node]);
    scene.report(node, &allocs[1..], ClientStatus::Complete);
    scene.done(Command::DeregisterJob(DeregisterJob { no_shutdown_delay: true, ..deregister(&key) }));
    let marks = |n: usize| scene.alloc(allocs[n]).desired_transition.no_shutdown_delay;
    assert_eq!([marks(0), marks(1)], [Some(true), None]);
}

#[test]
fn a_purge_leaves_nothing_but_evaluations() {
    // A purge deletes the job with its allocations, and ends its evaluations (N-21.4).
    let mut scene = Scene::new();
    let node = scene.node();
    let key = scene.register(service("web"));
    let plan = scene.plan(&key);
    let allocs = scene.place(&key, &[node]);
    let [pending] = [scene.done(register(registration(service("web")))).evals[0]];
    let done = scene.done(purge(&key));
    assert!(scene.state.job(&key).is_none() && scene.state.job_summary(&key).is_none());
    assert!(scene.state.job_versions(&key).next().is_none());
    assert!(scene.state.alloc(allocs[0]).is_none());
    let eval = scene.eval(pending);
    assert_eq!((eval.status, &*eval.status_description), (EvalStatus::Complete, "job web deleted"));
    assert_eq!(scene.eval(done.evals[0]).status, EvalStatus::Pending);
    let class = scene.whole_node(node).spec.computed_class.clone();
    let room = scene.state.unblocked().map(|(_, index)| index).max();
    assert!(
        !class.is_empty() && room == Some(done.index),
        "agents will not report the end of purged allocations"
    );

    // The same id is a new job now.
    scene.register(service("web"));
    assert_eq!((scene.job(&key).version, scene.job(&key).create_index), (0, scene.state.index()));
    let outcome = scene.complete(&plan);
    let (kind, _) = scene.refused(super::scene::submission(plan, outcome));
    assert_eq!(kind, RefusalKind::Conflict);
}

#[test]
fn a_job_is_looked_at_again_and_failed_allocations_are_forced() {
    // An evaluation on request, which optionally marks failed allocations for rescheduling (N-22.2, R-1.10).
    let mut scene = Scene::new();
    let node = scene.node();
    let key = scene.register(service("web"));
    let allocs = scene.place(&key, &[node, node]);
    scene.report(node, &allocs[..1], ClientStatus::Failed);
    scene.complete_pending(&key);
    let evaluate = |force| Command::EvaluateJob(EvaluateJob { job: key.clone(), force_reschedule: force });
    scene.done(evaluate(false));
    assert_eq!(scene.triggers(&key), [EvalTrigger::JobRegister]);
    assert_eq!(scene.alloc(allocs[0]).desired_transition, DesiredTransition::default());
    scene.done(evaluate(true));
    let forced = |n: usize| scene.alloc(allocs[n]).desired_transition.force_reschedule;
    assert_eq!([forced(0), forced(1)], [Some(true), None]);
    let missing = EvaluateJob { job: JobKey::new("default", "x"), force_reschedule: false };
    let missing = scene.refused(Command::EvaluateJob(missing));
    assert_eq!(missing, (RefusalKind::NotFound, "job not found".to_owned()));
}

#[test]
fn transitions_are_merged_and_make_one_evaluation_for_each_job() {
    // Desired transitions are merged, with one evaluation for each job (N-22.3, R-1.11, R-1.12).
    let mut scene = Scene::new();
    let node = scene.node();
    let keys = [scene.register(service("a")), scene.register(service("b"))];
    let a = scene.place(&keys[0], &[node, node]);
    let b = scene.place(&keys[1], &[node]);
    let transition = |allocs: &[_], transition| {
        let allocs = allocs.to_vec();
        Command::Transition(Transition { allocs, transition, trigger: EvalTrigger::AllocStop })
    };
    let delay = DesiredTransition { no_shutdown_delay: Some(true), ..DesiredTransition::default() };
    scene.done(transition(&a[..1], delay));
    let migrate = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
    let gone = model::AllocId::from_bytes([9; 16]);
    let done = scene.done(transition(&[a[0], a[1], b[0], gone], migrate));
    assert_eq!(done.evals.len(), 2);
    let alloc = scene.alloc(a[0]);
    assert_eq!(alloc.desired_transition, DesiredTransition { migrate: Some(true), ..delay });
    assert_eq!((alloc.alloc_modify_index, alloc.desired_status), (done.index, DesiredStatus::Run));
    assert_eq!(scene.triggers(&keys[1]), [EvalTrigger::AllocStop]);
    assert_eq!(scene.refused(transition(&[gone], migrate)).0, RefusalKind::NotFound);
}

#[test]
fn a_system_job_runs_until_it_is_stopped() {
    // A system job is running until it is stopped (N-25.1, N-25.2).
    let mut scene = Scene::new();
    let key = scene.register(job_spec("logs", JobType::System));
    assert_eq!(scene.job_status(&key), JobStatus::Running);
    scene.done(stop(&key));
    assert_eq!(scene.job_status(&key), JobStatus::Dead);
}

#[test]
fn only_the_newest_specification_is_shared_with_the_command() {
    let mut scene = Scene::new();
    let command = registration(service("web"));
    let spec = Arc::clone(&command.spec);
    scene.done(register(command));
    assert!(Arc::ptr_eq(&scene.job(&spec.key()).spec, &spec), "the specification is shared, not copied");
}
