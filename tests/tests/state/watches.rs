//! Each watch wakes for its keys and for nothing else, and no change is missed.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use model::alloc::Allocation;
use model::change::{Change, DeploymentFields, EvalsChanged, JobFields, NodesChanged, Unblocked};
use model::cluster::Namespace;
use model::job::{JobStatus, JobSubmission};
use model::{Index, Text};
use state::{Replica, State, Table, Watch, WatchKey};
use tests::build;

use crate::scene::{Half, Scene};

#[test]
fn a_job_wakes_those_who_watch_it() {
    let expected = ["Jobs", "job 1", "Jobs like 1"];
    assert_wakes(|[one, _]| Change::Job(Arc::new(one.next_version())), &expected);
    assert_wakes(|[one, _]| Change::JobVersionsDeleted(vec![one.job.version_key()]), &expected);
    let fields = |[one, _]: &[Half; 2]| {
        Change::JobFields(JobFields {
            key: one.job.version_key(),
            status: JobStatus::Running,
            status_description: Text::default(),
            stable: true,
            version_tag: None,
        })
    };
    assert_wakes(fields, &expected);
}

#[test]
fn a_job_s_summary_wakes_on_its_own() {
    let expected = ["JobSummaries", "summary of job 1", "JobSummaries like 1"];
    assert_wakes(|[one, _]| one.summary(), &expected);
}

#[test]
fn a_job_s_source_wakes_on_its_own() {
    let expected = ["JobSubmissions", "sources of job 1", "JobSubmissions like 1"];
    let version = |half: &Half| half.job.version_key();
    let submission = |[one, _]: &[Half; 2]| {
        Change::JobSubmission(Box::new(JobSubmission {
            version: version(one),
            job_modify_index: Index(2),
            source: Arc::default(),
            is_copy: false,
        }))
    };
    assert_wakes(submission, &expected);
    let copied =
        |[one, two]: &[Half; 2]| Change::JobSubmissionCopied { from: version(two), to: version(one) };
    assert_wakes(copied, &expected);
    assert_wakes(|[one, _]| Change::JobSubmissionsDeleted(vec![version(one)]), &expected);
}

#[test]
fn a_purge_wakes_for_the_job_its_sources_and_its_summary() {
    let expected = [
        "Jobs",
        "JobSubmissions",
        "JobSummaries",
        "job 1",
        "sources of job 1",
        "summary of job 1",
        "Jobs like 1",
        "JobSubmissions like 1",
        "JobSummaries like 1",
    ];
    assert_wakes(|[one, _]| Change::JobDeleted(one.job_key()), &expected);
}

#[test]
fn an_evaluation_wakes_its_job_too() {
    let expected = ["Evals", "evals of job 1", "eval 1", "Evals like 1"];
    assert_wakes(|[one, _]| Change::Eval(Arc::new(one.eval.clone())), &expected);
    assert_wakes(|[one, _]| Change::EvalOutcome(Arc::new(one.eval.clone())), &expected);
    assert_wakes(|[one, _]| Change::PlanApplied { job: one.job_key(), eval_id: one.eval.id }, &expected);
    assert_wakes(|[one, _]| evals_changed(&[one]), &expected);
    assert_wakes(|[one, _]| Change::EvalsDeleted(vec![one.eval.id]), &expected);
}

#[test]
fn a_deployment_wakes_its_job_too() {
    let expected = ["Deployments", "deployments of job 1", "deployment 1", "Deployments like 1"];
    assert_wakes(|[one, _]| Change::Deployment(Arc::new(one.deployment.clone())), &expected);
    let fields = |one: &Half| DeploymentFields { id: one.deployment.id, status: None, groups: Vec::new() };
    assert_wakes(|[one, _]| Change::DeploymentFields(Box::new(fields(one))), &expected);
    assert_wakes(|[one, _]| Change::DeploymentsDeleted(vec![one.deployment.id]), &expected);
}

#[test]
fn a_node_wakes_those_who_watch_it_but_not_its_allocations() {
    let expected = ["Nodes", "node 1", "Nodes like 1"];
    assert_wakes(|[one, _]| Change::Node(Box::new(one.node.clone())), &expected);
    assert_wakes(|[one, _]| one.node_ineligible(), &expected);
    assert_wakes(|[one, _]| nodes_changed(&[one]), &expected);
    assert_wakes(|[one, _]| Change::NodesDeleted(vec![one.node.id]), &expected);
}

