//! Tests of the launcher, with an applier that carries out its commands or loses them.

use std::sync::Arc;

use model::change::{Cause, Change, ChangeSet, ChildrenSummary, JobSummary};
use model::job::{Job, JobSpec, JobType, PeriodicConfig};
use model::schedule::launched_until;
use model::{Epoch, HistoryId, Index, JobKey, Nanos, RequestId, Timestamp};
use proptest::prelude::*;
use state::{Snapshot, State, Step};
use wire::command::{Launch, LaunchJobs};

use super::launcher::{Launcher, Pending};

const EPOCH: Epoch = Epoch(1);
/// 15 January 2027, 08:00:00 UTC.
const START: Timestamp = Timestamp::from_secs(1_800_000_000);

fn key() -> JobKey {
    JobKey::new("default", "cron")
}

fn after(seconds: i64) -> Timestamp {
    START + Nanos::from_secs(seconds)
}

fn spec(cron: &str) -> JobSpec {
    let JobKey { namespace, id } = key();
    let periodic = PeriodicConfig { enabled: true, specs: vec![cron.into()], ..PeriodicConfig::default() };
    JobSpec { namespace, id, kind: JobType::Batch, periodic: Some(periodic), ..JobSpec::default() }
}

struct Scene {
    state: Snapshot,
    launcher: Launcher,
    now: Timestamp,
    launched: Vec<Timestamp>,
}

impl Scene {
    /// A job with this schedule, registered just now.
    fn new(cron: &str) -> Self {
        let state = Snapshot::new(State::new(HistoryId::default(), crate::SCOPE));
        let launcher = Launcher::restore(state.clone());
        let mut scene = Self { state, launcher, now: START, launched: Vec::new() };
        scene.register(spec(cron), 0);
        scene
    }

    fn wait(&mut self, seconds: i64) {
        self.now = self.now + Nanos::from_secs(seconds);
    }

    fn register(&mut self, spec: JobSpec, version: u64) {
        let job = Job {
            spec: Arc::new(spec),
            version,
            submit_time: self.now,
            create_index: Index(1),
            ..Job::default()
        };
        self.apply(vec![Change::Job(Arc::new(job))]);
    }

    fn apply(&mut self, changes: Vec<Change>) -> Index {
        let set = ChangeSet {
            index: self.state.index().next(),
            at: self.now,
            request_id: RequestId::from_bytes([0; 16]),
            cause: Cause::JobRegistered,
            trace: None,
            result: Vec::new(),
            changes,
        };
        let mut after = State::clone(&self.state);
        after.apply(&set).expect("the changes fit the state");
        let (before, after) = (Arc::clone(&self.state), Arc::new(after));
        self.state = Arc::clone(&after);
        self.launcher.step(&Step::new(before, vec![Arc::new(set)], after));
        self.state.index()
    }

    /// Carries out a command as the applier does: a moment that has been decided is skipped.
    fn commit(&mut self, command: LaunchJobs) -> Index {
        let mut changes = Vec::new();
        for Launch { job, moment } in command.launches {
            let found = self.state.job(&job).expect("the job is registered");
            let summary = self.state.job_summary(&job).map(|summary| &**summary);
            if moment <= launched_until(found, summary) {
                continue;
            }
            self.launched.push(moment);
            let children = ChildrenSummary { last_launch: moment, ..ChildrenSummary::default() };
            changes.push(Change::JobSummary(Arc::new(JobSummary {
                job,
                groups: Default::default(),
                children: Some(children),
                scaling_events: None,
                create_index: Index(1),
                modify_index: self.state.index().next(),
            })));
        }
        if changes.is_empty() { self.state.index() } else { self.apply(changes) }
    }

    /// Another launcher takes over.
    fn take_over(&mut self) {
        self.launcher = Launcher::restore(self.state.clone());
    }

    fn next(&mut self) -> Option<(Vec<Timestamp>, Vec<Pending>)> {
        let (command, pending) = self.launcher.next_write(EPOCH, self.now)?;
        assert_eq!(command.epoch, EPOCH);
        Some((command.launches.into_iter().map(|launch| launch.moment).collect(), pending))
    }
}

