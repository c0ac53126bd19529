//! Versions: the return to an older one, stability, tags, and how many are kept.

use std::sync::Arc;

use model::change::Cause;
use model::job::{JobSource, JobSpec};
use model::{JobKey, Text};
use wire::RefusalKind;
use wire::command::{
    Command, DeregisterJob, RegisterJob, RevertJob, SetJobStability, TagJobVersion, UntagJobVersion,
};

use super::scene::{Scene, registration, service};
use crate::judge::Settings;

/// A job with these priorities, a version for each.
fn job_with(scene: &mut Scene, priorities: impl IntoIterator<Item = u16>) -> JobKey {
    for priority in priorities {
        let text: Text = format!("priority {priority}").into();
        let source = JobSource { text, format: "hcl2".into(), ..JobSource::default() };
        let spec = JobSpec { priority, ..service("web") };
        let command = RegisterJob { source: Some(Arc::new(source)), ..registration(spec) };
        scene.done(Command::RegisterJob(Box::new(command)));
    }
    JobKey::new("default", "web")
}

fn revert(job: &JobKey, version: u64, prior_version: Option<u64>) -> Command {
    Command::RevertJob(RevertJob { job: job.clone(), version, prior_version })
}

fn stable(job: &JobKey, version: u64, stable: bool) -> Command {
    Command::SetJobStability(SetJobStability { job: job.clone(), version, stable })
}

fn tag(scene: &Scene, job: &JobKey, version: Option<u64>, name: &str) -> Command {
    let (name, description) = (name.into(), "it works".into());
    Command::TagJobVersion(TagJobVersion { job: job.clone(), version, name, description, at: scene.now })
}

fn untag(job: &JobKey, name: &str) -> Command {
    Command::UntagJobVersion(UntagJobVersion { job: job.clone(), name: name.into() })
}

/// The kept versions, each with its tag.
fn kept(scene: &Scene, job: &JobKey) -> Vec<(u64, Option<String>)> {
    let name = |version: &model::job::Job| version.version_tag.as_ref().map(|tag| tag.name.to_string());
    scene.state.job_versions(job).map(|version| (version.version, name(version))).collect()
}

#[test]
fn an_older_version_becomes_the_newest() {
    // The new version is neither stable nor stopped, and has the older one's source (N-20.5, http-api §11.3).
    let mut scene = Scene::new();
    let job = job_with(&mut scene, [10, 20]);
    scene.done(stable(&job, 0, true));
    scene.done(tag(&scene, &job, Some(0), "golden"));
    let stop =
        DeregisterJob { job: job.clone(), purge: false, eval_priority: None, no_shutdown_delay: false };
    scene.done(Command::DeregisterJob(stop));
    let done = scene.done(revert(&job, 0, Some(2)));
    assert_eq!((done.evals.len(), done.object_index), (1, scene.state.index()));
    assert_eq!(scene.cause(), Some(Cause::JobRegistered));
    let current = scene.job(&job);
    assert_eq!((current.version, current.spec.priority), (3, 10));
    assert_eq!((current.stable, current.spec.stop, current.version_tag.is_some()), (false, false, false));
    let source = scene.state.job_submission(&current.version_key()).expect("the version has a source");
    assert_eq!((source.is_copy, &*source.source.text), (false, "priority 10"));
    let evals = scene.pending(&job).len();
    scene.done(revert(&job, 0, None));
    assert_eq!((scene.job(&job).version, scene.pending(&job).len()), (3, evals + 1), "N-17.14");
}

#[test]
fn a_stopped_version_is_started() {
    // The new version is not stopped (http-api §11.3).
    let mut scene = Scene::new();
    let job = job_with(&mut scene, [10]);
    let stop =
        DeregisterJob { job: job.clone(), purge: false, eval_priority: None, no_shutdown_delay: false };
    scene.done(Command::DeregisterJob(stop));
    scene.register(JobSpec { priority: 20, ..service("web") });
    scene.done(revert(&job, 1, None));
    assert_eq!((scene.job(&job).spec.priority, scene.job(&job).spec.stop), (10, false));
}

