//! The objects that every cluster has from the beginning.

use model::change::Change;
use model::cluster::{Namespace, NodePool, Preemption, SchedulerAlgorithm, SchedulerConfig};
use state::State;

/// The changes that create the missing ones of these objects; `None` if none is missing. The applier commits them before
/// the first command.
pub fn bootstrap(state: &State) -> Option<Vec<Change>> {
    let index = state.index().next();
    let mut changes = Vec::new();
    if state.namespace(Namespace::DEFAULT).is_none() {
        changes.push(Change::Namespace(Box::new(Namespace {
            name: Namespace::DEFAULT.into(),
            description: "Default shared namespace".into(),
            create_index: index,
            modify_index: index,
            ..Namespace::default()
        })));
    }
    let pools = [
        (NodePool::ALL, "Node pool with all nodes in the cluster."),
        (NodePool::DEFAULT, "Default node pool."),
    ];
    for (name, description) in pools {
        if state.node_pool(name).is_none() {
            changes.push(Change::NodePool(Box::new(NodePool {
                name: name.into(),
                description: description.into(),
                create_index: index,
                modify_index: index,
                ..NodePool::default()
            })));
        }
    }
    if state.scheduler_config().is_none() {
        changes.push(Change::SchedulerConfig(SchedulerConfig {
            algorithm: Some(SchedulerAlgorithm::Binpack),
            preemption: Preemption { system: true, ..Preemption::default() },
            create_index: index,
            modify_index: index,
            ..SchedulerConfig::default()
        }));
    }
    (!changes.is_empty()).then_some(changes)
}
