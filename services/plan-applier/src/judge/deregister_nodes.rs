//! Deletes nodes. Allocations on them are lost, so the affected jobs are evaluated (N-11.1).

use model::change::Change;
use wire::command::{DeregisterNodes, Done, Handler};
use wire::{Refusal, RefusalKind};

use super::host_volumes;
use super::nodes::affected_jobs;
use super::work::{Work, refusal};

impl Handler<DeregisterNodes> for Work<'_> {
    fn handle(&mut self, command: DeregisterNodes) -> Result<Done, Refusal> {
        if command.nodes.is_empty() {
            return Err(refusal(RefusalKind::Invalid, "missing node ID(s) for client deregistration"));
        }
        if command.nodes.iter().any(|node| self.state().node(*node).is_none()) {
            return Err(refusal(RefusalKind::NotFound, "node not found"));
        }
        // Before the deletion, because affected system jobs are found through the nodes.
        let affected = affected_jobs(self.state(), &command.nodes);
        host_volumes::lose_nodes(self, &command.nodes)?;
        self.apply(Change::NodesDeleted(command.nodes))?;
        self.evaluate_affected(affected)?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
