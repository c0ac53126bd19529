//! Tests of health verdicts over time.

use std::sync::Arc;

use model::job::{
    CheckKind, MigrateStrategy, Service, ServiceCheck, ServiceProvider, TaskGroup, UpdateStrategy,
};
use model::{DeploymentId, Timestamp};

use super::*;
use crate::testing::{NOW, dead, failed, pending, running, spec, tasks, with_group};

const RULE: Rule = Rule {
    min_healthy_time: Nanos::from_secs(10),
    deadline: Nanos::from_mins(5),
    checks: 0,
    for_deployment: true,
};

impl HealthWatch {
    /// Looks at the tasks of an allocation without checks.
    fn check_tasks(&mut self, tasks: &Tasks, now: Timestamp) -> Option<bool> {
        self.check(tasks, &CheckHealth::default(), now)
    }
}

/// Some checks, of which some pass.
fn checks(registered: usize, passing: usize, passing_since: Option<Timestamp>) -> CheckHealth {
    let unhealthy: &[Text] = if passing < registered { &["web".into()] } else { &[] };
    CheckHealth { registered, passing, passing_since, unhealthy: unhealthy.into() }
}

fn at(secs: i64) -> Timestamp {
    NOW + Nanos::from_secs(secs)
}

fn started(secs: i64) -> TaskState {
    TaskState { started_at: at(secs), ..running() }
}

#[test]
fn tasks_that_run_for_long_enough_are_healthy() {
    let mut watch = HealthWatch::begin(RULE, NOW);
    assert_eq!(watch.check_tasks(&tasks([("a", Class::Main, pending())]), at(1)), None);
    assert_eq!(watch.poll_timeout(), at(300));
    let group = tasks([("a", Class::Main, started(2)), ("b", Class::Main, started(4))]);
    assert_eq!(watch.check_tasks(&group, at(4)), None);
    assert_eq!(watch.poll_timeout(), at(14));
    assert_eq!(watch.check_tasks(&group, at(14)), Some(true));
}

#[test]
fn a_restart_resets_the_healthy_time() {
    let mut watch = HealthWatch::begin(RULE, NOW);
    assert_eq!(watch.check_tasks(&tasks([("a", Class::Main, started(0))]), at(9)), None);
    assert_eq!(watch.check_tasks(&tasks([("a", Class::Main, pending())]), at(10)), None);
    assert_eq!(watch.check_tasks(&tasks([("a", Class::Main, started(12))]), at(21)), None);
    assert_eq!(watch.poll_timeout(), at(22));
}

#[test]
fn an_allocation_is_unhealthy_at_the_deadline() {
    let mut watch = HealthWatch::begin(RULE, NOW);
    let late = tasks([("a", Class::Main, started(295))]);
    assert_eq!(watch.check_tasks(&late, at(299)), None);
    assert_eq!(watch.check_tasks(&late, watch.poll_timeout()), Some(false));
}

#[test]
fn an_ended_task_makes_the_allocation_unhealthy_at_once() {
    let verdict = |group: &Tasks| HealthWatch::begin(RULE, NOW).check_tasks(group, at(30));
    assert_eq!(verdict(&tasks([("a", Class::Main, failed())])), Some(false));
    assert_eq!(verdict(&tasks([("a", Class::Main, dead())])), Some(false));
    assert_eq!(verdict(&tasks([("a", Class::PrestartSidecar, dead())])), Some(false));
    let done = tasks([
        ("a", Class::Prestart, dead()),
        ("b", Class::Main, started(0)),
        ("c", Class::Poststart, dead()),
        ("d", Class::Poststop, pending()),
    ]);
    assert_eq!(verdict(&done), Some(true), "completed prestart and poststart tasks do not count");
}

#[test]
fn deployments_get_the_reason_of_a_verdict() {
    let group = tasks([
        ("a", Class::Main, pending()),
        ("b", Class::Main, started(0)),
        ("c", Class::Poststart, dead()),
        ("d", Class::Main, dead()),
    ]);
    let texts: Vec<_> = RULE
        .explain(&group, &CheckHealth::default(), at(300))
        .into_iter()
        .map(|(task, text)| format!("{task}: {text}"))
        .collect();
    assert_eq!(
        texts,
        [
            "a: Task not running by healthy_deadline of 5m0s",
            "b: Task not running for min_healthy_time of 10s by healthy_deadline of 5m0s",
            "d: Unhealthy because of dead task",
        ]
    );
    assert!(
        Rule { for_deployment: false, ..RULE }.explain(&group, &CheckHealth::default(), at(300)).is_empty()
    );
}

