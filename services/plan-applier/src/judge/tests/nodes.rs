//! Nodes: registration, heartbeats, missed heartbeats, and deletion.

use std::sync::Arc;

use model::alloc::ClientStatus;
use model::change::{Cause, Change, EvalsChanged, Unblocked};
use model::eval::EvalTrigger;
use model::job::JobType;
use model::node::{Driver, Eligibility, NodeServerSide, NodeSpec, NodeStatus, Secret};
use model::{Index, Nanos, NodeId};
use wire::RefusalKind;
use wire::command::{Command, DeregisterNodes, EvaluateNode, NodeLiveness, RegisterNode, UpdateNodes};

use super::scene::{BOOT, EPOCH, Scene, job_spec, node_spec, patient_service, service};

fn messages(scene: &Scene, node: NodeId) -> Vec<String> {
    scene.whole_node(node).server.events.iter().map(|event| event.message.to_string()).collect()
}

fn register(id: NodeId, spec: NodeSpec) -> Command {
    Command::RegisterNode(Box::new(RegisterNode { epoch: EPOCH, id, spec: Arc::new(spec) }))
}

fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

#[test]
fn a_new_node_initializes() {
    // A new node is initializing and eligible, with an event and a computed class (N-2.4, N-2.9, N-1.6).
    let mut scene = Scene::new();
    let done = scene.register_node(node_id(1), NodeSpec { node_pool: "".into(), ..node_spec() });
    let node = scene.whole_node(node_id(1));
    assert_eq!(
        (node.server.status, node.server.eligibility),
        (NodeStatus::Initializing, Eligibility::Eligible)
    );
    assert_eq!((node.server.create_index, done.object_index), (done.index, done.index));
    assert_eq!(node.server.status_updated_at, scene.now);
    assert_eq!(&*node.spec.node_pool, "default", "N-1.4");
    assert!(node.spec.computed_class.starts_with("v1:"));
    let event = &node.server.events[0];
    assert_eq!((&*event.message, &*event.subsystem), ("Node registered", "Cluster"));
    assert_eq!(event.create_index, done.index);
    assert_eq!(scene.cause(), Some(Cause::NodeRegistration));
}

