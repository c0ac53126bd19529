//! Tests of the schedule of checks, their results and restarts.

use super::*;
use crate::checks::check::tests::tcp;
use crate::checks::check::{Mode, RestartRule};
use crate::testing::alloc_id;

/// The wall clock is a day ahead of the steady one, so that a test notices if they are confused.
const AHEAD: Nanos = Nanos::from_hours(24);

fn at(millis: i64) -> Now {
    let steady = Timestamp::from_secs(1_000) + Nanos(millis.saturating_mul(Nanos::MILLISECOND.0));
    Now { steady, wall: steady + AHEAD }
}

fn check(id: &str) -> Check {
    tcp(id, "127.0.0.1:1".parse().unwrap())
}

fn success() -> Outcome {
    Outcome { status: Status::Success, code: 0, output: "ok".into() }
}

fn failure() -> Outcome {
    Outcome { status: Status::Failure, code: 0, output: "refused".into() }
}

/// Replaces the checks of the first allocation.
fn set(core: &mut Core, checks: Vec<Check>, now: Now) {
    core.set(alloc_id(1), checks, &BTreeMap::new(), now);
}

/// The ids of the checks to run.
fn ids(effects: &Effects) -> Vec<String> {
    effects.runs.iter().map(|run| run.key.1.to_string()).collect()
}

/// Runs what is due, with the same outcome for all. Returns all effects but the runs.
fn run_due(core: &mut Core, outcome: &Outcome, now: Now) -> Effects {
    let mut all = core.handle_timeout(now);
    for run in std::mem::take(&mut all.runs) {
        let effects = core.finished(&run.key, run.number, outcome.clone(), now);
        all.restarts.extend(effects.restarts);
        all.changed.extend(effects.changed);
    }
    all
}

/// The time of the next event.
fn next(core: &Core) -> Now {
    let steady = core.poll_timeout().unwrap();
    Now { steady, wall: steady + AHEAD }
}

fn status(core: &Core, id: &str) -> Status {
    core.results(alloc_id(1), "").find(|(check, _)| *check.id == *id).unwrap().1.status
}

//
#[test]
fn a_check_runs_first_after_half_an_interval_and_then_an_interval_after_each_end() {
    let mut core = Core::default();
    assert_eq!(core.poll_timeout(), None);
    set(&mut core, vec![check("a")], at(0));
    let first = next(&core);
    assert!(at(5_000).steady <= first.steady && first.steady <= at(6_000).steady, "{first:?}");
    assert_eq!(core.handle_timeout(at(4_999)), Effects::default());
    assert_eq!(status(&core, "a"), Status::Pending);

    let effects = core.handle_timeout(first);
    assert_eq!(ids(&effects), ["a"]);
    assert_eq!(core.poll_timeout(), None, "a check that runs has no timer");
    let effects = core.finished(&effects.runs[0].key, effects.runs[0].number, success(), at(8_000));
    assert_eq!(effects.changed, [alloc_id(1)].into());
    assert_eq!(core.poll_timeout(), Some(at(18_000).steady));
    let (_, result) = core.results(alloc_id(1), "").next().unwrap();
    assert_eq!((result.status, &*result.output, result.at), (Status::Success, "ok", at(8_000).wall));

    let again = run_due(&mut core, &success(), at(18_000));
    assert!(again.changed.is_empty(), "the status is the same");
}

#[test]
fn the_first_runs_of_many_checks_spread_over_a_tenth_of_the_interval() {
    let mut core = Core::default();
    let many: Vec<Check> = (0..100).map(|number| check(&format!("check-{number}"))).collect();
    let times: BTreeSet<Nanos> = many.iter().map(first_run_after).collect();
    assert!(times.len() > 10, "{times:?}");
    assert!(times.iter().all(|time| (Nanos::from_secs(5)..=Nanos::from_secs(6)).contains(time)), "{times:?}");
    set(&mut core, many, at(0));
    assert_eq!(core.count(), 100);
}

