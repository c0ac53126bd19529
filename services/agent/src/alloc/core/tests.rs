//! Tests of whole allocations: task changes and the resulting decisions.

use model::job::{Lifecycle, LifecycleHook, TaskGroup};
use model::{DeploymentId, Index};
use proptest::prelude::*;

use super::*;
use crate::testing::{NOW, spec, task, with_tasks};

/// An allocation whose task changes come from the test. Its methods return the tasks to be ended.
struct Scene {
    core: AllocCore,
    now: Timestamp,
}

impl Scene {
    fn of(spec: AllocSpec) -> Self {
        Self { core: AllocCore::new(Arc::new(spec), NOW), now: NOW }
    }

    fn ready(spec: AllocSpec) -> Self {
        let mut scene = Self::of(spec);
        assert!(scene.core.set_up(NOW).is_empty());
        scene
    }

    fn happens(&mut self, task: &str, change: TaskChange) -> String {
        let kills = self.core.task_changed(task, change, self.now);
        names_of(&kills)
    }

    fn runs(&mut self, task: &str) -> String {
        self.happens(task, TaskChange::event(TaskEventKind::Started).and(TaskRunState::Running))
    }

    fn ends(&mut self, task: &str) -> String {
        self.happens(task, TaskChange::state(TaskRunState::Dead))
    }

    fn fails(&mut self, task: &str) -> String {
        let event = TaskEventKind::NotRestarting { reason: Text::default() };
        self.happens(task, TaskChange::failure(event).and(TaskRunState::Dead))
    }

    fn update(&mut self, change: impl FnOnce(&mut AllocSpec)) -> String {
        let mut spec = AllocSpec::clone(self.core.spec());
        spec.work.alloc_modify_index = spec.work.alloc_modify_index.next();
        change(&mut spec);
        names_of(&self.core.update(Arc::new(spec), self.now))
    }

    fn waits(&mut self) -> String {
        self.now = self.core.poll_timeout().expect("the allocation has a timer");
        names_of(&self.core.handle_timeout(self.now))
    }

    fn may_start(&self) -> String {
        let open = self.core.tasks().keys().filter(|task| self.core.may_start(task));
        open.map(|task| &**task).collect::<Vec<_>>().join(" ")
    }

    fn status(&self) -> ClientStatus {
        self.core.report().status
    }

    fn events(&self, task: &str) -> Vec<&'static str> {
        self.core.tasks()[task].state.events.iter().map(|event| event.kind.as_str()).collect()
    }
}

fn names_of(kills: &Kills) -> String {
    kills.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(" ")
}

fn with(name: &str, hook: LifecycleHook, sidecar: bool) -> Task {
    Task { lifecycle: Some(Lifecycle { hook, sidecar }), ..task(name) }
}

fn whole_life() -> AllocSpec {
    with_tasks(vec![
        with("1-before", LifecycleHook::Prestart, false),
        with("2-side", LifecycleHook::Prestart, true),
        task("3-main"),
        with("4-after", LifecycleHook::Poststart, false),
        with("5-stop", LifecycleHook::Poststop, false),
    ])
}

fn stop(spec: &mut AllocSpec) {
    spec.work.desired_status = model::alloc::DesiredStatus::Stop;
}

#[test]
fn tasks_start_and_end_in_the_order_of_their_lifecycles() {
    let mut scene = Scene::of(whole_life());
    assert_eq!(scene.may_start(), "", "nothing starts before the set-up is complete");
    scene.core.set_up(NOW);
    assert_eq!(scene.may_start(), "1-before 2-side");
    scene.runs("1-before");
    scene.runs("2-side");
    scene.ends("1-before");
    assert_eq!(scene.may_start(), "2-side 3-main");
    scene.runs("3-main");
    assert_eq!(scene.may_start(), "2-side 3-main 4-after");
    scene.runs("4-after");
    scene.ends("4-after");
    assert_eq!(scene.status(), ClientStatus::Running);

    assert_eq!(scene.update(stop), "3-main");
    assert_eq!(scene.ends("3-main"), "2-side");
    assert_eq!(scene.ends("2-side"), "");
    assert_eq!(scene.may_start(), "5-stop", "poststop tasks run after the others");
    assert!(!scene.core.is_over());
    scene.runs("5-stop");
    scene.ends("5-stop");
    assert!(scene.core.is_over());
    assert_eq!(scene.status(), ClientStatus::Complete);
}

