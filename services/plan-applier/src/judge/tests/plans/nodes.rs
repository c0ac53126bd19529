//! Which nodes can take which parts of a plan.

use std::sync::Arc;

use model::alloc::{ClientStatus, DesiredStatus};
use model::change::{Cause, Change};
use model::columns::AllocIds;
use model::job::{AccessMode, DisconnectStrategy, JobSpec, VolumeKind, VolumeRequest};
use model::node::{Eligibility, NodeServerSide, NodeSpec};
use model::plan::{Plan, Update, Updates};
use model::{AllocId, Index, JobKey, NodeId};
use wire::command::{Command, EvaluateJob, PlanVerdict, REJECTED_NODES_MAX};

use super::super::scene::{Scene, node_spec, patient_service, service};
use super::{cores, port, stops, with_port};

/// A plan that places one allocation on each node, for another evaluation of the job.
fn placing(scene: &mut Scene, job: &JobKey, nodes: &[NodeId]) -> Plan {
    scene.complete_pending(job);
    scene.done(Command::EvaluateJob(EvaluateJob { job: job.clone(), force_reschedule: false }));
    let mut plan = scene.plan(job);
    if !nodes.is_empty() {
        plan.placements = vec![scene.placements(&plan, nodes)];
    }
    plan
}

fn updating(scene: &mut Scene, job: &JobKey, allocs: &[AllocId], change: Update) -> Plan {
    let plan = placing(scene, job, &[]);
    Plan { updates: vec![Updates { ids: allocs.iter().copied().collect(), change }], ..plan }
}

#[test]
fn a_node_takes_what_fits_and_no_more() {
    // The sum of the allocations on a node must not exceed its capacity.
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let plan = placing(&mut scene, &job, &[node; 10]);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole, "usage may equal capacity");
    let plan = placing(&mut scene, &job, &[node]);
    let result = scene.submit(plan.clone());
    assert_eq!((result.verdict, result.rejected_nodes), (PlanVerdict::Nothing, vec![node]));
    // A rejected plan gets a refresh index.
    assert_eq!(result.refresh_index, scene.eval(plan.eval_id).modify_index);
    assert_eq!(scene.state.alloc_count(), 10);
}