//
#[test]
fn a_check_that_stays_keeps_its_result_and_one_that_changes_begins_again() {
    let mut core = Core::default();
    set(&mut core, vec![check("a"), check("b")], at(0));
    run_due(&mut core, &success(), at(6_000));
    let due = core.poll_timeout();
    set(&mut core, vec![check("a"), check("c")], at(7_000));
    assert_eq!((status(&core, "a"), status(&core, "c")), (Status::Success, Status::Pending));
    assert_eq!(core.results(alloc_id(1), "").count(), 2);
    assert!(core.poll_timeout() < due, "the new check is due first");
    core.remove(alloc_id(1));
    assert_eq!((core.poll_timeout(), core.count()), (None, 0));
    assert_eq!(core.results(alloc_id(1), "").count(), 0);
}

#[test]
fn results_from_before_a_restart_of_the_agent_are_kept() {
    let mut core = Core::default();
    set(&mut core, vec![check("a"), check("b")], at(0));
    run_due(&mut core, &success(), at(6_000));
    let saved = core.saved(alloc_id(1)).unwrap();
    let mut restored = Core::default();
    restored.set(alloc_id(1), vec![check("b"), check("c")], &saved, at(60_000));
    assert_eq!((status(&restored, "b"), status(&restored, "c")), (Status::Success, Status::Pending));
    assert_eq!(restored.saved(alloc_id(2)), None);
}

#[test]
fn the_outcome_of_a_check_that_was_removed_meanwhile_is_dropped() {
    let mut core = Core::default();
    set(&mut core, vec![check("a")], at(0));
    let run = core.handle_timeout(at(6_000)).runs.remove(0);
    set(&mut core, Vec::new(), at(7_000));
    set(&mut core, vec![check("a")], at(7_000));
    assert_eq!(core.finished(&run.key, run.number, success(), at(8_000)), Effects::default());
    assert_eq!(status(&core, "a"), Status::Pending);
    let effects = core.handle_timeout(at(14_000));
    assert_eq!(ids(&effects), ["a"], "it has its own schedule");
}

#[test]
fn probes_are_limited_for_each_allocation_and_for_the_node() {
    let mut core = Core::default();
    let many = |count: usize| (0..count).map(|number| check(&format!("{number:05}"))).collect::<Vec<_>>();
    core.set(alloc_id(1), many(10_000), &BTreeMap::new(), at(0));
    for number in 2..=20 {
        core.set(alloc_id(number), many(40), &BTreeMap::new(), at(0));
    }
    let now = at(6_000);
    let mut running = core.handle_timeout(now).runs;
    let of = |running: &[Run], alloc| running.iter().filter(|run| run.key.0 == alloc).count();
    assert_eq!(running.len(), PROBES_MAX);
    assert!((1..=20).all(|number| of(&running, alloc_id(number)) <= ALLOC_PROBES_MAX));
    assert_eq!(core.poll_timeout(), None, "nothing can run before a probe has ended");

    let mut finished = 0;
    while let Some(run) = running.pop() {
        core.finished(&run.key, run.number, success(), now);
        finished += 1;
        running.extend(core.handle_timeout(now).runs);
        assert!(running.len() <= PROBES_MAX);
        assert!(of(&running, alloc_id(1)) <= ALLOC_PROBES_MAX);
    }
    assert_eq!(finished, 10_000 + 19 * 40, "every check ran once");
    assert_eq!(core.poll_timeout(), Some(now.steady + Nanos::from_secs(10)));
}

#[test]
fn checks_that_wait_for_their_turn_go_with_their_allocation() {
    let mut core = Core::default();
    let many: Vec<Check> = (0..=ALLOC_PROBES_MAX).map(|number| check(&format!("{number:05}"))).collect();
    set(&mut core, many, at(0));
    let running = core.handle_timeout(at(6_000)).runs;
    assert_eq!(running.len(), ALLOC_PROBES_MAX);
    core.remove(alloc_id(1));
    for run in running {
        core.finished(&run.key, run.number, success(), at(7_000));
    }
    assert_eq!(core.poll_timeout(), None);
    assert!(core.running.is_empty());
    assert_eq!(core.running_total, 0);
}

