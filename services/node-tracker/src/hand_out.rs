//! The span of handing out work: what becomes of it on a node belongs to the trace that it comes from.

use std::sync::Arc;

use model::NodeId;
use wire::node::WorkAllocs;

/// Makes what a node was handed a part of the traces that it comes from: the agent's spans follow from here.
pub(crate) fn trace(allocs: &mut WorkAllocs, node: NodeId) {
    for common in &mut allocs.commons {
        let Some(trace) = common.common.trace else { continue };
        let span = tracing::info_span!("node-tracker.hand-out", node.id = %node);
        telemetry::adopt(&span, &trace);
        if let Some(handed) = span.in_scope(telemetry::current_trace) {
            Arc::make_mut(&mut common.common).trace = Some(handed);
        }
    }
}