#[test]
fn a_report_wakes_the_allocation_s_job_and_node_but_is_no_work() {
    let expected = ["Allocs", "allocs of job 1", "allocs on node 1", "alloc 1", "Allocs like 1"];
    assert_wakes(|[one, _]| one.running(), &expected);
}

#[test]
fn changes_by_servers_to_an_allocation_wake_its_nodes_work() {
    let expected =
        ["Allocs", "allocs of job 1", "allocs on node 1", "work on node 1", "alloc 1", "Allocs like 1"];
    assert_wakes(|[one, _]| one.updated_to(one.common()), &expected);
    assert_wakes(|[one, _]| Change::AllocsDeleted([one.alloc].into_iter().collect()), &expected);
}

#[test]
fn a_placement_wakes_the_job_of_one_and_the_node_of_the_other() {
    let mut scene = Scene::new();
    let [one, two] = scene.halves.clone();
    let placed = scene.placed(one.common(), two.node.id);
    let expected = ["Allocs", "allocs of job 1", "allocs on node 2", "work on node 2"];
    assert_eq!(woken_by(&scene, placed), expected);
}

#[test]
fn a_replacement_wakes_those_who_watch_what_it_replaces_but_is_no_work_there() {
    let mut scene = Scene::new();
    let [one, two] = scene.halves.clone();
    let placed = scene.replaced(one.common(), two.node.id, one.alloc);
    let expected = [
        "Allocs",
        "allocs of job 1",
        "allocs on node 1",
        "alloc 1",
        "Allocs like 1",
        "allocs on node 2",
        "work on node 2",
    ];
    assert_eq!(woken_by(&scene, placed), expected);
}

#[test]
fn an_allocation_that_is_written_whole_wakes_where_it_was_and_where_it_is() {
    let scene = Scene::new();
    let [one, two] = &scene.halves;
    let moved = Allocation { node_id: two.node.id, common: Arc::new(two.common()), ..scene.whole(one.alloc) };
    let expected = [
        "Allocs",
        "allocs of job 1",
        "allocs on node 1",
        "work on node 1",
        "alloc 1",
        "Allocs like 1",
        "allocs of job 2",
        "allocs on node 2",
        "work on node 2",
    ];
    assert_eq!(woken_by(&scene, Change::Alloc(Box::new(moved))), expected);
}

#[test]
fn a_column_of_allocations_wakes_every_job_and_node_in_it() {
    let scene = Scene::new();
    let both = scene.halves.each_ref().map(|half| half.alloc);
    let mut change = build::running(&both);
    let reported = woken_by(&scene, Change::AllocsChanged(Box::new(change.clone())));
    let watched = ["allocs of job 1", "allocs of job 2", "allocs on node 1", "allocs on node 2"];
    assert!(has_all(&reported, &watched), "{reported:?}");
    change.by_servers = true;
    let ordered = woken_by(&scene, Change::AllocsChanged(Box::new(change)));
    assert!(
        has_all(&ordered, &watched) && has_all(&ordered, &["work on node 1", "work on node 2"]),
        "{ordered:?}"
    );
}

#[test]
fn a_list_of_evaluations_or_nodes_wakes_for_each() {
    let scene = Scene::new();
    let both = scene.halves.each_ref();
    let woken = woken_by(&scene, evals_changed(&both));
    assert!(has_all(&woken, &["evals of job 1", "eval 1", "evals of job 2", "eval 2"]), "{woken:?}");
    let woken = woken_by(&scene, nodes_changed(&both));
    assert!(has_all(&woken, &["node 1", "node 2"]), "{woken:?}");
}

#[test]
fn a_small_table_wakes_as_a_whole() {
    assert_wakes(|_| Change::Unblocked(Unblocked::default()), &["Unblocked"]);
    let namespace = || Namespace { name: "web".into(), ..Namespace::default() };
    assert_wakes(|_| Change::Namespace(Box::new(namespace())), &["Namespaces"]);
    assert_wakes(|_| Change::NamespaceDeleted("web".into()), &["Namespaces"]);
}

#[test]
fn a_prefix_wakes_for_every_name_that_begins_so() {
    let scene = Scene::new();
    let [one, two] = &scene.halves;
    let watch = |prefix: &str| scene.replica.watch([WatchKey::Prefix(Table::Jobs, prefix.into())]);
    let [mut all, mut both, mut whole, mut longer, mut other] =
        ["", "job-", "job-1", "job-10", "web"].map(watch);
    scene.apply(vec![Change::Job(Arc::new(one.next_version()))]);
    assert!(is_woken(&mut all) && is_woken(&mut both) && is_woken(&mut whole));
    scene.apply(vec![Change::Job(Arc::new(two.next_version()))]);
    assert!(is_woken(&mut all) && is_woken(&mut both) && !is_woken(&mut whole));
    assert!(!is_woken(&mut longer) && !is_woken(&mut other));
}

