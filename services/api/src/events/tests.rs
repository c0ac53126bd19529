//! Tests of the events of a change set, and of topic matching.

use std::sync::Arc;

use model::change::{Cause, Change, ChangeSet};
use model::cluster::{Namespace, NodePool};
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Job, JobSpec, JobType};
use model::{EvalId, Index, JobKey, RequestId};
use state::SingleSet;

use super::line::Line;
use super::recent::Changed;
use super::shape::{Event, changed_objects, event};
use super::topics::Topics;
use crate::http::Query;
use crate::shapes::services::tests::web;
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

/// The events of a change set that match.
fn events(step: &SingleSet, topics: &Topics) -> Vec<Event> {
    changed_objects(&step.set).iter().filter_map(|object| event(step, topics, object)).collect()
}

fn payload(event: &Event) -> serde_json::Value {
    serde_json::to_value(&event.payload).unwrap()
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
    assert_eq!(payload(&found[0])["Evaluation"]["JobID"], "web");
}

#[test]
fn a_small_object_has_events_if_its_kind_has_a_topic() {
    let step = step(Cause::NodePoolUpserted, |_| {
        let pool = NodePool { name: "gpu".into(), ..NodePool::default() };
        let namespace = Namespace { name: "gpu".into(), ..Namespace::default() };
        vec![Change::NodePool(Box::new(pool)), Change::Namespace(Box::new(namespace))]
    });
    assert_eq!(described(&step, ""), ["NodePool NodePoolUpserted gpu"]);
    assert_eq!(payload(&events(&step, &topics(""))[0])["NodePool"]["Name"], "gpu");
}

#[test]
fn services_have_events_of_their_own_types() {
    // http-api §26.3
    let put = step(Cause::AllocationUpdated, |_| vec![Change::ServiceRegistration(Box::new(web(1)))]);
    let id = web(1).key.id;
    for query in ["", "topic=Service:web", "topic=Service:shop", &format!("topic=Service:{id}")] {
        assert_eq!(described(&put, query), [format!("Service ServiceRegistration {id}")], "{query}");
    }
    assert_eq!(described(&put, "topic=Service&namespace=other"), [""; 0]);
    let found = events(&put, &topics(""));
    assert_eq!(found[0].namespace, "default");
    assert_eq!(found[0].filter_keys, Some(vec!["shop".to_owned(), "web".to_owned()]));
    assert_eq!(payload(&found[0])["Service"]["ServiceName"], "web");
    let key = web(1).key;
    let before = testing::state_of(vec![Change::ServiceRegistration(Box::new(web(1)))]);
    let set = ChangeSet {
        cause: Cause::NodeStatus,
        ..testing::set(3, vec![Change::ServiceRegistrationDeleted(key)])
    };
    let mut after = before.clone();
    after.apply(&set).unwrap();
    let gone = SingleSet { before: before.into(), set: set.into(), after: after.into() };
    assert_eq!(described(&gone, "topic=Service"), [format!("Service ServiceDeregistration {id}")]);
    assert_eq!(payload(&events(&gone, &topics(""))[0])["Service"]["Port"], 8001);
}

#[test]
fn deleted_objects_are_shown_as_they_were() {
    let step = step(Cause::JobDeregistered, |key| vec![Change::JobDeleted(key.clone())]);
    let found = events(&step, &topics(""));
    assert_eq!((found.len(), found[0].kind), (1, "JobDeregistered"));
    assert_eq!(payload(&found[0])["Deleted"], true);
    assert_eq!(payload(&found[0])["Job"]["ID"], "web");
}

/// A change set with so many evaluations of the job `web`.
fn many_evals(count: u32) -> SingleSet {
    step(Cause::JobRegistered, |key| {
        let eval = |number: u32| {
            let id = EvalId::derived(RequestId::from_bytes([7; 16]), number);
            let eval = Evaluation::new(id, key.clone(), JobType::Service, 50, EvalTrigger::JobRegister);
            Change::Eval(Arc::new(eval))
        };
        (0..count).map(eval).collect()
    })
}

/// The pieces of the line of a change set.
fn pieces(step: &SingleSet, query: &str) -> Vec<Vec<u8>> {
    let changed = Changed { one: step.clone(), objects: changed_objects(&step.set).into() };
    let (mut line, topics) = (Line::new(changed), topics(query));
    std::iter::from_fn(|| line.next_piece(&topics)).collect()
}

#[test]
fn a_long_line_is_written_in_short_pieces() {
    const EVALS: u32 = 3_000;
    let pieces = pieces(&many_evals(EVALS), "");
    assert!(pieces.len() > 10 && pieces.iter().all(|piece| piece.len() < 80 << 10));
    let text = String::from_utf8(pieces.concat()).unwrap();
    assert_eq!((text.lines().count(), text.ends_with("]}\n")), (1, true));
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["Index"], 3);
    assert_eq!(line["Events"].as_array().unwrap().len(), EVALS as usize);
    assert_eq!(line["Events"][7]["Type"], "JobRegistered");
}

#[test]
fn without_a_matching_event_there_is_no_line() {
    let pieces = pieces(&many_evals(2_000), "topic=Evaluation:other");
    assert!(pieces.len() > 3 && pieces.concat().is_empty(), "other requests run in between");
}

#[test]
fn a_request_has_a_thousand_topics_at_most() {
    let read = |count| Topics::read(&Query::parse("", &"topic=Job&".repeat(count)));
    assert!(read(1_000).is_ok());
    assert_eq!(read(1_001).unwrap_err().status, 400);
}

#[test]
fn a_topic_has_one_key_at_most() {
    let error = Topics::read(&Query::parse("", "topic=Job:a:b")).unwrap_err();
    assert!(error.status == 400 && error.text.starts_with("Invalid topic query: "), "{}", error.text);
}