#[test]
fn a_restart_of_all_tasks_begins_when_all_have_stopped() {
    let mut scene = Scene::ready(whole_life());
    scene.runs("1-before");
    scene.runs("2-side");
    scene.ends("1-before");
    scene.runs("3-main");
    let running = ["2-side", "3-main"].map(Text::from);
    let (ended, kills) = scene.core.restart_all("because", running.into_iter(), scene.now).unwrap();
    assert_eq!((ended, names_of(&kills)), (vec!["1-before".into()], String::new()));
    assert_eq!(scene.events("1-before")[2..], ["Restart Signaled", "Restarting"]);
    assert_eq!(scene.may_start(), "", "two tasks are still running");
    let stopped = || TaskChange::state(TaskRunState::Pending);
    scene.happens("2-side", stopped());
    assert_eq!(scene.may_start(), "");
    scene.happens("3-main", stopped());
    assert_eq!(scene.may_start(), "1-before 2-side");
    scene.runs("1-before");
    scene.runs("2-side");
    scene.ends("1-before");
    assert_eq!(scene.may_start(), "2-side 3-main");

    scene.update(stop);
    assert_eq!(scene.core.restart_all("because", std::iter::empty(), scene.now), None);
}

#[test]
fn a_failure_ends_the_siblings_and_the_allocation() {
    let mut scene = Scene::ready(with_tasks(vec![task("a"), task("b")]));
    scene.runs("a");
    scene.runs("b");
    assert_eq!(scene.fails("a"), "b");
    assert_eq!(scene.events("b"), ["Received", "Started", "Sibling Task Failed", "Killing"]);
    scene.ends("b");
    assert_eq!(scene.status(), ClientStatus::Failed);
}

#[test]
fn the_groups_shutdown_delay_comes_before_the_first_kill() {
    let mut spec = spec();
    group(&mut spec).shutdown_delay = Some(Nanos::from_secs(20));
    let mut scene = Scene::ready(spec.clone());
    scene.runs("web");
    scene.core.update(scene.core.spec().clone(), NOW);
    assert_eq!(scene.update(stop), "");
    assert_eq!(scene.core.poll_timeout(), Some(NOW + Nanos::from_secs(20)));
    assert_eq!(scene.waits(), "web");
    assert_eq!(scene.core.poll_timeout(), None, "a task is killed once");

    let mut skipped = Scene::ready(spec);
    skipped.runs("web");
    let now = |spec: &mut AllocSpec| {
        stop(spec);
        spec.work.desired_transition.no_shutdown_delay = Some(true);
    };
    assert_eq!(skipped.update(stop), "");
    assert_eq!(skipped.update(now), "web", "the delay is skipped");
}

#[test]
fn a_task_in_its_shutdown_delay_is_told_when_the_delay_is_cancelled() {
    let mut scene = Scene::ready(spec());
    scene.runs("web");
    assert_eq!(scene.update(stop), "web");
    let kills = {
        let mut spec = AllocSpec::clone(scene.core.spec());
        spec.work.desired_transition.no_shutdown_delay = Some(true);
        scene.core.update(Arc::new(spec), NOW)
    };
    assert_eq!(kills, [("web".into(), Kill { skip_delay: true })]);
}

#[test]
fn an_allocation_is_complete_after_max_run_duration() {
    let mut spec = whole_life();
    group(&mut spec).max_run_duration = Some(Nanos::from_mins(1));
    let mut scene = Scene::ready(spec);
    scene.runs("1-before");
    scene.core.health = None;
    assert_eq!(scene.waits(), "1-before 2-side 3-main 4-after 5-stop", "poststop tasks are ended, too");
    assert_eq!(scene.now, NOW + Nanos::from_mins(1));
    for task in ["1-before", "2-side", "3-main", "4-after", "5-stop"] {
        scene.ends(task);
    }
    let report = scene.core.report();
    assert_eq!(
        (report.status, &*report.description),
        (ClientStatus::Complete, "allocation exceeded max_run_duration")
    );
}