#[test]
fn a_small_object_wakes_those_who_watch_the_beginning_of_its_name() {
    let scene = Scene::new();
    let keys = [(Table::NodePools, "gp"), (Table::NodePools, "cpu"), (Table::Namespaces, "gp")];
    let [mut own, mut other, mut elsewhere] =
        keys.map(|(table, prefix)| scene.replica.watch([WatchKey::Prefix(table, prefix.into())]));
    scene.apply(vec![Change::NodePoolDeleted("gpu".into())]);
    assert!(is_woken(&mut own) && !is_woken(&mut other) && !is_woken(&mut elsewhere));
}

#[test]
fn a_change_before_the_wait_is_not_missed() {
    let scene = Scene::new();
    let mut watch = scene.replica.watch([WatchKey::Alloc(scene.halves[0].alloc)]);
    scene.apply(vec![scene.halves[0].running()]);
    assert!(is_woken(&mut watch));
}

#[test]
fn many_changes_wake_once() {
    let scene = Scene::new();
    let [one, _] = &scene.halves;
    let keys = [WatchKey::Alloc(one.alloc), WatchKey::Node(one.node.id), WatchKey::Table(Table::Allocs)];
    let mut watch = scene.replica.watch(keys);
    for _ in 0..3 {
        scene.apply(vec![one.running(), one.node_ineligible()]);
    }
    assert!(is_woken(&mut watch));
    assert!(!is_woken(&mut watch));
    scene.apply(vec![one.node_ineligible()]);
    assert!(is_woken(&mut watch), "the watch remains active");
}

/// The watches compare only the states before and after a batch.
#[test]
fn objects_changed_and_deleted_in_one_batch_wake_their_watches() {
    let scene = Scene::new();
    let [one, _] = &scene.halves;
    let keys = [
        WatchKey::Alloc(one.alloc),
        WatchKey::NodeAllocs(one.node.id),
        WatchKey::NodeWork(one.node.id),
        WatchKey::Job(Table::Allocs, one.job_key()),
        WatchKey::Eval(one.eval.id),
        WatchKey::Job(Table::Evals, one.job_key()),
    ];
    let mut watches = keys.map(|key| (key.clone(), scene.replica.watch([key])));
    let changed = scene.next(vec![one.updated_to(one.common()), evals_changed(&[one])]);
    let deleted = vec![
        Change::AllocsDeleted([one.alloc].into_iter().collect()),
        Change::EvalsDeleted(vec![one.eval.id]),
    ];
    let deleted = build::change_set(changed.index.next(), deleted);
    scene.replica.apply(build::shared([changed, deleted])).unwrap();
    for (key, watch) in &mut watches {
        assert!(is_woken(watch), "{key:?}");
    }
}

#[test]
fn a_refused_change_set_wakes_nobody() {
    let scene = Scene::new();
    let mut watch = scene.replica.watch([WatchKey::Table(Table::Allocs)]);
    let mut set = scene.next(vec![scene.halves[0].running()]);
    set.index = set.index.next();
    scene.replica.apply(build::shared([set])).unwrap_err();
    assert!(!is_woken(&mut watch));
}

#[test]
fn an_adopted_overlay_wakes_as_its_change_sets_would() {
    let scene = Scene::new();
    let [one, two] = &scene.halves;
    let mut watches = [one, two].map(|half| scene.replica.watch([WatchKey::Alloc(half.alloc)]));
    let set = scene.next(vec![Change::AllocsDeleted([one.alloc].into_iter().collect())]);
    let mut overlay = State::clone(&scene.replica.snapshot());
    overlay.apply(&set).unwrap();
    scene.replica.adopt(vec![Arc::new(set)], overlay.into(), 0).unwrap();
    assert_eq!(watches.each_mut().map(is_woken), [true, false]);
}

#[test]
fn dropping_one_watch_leaves_the_others() {
    let scene = Scene::new();
    let [one, _] = &scene.halves;
    let prefix = WatchKey::Prefix(Table::Jobs, "job-1".into());
    let keys = [WatchKey::Alloc(one.alloc), prefix];
    let change = || vec![one.running(), Change::Job(Arc::new(one.next_version()))];
    let [dropped, mut alloc, mut prefix] =
        [&keys[..], &keys[..1], &keys[1..]].map(|keys| scene.replica.watch(keys.iter().cloned()));
    drop(dropped);
    scene.apply(change());
    assert!(is_woken(&mut alloc) && is_woken(&mut prefix));
    drop(alloc);
    scene.apply(change());
    assert!(is_woken(&mut prefix));
}

