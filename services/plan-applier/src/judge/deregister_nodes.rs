//! Deletes nodes. Allocations on them are lost, so the affected jobs are evaluated (N-11.1).

use model::change::Change;
use wire::command::{DeregisterNodes, Done};
use wire::{Refusal, RefusalKind};

use super::nodes::affected_jobs;
use super::work::{Work, refusal};

pub(super) fn deregister_nodes(work: &mut Work<'_>, command: &DeregisterNodes) -> Result<Done, Refusal> {
    if command.nodes.is_empty() {
        return Err(refusal(RefusalKind::Invalid, "missing node ID(s) for client deregistration"));
    }
    if command.nodes.iter().any(|node| work.state().node(*node).is_none()) {
        return Err(refusal(RefusalKind::NotFound, "node not found"));
    }
    // Before the deletion, because affected system jobs are found through the nodes.
    let affected = affected_jobs(work.state(), &command.nodes);
    work.apply(Change::NodesDeleted(command.nodes.clone()))?;
    work.evaluate_affected(affected)?;
    Ok(Done { object_index: work.index(), ..Done::default() })
}
