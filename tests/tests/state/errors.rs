//! Change sets that do not fit are refused with the right error, and leave the replica unchanged.

use std::sync::Arc;

use model::alloc::{Allocation, Demand, PackedAssigned, PackedTaskStates};
use model::change::{
    AllocsChanged, Change, ChangeSet, DeploymentFields, EvalsChanged, JobFields, NodesChanged,
};
use model::columns::AllocIds;
use model::job::{Job, JobStatus};
use model::node::{Node, NodeServerSide};
use model::plan::{Placements, Uneven};
use model::{AllocId, DeploymentId, EvalId, Index, JobVersionKey, NodeId};
use state::{AllocRef, Inconsistent, State, Table, View};
use tests::build;

use crate::scene::{Half, Scene};

#[test]
fn change_sets_follow_each_other() {
    let scene = Scene::new();
    let [next, later] = [2, 3].map(|index| build::change_set(Index(index), harmless(&scene)));
    let gap = |state, found| Err(Inconsistent::Gap { state: Index(state), found: Index(found) });
    let apply = |sets: &[&ChangeSet]| scene.replica.apply(build::shared(sets.iter().copied().cloned()));
    assert_eq!(apply(&[&later]), gap(1, 3));
    assert_eq!(apply(&[&next, &next]), gap(2, 2));
    assert_eq!(scene.replica.snapshot().index(), Index(1));
    assert_eq!(apply(&[&next, &later]), Ok(()));
    assert_eq!(scene.replica.snapshot().index(), Index(3));
}

#[test]
fn repeats_are_passed_over() {
    let scene = Scene::new();
    let [here, next, later] = [1, 2, 3].map(|index| build::change_set(Index(index), harmless(&scene)));
    let apply = |sets: &[&ChangeSet]| scene.replica.apply(build::shared(sets.iter().copied().cloned()));
    assert_eq!(apply(&[&here, &next]), Ok(()));
    assert_eq!(scene.replica.snapshot().index(), Index(2));
    let before = scene.replica.snapshot();
    assert_eq!(apply(&[&here, &next]), Ok(()));
    assert_eq!(apply(&[]), Ok(()));
    assert!(Arc::ptr_eq(&before, &scene.replica.snapshot()), "nothing was published");
    assert_eq!(apply(&[&here, &next, &later]), Ok(()));
    assert_eq!(scene.replica.snapshot().index(), Index(3));
}

#[test]
fn an_allocation_is_placed_once() {
    let mut scene = Scene::new();
    let [one, _] = scene.halves.clone();
    let again = placements(&one, [one.alloc]);
    assert_refused(&scene, again, Inconsistent::AllocExists(one.alloc));
    let unused = AllocId::from_bytes(scene.unused_id());
    let twice = placements(&one, [unused, unused]);
    assert_refused(&scene, twice, Inconsistent::AllocExists(unused));
}

#[test]
fn a_placement_without_rows_uses_no_version() {
    let scene = Scene::new();
    let [one, _] = scene.halves.clone();
    let next = one.next_version();
    let none = Placements::new(Arc::new(build::common(&next, one.eval.id)));
    let version = next.version_key();
    scene.apply(vec![Change::Job(Arc::new(next)), Change::AllocsPlaced(Box::new(none))]);
    assert!(!scene.replica.snapshot().is_version_in_use(&version));
}

#[test]
fn an_allocation_that_is_not_there_cannot_change() {
    let mut scene = Scene::new();
    let unused = AllocId::from_bytes(scene.unused_id());
    let change = build::running(&[scene.halves[0].alloc, unused]);
    assert_refused(&scene, Change::AllocsChanged(Box::new(change)), Inconsistent::NoAlloc(unused));
}

#[test]
fn a_job_version_must_be_registered() {
    let mut scene = Scene::new();
    let [one, _] = scene.halves.clone();
    let unknown = Job { version: 7, ..one.job.clone() };
    let key = unknown.version_key();
    let common = build::common(&unknown, one.eval.id);
    let fields = JobFields {
        key: key.clone(),
        status: JobStatus::Dead,
        status_description: "".into(),
        stable: false,
        version_tag: None,
    };
    let whole = Allocation { common: Arc::new(common.clone()), ..scene.whole(one.alloc) };
    let refused = [
        scene.placed(common.clone(), one.node.id),
        one.updated_to(common),
        Change::Alloc(Box::new(whole)),
        Change::JobFields(fields),
    ];
    for change in refused {
        assert_refused(&scene, change, no_version(&key));
    }
}

#[test]
fn a_version_of_a_purged_job_is_not_registered_any_more() {
    let mut scene = Scene::new();
    let [one, _] = scene.halves.clone();
    let placed = scene.placed(one.common(), one.node.id);
    scene.apply(vec![Change::JobDeleted(one.job_key())]);
    assert_refused(&scene, placed, no_version(&one.job.version_key()));
}

