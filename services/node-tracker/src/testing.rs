//! A small cluster for tests: nodes, jobs and allocations named by numbers, and changes that move its state on.

use std::sync::Arc;

use model::alloc::{AllocCommon, AllocMetric, AllocatedResources, PackedAssigned, PackedMetric};
use model::change::{Cause, Change, ChangeSet};
use model::job::{Job, JobSpec};
use model::node::{Node, NodeServerSide, NodeSpec, NodeStatus, Secret};
use model::plan::{Placement, Placements};
use model::{AllocId, EvalId, HistoryId, Index, NodeId, RequestId, Timestamp};
use state::{Replica, State};

pub(crate) fn node(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

pub(crate) fn alloc(number: u8) -> AllocId {
    AllocId::from_bytes([number; 16])
}

pub(crate) fn secret(number: u8) -> Secret {
    Secret(format!("secret {number}").into())
}

/// The node's registration in the first boot of its agent.
pub(crate) fn node_spec(number: u8) -> NodeSpec {
    NodeSpec {
        name: format!("node-{number}").into(),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        secret_id: secret(number),
        boot: 1,
        ..NodeSpec::default()
    }
}

pub(crate) fn ready(number: u8) -> Change {
    let server = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
    Change::Node(Box::new(Node { id: node(number), spec: Arc::new(node_spec(number)), server }))
}

/// A job whose encoded form has slightly more than `bytes` bytes.
pub(crate) fn job(number: u8, bytes: usize) -> Job {
    let id = format!("job-{number}");
    let spec = JobSpec {
        namespace: "default".into(),
        name: id.as_str().into(),
        id: id.into(),
        meta: [("filler".into(), "x".repeat(bytes).into())].into(),
        ..JobSpec::default()
    };
    Job { spec: Arc::new(spec), create_index: Index(1), ..Job::default() }
}

/// Allocations of one placement, each given as its number and the number of its node.
pub(crate) fn placed(job: &Job, on: impl IntoIterator<Item = (u8, u8)>) -> Change {
    let common = AllocCommon {
        name_stem: format!("{}.group", job.spec.id).into(),
        job: job.version_key(),
        task_group: "group".into(),
        eval_id: EvalId::from_bytes([1; 16]),
        deployment_id: None,
        resources: AllocatedResources::default(),
        metrics: PackedMetric::pack(&AllocMetric { nodes_evaluated: 7, ..AllocMetric::default() }),
        trace: None,
    };
    let mut placements = Placements::new(Arc::new(common));
    for (number, on) in on {
        let known = placements.nodes.iter().position(|known| *known == node(on));
        let node_position = match known {
            Some(position) => position as u32,
            None => placements.add_node(node(on)),
        };
        placements.push(Placement {
            id: alloc(number),
            node: node_position,
            name_index: number.into(),
            previous: None,
            assigned: PackedAssigned::default(),
            reschedule: None,
            preempted: Vec::new(),
        });
    }
    Change::AllocsPlaced(Box::new(placements))
}

/// Commits changes to a replica at the next index.
pub(crate) fn commit(replica: &Replica, changes: Vec<Change>) -> Index {
    let set = following(&replica.snapshot(), changes);
    let index = set.index;
    replica.apply(vec![Arc::new(set)]).unwrap();
    index
}

pub(crate) fn following(state: &State, changes: Vec<Change>) -> ChangeSet {
    ChangeSet {
        index: state.index().next(),
        at: Timestamp::from_secs(1_700_000_000),
        request_id: RequestId::from_bytes([1; 16]),
        cause: Cause::PlanResult,
        trace: None,
        result: Vec::new(),
        changes,
    }
}

/// A state after some change sets, at consecutive indexes.
pub(crate) fn state(sets: impl IntoIterator<Item = Vec<Change>>) -> State {
    let mut state = State::new(HistoryId::default(), crate::SCOPE);
    for changes in sets {
        let set = following(&state, changes);
        state.apply(&set).unwrap();
    }
    state
}
