//! Wakes agents whose work has changed. A wake includes the changes if they are small. A lost wake costs one heartbeat
//! interval: the heartbeat's answer carries the same work index (`docs/architecture/agents.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bus::Bus;
use model::change::{AllocChange, Concern};
use model::{AllocId, NodeId};
use state::{FollowEvent, Follower, NodeRef, State, Step};
use tokio::task::yield_now;
use tokio::time::sleep;
use wire::Subject;
use wire::node::{Wake, WorkIndex};

use crate::metrics;
use crate::work::{WorkCache, small_changes};
use crate::work_trace::{self, Delivery};

/// The minimum interval between wakes. Changes within it are sent together, because the fullest nodes get allocations with
/// every plan.
const WAKE_INTERVAL: Duration = Duration::from_millis(20);
/// The number of wakes after which other tasks of this thread get a turn, so that heartbeats do not wait for all wakes.
const WAKES_PER_TURN: usize = 64;

/// Wakes agents for every change of their work from now on.
pub(crate) async fn follow(mut follower: Follower, bus: Bus) {
    loop {
        let followed = follower.next_merged().await;
        let wakes: Box<dyn Iterator<Item = (NodeId, Wake)> + Send> = match &followed {
            // After a reset it is unknown what changed, and which nodes the previous tracker woke. So every node is woken.
            FollowEvent::Reset(state) => {
                let history = state.history();
                let wake = move |node: NodeRef<'_>| {
                    let work_index = WorkIndex { history, index: node.work_index() };
                    (node.id(), Wake { work_index, news: None })
                };
                Box::new(state.nodes().map(wake))
            }
            FollowEvent::Step(step) => Box::new(wakes(step)),
        };
        let mut woken = 0;
        for (node, mut wake) in wakes {
            let spans = wake
                .news
                .as_mut()
                .map(|news| work_trace::start_spans(&mut news.changed, node, Delivery::Wake));
            // A wake that cannot be sent counts as lost.
            let _ = bus.publish(Subject::AgentWake(node), &wake).await;
            drop(spans);
            woken += 1;
            if woken % WAKES_PER_TURN == 0 {
                yield_now().await;
            }
        }
        if woken > 0 {
            metrics::wakes(woken);
            sleep(WAKE_INTERVAL).await;
        }
    }
}

/// The changes of a node's work in a step.
#[derive(Debug, Default, PartialEq, Eq)]
struct WorkChange {
    allocs: BTreeSet<AllocId>,
    gone: BTreeSet<AllocId>,
}

/// The wakes of a step. Each wake's content is computed when the iterator reaches it.
fn wakes(step: &Step) -> impl Iterator<Item = (NodeId, Wake)> {
    let mut cache = WorkCache::default();
    let wake = move |(node, changed)| (node, wake_of(step, node, changed, &mut cache));
    changed_nodes(step).into_iter().map(wake)
}

/// A node's wake with the changes of its work.
fn wake_of(step: &Step, node: NodeId, changed: WorkChange, cache: &mut WorkCache) -> Wake {
    let work_index = |state: &State| state.node(node).map(|node| node.work_index());
    let WorkChange { allocs, gone } = changed;
    let allocs = allocs.into_iter().filter_map(|id| step.after.alloc(id)).collect();
    let is_here = |id: &AllocId| step.after.alloc(*id).is_some_and(|alloc| alloc.node_id() == node);
    let gone = gone.into_iter().filter(|id| !is_here(id)).collect();
    // For a node that was unknown before, it is unclear which changes it has missed.
    let news = work_index(&step.before).and_then(|since| small_changes(since, allocs, gone, cache));
    let index = work_index(&step.after).unwrap_or_default();
    Wake { work_index: WorkIndex { history: step.after.history(), index }, news: news.map(Box::new) }
}

