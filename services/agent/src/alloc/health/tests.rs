//! Tests of health verdicts over time.

use std::sync::Arc;

use model::job::{TaskGroup, UpdateStrategy};
use model::{DeploymentId, Timestamp};

use super::*;
use crate::testing::{NOW, dead, failed, pending, running, spec, tasks, with_group};

const RULE: Rule =
    Rule { min_healthy_time: Nanos::from_secs(10), deadline: Nanos::from_mins(5), for_deployment: true };

fn at(secs: i64) -> Timestamp {
    NOW + Nanos::from_secs(secs)
}

fn started(secs: i64) -> TaskState {
    TaskState { started_at: at(secs), ..running() }
}

#[test]
fn tasks_that_run_for_long_enough_are_healthy() {
    let mut watch = HealthWatch::begin(RULE, NOW);
    assert_eq!(watch.check(&tasks([("a", Class::Main, pending())]), at(1)), None);
    assert_eq!(watch.poll_timeout(), at(300));
    let group = tasks([("a", Class::Main, started(2)), ("b", Class::Main, started(4))]);
    assert_eq!(watch.check(&group, at(4)), None);
    assert_eq!(watch.poll_timeout(), at(14));
    assert_eq!(watch.check(&group, at(14)), Some(true));
}

#[test]
fn a_restart_resets_the_healthy_time() {
    let mut watch = HealthWatch::begin(RULE, NOW);
    assert_eq!(watch.check(&tasks([("a", Class::Main, started(0))]), at(9)), None);
    assert_eq!(watch.check(&tasks([("a", Class::Main, pending())]), at(10)), None);
    assert_eq!(watch.check(&tasks([("a", Class::Main, started(12))]), at(21)), None);
    assert_eq!(watch.poll_timeout(), at(22));
}

#[test]
fn an_allocation_is_unhealthy_at_the_deadline() {
    let mut watch = HealthWatch::begin(RULE, NOW);
    let late = tasks([("a", Class::Main, started(295))]);
    assert_eq!(watch.check(&late, at(299)), None);
    assert_eq!(watch.check(&late, watch.poll_timeout()), Some(false));
}

#[test]
fn an_ended_task_makes_the_allocation_unhealthy_at_once() {
    let verdict = |group: &Tasks| HealthWatch::begin(RULE, NOW).check(group, at(30));
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
    let texts: Vec<_> =
        RULE.explain(&group).into_iter().map(|(task, text)| format!("{task}: {text}")).collect();
    assert_eq!(
        texts,
        [
            "a: Task not running by healthy_deadline of 5m0s",
            "b: Task not running for min_healthy_time of 10s by healthy_deadline of 5m0s",
            "d: Unhealthy because of dead task",
        ]
    );
    assert!(Rule { for_deployment: false, ..RULE }.explain(&group).is_empty());
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