#[test]
fn an_allocation_that_cannot_be_set_up_fails() {
    let mut scene = Scene::of(whole_life());
    scene.core.fail_setup("disk full", NOW);
    assert!(scene.core.is_over());
    assert_eq!(scene.status(), ClientStatus::Failed);
    let event = &scene.core.tasks()["5-stop"].state.events[1];
    assert_eq!(event.kind.display(), "failed to setup alloc: disk full");
}

#[test]
fn an_allocation_that_is_stopped_before_it_starts_is_complete() {
    let mut scene = Scene::of(spec());
    assert_eq!(names_of(&scene.core.stop(NOW)), "web");
    scene.ends("web");
    assert_eq!(scene.status(), ClientStatus::Complete);
}

#[test]
fn health_is_reported_with_its_reasons() {
    let mut spec = spec();
    Arc::make_mut(&mut spec.common).deployment_id = Some(DeploymentId::from_bytes([4; 16]));
    group(&mut spec).update = Some(model::job::UpdateStrategy {
        max_parallel: 1,
        min_healthy_time: Nanos::from_secs(10),
        healthy_deadline: Nanos::from_mins(1),
        ..Default::default()
    });
    let mut healthy = Scene::ready(spec.clone());
    healthy.runs("web");
    healthy.waits();
    assert_eq!(healthy.core.report().health, Some((true, NOW + Nanos::from_secs(10))));
    assert_eq!(healthy.core.poll_timeout(), None);

    let mut late = Scene::ready(spec.clone());
    late.waits();
    assert_eq!(late.core.report().health, Some((false, NOW + Nanos::from_mins(1))));
    assert_eq!(late.events("web"), ["Received", "Alloc Unhealthy"]);
    late.update(|spec| {
        Arc::make_mut(&mut spec.common).deployment_id = Some(DeploymentId::from_bytes([5; 16]));
    });
    assert_eq!(late.core.report().health, None, "another deployment needs a new verdict");

    let mut failed = Scene::ready(spec);
    failed.runs("web");
    failed.fails("web");
    assert_eq!(failed.core.report().health, Some((false, NOW)));
}

//
#[test]
fn the_verdict_waits_for_the_checks() {
    let mut spec = spec();
    let check = model::job::ServiceCheck::default();
    group(&mut spec).services = vec![model::job::Service {
        provider: Some(model::job::ServiceProvider::Nomad),
        checks: vec![check],
        ..Default::default()
    }];
    let mut scene = Scene::ready(spec);
    scene.runs("web");
    let passing = |passing, passing_since| CheckHealth {
        registered: 1,
        passing,
        passing_since,
        ..CheckHealth::default()
    };
    let later = NOW + Nanos::from_secs(60);
    scene.core.checks_changed(passing(0, None), later);
    assert_eq!(scene.core.report().health, None, "the tasks have run for long enough");
    scene.core.checks_changed(passing(1, Some(later)), later);
    let due = later + Nanos::from_secs(10);
    assert_eq!(scene.core.poll_timeout(), Some(due));
    scene.core.handle_timeout(due);
    assert_eq!(scene.core.report().health, Some((true, due)));
}

#[test]
fn a_restored_allocation_continues() {
    let mut before = Scene::ready(whole_life());
    before.runs("1-before");
    before.runs("2-side");
    before.ends("1-before");
    before.runs("3-main");
    let states = before.core.packed().unpack().unwrap();
    let mut after = Scene { core: AllocCore::restore(Arc::new(whole_life()), states, None, NOW), now: NOW };
    assert_eq!(after.core.report(), before.core.report());
    after.core.set_up(NOW);
    assert_eq!(after.may_start(), before.may_start());
}

#[test]
fn destroying_an_allocation_ends_all_its_tasks() {
    let mut scene = Scene::ready(whole_life());
    scene.runs("1-before");
    assert_eq!(names_of(&scene.core.destroy(NOW)), "1-before 2-side 3-main 4-after 5-stop");
    assert_eq!(scene.core.spec().work.alloc_modify_index, Index(5));
}

