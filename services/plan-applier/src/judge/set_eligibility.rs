//! Sets whether a node is eligible for new allocations (N-9.9).

use model::change::{Change, NodesChanged};
use model::node::{Eligibility, NodeServerSide};
use wire::command::{Done, Handler, SetEligibility};
use wire::{Refusal, RefusalKind};

use super::nodes::{CLUSTER, affected_jobs};
use super::work::{Work, refusal};

impl Handler<SetEligibility> for Work<'_> {
    fn handle(&mut self, command: SetEligibility) -> Result<Done, Refusal> {
        let SetEligibility { node: id, eligibility } = command;
        let Some(node) = self.state().node(id) else {
            return Err(refusal(RefusalKind::NotFound, "node not found"));
        };
        let server = node.server().clone();
        if server.eligibility == eligibility {
            return Ok(Done { object_index: server.modify_index, ..Done::default() });
        }
        let is_eligible = eligibility == Eligibility::Eligible;
        if is_eligible && server.drain.is_some() {
            let message = "can not set node's scheduling eligibility to eligible while it is draining";
            return Err(refusal(RefusalKind::Invalid, message));
        }
        let server = NodeServerSide { eligibility, modify_index: self.index(), ..server };
        self.apply(Change::NodeServerSide { id, server: Box::new(server) })?;
        let message = format!("Node marked as {eligibility} for scheduling");
        let event = Some(self.node_event(CLUSTER, &message));
        self.apply(Change::NodesChanged(Box::new(NodesChanged {
            ids: vec![id],
            event,
            ..NodesChanged::default()
        })))?;
        if is_eligible {
            self.unblock_node(id);
            let affected = affected_jobs(self.state(), &[id]);
            self.evaluate_affected(affected)?;
        }
        Ok(Done { object_index: self.index(), ..Done::default() })
    }
}
