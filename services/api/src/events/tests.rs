//! Tests of the events of a change set, and of topic matching.

use std::sync::Arc;

use model::change::{Cause, Change, ChangeSet};
use model::cluster::{Namespace, NodePool};
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Job, JobSpec, JobType};
use model::{EvalId, Index, JobKey};
use state::SingleSet;

use super::shape::events;
use super::topics::Topics;
use crate::http::Query;
use crate::testing;

fn topics(query: &str) -> Topics {
    Topics::read(&Query::parse("", query)).unwrap()
}

/// A step with these changes to a state that contains the job `web`.
fn step(cause: Cause, changes: impl FnOnce(&JobKey) -> Vec<Change>) -> SingleSet {
    let key = JobKey::new("default", "web");
    let spec = JobSpec { namespace: "default".into(), id: "web".into(), ..JobSpec::default() };
    let job = Job { spec: spec.into(), create_index: Index(2), ..Job::default() };
    let before = testing::state_of(vec![Change::Job(Arc::new(job))]);
    let set = ChangeSet { cause, ..testing::set(3, changes(&key)) };
    let mut after = before.clone();
    after.apply(&set).unwrap();
    SingleSet { before: before.into(), set: set.into(), after: after.into() }
}

fn registered() -> SingleSet {
    step(Cause::JobRegistered, |key| {
        let spec = JobSpec { namespace: "default".into(), id: "web".into(), ..JobSpec::default() };
        let job = Job { spec: spec.into(), create_index: Index(2), version: 1, ..Job::default() };
        let id = EvalId::from_bytes([7; 16]);
        let eval = Evaluation::new(id, key.clone(), JobType::Service, 50, EvalTrigger::JobRegister);
        vec![Change::Job(Arc::new(job)), Change::Eval(Arc::new(eval))]
    })
}

fn described(step: &SingleSet, query: &str) -> Vec<String> {
    let events = events(step, &topics(query));
    events.iter().map(|event| format!("{} {} {}", event.topic, event.kind, event.key)).collect()
}

#[test]
fn a_write_names_all_its_events() {
    let eval = "07070707-0707-0707-0707-070707070707";
    let all = ["Job JobRegistered web".to_owned(), format!("Evaluation JobRegistered {eval}")];
    let step = registered();
    for query in
        ["", "topic=*", "topic=*:*", "topic=Job&topic=Evaluation", "topic=Job:web&topic=Evaluation:web"]
    {
        assert_eq!(described(&step, query), all, "{query}");
    }
    assert_eq!(described(&step, "topic=Job"), all[..1]);
    assert_eq!(described(&step, &format!("topic=Evaluation:{eval}")), all[1..]);
    for query in ["topic=Nonsense", "topic=Job:other", "namespace=other", "topic=Node"] {
        assert_eq!(described(&step, query), [""; 0], "{query}");
    }
    assert_eq!(described(&step, "namespace=*"), all);
    let found = events(&step, &topics("topic=Evaluation"));
    assert_eq!(found[0].filter_keys.as_deref(), Some(&["web".to_owned(), String::new()][..]));
    assert_eq!(found[0].payload["Evaluation"]["JobID"], "web");
}

#[test]
fn a_small_object_has_events_if_its_kind_has_a_topic() {
    let step = step(Cause::NodePoolUpserted, |_| {
        let pool = NodePool { name: "gpu".into(), ..NodePool::default() };
        let namespace = Namespace { name: "gpu".into(), ..Namespace::default() };
        vec![Change::NodePool(Box::new(pool)), Change::Namespace(Box::new(namespace))]
    });
    assert_eq!(described(&step, ""), ["NodePool NodePoolUpserted gpu"]);
    assert_eq!(events(&step, &topics(""))[0].payload["NodePool"]["Name"], "gpu");
}

#[test]
fn what_is_gone_is_shown_as_it_was() {
    let step = step(Cause::JobDeregistered, |key| vec![Change::JobDeleted(key.clone())]);
    let found = events(&step, &topics(""));
    assert_eq!((found.len(), found[0].kind), (1, "JobDeregistered"));
    assert_eq!(found[0].payload["Deleted"], true);
    assert_eq!(found[0].payload["Job"]["ID"], "web");
}

#[test]
fn a_topic_has_one_key_at_most() {
    let error = Topics::read(&Query::parse("", "topic=Job:a:b")).unwrap_err();
    assert!(error.status == 400 && error.text.starts_with("Invalid topic query: "), "{}", error.text);
}