#[test]
fn a_stop_while_only_the_last_task_runs_waits_for_it() {
    let mut scene =
        Scene::ready(with_tasks(vec![task("main"), with("stop", LifecycleHook::Poststop, false)]));
    scene.runs("main");
    scene.ends("main");
    scene.runs("stop");
    assert_eq!(scene.update(stop), "");
    assert_eq!(scene.core.poll_timeout(), None, "no timer while the poststop task runs");
}

/// A random change of a random task.
fn change() -> impl Strategy<Value = (usize, TaskChange)> {
    let started = TaskChange::event(TaskEventKind::Started).and(TaskRunState::Running);
    let failed = TaskChange::failure(TaskEventKind::NotRestarting { reason: Text::default() });
    let kind = prop_oneof![
        Just(started),
        Just(TaskChange::state(TaskRunState::Pending)),
        Just(TaskChange::state(TaskRunState::Dead)),
        Just(failed.and(TaskRunState::Dead)),
    ];
    (0..5usize, kind)
}

proptest! {
    #[test]
    fn due_actions_are_taken_and_each_task_is_ended_once(
        steps in prop::collection::vec((change(), 0..40i64, any::<bool>()), 1..25), stop_at in 0..25usize,
    ) {
        let mut spec = whole_life();
        group(&mut spec).shutdown_delay = Some(Nanos::from_secs(7));
        group(&mut spec).max_run_duration = Some(Nanos::from_secs(200));
        let names: Vec<Text> = group(&mut spec).tasks.iter().map(|task| Text::clone(&task.name)).collect();
        let mut scene = Scene::ready(spec);
        let mut ended = Vec::new();
        for (number, ((task, change), secs, due)) in steps.into_iter().enumerate() {
            scene.now = scene.now + Nanos::from_secs(secs);
            let task = &names[task];
            // A task that has ended does not change any more.
            if scene.core.tasks()[task].is_live() {
                ended.push(scene.happens(task, change));
            }
            if number == stop_at {
                ended.push(scene.update(stop));
            }
            if due && scene.core.poll_timeout().is_some() {
                scene.now = scene.now.max(scene.core.poll_timeout().unwrap());
                ended.push(names_of(&scene.core.handle_timeout(scene.now)));
                prop_assert!(scene.core.poll_timeout().is_none_or(|next| next > scene.now));
            }
        }
        let mut ended: Vec<_> = ended.iter().flat_map(|names| names.split_whitespace()).collect();
        let all = ended.len();
        ended.sort_unstable();
        ended.dedup();
        prop_assert_eq!(ended.len(), all);
    }
}

fn group(spec: &mut AllocSpec) -> &mut TaskGroup {
    let job = Arc::make_mut(&mut spec.job);
    &mut Arc::make_mut(&mut job.spec).task_groups[0]
}

/// the event shows the time that the task gets on this node.
#[test]
fn a_kill_timeout_is_at_most_that_of_the_node() {
    let patient = Task { kill_timeout: Nanos::from_mins(10), ..task("web") };
    let shown = |core: AllocCore| {
        let mut core = core;
        core.set_up(NOW);
        core.destroy(NOW);
        let states = core.packed().unpack().unwrap();
        states[0].events.last().unwrap().kind.display()
    };
    let core = AllocCore::new(Arc::new(with_tasks(vec![patient])), NOW);
    assert_eq!(shown(core.clone()), "Sent interrupt. Waiting 30s before force killing");
    let core = core.with_kill_timeout_max(Nanos::from_mins(2));
    assert_eq!(shown(core), "Sent interrupt. Waiting 2m0s before force killing");
}

#[test]
fn an_allocation_has_begun_when_a_task_has_started_or_ended() {
    let mut scene = Scene::ready(spec());
    assert!(!scene.core.has_begun());
    scene.runs("web");
    assert!(scene.core.has_begun());
    let mut failed = Scene::of(spec());
    failed.core.fail_setup("it is a test", NOW);
    assert!(failed.core.has_begun());
}
