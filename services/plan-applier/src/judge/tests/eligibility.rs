//! Eligibility of nodes for new allocations.

use model::eval::EvalTrigger;
use model::node::{Drain, Eligibility, NodeServerSide};
use model::{Index, NodeId};
use wire::RefusalKind;
use wire::command::{Command, Done, MarkRejectedNode, SetEligibility};

use super::scene::{Scene, service};

fn set(node: NodeId, eligibility: Eligibility) -> Command {
    Command::SetEligibility(SetEligibility { node, eligibility })
}

fn last_event(scene: &Scene, node: NodeId) -> String {
    scene.whole_node(node).server.events.last().map(|event| event.message.to_string()).unwrap_or_default()
}

#[test]
fn a_node_that_may_get_work_again_has_its_jobs_looked_at() {
    // Setting the eligibility writes a node event, and evaluates the node's jobs when it becomes eligible (N-9.9).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    let done = scene.done(set(node, Eligibility::Ineligible));
    assert_eq!((done.evals, done.object_index), (vec![], scene.state.index()));
    assert!(!scene.state.node(node).unwrap().is_ready());
    assert_eq!(last_event(&scene, node), "Node marked as ineligible for scheduling");

    let done = scene.done(set(node, Eligibility::Eligible));
    assert_eq!((done.evals.len(), scene.triggers(&job)), (1, vec![EvalTrigger::NodeUpdate]));
    assert_eq!(last_event(&scene, node), "Node marked as eligible for scheduling");
    assert_eq!(scene.whole_node(node).server.modify_index, scene.state.index());
    let room: Vec<Index> = scene.state.unblocked().map(|(_, index)| index).collect();
    assert_eq!(room, [scene.state.index()], "evaluations may be blocked on the class");
}

#[test]
fn an_unchanged_eligibility_is_not_written() {
    let mut scene = Scene::new();
    let node = scene.node();
    let Done { written, object_index, .. } = scene.done(set(node, Eligibility::Eligible));
    assert_eq!((written, object_index), (false, scene.whole_node(node).server.modify_index));
}

#[test]
fn a_node_that_drains_and_one_that_is_not_there_are_refused() {
    let mut scene = Scene::new();
    let node = scene.node();
    let server = NodeServerSide {
        drain: Some(Drain::default()),
        eligibility: Eligibility::Ineligible,
        ..scene.whole_node(node).server.clone()
    };
    let drains = model::change::Change::NodeServerSide { id: node, server: Box::new(server) };
    scene.commit(model::change::Cause::Settings, vec![drains]);
    let (kind, text) = scene.refused(set(node, Eligibility::Eligible));
    assert_eq!(kind, RefusalKind::Invalid);
    assert_eq!(text, "can not set node's scheduling eligibility to eligible while it is draining");
    let nobody = NodeId::from_bytes([7; 16]);
    assert_eq!(scene.refused(set(nobody, Eligibility::Eligible)).0, RefusalKind::NotFound);
}

#[test]
fn a_node_on_which_plans_are_rejected_gets_no_new_work() {
    //
    let mut scene = Scene::new();
    let node = scene.node();
    let mark = || Command::MarkRejectedNode(MarkRejectedNode { node });
    let done = scene.done(mark());
    assert_eq!((done.evals.len(), done.object_index), (0, scene.state.index()));
    assert_eq!(scene.whole_node(node).server.eligibility, Eligibility::Ineligible);
    let text = "Node marked as ineligible for scheduling due to multiple plan rejections";
    assert_eq!(last_event(&scene, node), text);
    assert!(!scene.done(mark()).written, "it is marked already");
    let none = Command::MarkRejectedNode(MarkRejectedNode { node: NodeId::from_bytes([9; 16]) });
    assert_eq!(scene.refused(none).0, RefusalKind::NotFound);
}