#[test]
fn a_node_must_be_there() {
    let mut scene = Scene::new();
    let [one, _] = scene.halves.clone();
    let unknown = NodeId::from_bytes(scene.unused_id());
    let server = Box::new(NodeServerSide::default());
    let placed = scene.placed(one.common(), unknown);
    assert_refused(&scene, placed, Inconsistent::NoNode(unknown));
    let changed = Change::NodeServerSide { id: unknown, server: server.clone() };
    assert_refused(&scene, changed, Inconsistent::NoNode(unknown));
    let together = |ids: &[NodeId]| {
        Change::NodesChanged(Box::new(NodesChanged { ids: ids.to_vec(), ..Default::default() }))
    };
    assert_refused(&scene, together(&[one.node.id, unknown]), Inconsistent::NoNode(unknown));

    // A deleted node is not found either, although it still has an allocation.
    scene.apply(vec![Change::NodesDeleted(vec![one.node.id])]);
    let placed = scene.placed(one.common(), one.node.id);
    assert_refused(&scene, placed, Inconsistent::NoNode(one.node.id));
    let changed = Change::NodeServerSide { id: one.node.id, server };
    assert_refused(&scene, changed, Inconsistent::NoNode(one.node.id));
    assert_refused(&scene, together(&[one.node.id]), Inconsistent::NoNode(one.node.id));
}

#[test]
fn columns_must_fit_each_other() {
    let mut scene = Scene::new();
    let one = scene.halves[0].clone();
    let ids = [(); 2].map(|()| AllocId::from_bytes(scene.unused_id()));
    let uneven = |change: fn(&mut Placements)| {
        let Change::AllocsPlaced(mut placements) = placements(&one, ids) else {
            unreachable!("placements() returns a placement")
        };
        change(&mut placements);
        Change::AllocsPlaced(placements)
    };
    let refused = [
        (uneven(|placements| placements.node.truncate(1)), "node", 1),
        (uneven(|placements| placements.name_index.push(2)), "name_index", 3),
        (uneven(|placements| placements.previous = [AllocIds::NONE].into_iter().collect()), "previous", 1),
        (uneven(|placements| placements.assigned.push(PackedAssigned::default())), "assigned", 1),
        (uneven(|placements| placements.reschedule.push(None)), "reschedule", 1),
        (uneven(|placements| placements.preempted.push(Vec::new())), "preempted", 1),
        (uneven(|placements| placements.nodes.clear()), "nodes", 0),
    ];
    for (change, column, found) in refused {
        // For a row that points outside the nodes, the error has the number of nodes that would be needed. For the
        // others it has the number of rows.
        let expected = if column == "nodes" { 1 } else { 2 };
        assert_refused(&scene, change, Inconsistent::Uneven(Uneven { column, found, expected }));
    }
    let running = || build::running(&[one.alloc]);
    let refused = [
        (AllocsChanged { task_states: vec![PackedTaskStates::default(); 2], ..running() }, "task_states"),
        (AllocsChanged { verdicts: vec![None; 2], ..running() }, "verdicts"),
        (AllocsChanged { assigned: vec![PackedAssigned::default(); 2], ..running() }, "assigned"),
    ];
    for (change, column) in refused {
        let uneven = Uneven { column, found: 2, expected: 1 };
        assert_refused(&scene, Change::AllocsChanged(Box::new(change)), uneven.into());
    }
}

#[test]
fn an_update_in_place_stays_within_the_job() {
    let scene = Scene::new();
    let [one, two] = &scene.halves;
    assert_refused(&scene, one.updated_to(two.common()), Inconsistent::AnotherJob(one.alloc));
}

#[test]
fn absent_objects_can_be_deleted() {
    let mut scene = Scene::new();
    let unused = scene.unused_id();
    let before = describe(&scene.replica.snapshot());
    scene.apply(vec![
        Change::AllocsDeleted([AllocId::from_bytes(unused)].into_iter().collect()),
        Change::NodesDeleted(vec![NodeId::from_bytes(unused)]),
    ]);
    let after = describe(&scene.replica.snapshot());
    assert_eq!((after.allocs, after.nodes), (before.allocs, before.nodes));
}

/// Their owners may delete them at any time, so a later change of them has no effect.
#[test]
fn evaluations_and_deployments_that_are_gone_can_be_changed() {
    let mut scene = Scene::new();
    let unused = scene.unused_id();
    let (eval, deployment) = (EvalId::from_bytes(unused), DeploymentId::from_bytes(unused));
    let fields = DeploymentFields { id: deployment, status: None, groups: Vec::new() };
    scene.apply(vec![
        Change::EvalsChanged(EvalsChanged { ids: vec![eval], ..EvalsChanged::default() }),
        Change::DeploymentFields(Box::new(fields)),
    ]);
    let after = scene.replica.snapshot();
    assert!(after.eval(eval).is_none() && after.deployment(deployment).is_none());
}