//
#[test]
fn checks_must_pass_for_the_minimum_healthy_time_without_interruption() {
    let group = tasks([("a", Class::Main, started(0))]);
    let mut watch = HealthWatch::begin(Rule { checks: 2, ..RULE }, NOW);
    assert_eq!(watch.check(&group, &CheckHealth::default(), at(20)), None, "no check is registered");
    assert_eq!(watch.check(&group, &checks(2, 1, None), at(21)), None);
    assert_eq!(watch.poll_timeout(), at(300));
    assert_eq!(watch.check(&group, &checks(2, 2, Some(at(22))), at(22)), None);
    assert_eq!(watch.poll_timeout(), at(32));
    assert_eq!(watch.check(&group, &checks(2, 1, None), at(31)), None, "the time begins again");
    assert_eq!(watch.check(&group, &checks(2, 2, Some(at(35))), at(44)), None);
    assert_eq!(watch.check(&group, &checks(2, 2, Some(at(35))), at(45)), Some(true));
}

//
#[test]
fn checks_that_passed_before_a_restart_of_a_task_wait_for_the_task() {
    let mut watch = HealthWatch::begin(Rule { checks: 1, ..RULE }, NOW);
    let group = tasks([("a", Class::Main, started(20))]);
    assert_eq!(watch.check(&group, &checks(1, 1, Some(at(5))), at(29)), None);
    assert_eq!(watch.check(&group, &checks(1, 1, Some(at(5))), at(30)), Some(true));
}

//
#[test]
fn checks_that_do_not_pass_make_the_allocation_unhealthy_at_the_deadline() {
    let mut watch = HealthWatch::begin(Rule { checks: 1, ..RULE }, NOW);
    let group = tasks([("a", Class::Main, started(0))]);
    assert_eq!(watch.check(&group, &checks(1, 0, None), at(299)), None);
    assert_eq!(watch.check(&group, &checks(1, 0, None), watch.poll_timeout()), Some(false));
}

//
#[test]
fn deployments_are_told_which_checks_did_not_pass() {
    let rule = Rule { checks: 2, ..RULE };
    let text = |group: &Tasks, checks: &CheckHealth| rule.explain(group, checks, at(300)).remove(0).1;
    let running = tasks([("a", Class::Main, started(0))]);
    assert_eq!(text(&running, &CheckHealth::default()), "Service checks not registered");
    assert_eq!(text(&running, &checks(2, 1, None)), "Services not healthy by deadline: web");
    assert_eq!(text(&running, &checks(1, 1, Some(at(9)))), "Only 1 out of 2 checks registered and passing");
    let late = tasks([("a", Class::Main, started(295))]);
    let expected = "Task not running for min_healthy_time of 10s by healthy_deadline of 5m0s";
    assert_eq!(text(&late, &checks(2, 1, None)), expected);
}

#[test]
fn only_jobs_that_ask_for_checks_wait_for_them() {
    let required = |health_check| {
        let check = ServiceCheck { kind: Some(CheckKind::Tcp), ..ServiceCheck::default() };
        let service = |provider| Service {
            provider: Some(provider),
            checks: vec![check.clone(), check.clone()],
            ..Service::default()
        };
        let services = vec![service(ServiceProvider::Nomad), service(ServiceProvider::Consul)];
        let migrate = Some(MigrateStrategy { health_check, ..MigrateStrategy::default() });
        let group = TaskGroup { name: "app".into(), services, migrate, ..TaskGroup::default() };
        Rule::of(&with_group(JobType::Service, group)).unwrap().checks
    };
    assert_eq!(required(None), 4, "those of Consul count as well");
    assert_eq!(required(Some(HealthCheck::Checks)), 4);
    assert_eq!(required(Some(HealthCheck::TaskStates)), 0);
}

#[test]
fn health_is_decided_only_for_deployments_and_drains() {
    let of = |kind, update: Option<UpdateStrategy>, deployment: bool| {
        let group = TaskGroup { name: "app".into(), update, ..TaskGroup::default() };
        let mut spec = with_group(kind, group);
        let common = Arc::make_mut(&mut spec.common);
        common.deployment_id = deployment.then_some(DeploymentId::from_bytes([4; 16]));
        Rule::of(&spec)
    };
    let update = |health_check| UpdateStrategy {
        max_parallel: 1,
        health_check: Some(health_check),
        min_healthy_time: Nanos::from_secs(3),
        ..UpdateStrategy::default()
    };
    let rule = of(JobType::Service, Some(update(HealthCheck::Checks)), true).unwrap();
    assert_eq!((rule.min_healthy_time, rule.for_deployment), (Nanos::from_secs(3), true));
    assert_eq!(of(JobType::Service, Some(update(HealthCheck::Manual)), true), None);
    assert_eq!(of(JobType::Service, None, true), None);
    assert_eq!(of(JobType::Batch, Some(update(HealthCheck::Checks)), false), None);
    assert!(of(JobType::System, None, false).is_some_and(|rule| !rule.for_deployment), "for drains");
    assert!(Rule::of(&spec()).is_some());
}