#[test]
fn required_fields_of_nodes_are_demanded() {
    // A node without a required field is refused (N-2.3).
    let mut scene = Scene::new();
    let lacking = [
        (NodeSpec { datacenter: "".into(), ..node_spec() }, "missing datacenter for client registration"),
        (NodeSpec { name: "".into(), ..node_spec() }, "missing node name for client registration"),
        (
            NodeSpec { attributes: Default::default(), ..node_spec() },
            "missing attributes for client registration",
        ),
        (
            NodeSpec { secret_id: Secret::default(), ..node_spec() },
            "missing node secret ID for client registration",
        ),
        (
            NodeSpec { node_pool: "all".into(), ..node_spec() },
            r#"node is not allowed to register in node pool "all""#,
        ),
        (NodeSpec { node_pool: "a b".into(), ..node_spec() }, r#"invalid node pool name "a b""#),
    ];
    for (spec, text) in lacking {
        assert_eq!(scene.refused(register(node_id(1), spec)), (RefusalKind::Invalid, text.to_owned()));
    }
}

#[test]
fn a_node_is_known_by_its_secret() {
    // A registration with another secret is refused (N-2.6).
    let mut scene = Scene::new();
    let node = scene.node();
    let stranger = NodeSpec { secret_id: Secret("other".into()), ..node_spec() };
    let text = "node secret ID does not match. Not registering node.";
    assert_eq!(scene.refused(register(node, stranger)), (RefusalKind::Conflict, text.to_owned()));
}

#[test]
fn a_node_pool_begins_with_its_first_node() {
    // A registration creates the node pool that it names (N-2.8).
    let mut scene = Scene::new();
    scene.register_node(node_id(1), NodeSpec { node_pool: "gpu".into(), ..node_spec() });
    assert_eq!(scene.state.node_pool("gpu").unwrap().create_index, scene.state.index());
}

#[test]
fn registering_again_keeps_what_the_servers_know() {
    // Registering a known node keeps its status and its server side (N-2.5, N-2.13).
    let mut scene = Scene::new();
    let node = scene.node();
    let before = scene.whole_node(node).server.clone();
    assert!(!scene.register_node(node, node_spec()).written, "the specification is unchanged");
    let done = scene.register_node(node, NodeSpec { boot: BOOT + 1, ..node_spec() });
    let server = scene.whole_node(node).server.clone();
    assert_eq!(server, NodeServerSide { modify_index: done.index, ..before });
    assert_eq!(scene.whole_node(node).spec.boot, BOOT + 1);
    let class = scene.whole_node(node).spec.computed_class.clone();
    let room: Vec<_> = scene.state.unblocked().collect();
    assert_eq!(room, [(&state::UnblockKey::Class(class), done.index)], "N-2.14");
}

#[test]
fn jobs_hear_of_what_may_change_their_placements() {
    // Changed amounts of resources alone create no evaluations; other changes do (N-2.10).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    let mut larger = node_spec();
    larger.resources.memory_mb = 2_000;
    let with_driver = |healthy, seconds| {
        let update_time = model::Timestamp::from_secs(seconds);
        let driver = Driver { detected: true, healthy, update_time, ..Driver::default() };
        NodeSpec { drivers: [("exec".into(), driver)].into(), ..node_spec() }
    };
    let registrations = [
        (larger, 0, "changed amounts require no evaluation"),
        (with_driver(false, 1), 1, "a driver was added"),
        (with_driver(false, 2), 0, "only the time of the check changed"),
        (with_driver(true, 2), 1, "the driver is healthy now"),
        (NodeSpec { node_class: "big".into(), ..with_driver(true, 2) }, 1, "the node class changed"),
    ];
    for (spec, evals, why) in registrations {
        assert_eq!(scene.register_node(node, spec).evals.len(), evals, "{why}");
        scene.complete_pending(&job);
    }
}

#[test]
fn a_node_that_is_down_stays_down_when_it_registers() {
    // A node that is down stays down when it registers, and its jobs are evaluated (N-2.9a, N-2.10).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    scene.missed(&[node]);
    scene.complete_pending(&job);
    let done = scene.register_node(node, NodeSpec { boot: BOOT + 1, ..node_spec() });
    assert_eq!(scene.status(node), NodeStatus::Down);
    assert_eq!(done.evals.len(), 1);
}

#[test]
fn a_fresh_node_is_ready_when_it_is_first_heard_of() {
    // A new node becomes ready with its first heartbeat; system jobs are evaluated and blocked evaluations released (N-3.4,
    // N-3.8, N-3.11).
    let mut scene = Scene::new();
    let logs = scene.register(job_spec("logs", JobType::System));
    scene.complete_pending(&logs);
    scene.register_node(node_id(1), node_spec());
    let done = scene.heard(&[node_id(1)]);
    assert_eq!(scene.status(node_id(1)), NodeStatus::Ready);
    let eval = scene.eval(done.evals[0]);
    assert_eq!((&eval.job, eval.kind, &eval.trigger), (&logs, JobType::System, &EvalTrigger::NodeUpdate));
    assert_eq!((eval.node_id, eval.node_modify_index), (Some(node_id(1)), done.index));
    let class = scene.whole_node(node_id(1)).spec.computed_class.clone();
    let (classes, nodes) = (vec![class], vec![node_id(1)]);
    let unblocked = Unblocked { classes, nodes, ..Unblocked::default() };
    assert!(scene.last().contains(&Change::Unblocked(unblocked)));
}

#[test]
fn hearing_of_a_ready_node_writes_nothing() {
    // A heartbeat of a ready node writes nothing (N-3.9).
    let mut scene = Scene::new();
    let node = scene.node();
    assert!(!scene.heard(&[node]).written);
}

#[test]
fn nodes_that_fail_together_make_one_evaluation_for_each_job() {
    // Nodes that fail in one command make one evaluation for each affected job (N-4.7, N-5.2, N-3.10).
    let mut scene = Scene::new();
    let nodes = [scene.node(), scene.node(), scene.node()];
    let web = scene.register(service("web"));
    let count = scene.register(job_spec("count", JobType::Batch));
    let everywhere = scene.register(job_spec("everywhere", JobType::SysBatch));
    let ended = scene.register(job_spec("ended", JobType::Batch));
    scene.place(&web, &nodes);
    scene.place(&count, &nodes[..1]);
    scene.place(&everywhere, &nodes[..1]);
    let allocs = scene.place(&ended, &nodes[..1]);
    scene.report(nodes[0], &allocs, ClientStatus::Complete);
    scene.complete_pending(&ended);
    let unknown = node_id(200);
    let done = scene.missed(&[nodes[1], nodes[0], unknown]);
    assert_eq!(done.refused_nodes, [unknown]);
    assert_eq!(done.evals.len(), 2);
    assert_eq!(
        (scene.triggers(&web), scene.triggers(&count)),
        (vec![EvalTrigger::NodeUpdate], vec![EvalTrigger::NodeUpdate])
    );
    assert_eq!([scene.triggers(&everywhere).len(), scene.triggers(&ended).len()], [0, 0]);
    for node in &nodes[..2] {
        let server = &scene.whole_node(*node).server;
        assert_eq!((server.status, server.last_missed_heartbeat_index), (NodeStatus::Down, done.index));
        assert_eq!(messages(&scene, *node).last().unwrap(), "Node heartbeat missed");
    }
    assert_eq!(scene.status(nodes[2]), NodeStatus::Ready);
    let one_change = |change: &&Change| matches!(change, Change::NodesChanged(_));
    assert_eq!(scene.last().iter().filter(one_change).count(), 1, "one change for both nodes");
}

#[test]
fn a_later_failure_raises_the_evaluation_that_still_waits() {
    // A pending evaluation of an earlier failure is raised to the new index instead of creating another one (`docs/architecture/agents.md`).
    let mut scene = Scene::new();
    let nodes = [scene.node(), scene.node(), scene.node()];
    let job = scene.register(service("web"));
    scene.place(&job, &nodes);
    let [eval] = scene.missed(&nodes[..1]).evals[..] else { panic!("one evaluation") };
    let done = scene.missed(&nodes[1..2]);
    assert_eq!(done.evals, []);
    assert_eq!(scene.eval(eval).modify_index, done.index);
    let raised = EvalsChanged { ids: vec![eval], ..EvalsChanged::default() };
    assert!(scene.last().contains(&Change::EvalsChanged(raised)));
    scene.complete_pending(&job);
    assert_eq!(scene.missed(&nodes[2..]).evals.len(), 1, "no evaluation is pending");
}

#[test]
fn a_node_that_comes_back_from_the_dead_is_ready_at_once() {
    // A node that is down becomes ready with its next heartbeat (N-3.7).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    scene.missed(&[node]);
    scene.complete_pending(&job);
    let done = scene.heard(&[node]);
    assert_eq!((scene.status(node), done.evals.len()), (NodeStatus::Ready, 1));
    assert_eq!(messages(&scene, node).last().unwrap(), "Node reregistered by heartbeat");
    assert_eq!(scene.whole_node(node).server.last_missed_heartbeat_index, Index::ZERO);
}

#[test]
fn a_node_stays_disconnected_until_every_allocation_has_run_out_of_time() {
    // A disconnected node goes down once all its allocations have exceeded `lost_after` (N-4.8, N-4.9, N-4.10).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(patient_service("web"));
    let allocs = scene.place(&job, &[node]);
    scene.missed(&[node]);
    let mut plan = scene.plan(&job);
    plan.updates = vec![model::plan::Updates {
        ids: allocs.iter().copied().collect(),
        change: model::plan::Update::Unknown { followup_eval: None },
    }];
    scene.submit(plan);
    assert_eq!(scene.alloc(allocs[0]).client_status, ClientStatus::Unknown);
    scene.wait(Nanos::from_secs(59));
    assert!(!scene.missed(&[node]).written, "the allocation has a second left");
    scene.wait(Nanos::from_secs(1));
    let done = scene.missed(&[node]);
    assert_eq!((scene.status(node), done.evals.len()), (NodeStatus::Down, 1));
    let missed = scene.whole_node(node).server.last_missed_heartbeat_index;
    assert!(missed.is_set() && missed < done.index, "the index of the first miss is kept");
}

#[test]
fn terminal_allocs_give_their_node_no_time() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(patient_service("web"));
    let allocs = scene.place(&job, &[node]);
    scene.report(node, &allocs, ClientStatus::Complete);
    scene.missed(&[node]);
    assert_eq!(scene.status(node), NodeStatus::Down);
}