#[test]
fn a_job_is_launched_at_each_moment_of_its_schedule() {
    // After a launch, the next time is computed from that launch's scheduled time (N-23.3).
    let mut scene = Scene::new("*/5 * * * *");
    assert_eq!((scene.launcher.tracked_count(), scene.launcher.poll_timeout()), (1, Some(after(300))));
    scene.wait(299);
    assert_eq!(scene.next(), None);
    scene.wait(1);
    let (command, pending) = scene.launcher.next_write(EPOCH, scene.now).expect("the job is due");
    assert_eq!(command.launches, [Launch { job: key(), moment: after(300) }]);
    assert_eq!(pending, [Pending { job: key(), late: Nanos::ZERO, has_missed: false }]);
    assert_eq!((scene.next(), scene.launcher.poll_timeout()), (None, None));
    let index = scene.commit(command);
    scene.launcher.written(index);
    assert_eq!(scene.next(), None);
    assert_eq!(scene.launcher.poll_timeout(), Some(after(600)));
}

#[test]
fn a_launcher_that_takes_over_late_launches_once() {
    // A launch that was missed during the gap is made once (N-23.7).
    let mut scene = Scene::new("*/5 * * * *");
    scene.wait(3_610);
    scene.take_over();
    let (moments, pending) = scene.next().expect("the job is due");
    assert_eq!(moments, [after(3_600)]);
    let late = Nanos::from_secs(3_310);
    assert_eq!(pending, [Pending { job: key(), late, has_missed: true }]);
}

#[test]
fn a_launch_that_the_applier_did_not_make_is_sent_again() {
    let mut scene = Scene::new("*/5 * * * *");
    scene.wait(300);
    assert!(scene.next().is_some());
    // Committed without an effect.
    scene.launcher.written(scene.state.index());
    assert_eq!(scene.launcher.poll_timeout(), Some(after(301)));
    scene.wait(1);
    assert_eq!(scene.next().map(|(moments, _)| moments), Some(vec![after(300)]));
}

#[test]
fn jobs_that_are_not_launched_any_more_are_forgotten() {
    // Removal: disabled, stopped or deleted (N-23.6).
    let mut scene = Scene::new("*/5 * * * *");
    let forgotten =
        |scene: &Scene| (scene.launcher.tracked_count(), scene.launcher.poll_timeout()) == (0, None);
    scene.register(JobSpec { stop: true, ..spec("*/5 * * * *") }, 1);
    assert!(forgotten(&scene));
    scene.register(spec("*/5 * * * *"), 2);
    assert!(!forgotten(&scene));
    let disabled = spec("*/5 * * * *").periodic.map(|periodic| PeriodicConfig { enabled: false, ..periodic });
    scene.register(JobSpec { periodic: disabled, ..spec("") }, 3);
    assert!(forgotten(&scene));
    scene.register(spec("*/5 * * * *"), 4);
    scene.apply(vec![Change::JobDeleted(key())]);
    assert!(forgotten(&scene));
}

#[test]
fn a_new_version_is_launched_by_its_own_schedule_from_then_on() {
    // Updating: the next time is computed from now (N-23.3, N-23.6).
    let mut scene = Scene::new("*/5 * * * *");
    scene.wait(400);
    scene.register(spec("*/10 * * * *"), 1);
    assert_eq!(scene.launcher.poll_timeout(), Some(after(600)));
    // A schedule without moments is never launched (N-23.1).
    scene.register(spec("0 0 30 2 *"), 2);
    assert_eq!((scene.launcher.tracked_count(), scene.launcher.poll_timeout()), (1, None));
}

proptest! {
    #[test]
    fn launchers_that_are_killed_anywhere_launch_each_moment_once(
        steps in prop::collection::vec((1i64..40, prop::collection::vec(0u8..4, 0..4)), 1..40),
    ) {
        let mut scene = Scene::new("* * * * *");
        for (seconds, failures) in steps {
            scene.wait(seconds);
            let mut failures = failures.into_iter();
            while let Some((command, _)) = scene.launcher.next_write(EPOCH, scene.now) {
                match failures.next() {
                    // Killed before the command arrives.
                    Some(0) => scene.take_over(),
                    // Killed after the command was committed.
                    Some(1) => {
                        scene.commit(command);
                        scene.take_over();
                    }
                    // The command is lost, and the outcome unknown.
                    Some(2) => {
                        scene.launcher.not_written(scene.now);
                        scene.wait(1);
                    }
                    // The command is committed, and the response lost.
                    Some(_) => {
                        scene.commit(command);
                        scene.launcher.not_written(scene.now);
                        scene.wait(1);
                    }
                    None => {
                        let index = scene.commit(command);
                        scene.launcher.written(index);
                    }
                }
            }
        }
        let due: Vec<Timestamp> =
            (1..).map(|minute| after(60 * minute)).take_while(|moment| *moment <= scene.now).collect();
        prop_assert_eq!(scene.launched, due);
    }
}