//
#[test]
fn all_checks_pass_since_the_last_of_them_began_to() {
    let mut core = Core::default();
    let readiness = Check { mode: Mode::Readiness, service: "db".into(), ..check("b") };
    set(&mut core, vec![check("a"), readiness], at(0));
    let pending = core.health(alloc_id(1));
    assert_eq!((pending.registered, pending.passing, pending.passing_since), (2, 0, None));
    assert_eq!(*pending.unhealthy, ["db", "web"]);

    // The check of readiness has run, which is enough.
    run_due(&mut core, &failure(), at(6_000));
    let failing = core.health(alloc_id(1));
    assert_eq!((failing.passing, failing.passing_since, &*failing.unhealthy), (1, None, &["web".into()][..]));
    run_due(&mut core, &success(), at(16_000));
    let passing = core.health(alloc_id(1));
    assert_eq!((passing.passing, passing.passing_since), (2, Some(at(16_000).wall)));
    assert!(passing.unhealthy.is_empty());
    run_due(&mut core, &success(), at(26_000));
    assert_eq!(core.health(alloc_id(1)), passing, "without interruption");
    run_due(&mut core, &failure(), at(36_000));
    assert_eq!(core.health(alloc_id(1)).passing_since, None);
    assert_eq!(core.health(alloc_id(2)), CheckHealth::default());
}

#[test]
fn more_checks_must_pass_than_are_registered() {
    let mut core = Core::default();
    set(&mut core, vec![check("a")], at(0));
    run_due(&mut core, &success(), at(6_000));
    let health = core.health(alloc_id(1));
    assert_eq!(health.all_passing_since(1), Some(at(6_000).wall));
    assert_eq!(health.all_passing_since(2), None);
}

/// A check of the task `web` that restarts it after three intervals, and two seconds after a start.
fn restarting(id: &str, task: &str) -> Check {
    let restart = Some(RestartRule { limit: 3, grace: Nanos::from_secs(2) });
    Check { task: task.into(), restart, ..check(id) }
}

//
#[test]
fn a_check_that_fails_for_long_enough_restarts_its_task_once() {
    let mut core = Core::default();
    set(&mut core, vec![restarting("a", "web"), restarting("b", "web")], at(0));
    run_due(&mut core, &failure(), at(6_000));
    assert_eq!(core.poll_timeout(), Some(at(16_000).steady), "nothing counts before the task has started");
    core.arm(alloc_id(1), "web", at(10_000));
    for now in [16_000, 26_000] {
        assert!(run_due(&mut core, &failure(), at(now)).restarts.is_empty());
    }
    // The grace period ends at 12 s, and the third interval two intervals later.
    assert_eq!(core.poll_timeout(), Some(at(32_000).steady));
    let effects = core.handle_timeout(at(32_000));
    let reason = "healthcheck: check \"alive\" unhealthy".into();
    assert_eq!(effects.restarts, [Restart { alloc: alloc_id(1), task: Some("web".into()), reason }]);
    assert!(effects.runs.is_empty());
    for now in [36_000, 46_000, 56_000, 66_000] {
        assert!(
            run_due(&mut core, &failure(), at(now)).restarts.is_empty(),
            "the task has not started again"
        );
    }
    core.arm(alloc_id(1), "web", at(70_000));
    let later = (76..=100).map(|secs| run_due(&mut core, &failure(), at(secs * 1_000)).restarts.len());
    assert_eq!(later.sum::<usize>(), 1, "a new grace period has begun, and the check fails again");
}

//
#[test]
fn a_check_that_an_update_brings_restarts_the_running_task() {
    let mut core = Core::default();
    set(&mut core, vec![restarting("a", "web")], at(0));
    core.arm(alloc_id(1), "web", at(0));
    run_due(&mut core, &failure(), at(6_000));
    let due = at(22_000).steady;
    assert_eq!(core.restarts.first().map(|(at, _)| *at), Some(due));
    set(&mut core, vec![restarting("a", "web"), restarting("b", "web"), restarting("c", "")], at(7_000));
    core.arm_new(alloc_id(1), "web", at(7_000));
    let watched: Vec<_> = core.restarts.iter().map(|(at, (_, id))| (*at, id.to_string())).collect();
    let new = at(29_000).steady;
    assert_eq!(watched, [(due, "a".to_owned()), (new, "b".to_owned()), (new, "c".to_owned())]);
}

//
#[test]
fn a_success_or_the_end_of_the_task_prevents_the_restart() {
    let mut core = Core::default();
    set(&mut core, vec![restarting("a", "web")], at(0));
    core.arm(alloc_id(1), "web", at(0));
    run_due(&mut core, &failure(), at(6_000));
    run_due(&mut core, &success(), at(16_000));
    assert_eq!(core.poll_timeout(), Some(at(26_000).steady));
    run_due(&mut core, &failure(), at(26_000));
    run_due(&mut core, &failure(), at(36_000));
    core.disarm(alloc_id(1), "other");
    assert!(!core.restarts.is_empty());
    core.disarm(alloc_id(1), "web");
    assert!(core.restarts.is_empty());
    assert!(run_due(&mut core, &failure(), at(46_000)).restarts.is_empty());
}