#[test]
fn a_node_that_is_not_ready_yet_is_given_no_time() {
    // An initializing node that misses its heartbeat goes down, never back to disconnected (N-4.10).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(patient_service("web"));
    scene.place(&job, &[node]);
    scene.missed(&[node]);
    scene.heard(&[node]);
    scene.missed(&[node]);
    assert_eq!(scene.status(node), NodeStatus::Down);
}

#[test]
fn missing_a_node_that_is_down_only_wakes_its_jobs() {
    // A repeated miss of a node that is down creates evaluations and writes nothing else (N-3.8, N-3.9).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    scene.missed(&[node]);
    scene.complete_pending(&job);
    let modified = scene.whole_node(node).server.modify_index;
    assert_eq!(scene.missed(&[node]).evals.len(), 1);
    assert_eq!(scene.whole_node(node).server.modify_index, modified);
}

#[test]
fn of_a_nodes_events_the_newest_ten_are_kept() {
    // A node keeps its ten newest events (N-1.8).
    let mut scene = Scene::new();
    let node = scene.node();
    for _ in 0..8 {
        scene.missed(&[node]);
        scene.heard(&[node]);
    }
    assert_eq!(messages(&scene, node).len(), 10);
}

#[test]
fn system_jobs_are_told_of_nodes_that_are_theirs() {
    // A system job is evaluated for nodes of its datacenters and node pool, unless it is stopped (N-5.2).
    let mut scene = Scene::new();
    let mut elsewhere = job_spec("elsewhere", JobType::System);
    elsewhere.datacenters = vec!["eu-*".into()];
    let mut all = job_spec("all", JobType::System);
    all.node_pool = "all".into();
    let stopped = model::job::JobSpec { stop: true, ..job_spec("stopped", JobType::System) };
    let keys = [elsewhere, all, stopped].map(|spec| scene.register(spec));
    keys.iter().for_each(|key| scene.complete_pending(key));
    scene.register_node(node_id(1), NodeSpec { node_pool: "gpu".into(), ..node_spec() });
    scene.heard(&[node_id(1)]);
    assert_eq!(keys.each_ref().map(|key| scene.pending(key).len()), [0, 1, 0]);
}

