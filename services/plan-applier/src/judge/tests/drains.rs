//! Drains of nodes: their start, changes, and end; what they mark.

use std::collections::BTreeMap;

use model::alloc::{ClientStatus, DesiredTransition};
use model::change::Cause;
use model::eval::EvalTrigger;
use model::job::JobType;
use model::node::{DrainSpec, DrainStatus, Eligibility, LastDrain, NodeEvent};
use model::{AllocId, Epoch, Nanos, NodeId, Text, Timestamp};
use wire::RefusalKind;
use wire::command::{Command, CompleteDrains, DrainAllocs, DrainEnd, DrainOwnNode, UpdateDrain};

use super::scene::{EPOCH, Scene, job_spec, service};

const MINUTE: Nanos = Nanos::from_mins(1);
const SPEC: DrainSpec = DrainSpec { deadline: MINUTE, ignore_system_jobs: false };

fn meta(message: &str) -> BTreeMap<Text, Text> {
    if message.is_empty() { BTreeMap::new() } else { BTreeMap::from([("message".into(), message.into())]) }
}

fn update(node: NodeId, drain: Option<DrainSpec>, mark_eligible: bool, message: &str) -> Command {
    let accessor_id = "token:acls-disabled".into();
    Command::UpdateDrain(UpdateDrain { node, drain, mark_eligible, meta: meta(message), accessor_id })
}

fn start(node: NodeId) -> Command {
    update(node, Some(SPEC), false, "")
}

fn cancel(node: NodeId, mark_eligible: bool) -> Command {
    update(node, None, mark_eligible, "")
}

fn mark(allocs: &[AllocId]) -> Command {
    Command::DrainAllocs(DrainAllocs { epoch: EPOCH, allocs: allocs.to_vec() })
}

fn complete(node: NodeId, deadline_reached: bool) -> Command {
    Command::CompleteDrains(CompleteDrains {
        epoch: EPOCH,
        drains: vec![DrainEnd { node, deadline_reached }],
    })
}

fn event(scene: &Scene, node: NodeId) -> NodeEvent {
    scene.whole_node(node).server.events.last().cloned().expect("the node has events")
}

fn last_drain(scene: &Scene, node: NodeId) -> LastDrain {
    scene.whole_node(node).server.last_drain.clone().expect("the node has been drained")
}

fn transition(scene: &Scene, alloc: AllocId) -> DesiredTransition {
    scene.alloc(alloc).desired_transition
}

const MIGRATES: DesiredTransition = DesiredTransition {
    migrate: Some(true),
    reschedule: None,
    force_reschedule: None,
    no_shutdown_delay: None,
    migrate_disable_placement: None,
};

#[test]
fn a_node_that_drains_gets_no_new_work() {
    // A drain makes its node ineligible, with a record and an event; it makes no evaluations (N-9.2 to N-9.6).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    scene.wait(MINUTE);
    let done = scene.done(update(node, Some(SPEC), true, "repairs"));
    assert_eq!((done.evals, done.object_index), (vec![], scene.state.index()));
    assert_eq!(scene.cause(), Some(Cause::NodeDrain));
    let server = &scene.whole_node(node).server;
    assert_eq!(server.eligibility, Eligibility::Ineligible);
    assert_eq!(server.status_updated_at, scene.now);
    let drain = server.drain.expect("the node drains");
    assert_eq!((drain.started_at, drain.force_deadline), (scene.now, scene.now + MINUTE));
    let last = last_drain(&scene, node);
    assert_eq!(
        (last.status, last.started_at, last.updated_at),
        (DrainStatus::Draining, scene.now, scene.now)
    );
    assert_eq!((&*last.accessor_id, last.meta), ("token:acls-disabled", meta("repairs")));
    let event = event(&scene, node);
    assert_eq!((&*event.subsystem, &*event.message), ("Drain", "Node drain strategy set"));
}

#[test]
fn a_drain_that_changes_keeps_its_beginning() {
    // The deadline counts from the change; the record keeps its metadata unless there is new one (N-9.3, N-9.6).
    let mut scene = Scene::new();
    let node = scene.node();
    scene.done(update(node, Some(SPEC), false, "repairs"));
    let begun = scene.now;
    scene.wait(MINUTE);
    let forced = DrainSpec { deadline: Nanos(-1), ignore_system_jobs: true };
    scene.done(update(node, Some(forced), false, ""));
    let drain = scene.whole_node(node).server.drain.expect("the node drains");
    assert_eq!((drain.started_at, drain.force_deadline), (begun, Timestamp::UNSET));
    assert!(drain.ignore_system_jobs && drain.due() == Some(Timestamp::UNSET));
    let last = last_drain(&scene, node);
    assert_eq!((last.started_at, last.updated_at, last.meta), (begun, scene.now, meta("repairs")));
    assert_eq!(&*event(&scene, node).message, "Node drain strategy updated");
    let none = DrainSpec::default();
    scene.done(update(node, Some(none), false, "more repairs"));
    assert_eq!(last_drain(&scene, node).meta, meta("more repairs"));
    assert_eq!(scene.whole_node(node).server.drain.and_then(|drain| drain.due()), None, "it has no deadline");
}

