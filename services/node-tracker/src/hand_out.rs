//! Spans of handing out work: what becomes of it on a node belongs to the trace that it comes from.

use std::sync::Arc;

use model::NodeId;
use telemetry::{attribute, traces};
use tracing::Span;
use wire::Subject;
use wire::node::WorkAllocs;

/// How a node learns of its work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum By {
    /// With a wake.
    Wake,
    /// It asks.
    Request,
}

/// Makes what a node is handed a part of the traces that it comes from: the agent's spans are children of these. They
/// last until they are dropped, when the work has been sent.
pub(crate) fn trace(allocs: &mut WorkAllocs, node: NodeId, by: By) -> Vec<Span> {
    if !traces::are_exported() {
        return Vec::new();
    }
    let mut spans = Vec::new();
    for common in &mut allocs.commons {
        let Some(trace) = common.common.trace else { continue };
        let span = span(node, by);
        span.record(attribute::JOB_ID, &*common.common.job.job.id);
        span.record(attribute::JOB_NAMESPACE, &*common.common.job.job.namespace);
        telemetry::adopt(&span, &trace);
        span.in_scope(
            || tracing::debug!(node.id = %node, eval.id = %common.common.eval_id, "handing out work"),
        );
        if let Some(handed) = traces::trace_of(&span) {
            Arc::make_mut(&mut common.common).trace = Some(handed);
            spans.push(span);
        }
    }
    spans
}

fn span(node: NodeId, by: By) -> Span {
    let (operation, subject) = match by {
        By::Wake => ("send", Subject::AgentWake(node).to_string()),
        By::Request => ("reply", Subject::NodeWork(node).to_string()),
    };
    let template = Subject::template(&subject);
    tracing::info_span!(
        parent: None,
        "hand out",
        otel.name = %format_args!("{operation} {template}"),
        otel.kind = "producer",
        { attribute::MESSAGING_SYSTEM } = "nats",
        { attribute::MESSAGING_OPERATION_NAME } = operation,
        { attribute::MESSAGING_OPERATION_TYPE } = "send",
        { attribute::MESSAGING_DESTINATION_NAME } = subject,
        { attribute::MESSAGING_DESTINATION_TEMPLATE } = &*template,
        { attribute::NODE_ID } = %node,
        { attribute::JOB_ID } = tracing::field::Empty,
        { attribute::JOB_NAMESPACE } = tracing::field::Empty,
    )
}