#[test]
fn forgetting_nodes_tells_their_jobs() {
    // Deleting nodes evaluates the jobs with allocations on them, and system jobs (N-11.1).
    let mut scene = Scene::new();
    let logs = scene.register(job_spec("logs", JobType::System));
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node]);
    scene.complete_pending(&logs);
    let forget = |nodes: &[NodeId]| Command::DeregisterNodes(DeregisterNodes { nodes: nodes.to_vec() });
    let text = "node not found".to_owned();
    assert_eq!(scene.refused(forget(&[node, node_id(9)])), (RefusalKind::NotFound, text));
    assert_eq!(scene.refused(forget(&[])).0, RefusalKind::Invalid);
    assert_eq!(scene.done(forget(&[node])).evals.len(), 2);
    assert!(scene.state.node(node).is_none());
    assert_eq!(scene.alloc(allocs[0]).node_id, node, "the scheduler marks it as lost");
    assert_eq!(
        [scene.triggers(&job), scene.triggers(&logs)],
        [[EvalTrigger::NodeUpdate], [EvalTrigger::NodeUpdate]]
    );
}

#[test]
fn the_jobs_of_a_node_are_looked_at_on_request() {
    // The API can request evaluations of a node's jobs (http-api §17).
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    scene.place(&job, &[node]);
    scene.complete_pending(&job);
    let evaluate = |node| Command::EvaluateNode(EvaluateNode { node });
    assert_eq!(scene.done(evaluate(node)).evals.len(), 1);
    assert_eq!(scene.triggers(&job), [EvalTrigger::NodeUpdate]);
    assert_eq!(scene.refused(evaluate(node_id(9))), (RefusalKind::NotFound, "node not found".to_owned()));
}

#[test]
fn only_the_active_tracker_speaks_of_nodes() {
    // Commands with an old epoch are refused (`docs/architecture/leases.md`).
    let mut scene = Scene::new();
    let node = scene.node();
    let epoch = model::Epoch(0);
    let update = UpdateNodes { epoch, sign: NodeLiveness::Missed, nodes: vec![node] };
    assert_eq!(scene.refused(Command::UpdateNodes(update)).0, RefusalKind::Deposed);
    let register = RegisterNode { epoch, id: node, spec: Arc::new(node_spec()) };
    assert_eq!(scene.refused(Command::RegisterNode(Box::new(register))).0, RefusalKind::Deposed);
}