#[test]
fn each_amount_is_looked_at() {
    // CPU, memory and disk must all fit.
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let plan = placing(&mut scene, &job, &[node]);
    let common = scene.common(&plan);
    let too_much: [fn(&mut model::alloc::AllocCommon); 3] = [
        |common| common.resources.tasks[0].cpu_mhz = 1_001,
        |common| common.resources.tasks[0].memory_mb = 1_001,
        |common| common.resources.disk_mb = 1_001,
    ];
    for raise in too_much {
        let mut common = common.clone();
        raise(&mut common);
        let mut plan = plan.clone();
        plan.placements[0].common = Arc::new(common);
        assert_eq!(scene.submit(plan).verdict, PlanVerdict::Nothing);
    }
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn a_node_may_take_a_certain_number_only() {
    // A node may have a maximum number of allocations.
    let mut scene = Scene::new();
    let node = scene.node();
    scene.register_node(node, NodeSpec { max_allocs: 1, ..node_spec() });
    let job = scene.register(service("web"));
    let plan = placing(&mut scene, &job, &[node, node]);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Nothing);
    let allocs = scene.place(&job, &[node]);
    let mut plan = placing(&mut scene, &job, &[node]);
    assert_eq!(scene.submit(plan.clone()).verdict, PlanVerdict::Nothing);
    plan.stops = vec![stops(&allocs)];
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn stopped_allocs_make_room_for_a_plan() {
    // Allocations that are stopped, by this plan or before, do not count.
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node; 10]);
    let mut plan = placing(&mut scene, &job, &[node; 2]);
    // An allocation that is named twice frees its resources once.
    plan.stops = vec![stops(&allocs[..1]), stops(&allocs[..1])];
    assert_eq!(scene.submit(plan.clone()).verdict, PlanVerdict::Nothing);
    plan.stops = vec![stops(&allocs[..2])];
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    let plan = placing(&mut scene, &job, &[]);
    scene.submit(Plan { stops: vec![stops(&allocs[2..3])], ..plan });
    assert_eq!(
        scene.alloc(allocs[2]).client_status,
        ClientStatus::Pending,
        "the agent has not reported its end"
    );
    let plan = placing(&mut scene, &job, &[node]);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn only_what_a_plan_may_take_away_makes_room() {
    let mut scene = Scene::new();
    let [node, other] = [scene.node(), scene.node()];
    let low = scene.register(service("low"));
    let theirs = scene.place(&low, &[node; 10]);
    let job = scene.register(service("web"));
    let ours = scene.place(&job, &[other]);
    let mut plan = placing(&mut scene, &job, &[node]);
    let stopping = Plan { stops: vec![stops(&theirs)], ..plan.clone() };
    assert_eq!(
        scene.submit(stopping).verdict,
        PlanVerdict::Nothing,
        "a plan stops only allocations of its own job"
    );
    plan.placements[0].preempted = vec![ours];
    assert_eq!(
        scene.submit(plan.clone()).verdict,
        PlanVerdict::Nothing,
        "a plan does not evict allocations of its own job"
    );
    plan.placements[0].preempted = vec![theirs[..1].to_vec()];
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn nodes_that_fit_are_taken_without_those_that_do_not() {
    // A rejected node makes the plan partial, with a refresh index; the other nodes' content is kept (R-3.16, R-3.29,
    //
    let mut scene = Scene::new();
    let nodes = [scene.node(), scene.node(), scene.node()];
    let job = scene.register(service("web"));
    let there = scene.place(&job, &[nodes[0]]);
    let gone = NodeId::from_bytes([200; 16]);
    let mut on: Vec<NodeId> = vec![nodes[0]; 11];
    on.extend([nodes[1], gone, nodes[2], nodes[1]]);
    let mut plan = placing(&mut scene, &job, &on);
    plan.stops = vec![stops(&there)];
    let ids = plan.placements[0].ids.0.clone();
    let result = scene.submit(plan);
    assert_eq!((result.verdict, result.refresh_index), (PlanVerdict::Part, scene.state.index()));
    assert_eq!(result.rejected_nodes, [nodes[0], gone]);
    let placed = |id: &AllocId| scene.state.alloc(*id).map(|alloc| (alloc.node_id(), alloc.name_index()));
    let placed: Vec<_> = ids.iter().filter_map(placed).collect();
    assert_eq!(placed, [(nodes[1], Some(11)), (nodes[2], Some(13)), (nodes[1], Some(14))]);
    let desired = scene.alloc(there[0]).desired_status;
    assert_eq!(desired, DesiredStatus::Run, "nothing of the plan is applied on a rejected node");
}

#[test]
fn a_refused_node_still_loses_allocs_that_are_replaced_elsewhere() {
    // A job never has more live allocations than its count (`docs/architecture/evaluations.md`).
    let mut scene = Scene::new();
    let [full, free] = [scene.node(), scene.node()];
    let job = scene.register(service("web"));
    let there = scene.place(&job, &[full, full]);
    let mut plan = placing(&mut scene, &job, &[free]);
    plan.placements[0].previous = there[..1].iter().copied().collect();
    plan.placements.push(scene.placements(&plan, &[full; 11]));
    plan.stops = vec![stops(&there)];
    assert_eq!(scene.submit(plan).rejected_nodes, [full]);
    let desired = |n: usize| scene.alloc(there[n]).desired_status;
    assert_eq!([desired(0), desired(1)], [DesiredStatus::Stop, DesiredStatus::Run]);
}

#[test]
fn all_at_once_is_all_or_nothing() {
    // With `all_at_once`, a node that does not fit rejects the whole plan.
    let mut scene = Scene::new();
    let [node, full] = [scene.node(), scene.node()];
    let job = scene.register(service("web"));
    let plan = placing(&mut scene, &job, &[node, full]);
    let mut crowded = plan.clone();
    crowded.placements.push(scene.placements(&plan, &[full; 10]));
    crowded.all_at_once = true;
    let result = scene.submit(crowded);
    assert_eq!((result.verdict, result.rejected_nodes), (PlanVerdict::Nothing, vec![full]));
    assert_eq!(scene.submit(Plan { all_at_once: true, ..plan }).verdict, PlanVerdict::Whole);
}

#[test]
fn an_answer_names_a_limited_number_of_nodes() {
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let nodes: Vec<NodeId> = (0..100).map(|n| NodeId::from_bytes([n; 16])).collect();
    let plan = placing(&mut scene, &job, &nodes);
    assert_eq!(scene.submit(plan).rejected_nodes, nodes[..REJECTED_NODES_MAX]);
}

#[test]
fn placements_need_a_node_that_is_ready_and_eligible() {
    // Placements need a ready node that is eligible.
    let mut scene = Scene::new();
    let job = scene.register(service("web"));
    let [down, ineligible] = [scene.node(), scene.node()];
    let new = NodeId::from_bytes([9; 16]);
    scene.register_node(new, node_spec());
    scene.missed(&[down]);
    let server = NodeServerSide {
        eligibility: Eligibility::Ineligible,
        ..scene.whole_node(ineligible).server.clone()
    };
    let there = scene.place(&job, &[ineligible]);
    scene
        .commit(Cause::NodeStatus, vec![Change::NodeServerSide { id: ineligible, server: Box::new(server) }]);
    for node in [down, ineligible, new] {
        let plan = placing(&mut scene, &job, &[node]);
        assert_eq!(scene.submit(plan).verdict, PlanVerdict::Nothing);
    }
    // In-place updates are accepted on an ineligible node.
    let plan = placing(&mut scene, &job, &[]);
    let common = Arc::new(scene.common(&plan));
    let plan = updating(&mut scene, &job, &there, Update::InPlace(common));
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn out_of_sight_is_only_what_is_on_a_node_that_is_not_heard_of() {
    // Which updates a disconnected node and a node that is down accept.
    let mut scene = Scene::new();
    let nodes = [scene.node(), scene.node()];
    let waiting = scene.register(patient_service("waiting"));
    let mut spec = patient_service("kept");
    let disconnect = spec.task_groups[0].disconnect.clone().unwrap();
    spec.task_groups[0].disconnect = Some(DisconnectStrategy { replace: Some(false), ..disconnect });
    let kept = scene.register(spec);
    let a = scene.place(&waiting, &nodes[..1]);
    let b = scene.place(&kept, &nodes[1..]);
    let submit = |scene: &mut Scene, job: &JobKey, allocs: &[AllocId], change: Update| {
        let plan = updating(scene, job, allocs, change);
        scene.submit(plan).verdict
    };
    let unknown = Update::Unknown { followup_eval: None };
    assert_eq!(submit(&mut scene, &waiting, &a, unknown.clone()), PlanVerdict::Nothing, "the node is ready");
    scene.missed(&nodes);
    assert_eq!(
        submit(&mut scene, &waiting, &a, Update::Reconnect),
        PlanVerdict::Nothing,
        "the node is disconnected"
    );
    assert_eq!(submit(&mut scene, &waiting, &a, unknown.clone()), PlanVerdict::Whole);
    scene.wait(model::Nanos::from_mins(2));
    scene.missed(&nodes[..1]);
    assert_eq!(submit(&mut scene, &waiting, &a, unknown.clone()), PlanVerdict::Nothing, "the node is down");
    scene.heard(&nodes[1..]);
    assert_eq!(
        submit(&mut scene, &kept, &b, unknown.clone()),
        PlanVerdict::Nothing,
        "the node is initializing"
    );
    assert_eq!(submit(&mut scene, &kept, &b, Update::Reconnect), PlanVerdict::Whole);
    scene.missed(&nodes[1..]);
    assert_eq!(submit(&mut scene, &kept, &b, unknown), PlanVerdict::Whole, "the allocation was not replaced");
}

#[test]
fn allocs_on_a_reconnected_node_are_not_replaced() {
    let mut scene = Scene::new();
    let nodes = [scene.node(), scene.node()];
    let job = scene.register(patient_service("web"));
    let allocs = scene.place(&job, &nodes[..1]);
    let mut plan = updating(&mut scene, &job, &allocs, Update::Unknown { followup_eval: None });
    let mut placements = scene.placements(&plan, &[nodes[1], nodes[1]]);
    placements.previous = [allocs[0], AllocIds::NONE].into_iter().collect();
    let (instead, another) = (placements.ids.0[0], placements.ids.0[1]);
    plan.placements = vec![placements];
    let result = scene.submit(plan);
    assert_eq!((result.verdict, result.rejected_nodes), (PlanVerdict::Part, vec![nodes[0]]));
    assert_eq!(scene.alloc(allocs[0]).client_status, ClientStatus::Pending);
    assert!(scene.state.alloc(instead).is_none() && scene.state.alloc(another).is_some());
}

#[test]
fn allocs_on_a_disconnected_node_may_move_to_another_version() {
    // A disconnected node accepts only updates of unknown allocations.
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(patient_service("web"));
    let allocs = scene.place(&job, &[node]);
    scene.missed(&[node]);
    let moving = |scene: &mut Scene| {
        let plan = placing(scene, &job, &[]);
        let common = Arc::new(scene.common(&plan));
        let change = Update::InPlace(common);
        Plan { updates: vec![Updates { ids: allocs.iter().copied().collect(), change }], ..plan }
    };
    let plan = moving(&mut scene);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Nothing, "the allocation is not unknown yet");
    let plan = updating(&mut scene, &job, &allocs, Update::Unknown { followup_eval: None });
    scene.submit(plan);
    let plan = moving(&mut scene);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn a_port_is_open_once_on_an_address() {
    // Each address has its own set of used ports.
    let mut scene = Scene::new();
    let [node, other] = [scene.node(), scene.node()];
    let job = scene.register(service("web"));
    let with_ports = |scene: &mut Scene, nodes: &[NodeId], ports: &[u16]| {
        let mut plan = placing(scene, &job, nodes);
        let placements = &mut plan.placements[0];
        placements.common = Arc::new(with_port((*placements.common).clone()));
        placements.assigned = ports.iter().map(|value| port(*value)).collect();
        plan
    };
    let plan = with_ports(&mut scene, &[node, node, other, other], &[80, 81, 80, 80]);
    let allocs = plan.placements[0].ids.0.clone();
    assert_eq!(scene.submit(plan).rejected_nodes, [other], "the plan itself uses the port twice there");
    let plan = with_ports(&mut scene, &[node], &[80]);
    assert_eq!(scene.submit(plan.clone()).verdict, PlanVerdict::Nothing);
    let change = Update::InPlace(Arc::clone(&plan.placements[0].common));
    let updates = vec![Updates { ids: allocs[..1].iter().copied().collect(), change }];
    let updated = Plan { updates, ..plan.clone() };
    assert_eq!(scene.submit(updated).verdict, PlanVerdict::Nothing, "an updated allocation keeps its port");
    let stop = Plan { stops: vec![stops(&allocs[..1])], ..plan };
    assert_eq!(scene.submit(stop).verdict, PlanVerdict::Whole);
}

#[test]
fn a_port_that_the_node_keeps_is_nobodys() {
    // Ports that the node reserves are not available on any address.
    let mut scene = Scene::new();
    let node = scene.node();
    let mut spec = node_spec();
    spec.reserved.ports = "22,8000-8010".into();
    scene.register_node(node, spec);
    let job = scene.register(service("web"));
    for (value, verdict) in [(8005, PlanVerdict::Nothing), (80, PlanVerdict::Whole)] {
        let mut plan = placing(&mut scene, &job, &[node]);
        plan.placements[0].common = Arc::new(with_port(scene.common(&plan)));
        plan.placements[0].assigned = vec![port(value)];
        assert_eq!(scene.submit(plan).verdict, verdict);
    }
}

#[test]
fn a_core_is_one_tasks_alone() {
    // A core may be reserved by one task only.
    let mut scene = Scene::new();
    let node = scene.node();
    let mut spec = node_spec();
    spec.resources.cpu.reservable_cores = vec![0, 1, 2];
    scene.register_node(node, spec);
    let job = scene.register(service("web"));
    let cases: [(&[u16], _); 4] = [
        (&[0, 1], PlanVerdict::Whole),
        (&[1], PlanVerdict::Nothing),
        (&[3], PlanVerdict::Nothing),
        (&[2], PlanVerdict::Whole),
    ];
    for (ids, verdict) in cases {
        let mut plan = placing(&mut scene, &job, &[node]);
        plan.placements[0].assigned = vec![cores(ids)];
        assert_eq!(scene.submit(plan).verdict, verdict, "{ids:?}");
    }
}

#[test]
fn a_host_volume_with_a_single_writer_has_one_user() {
    // A host volume with a single writer fits only one user.
    let mut scene = Scene::new();
    let node = scene.node();
    let with_volume = |id: &str, access_mode| {
        let mut spec: JobSpec = service(id);
        let volume = VolumeRequest {
            name: "data".into(),
            kind: VolumeKind::Host,
            source: "disk".into(),
            read_only: false,
            sticky: false,
            access_mode: Some(access_mode),
            attachment_mode: None,
            mount_options: None,
            per_alloc: false,
        };
        spec.task_groups[0].volumes = [("data".into(), volume)].into();
        spec
    };
    let many = scene.register(with_volume("many", AccessMode::SingleNodeMultiWriter));
    let single = scene.register(with_volume("single", AccessMode::SingleNodeSingleWriter));
    let plan = placing(&mut scene, &many, &[node, node]);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
    let plan = placing(&mut scene, &single, &[node]);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Nothing);
    let plain = scene.register(service("plain"));
    let plan = placing(&mut scene, &plain, &[node]);
    assert_eq!(scene.submit(plan).verdict, PlanVerdict::Whole);
}

#[test]
fn an_update_in_place_may_not_outgrow_its_node() {
    let mut scene = Scene::new();
    let node = scene.node();
    let job = scene.register(service("web"));
    let allocs = scene.place(&job, &[node]);
    for (memory_mb, verdict) in [(1_001, PlanVerdict::Nothing), (1_000, PlanVerdict::Whole)] {
        let plan = placing(&mut scene, &job, &[]);
        let mut common = scene.common(&plan);
        common.resources.tasks[0].memory_mb = memory_mb;
        let plan = updating(&mut scene, &job, &allocs, Update::InPlace(Arc::new(common)));
        assert_eq!(scene.submit(plan).verdict, verdict);
    }
    assert_eq!(scene.state.plan_index(&job), scene.state.index());
    assert!(scene.state.index() > Index::ZERO);
}
