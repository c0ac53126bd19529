//! Tells agents that their work has changed. A lost message costs one heartbeat, whose answer says the same (design §6).

use std::collections::BTreeMap;

use bus::Bus;
use model::change::Change;
use model::{AllocId, Index, NodeId};
use state::{Followed, Follower, State, Step};
use wire::Subject;
use wire::node::{Wake, WorkIndex};

use crate::measure;

/// Wakes agents for every change of their work from now on.
pub(crate) async fn follow(mut follower: Follower, bus: Bus) {
    loop {
        let (history, woken) = match follower.next().await {
            // Nobody knows what changed, or whom the tracker before this one did not reach.
            Followed::Reset(state) => {
                (state.history(), state.nodes().map(|node| (node.id(), node.work_index())).collect())
            }
            Followed::Step(step) => (step.after.history(), nodes_with_news(&step)),
        };
        measure::woken(woken.len());
        for (node, index) in woken {
            let work_index = WorkIndex { history, index };
            // Not sent is as good as lost.
            let _ = bus.publish(Subject::AgentWake(node), &Wake { work_index }).await;
        }
    }
}

/// The nodes whose work a change set changed, with the index that it is at now (N-6.1).
fn nodes_with_news(step: &Step) -> BTreeMap<NodeId, Index> {
    let mut woken = BTreeMap::new();
    for change in &step.set.changes {
        #[allow(clippy::wildcard_enum_match_arm, reason = "all others are not about allocations")]
        match change {
            Change::AllocsPlaced(placed) => {
                placed.nodes.iter().for_each(|node| wake(&step.after, *node, &mut woken))
            }
            Change::AllocsChanged(changed) if changed.by_servers => {
                changed.ids.0.iter().for_each(|id| wake_node_of(&step.after, &step.after, *id, &mut woken));
            }
            Change::Alloc(alloc) => wake(&step.after, alloc.node_id, &mut woken),
            Change::AllocsDeleted(ids) => {
                ids.0.iter().for_each(|id| wake_node_of(&step.before, &step.after, *id, &mut woken));
            }
            _ => {}
        }
    }
    woken
}

fn wake_node_of(had: &State, after: &State, alloc: AllocId, woken: &mut BTreeMap<NodeId, Index>) {
    if let Some(alloc) = had.alloc(alloc) {
        wake(after, alloc.node_id(), woken);
    }
}

fn wake(after: &State, node: NodeId, woken: &mut BTreeMap<NodeId, Index>) {
    if let Some(node) = after.node(node) {
        woken.insert(node.id(), node.work_index());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::alloc::DesiredStatus;
    use model::change::{AllocsChanged, NodesChanged};
    use model::node::NodeStatus;

    use super::*;
    use crate::scene::{alloc, following, job, node, placed, ready, state};

    /// Three nodes and a job with allocations 1 and 2 on node 1 and 3 on node 2, at index 2.
    fn scene() -> State {
        let job = job(1, 0);
        let placed = placed(&job, [(1, 1), (2, 1), (3, 2)]);
        state([vec![ready(1), ready(2), ready(3)], vec![Change::Job(Box::new(job)), placed]])
    }

    /// Who is woken by changes, as the nodes' numbers, with which index.
    fn woken(before: State, changes: Vec<Change>) -> Vec<(NodeId, Index)> {
        let set = following(&before, changes);
        let mut after = before.clone();
        after.apply(&set).unwrap();
        let step = Step { before: Arc::new(before), set: Arc::new(set), after: Arc::new(after) };
        nodes_with_news(&step).into_iter().collect()
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
        assert_eq!(woken(scene(), vec![placed]), [(node(1), Index(3)), (node(3), Index(3))]);
    }

    #[test]
    fn what_the_servers_change_is_news_and_an_agents_own_report_is_not() {
        assert_eq!(woken(scene(), vec![changed(&[1, 2], true)]), [(node(1), Index(3))]);
        assert_eq!(woken(scene(), vec![changed(&[1, 2, 3], false)]), []);
    }

    #[test]
    fn an_allocation_that_is_written_whole_is_news() {
        let before = scene();
        let whole = Box::new(before.alloc(alloc(3)).unwrap().to_allocation());
        assert_eq!(woken(before, vec![Change::Alloc(whole)]), [(node(2), Index(3))]);
    }

    #[test]
    fn nodes_whose_allocations_are_deleted_are_woken() {
        let deleted = Change::AllocsDeleted([alloc(1), alloc(3)].into_iter().collect());
        assert_eq!(woken(scene(), vec![deleted]), [(node(1), Index(3)), (node(2), Index(3))]);
    }

    #[test]
    fn a_node_that_is_gone_is_not_woken() {
        let changes = vec![Change::NodesDeleted(vec![node(1)]), changed(&[1, 3], true)];
        assert_eq!(woken(scene(), changes), [(node(2), Index(3))]);
    }

    #[test]
    fn a_nodes_own_status_is_no_news_of_its_work() {
        let change =
            NodesChanged { ids: vec![node(1)], status: Some(NodeStatus::Down), ..Default::default() };
        assert_eq!(woken(scene(), vec![Change::NodesChanged(Box::new(change))]), []);
    }
}