#[test]
fn a_cancelled_drain_leaves_its_node_ineligible_unless_asked() {
    // Only with the mark, the node may get work again, and its jobs are evaluated (N-9.4, N-9.7).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    scene.done(start(node));
    assert_eq!(scene.done(cancel(node, false)).evals, []);
    assert_eq!(last_drain(&scene, node).status, DrainStatus::Canceled);
    assert_eq!(&*event(&scene, node).message, "Node drain disabled");
    assert!(!scene.whole_node(node).is_ready() && scene.whole_node(node).server.drain.is_none());

    scene.done(start(node));
    assert_eq!(scene.done(cancel(node, true)).evals.len(), 1);
    assert_eq!(scene.triggers(&job), [EvalTrigger::NodeUpdate]);
    assert!(scene.whole_node(node).is_ready());
    let room: Vec<_> = scene.state.unblocked().map(|(_, index)| index).collect();
    assert_eq!(room, [scene.state.index()], "evaluations may be blocked on the class");
}

#[test]
fn without_a_drain_there_is_nothing_to_cancel() {
    // It is accepted all the same, and changes no record (N-9.6, http-api §17).
    let mut scene = Scene::new();
    let node = scene.node();
    let before = scene.whole_node(node).server.clone();
    for mark_eligible in [false, true] {
        let done = scene.done(cancel(node, mark_eligible));
        assert_eq!((done.written, done.object_index), (false, before.modify_index));
    }
    assert_eq!(scene.whole_node(node).server, before);
    let nobody = NodeId::from_bytes([7; 16]);
    assert_eq!(scene.refused(start(nobody)), (RefusalKind::NotFound, "node not found".to_owned()));
}

#[test]
fn an_agent_that_ends_drains_its_own_node() {
    // The record says who asked, and why (N-10.13).
    let mut scene = Scene::new();
    let node = scene.node();
    scene.done(Command::DrainOwnNode(DrainOwnNode { epoch: EPOCH, node, drain: SPEC }));
    let last = last_drain(&scene, node);
    assert_eq!((last.accessor_id.to_string(), last.meta), (format!("client:{node}"), meta("shutting down")));
    let old = Command::DrainOwnNode(DrainOwnNode { epoch: Epoch(0), node, drain: SPEC });
    assert_eq!(scene.refused(old).0, RefusalKind::Deposed);
}

#[test]
fn only_allocations_on_draining_nodes_are_marked() {
    // Each job gets one evaluation; what is marked already is not marked again (N-10.9).
    let mut scene = Scene::new();
    let (draining, other) = (scene.node(), scene.node());
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[draining, other, draining]);
    scene.done(start(draining));
    let done = scene.done(mark(&allocs));
    assert_eq!((done.evals.len(), scene.cause()), (1, Some(Cause::AllocTransition)));
    assert_eq!(scene.triggers(&job), [EvalTrigger::NodeDrain]);
    let found = allocs.iter().map(|id| transition(&scene, *id));
    assert_eq!(found.collect::<Vec<_>>(), [MIGRATES, DesiredTransition::default(), MIGRATES]);
    assert_eq!(scene.alloc(allocs[0]).alloc_modify_index, scene.state.index());
    assert!(!scene.done(mark(&allocs)).written);
    let old = Command::DrainAllocs(DrainAllocs { epoch: Epoch(0), allocs });
    assert_eq!(scene.refused(old).0, RefusalKind::Deposed);
}

#[test]
fn a_drain_is_complete_when_only_system_jobs_are_left() {
    // They are marked at the end (N-10.3, N-10.4).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node]);
    let system = scene.register(job_spec("logs", JobType::System));
    let left = scene.place(&system, &[node]);
    scene.done(start(node));
    assert!(!scene.done(complete(node, false)).written, "the service still runs");
    assert!(!scene.done(complete(node, true)).written, "the deadline has not passed");
    scene.report(node, &allocs, ClientStatus::Complete);
    scene.wait(MINUTE);
    scene.done(complete(node, false));
    assert_eq!(scene.cause(), Some(Cause::NodeDrain));
    let server = &scene.whole_node(node).server;
    assert_eq!((server.drain, server.eligibility), (None, Eligibility::Ineligible));
    let last = last_drain(&scene, node);
    assert_eq!((last.status, last.updated_at), (DrainStatus::Complete, scene.now));
    let event = event(&scene, node);
    assert_eq!((&*event.message, event.details.len()), ("Node drain complete", 0));
    assert_eq!(transition(&scene, left[0]), MIGRATES);
    assert_eq!(scene.triggers(&system), [EvalTrigger::NodeDrain]);
    assert!(!scene.done(complete(node, false)).written, "it is over");
}

#[test]
fn the_deadline_ends_a_drain_with_all_that_is_left() {
    // Batch work is not run elsewhere; system jobs stay if the drain ignores them (N-10.9, N-10.11).
    let mut scene = Scene::new();
    let node = scene.node();
    let placed = [JobType::Service, JobType::Batch, JobType::System].map(|kind| {
        let job = scene.register(job_spec(kind.as_str(), kind));
        (scene.place(&job, &[node])[0], job)
    });
    let drain = DrainSpec { deadline: MINUTE, ignore_system_jobs: true };
    scene.done(update(node, Some(drain), false, ""));
    scene.wait(MINUTE);
    let done = scene.done(complete(node, true));
    assert_eq!(done.evals.len(), 2);
    let found = placed.each_ref().map(|(alloc, job)| (transition(&scene, *alloc), scene.triggers(job)));
    let ends = DesiredTransition { migrate_disable_placement: Some(true), ..MIGRATES };
    let drained = vec![EvalTrigger::NodeDrain];
    let expected = [(MIGRATES, drained.clone()), (ends, drained), (DesiredTransition::default(), vec![])];
    assert_eq!(found, expected);
    let event = event(&scene, node);
    assert_eq!(event.details, BTreeMap::from([("deadline_reached".into(), "true".into())]));
    assert!(scene.whole_node(node).server.drain.is_none());
}