#[test]
fn a_return_that_cannot_be_is_refused() {
    // N-20.5.
    let mut scene = Scene::new();
    let job = job_with(&mut scene, [10, 20]);
    let none = JobKey::new("default", "none");
    for (command, text) in [
        (revert(&none, 0, None), "job \"none\" not found"),
        (revert(&job, 1, None), "can't revert to current version"),
        (revert(&job, 7, None), "job \"web\" in namespace \"default\" at version 7 not found"),
        (revert(&job, 0, Some(0)), "Current job has version 1; enforcing version 0"),
    ] {
        assert_eq!(scene.refused(command).1, text);
    }
}

#[test]
fn a_version_is_stable_because_a_user_says_so() {
    // The flag changes neither the version nor its job modify index (N-20.4).
    let mut scene = Scene::new();
    let job = job_with(&mut scene, [10, 20]);
    let before = scene.job(&job).clone();
    assert!(scene.done(stable(&job, 1, true)).written);
    assert_eq!(scene.cause(), Some(Cause::JobVersionUpdated));
    let after = scene.job(&job);
    assert_eq!((after.stable, after.version), (true, 1));
    assert_eq!(after.job_modify_index, before.job_modify_index);
    assert!(!scene.done(stable(&job, 1, true)).written, "it is stable already");
    scene.done(stable(&job, 1, false));
    assert!(!scene.job(&job).stable);
    let text = "job \"web\" in namespace \"default\" at version 9 not found";
    assert_eq!(scene.refused(stable(&job, 9, true)), (RefusalKind::NotFound, text.to_owned()));
}

#[test]
fn a_version_has_one_name_and_a_name_one_version() {
    // N-20.3.
    let mut scene = Scene::new();
    let job = job_with(&mut scene, [10, 20]);
    scene.done(tag(&scene, &job, None, "golden"));
    let golden = Some("golden".to_owned());
    assert_eq!(kept(&scene, &job), [(0, None), (1, golden)]);
    let tagged = scene.job(&job).version_tag.clone().expect("the version has a tag");
    assert_eq!((&*tagged.description, tagged.tagged_time), ("it works", scene.now));
    let text = "tag \"golden\" already exists on a different version of job \"web\"";
    assert_eq!(scene.refused(tag(&scene, &job, Some(9), "golden")).1, text, "this is checked first");
    assert_eq!(scene.refused(tag(&scene, &job, Some(9), "x")).1, "job \"web\" version 9 not found");
    scene.done(tag(&scene, &job, Some(1), "silver"));
    assert_eq!(kept(&scene, &job), [(0, None), (1, Some("silver".to_owned()))]);
    assert_eq!(scene.refused(untag(&job, "golden")).1, "tag \"golden\" not found on job \"web\"");
    scene.done(untag(&job, "silver"));
    assert_eq!(kept(&scene, &job), [(0, None), (1, None)]);
    let none = JobKey::new("default", "none");
    assert_eq!(scene.refused(tag(&scene, &none, None, "x")).1, "job \"none\" version 0 not found");
    assert_eq!(scene.refused(untag(&none, "x")).1, "tag \"x\" not found on job \"none\"");
}

#[test]
fn tagged_versions_are_kept_beyond_the_limit() {
    // Untagged versions are pruned to the limit, tagged ones never (N-20.2).
    let mut scene = Scene::new();
    scene.settings = Settings { versions_kept: 2 };
    let job = job_with(&mut scene, [10]);
    scene.done(tag(&scene, &job, None, "golden"));
    job_with(&mut scene, [20, 30, 40]);
    assert_eq!(kept(&scene, &job), [(0, Some("golden".to_owned())), (2, None), (3, None)]);
    let sources = scene.state.job_submissions(&job).map(|kept| kept.version.version);
    assert_eq!(sources.collect::<Vec<_>>(), [2, 3], "N-27.2");
    scene.done(untag(&job, "golden"));
    job_with(&mut scene, [50]);
    assert_eq!(kept(&scene, &job), [(3, None), (4, None)]);
}
