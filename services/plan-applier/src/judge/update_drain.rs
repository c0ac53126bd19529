//! Starts, changes and cancels drains of nodes (N-9).

use std::collections::BTreeMap;

use model::change::{Change, NodesChanged};
use model::cluster::Singleton;
use model::node::{DrainStatus, Eligibility, LastDrain, NodeServerSide};
use model::{Text, Timestamp};
use wire::command::{Done, DrainOwnNode, Handler, UpdateDrain};
use wire::{Refusal, RefusalKind};

use super::nodes::affected_jobs;
use super::work::{Work, refusal};

/// The subsystem of node events about drains.
pub(super) const DRAIN: &str = "Drain";

impl Handler<UpdateDrain> for Work<'_> {
    fn handle(&mut self, command: UpdateDrain) -> Result<Done, Refusal> {
        update(self, command)
    }
}

/// The drain names the node itself as the one who requested it, with the reason (N-10.13).
impl Handler<DrainOwnNode> for Work<'_> {
    fn handle(&mut self, command: DrainOwnNode) -> Result<Done, Refusal> {
        let DrainOwnNode { epoch, node, drain } = command;
        self.check_epoch(Singleton::NodeTracker, epoch)?;
        let [key, reason] = ["message", "shutting down"].map(Text::from);
        let meta = BTreeMap::from([(key, reason)]);
        let accessor_id = Text::from(format!("client:{node}"));
        update(self, UpdateDrain { node, drain: Some(drain), mark_eligible: false, meta, accessor_id })
    }
}

fn update(work: &mut Work<'_>, command: UpdateDrain) -> Result<Done, Refusal> {
    let UpdateDrain { node: id, drain, mark_eligible, meta, accessor_id } = command;
    let Some(node) = work.state().node(id) else {
        return Err(refusal(RefusalKind::NotFound, "node not found"));
    };
    let (before, at) = (node.server().clone(), work.at());
    let drain = drain.map(|spec| spec.begin(before.drain.map_or(at, |drain| drain.started_at), at));
    let eligibility = match drain {
        Some(_) => Eligibility::Ineligible,
        None if mark_eligible => Eligibility::Eligible,
        None => before.eligibility,
    };
    let becomes_eligible = eligibility != before.eligibility && eligibility == Eligibility::Eligible;
    let (was_draining, is_draining) = (before.drain.is_some(), drain.is_some());
    if !was_draining && !is_draining && !becomes_eligible {
        return Ok(Done { object_index: before.modify_index, ..Done::default() });
    }
    let last_drain = match (was_draining, is_draining) {
        (false, false) => before.last_drain.clone(),
        (false, true) => Some(begun(at, meta, accessor_id)),
        (true, _) => {
            let last =
                before.last_drain.clone().unwrap_or_else(|| begun(at, meta.clone(), accessor_id.clone()));
            let status = if is_draining { DrainStatus::Draining } else { DrainStatus::Canceled };
            let meta = if meta.is_empty() { last.meta } else { meta };
            let accessor_id = if accessor_id.is_empty() { last.accessor_id } else { accessor_id };
            Some(LastDrain { updated_at: at, status, meta, accessor_id, ..last })
        }
    };
    let server = NodeServerSide {
        drain,
        last_drain,
        eligibility,
        status_updated_at: at,
        modify_index: work.index(),
        ..before
    };
    work.apply(Change::NodeServerSide { id, server: Box::new(server) })?;
    let message = match (was_draining, is_draining) {
        (false, true) => Some("Node drain strategy set"),
        (true, true) => Some("Node drain strategy updated"),
        (true, false) => Some("Node drain disabled"),
        (false, false) => None,
    };
    if let Some(message) = message {
        let event = Some(work.node_event(DRAIN, message));
        let changed = NodesChanged { ids: vec![id], event, ..NodesChanged::default() };
        work.apply(Change::NodesChanged(Box::new(changed)))?;
    }
    if becomes_eligible {
        work.unblock_node(id);
        let affected = affected_jobs(work.state(), &[id]);
        work.evaluate_affected(affected)?;
    }
    Ok(Done { object_index: work.index(), ..Done::default() })
}

/// The record of a drain that begins (N-9.6).
fn begun(at: Timestamp, meta: BTreeMap<Text, Text>, accessor_id: Text) -> LastDrain {
    LastDrain { started_at: at, updated_at: at, status: DrainStatus::Draining, accessor_id, meta }
}