/// Each follower of a busy table registers and drops its watch, so that must not take a walk over the others.
#[test]
fn thousands_watch_the_same() {
    let scene = Scene::new();
    let keys = || [WatchKey::Table(Table::Allocs), WatchKey::Prefix(Table::Jobs, "job-".into())];
    let mut watches: Vec<Watch> = (0..20_000).map(|_| scene.replica.watch(keys())).collect();
    let mut last = watches.split_off(19_998);
    // From both ends, since the first and the last watches are often dropped first.
    let later = watches.split_off(10_000);
    watches.into_iter().zip(later.into_iter().rev()).for_each(drop);
    scene.apply(vec![scene.halves[0].running()]);
    assert!(last.iter_mut().all(is_woken));
    last.truncate(1);
    scene.apply(vec![Change::Job(Arc::new(scene.halves[0].next_version()))]);
    assert!(last.iter_mut().all(is_woken));
}

#[test]
fn a_watch_may_outlive_its_replica() {
    let mut watch = Replica::new(State::default()).watch([WatchKey::Table(Table::Jobs)]);
    assert!(!is_woken(&mut watch));
}

#[tokio::test]
async fn a_task_that_waits_sees_the_change_when_it_wakes() {
    let scene = Scene::new();
    let before = scene.replica.snapshot().index();
    let mut watch = scene.replica.watch([WatchKey::Alloc(scene.halves[0].alloc)]);
    let waiting = async {
        watch.changed().await;
        scene.replica.snapshot().index()
    };
    let applying = async { scene.apply(vec![scene.halves[0].running()]) };
    let (seen, ()) = tokio::join!(waiting, applying);
    assert_eq!(seen, before.next());
}

#[test]
fn an_index_that_is_reached_is_not_waited_for() {
    let scene = Scene::new();
    for index in [0, 1] {
        assert_eq!(reached(pin!(scene.replica.wait_for(Index(index)))), Some(Index(1)));
    }
}

#[test]
fn each_waits_for_its_own_index() {
    let scene = Scene::new();
    let mut second = pin!(scene.replica.wait_for(Index(2)));
    let mut third = pin!(scene.replica.wait_for(Index(3)));
    let mut third_too = pin!(scene.replica.wait_for(Index(3)));
    assert_eq!([second.as_mut(), third.as_mut()].map(reached), [None, None]);
    assert_eq!(reached(third_too.as_mut()), None);
    scene.apply(Vec::new());
    assert_eq!([second, third.as_mut()].map(reached), [Some(Index(2)), None]);
    scene.apply(Vec::new());
    scene.apply(Vec::new());
    assert_eq!(reached(third), Some(Index(4)), "the newest state is returned");
    assert_eq!(reached(third_too), Some(Index(4)));
}

#[test]
fn an_index_in_the_middle_of_a_batch_is_reached() {
    let scene = Scene::new();
    let mut waiting = pin!(scene.replica.wait_for(Index(2)));
    assert_eq!(reached(waiting.as_mut()), None);
    let sets = [2, 3].map(|index| build::change_set(Index(index), Vec::new()));
    scene.replica.apply(build::shared(sets)).unwrap();
    assert_eq!(reached(waiting), Some(Index(3)));
}

#[test]
fn a_reset_wakes_everybody_up_to_its_index() {
    let scene = Scene::new();
    let mut watches = watches(&scene);
    let mut lower = pin!(scene.replica.wait_for(Index(5)));
    let mut equal = pin!(scene.replica.wait_for(Index(10)));
    let mut higher = pin!(scene.replica.wait_for(Index(11)));
    assert_eq!([lower.as_mut(), equal.as_mut()].map(reached), [None, None]);
    assert_eq!(reached(higher.as_mut()), None);

    let mut state = State::default();
    state.load(&build::change_set(Index(10), Vec::new())).unwrap();
    scene.replica.reset(state);
    assert!(watches.iter_mut().all(|(_, watch)| is_woken(watch)));
    assert_eq!([lower, equal].map(reached), [Some(Index(10)); 2]);
    assert_eq!(reached(higher.as_mut()), None);
    scene.apply(Vec::new());
    assert_eq!(reached(higher), Some(Index(11)), "the next change set fits");
}

