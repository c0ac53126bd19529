//! Nodes are forgotten; what is on them is lost, which their jobs must hear of (N-11.1).

use model::change::Change;
use wire::command::{DeregisterNodes, Done};
use wire::{Refusal, RefusalKind};

use super::nodes::jobs_concerned;
use super::work::{Work, refusal};

pub(super) fn deregister_nodes(work: &mut Work<'_>, command: &DeregisterNodes) -> Result<Done, Refusal> {
    if command.nodes.is_empty() {
        return Err(refusal(RefusalKind::Invalid, "missing node ID(s) for client deregistration"));
    }
    if command.nodes.iter().any(|node| work.state().node(*node).is_none()) {
        return Err(refusal(RefusalKind::NotFound, "node not found"));
    }
    // Which system jobs were on them only they themselves can tell.
    let concerned = jobs_concerned(work.state(), &command.nodes);
    work.apply(Change::NodesDeleted(command.nodes.clone()))?;
    work.evaluate_concerned(concerned)?;
    Ok(Done { object_index: work.index(), ..Done::default() })
}