/// The nodes whose work has changed, with the changes (N-6.1).
fn changed_nodes(step: &Step) -> BTreeMap<NodeId, WorkChange> {
    let mut woken: BTreeMap<NodeId, WorkChange> = BTreeMap::new();
    for change in step.changes() {
        let Concern::Allocs(change) = change.concern() else { continue };
        match change {
            AllocChange::AllocsPlaced(placed) => {
                for (id, node) in placed.ids.0.iter().zip(&placed.node) {
                    woken.entry(placed.nodes[*node as usize]).or_default().allocs.insert(*id);
                }
            }
            AllocChange::AllocsChanged(changed) if changed.by_servers => {
                for alloc in changed.ids.0.iter().filter_map(|id| step.after.alloc(*id)) {
                    woken.entry(alloc.node_id()).or_default().allocs.insert(alloc.id());
                }
            }
            // The nodes know their own reports.
            AllocChange::AllocsChanged(_) => {}
            AllocChange::Alloc(alloc) => {
                // The allocation may have been on another node.
                if let Some(before) = step.before.alloc(alloc.id) {
                    woken.entry(before.node_id()).or_default().gone.insert(alloc.id);
                }
                woken.entry(alloc.node_id).or_default().allocs.insert(alloc.id);
            }
            AllocChange::AllocsDeleted(ids) => {
                for alloc in ids.0.iter().filter_map(|id| step.before.alloc(*id)) {
                    woken.entry(alloc.node_id()).or_default().gone.insert(alloc.id());
                }
            }
        }
    }
    woken.retain(|node, _| step.after.node(*node).is_some());
    woken
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::alloc::DesiredStatus;
    use model::change::{AllocsChanged, Change, NodesChanged};
    use model::node::NodeStatus;

    use super::*;
    use crate::testing::{alloc, following, job, node, placed, ready, state};

    /// Three nodes and a job, with allocations 1 and 2 on node 1 and allocation 3 on node 2, at index 2.
    fn scene() -> State {
        let job = job(1, 0);
        let placed = placed(&job, [(1, 1), (2, 1), (3, 2)]);
        state([vec![ready(1), ready(2), ready(3)], vec![Change::Job(Arc::new(job)), placed]])
    }

    /// A step of several change sets.
    fn step(before: State, sets: Vec<Vec<Change>>) -> Step {
        let mut after = before.clone();
        let apply = |changes| {
            let set = following(&after, changes);
            after.apply(&set).unwrap();
            Arc::new(set)
        };
        let sets = sets.into_iter().map(apply).collect();
        Step::new(Arc::new(before), sets, Arc::new(after))
    }

    /// The nodes that the change sets wake: for each its work index, and the numbers of its changed and deleted
    /// allocations.
    fn woken_by(before: State, sets: Vec<Vec<Change>>) -> Vec<(NodeId, u64, Vec<u8>, Vec<u8>)> {
        let step = step(before, sets);
        let number = |id: AllocId| (1..10).find(|number| alloc(*number) == id).unwrap();
        let describe = |(node, Wake { work_index, news })| {
            let news = news.unwrap();
            assert_eq!(news.since, step.before.node(node).unwrap().work_index());
            let changed = news.changed.allocs.iter().map(|alloc| number(alloc.id)).collect();
            (node, work_index.index.0, changed, news.gone.0.into_iter().map(number).collect())
        };
        wakes(&step).map(describe).collect()
    }

    fn woken(before: State, changes: Vec<Change>) -> Vec<(NodeId, u64, Vec<u8>, Vec<u8>)> {
        woken_by(before, vec![changes])
    }

    fn changed(ids: &[u8], by_servers: bool) -> Change {
        let desired = by_servers.then(|| (DesiredStatus::Stop, "not needed".into()));
        let ids = ids.iter().map(|number| alloc(*number)).collect();
        Change::AllocsChanged(Box::new(AllocsChanged {
            ids,
            by_servers,
            desired,
            ..AllocsChanged::default()
        }))
    }

    #[test]
    fn nodes_that_get_allocations_are_woken_once() {
        let placed = placed(&job(1, 0), [(4, 1), (5, 3), (6, 3)]);
        let expected = [(node(1), 3, vec![4], vec![]), (node(3), 3, vec![5, 6], vec![])];
        assert_eq!(woken(scene(), vec![placed]), expected);
    }

    #[test]
    fn changes_by_servers_wake_an_agent_and_its_own_reports_do_not() {
        assert_eq!(woken(scene(), vec![changed(&[1, 2], true)]), [(node(1), 3, vec![1, 2], vec![])]);
        assert_eq!(woken(scene(), vec![changed(&[1, 2, 3], false)]), []);
    }

    #[test]
    fn an_allocation_that_is_written_whole_is_news() {
        let before = scene();
        let whole = Box::new(before.alloc(alloc(3)).unwrap().to_allocation());
        assert_eq!(woken(before, vec![Change::Alloc(whole)]), [(node(2), 3, vec![3], vec![])]);
    }

    #[test]
    fn nodes_whose_allocations_are_deleted_are_woken() {
        let deleted = Change::AllocsDeleted([alloc(1), alloc(3)].into_iter().collect());
        let expected = [(node(1), 3, vec![], vec![1]), (node(2), 3, vec![], vec![3])];
        assert_eq!(woken(scene(), vec![deleted]), expected);
    }

    #[test]
    fn changes_of_one_step_are_sent_as_their_outcome() {
        let before = scene();
        let again = Box::new(before.alloc(alloc(3)).unwrap().to_allocation());
        let sets = vec![
            vec![placed(&job(1, 0), [(4, 1), (5, 1)]), changed(&[1, 2], true)],
            vec![Change::AllocsDeleted([alloc(2), alloc(3), alloc(5)].into_iter().collect())],
            vec![Change::Alloc(again)],
        ];
        let expected = [(node(1), 4, vec![1, 4], vec![2]), (node(2), 5, vec![3], vec![])];
        assert_eq!(woken_by(before, sets), expected);
    }

    #[test]
    fn a_node_that_is_gone_is_not_woken() {
        let changes = vec![Change::NodesDeleted(vec![node(1)]), changed(&[1, 3], true)];
        assert_eq!(woken(scene(), changes), [(node(2), 3, vec![3], vec![])]);
    }

    #[test]
    fn a_node_that_was_not_known_is_woken_without_news() {
        let placed = placed(&job(1, 0), [(4, 4), (5, 1)]);
        let step = step(scene(), vec![vec![ready(4)], vec![placed]]);
        let actual: Vec<_> = wakes(&step).map(|(id, wake)| (id, wake.news.is_some())).collect();
        assert_eq!(actual, [(node(1), true), (node(4), false)]);
    }

    #[test]
    fn a_change_of_a_nodes_status_does_not_wake_its_agent() {
        let change =
            NodesChanged { ids: vec![node(1)], status: Some(NodeStatus::Down), ..Default::default() };
        assert_eq!(woken(scene(), vec![Change::NodesChanged(Box::new(change))]), []);
    }
}
