//! Spans of sending work to nodes. They continue the traces in which the work was placed.

use std::sync::Arc;

use model::NodeId;
use telemetry::{attribute, traces};
use tracing::Span;
use wire::Subject;
use wire::node::WorkAllocs;

/// How a node receives its work.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Delivery {
    /// The work is part of a wake.
    Wake,
    /// The work answers a request of the node.
    Request,
}

/// Starts a span for each traced group of allocations and puts its context into the message, so that the agent's spans
/// become its children. The spans end when the returned vector is dropped, after the message was sent.
pub(crate) fn start_spans(allocs: &mut WorkAllocs, node: NodeId, delivery: Delivery) -> Vec<Span> {
    if !traces::are_exported() {
        return Vec::new();
    }
    let mut spans = Vec::new();
    for common in &mut allocs.commons {
        let Some(trace) = common.common.trace else { continue };
        let span = span(node, delivery);
        span.record(attribute::JOB_ID, &*common.common.job.job.id);
        span.record(attribute::JOB_NAMESPACE, &*common.common.job.job.namespace);
        telemetry::adopt(&span, &trace);
        span.in_scope(|| tracing::debug!(node.id = %node, eval.id = %common.common.eval_id, "sending work"));
        if let Some(context) = traces::trace_of(&span) {
            Arc::make_mut(&mut common.common).trace = Some(context);
            spans.push(span);
        }
    }
    spans
}

fn span(node: NodeId, delivery: Delivery) -> Span {
    let (operation, subject) = match delivery {
        Delivery::Wake => ("send", Subject::AgentWake(node).to_string()),
        Delivery::Request => ("reply", Subject::NodeWork(node).to_string()),
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