#[test]
fn an_overlay_is_adopted_where_it_leads_on() {
    let scene = Scene::new();
    let before = scene.replica.snapshot();
    let mut overlay = State::clone(&before);
    let (sets, states): (Vec<_>, Vec<_>) = [2, 3, 4]
        .map(|index| {
            let set = Arc::new(build::change_set(Index(index), harmless(&scene)));
            overlay.apply(&set).unwrap();
            (set, overlay.clone())
        })
        .into_iter()
        .unzip();
    let adopt = |sets: &[Arc<ChangeSet>], after: &State| {
        scene.replica.adopt(sets.to_vec(), Arc::new(after.clone()), 0)
    };
    let gap = |state, found| Err(Inconsistent::Gap { state: Index(state), found: Index(found) });

    assert_eq!(adopt(&sets[1..], &states[2]), gap(1, 3), "a change set is missing");
    assert_eq!(adopt(&sets[..1], &states[1]), gap(2, 3), "the state is further than the change sets");
    assert_eq!(adopt(&sets[..2], &states[0]), gap(3, 2), "the state is not as far as the change sets");
    assert!(Arc::ptr_eq(&before, &scene.replica.snapshot()));

    assert_eq!(adopt(&sets[..2], &states[1]), Ok(()));
    assert_eq!(describe(&scene.replica.snapshot()), describe(&states[1]));
    assert_eq!(adopt(&sets, &overlay), Ok(()), "change sets that are adopted already are skipped");
    assert_eq!(describe(&scene.replica.snapshot()), describe(&overlay));
    assert_eq!(adopt(&sets, &overlay), Ok(()), "all change sets may be adopted already");
    scene.apply(harmless(&scene));
}

/// Applies a batch that begins with a valid change set and ends with `change`, and then only the valid change set.
fn assert_refused(scene: &Scene, change: Change, expected: Inconsistent) {
    let before = scene.replica.snapshot();
    let description_before = describe(&before);
    let good = scene.next(harmless(scene));
    let bad = build::change_set(good.index.next(), [harmless(scene), vec![change]].concat());
    let refused = scene.replica.apply(build::shared([good.clone(), bad]));
    assert_eq!(refused, Err(expected));
    assert!(Arc::ptr_eq(&before, &scene.replica.snapshot()), "nothing was published");
    assert_eq!(describe(&before), description_before, "the shared state was not modified");

    let mut after = State::clone(&before);
    after.apply(&good).expect("the valid change set fits");
    scene.replica.apply(build::shared([good])).expect("the replica accepts the valid change set");
    assert_eq!(describe(&scene.replica.snapshot()), describe(&after));
}

/// Changes that are valid any number of times, in each of the larger tables.
fn harmless(scene: &Scene) -> Vec<Change> {
    let [_, two] = &scene.halves;
    vec![
        Change::Job(Arc::new(two.next_version())),
        Change::Node(Box::new(two.node.clone())),
        two.node_ineligible(),
        two.running(),
        two.updated_to(build::common(&two.next_version(), two.eval.id)),
        Change::Alloc(Box::new(scene.whole(two.alloc))),
    ]
}

fn placements<const N: usize>(half: &Half, ids: [AllocId; N]) -> Change {
    let mut placements = Placements::new(Arc::new(half.common()));
    placements.nodes.push(half.node.id);
    placements.ids = ids.into_iter().collect();
    placements.node = vec![0; N];
    placements.name_index = (0..).take(N).collect();
    Change::AllocsPlaced(Box::new(placements))
}

fn no_version(key: &JobVersionKey) -> Inconsistent {
    Inconsistent::NoJobVersion(Box::new(key.clone()))
}

/// The content of a state.
#[derive(Debug, PartialEq)]
struct Description {
    index: Index,
    tables: Vec<Index>,
    allocs: Vec<Allocation>,
    nodes: Vec<(Node, Vec<AllocId>, [Demand; 2])>,
    jobs: Vec<(Job, usize, Vec<AllocId>)>,
}

fn describe(state: &State) -> Description {
    let nodes = state.nodes().map(|node| {
        let allocs = node.allocs().map(AllocRef::id).collect();
        (Node::clone(node.node()), allocs, [node.usage(View::Held), node.usage(View::Live)])
    });
    let jobs = state.jobs().map(|job| {
        let allocs = state.allocs_of_job(&job.key()).map(AllocRef::id).collect();
        (Job::clone(job), state.job_versions(&job.key()).count(), allocs)
    });
    Description {
        index: state.index(),
        tables: Table::ALL.map(|table| state.table_index(table)).to_vec(),
        allocs: state.allocs_in(..).map(AllocRef::to_allocation).collect(),
        nodes: nodes.collect(),
        jobs: jobs.collect(),
    }
}