//
#[test]
fn a_check_of_the_group_restarts_all_running_tasks() {
    let mut core = Core::default();
    set(&mut core, vec![restarting("a", "")], at(0));
    core.arm(alloc_id(1), "web", at(0));
    // The start of another task does not begin a new grace period.
    core.arm(alloc_id(1), "side", at(20_000));
    assert_eq!(core.restarts.first().map(|(due, _)| *due), Some(at(22_000).steady));
    run_due(&mut core, &failure(), at(6_000));
    run_due(&mut core, &failure(), at(16_000));
    let effects = run_due(&mut core, &failure(), at(22_000));
    assert_eq!(effects.restarts.len(), 1);
    assert_eq!(effects.restarts[0].task, None);
    core.arm(alloc_id(1), "side", at(30_000));
    assert_eq!(core.restarts.first().map(|(due, _)| *due), Some(at(52_000).steady), "the tasks start again");
}

#[test]
fn a_check_without_a_rule_or_that_was_removed_restarts_nothing() {
    let mut core = Core::default();
    set(&mut core, vec![check("a"), restarting("b", "")], at(0));
    core.arm(alloc_id(1), "web", at(0));
    assert_eq!(core.restarts.len(), 1);
    set(&mut core, vec![check("a")], at(1_000));
    assert!(core.restarts.is_empty());
    core.arm(alloc_id(2), "web", at(0));
    assert!(core.restarts.is_empty());
}

#[test]
fn an_update_of_the_rule_counts_at_once() {
    let mut core = Core::default();
    set(&mut core, vec![restarting("a", "web")], at(0));
    core.arm(alloc_id(1), "web", at(0));
    run_due(&mut core, &failure(), at(6_000));
    let stricter = RestartRule { limit: 1, grace: Nanos::from_secs(2) };
    set(&mut core, vec![Check { restart: Some(stricter), ..restarting("a", "web") }], at(7_000));
    let effects = run_due(&mut core, &failure(), at(16_000));
    assert!(effects.restarts.is_empty());
    assert_eq!(core.handle_timeout(at(16_000)).restarts.len(), 1, "the first failure after the grace period");
    core.arm(alloc_id(1), "web", at(17_000));
    set(&mut core, vec![Check { restart: None, ..restarting("a", "web") }], at(18_000));
    assert!(core.restarts.is_empty());
}

//
#[test]
fn the_results_of_consul_count_as_those_of_the_agent() {
    let in_consul =
        InConsul { service_id: "s".into(), name: "alive".into(), on_update: None, ignores_warnings: false };
    let mut core = Core::default();
    set(
        &mut core,
        vec![Check { runner: Runner::Consul(in_consul.clone()), ..restarting("a", "web") }],
        at(0),
    );
    assert_eq!((core.poll_timeout(), core.count()), (None, 0), "the agent runs nothing");
    assert_eq!(core.results(alloc_id(1), "").count(), 0, "Consul shows it");
    let key = (alloc_id(1), Text::from("a"));
    assert_eq!(core.in_consul(), [(key.clone(), in_consul)]);
    core.arm(alloc_id(1), "web", at(0));
    assert_eq!(core.poll_timeout(), None, "a check that Consul does not have restarts nothing");

    let found = |outcome: Outcome| Finding { is_healthy: outcome.status == Status::Success, outcome };
    let effects = core.found(&key, found(success()), at(1_000));
    assert_eq!(effects.changed, [alloc_id(1)].into());
    assert_eq!(core.health(alloc_id(1)).all_passing_since(1), Some(at(1_000).wall));
    core.found(&key, found(failure()), at(5_000));
    assert_eq!(core.health(alloc_id(1)).passing, 0);
    assert_eq!(core.poll_timeout(), Some(at(25_000).steady), "two intervals later");
    assert_eq!(core.handle_timeout(at(25_000)).restarts.len(), 1);
    set(&mut core, vec![check("a")], at(26_000));
    core.remove(alloc_id(1));
    assert_eq!(core.found(&key, found(success()), at(27_000)), Effects::default());
}
