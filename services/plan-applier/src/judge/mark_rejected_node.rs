//! Makes a node ineligible for new allocations because plans are rejected on it again and again.

use model::change::{Change, NodesChanged};
use model::node::{Eligibility, NodeServerSide};
use wire::command::{Done, Handler, MarkRejectedNode};
use wire::{Refusal, RefusalKind};

use super::work::{Work, refusal};

/// The subsystem of the node event.
const SCHEDULER: &str = "Scheduler";
const MESSAGE: &str = "Node marked as ineligible for scheduling due to multiple plan rejections";

impl Handler<MarkRejectedNode> for Work<'_> {
    fn handle(&mut self, command: MarkRejectedNode) -> Result<Done, Refusal> {
        let id = command.node;
        let Some(node) = self.state().node(id) else {
            return Err(refusal(RefusalKind::NotFound, "node not found"));
        };
        let server = node.server().clone();
        if server.eligibility == Eligibility::Ineligible {
            return Ok(Done { object_index: server.modify_index, ..Done::default() });
        }
        let eligibility = Eligibility::Ineligible;
        let server = NodeServerSide { eligibility, modify_index: self.index(), ..server };
        self.apply(Change::NodeServerSide { id, server: Box::new(server) })?;
        let event = Some(self.node_event(SCHEDULER, MESSAGE));
        let marked = NodesChanged { ids: vec![id], event, ..NodesChanged::default() };
        self.apply(Change::NodesChanged(Box::new(marked)))?;
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