/// Raises the evaluations' modify indexes.
fn evals_changed(halves: &[&Half]) -> Change {
    let ids = halves.iter().map(|half| half.eval.id).collect();
    Change::EvalsChanged(EvalsChanged { ids, ..EvalsChanged::default() })
}

/// Raises the nodes' modify indexes.
fn nodes_changed(halves: &[&Half]) -> Change {
    let ids = halves.iter().map(|half| half.node.id).collect();
    Change::NodesChanged(Box::new(NodesChanged { ids, ..NodesChanged::default() }))
}

fn has_all(woken: &[String], expected: &[&str]) -> bool {
    expected.iter().all(|label| woken.iter().any(|woken| woken == label))
}

/// Asserts that a change to the first half wakes exactly the expected watches, and the same change to the second half
/// wakes its counterparts.
fn assert_wakes(change: impl Fn(&[Half; 2]) -> Change, expected: &[&str]) {
    let scene = Scene::new();
    assert_eq!(woken_by(&scene, change(&scene.halves)), expected);
    let scene = Scene::new();
    let [one, two] = scene.halves.clone();
    let expected: Vec<String> = expected.iter().map(|label| label.replace('1', "2")).collect();
    assert_eq!(woken_by(&scene, change(&[two, one])), expected);
}

/// Registers every possible watch, applies the change, and returns the labels of the watches that wake, each once.
fn woken_by(scene: &Scene, change: Change) -> Vec<String> {
    let mut watches = watches(scene);
    assert!(watches.iter_mut().all(|(_, watch)| !is_woken(watch)), "no change has been applied yet");
    scene.apply(vec![change]);
    watches.retain_mut(|(_, watch)| is_woken(watch));
    assert!(watches.iter_mut().all(|(_, watch)| !is_woken(watch)), "no further change has been applied");
    watches.into_iter().map(|(label, _)| label).collect()
}

/// One watch of each kind on each table and on each half of the scene.
fn watches(scene: &Scene) -> Vec<(String, Watch)> {
    let mut keys: Vec<(String, WatchKey)> =
        Table::ALL.iter().map(|table| (format!("{table:?}"), WatchKey::Table(*table))).collect();
    for (half, number) in scene.halves.iter().zip(1..) {
        let of_job = |table| WatchKey::Job(table, half.job_key());
        keys.extend([
            (format!("job {number}"), of_job(Table::Jobs)),
            (format!("sources of job {number}"), of_job(Table::JobSubmissions)),
            (format!("summary of job {number}"), of_job(Table::JobSummaries)),
            (format!("allocs of job {number}"), of_job(Table::Allocs)),
            (format!("evals of job {number}"), of_job(Table::Evals)),
            (format!("deployments of job {number}"), of_job(Table::Deployments)),
            (format!("allocs on node {number}"), WatchKey::NodeAllocs(half.node.id)),
            (format!("work on node {number}"), WatchKey::NodeWork(half.node.id)),
            (format!("alloc {number}"), WatchKey::Alloc(half.alloc)),
            (format!("eval {number}"), WatchKey::Eval(half.eval.id)),
            (format!("deployment {number}"), WatchKey::Deployment(half.deployment.id)),
            (format!("node {number}"), WatchKey::Node(half.node.id)),
        ]);
        let names = [
            (Table::Jobs, half.job_key().id.to_string()),
            (Table::JobSubmissions, half.job_key().id.to_string()),
            (Table::JobSummaries, half.job_key().id.to_string()),
            (Table::Allocs, half.alloc.to_string()[..7].to_owned()),
            (Table::Evals, half.eval.id.to_string()[..8].to_owned()),
            (Table::Deployments, half.deployment.id.to_string()[..11].to_owned()),
            (Table::Nodes, half.node.id.to_string()),
        ];
        keys.extend(names.map(|(table, prefix)| {
            (format!("{table:?} like {number}"), WatchKey::Prefix(table, prefix.into()))
        }));
    }
    keys.into_iter().map(|(label, key)| (label, scene.replica.watch([key]))).collect()
}

/// Whether the watch has woken since the last call.
fn is_woken(watch: &mut Watch) -> bool {
    poll_once(pin!(watch.changed())).is_some()
}

/// The index of the state that the future returned, if it is ready.
fn reached(waiting: Pin<&mut impl Future<Output = state::Snapshot>>) -> Option<Index> {
    poll_once(waiting).map(|snapshot| snapshot.index())
}

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
