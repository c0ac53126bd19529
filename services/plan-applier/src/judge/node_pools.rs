//! Creates, changes and deletes node pools (http-api §17).

use std::sync::Arc;

use model::change::Change;
use model::cluster::NodePool;
use model::job::{Job, JobStatus};
use model::text::quoted;
use wire::command::{DeleteNodePool, Done, Handler, SetNodePool};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal, refusal_of};

impl Handler<SetNodePool> for Work<'_> {
    fn handle(&mut self, command: SetNodePool) -> Result<Done, Refusal> {
        let (index, name) = (self.index(), &command.pool.name);
        if NodePool::is_built_in(name) {
            let message = format!("modifying node pool {name:?} is not allowed");
            return Err(refusal(RefusalKind::Invalid, message));
        }
        let create_index = self.state().node_pool(name).map_or(index, |stored| stored.create_index);
        let pool = NodePool { create_index, modify_index: index, ..command.pool };
        self.apply(Change::NodePool(Box::new(pool)))?;
        Ok(Done { object_index: index, ..Done::default() })
    }
}

/// Deletes a node pool, unless it contains a node, or a job that is not dead.
impl Handler<DeleteNodePool> for Work<'_> {
    fn handle(&mut self, command: DeleteNodePool) -> Result<Done, Refusal> {
        let (state, name) = (self.state(), &command.name);
        if state.node_pool(name).is_none() {
            return Err(refusal(RefusalKind::NotFound, format!("node pool {name} not found")));
        }
        let has_nodes = **name == *NodePool::ALL || state.nodes().any(|node| node.spec().node_pool == *name);
        let is_live = |job: &Arc<Job>| job.spec.node_pool == *name && job.status != JobStatus::Dead;
        let contents = [("nodes", has_nodes), ("non-terminal jobs", state.jobs().any(is_live))];
        let problems = contents.into_iter().filter(|(_, has_some)| *has_some);
        let problems: Vec<_> = problems
            .map(|(what, _)| format!("node pool {} has {what} in regions: [global]", quoted(name)))
            .collect();
        if !problems.is_empty() {
            return Err(refusal_of(RefusalKind::Conflict, &problems));
        }
        if NodePool::is_built_in(name) {
            return Err(refusal(RefusalKind::Invalid, format!("deleting node pool {name:?} is not allowed")));
        }
        self.apply(Change::NodePoolDeleted(name.clone()))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
