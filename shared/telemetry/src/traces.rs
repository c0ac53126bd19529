//! Trace contexts into and out of spans. Messages carry them (`bus`), and so do evaluations and allocations.

use model::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::Targets;

/// The current span's place in its trace; `None` outside of any, and where traces are not exported.
pub fn current_trace() -> Option<TraceContext> {
    let context = Span::current().context();
    let span = context.span();
    let found = span.span_context();
    if !found.is_valid() {
        return None;
    }
    let trace_id = u128::from_be_bytes(found.trace_id().to_bytes());
    let span_id = u64::from_be_bytes(found.span_id().to_bytes());
    TraceContext::new(trace_id, span_id, found.trace_flags().to_u8())
}

/// Makes a span, which must not have been entered yet, a part of somebody else's trace.
pub fn adopt(span: &Span, trace: &TraceContext) {
    let parent = SpanContext::new(
        TraceId::from(trace.trace_id()),
        SpanId::from(trace.span_id()),
        TraceFlags::new(trace.flags()),
        true,
        TraceState::default(),
    );
    // Fails only where spans are not exported; then there is no trace to be part of.
    let _ = span.set_parent(Context::new().with_remote_span_context(parent));
}

/// The crates of this house that make spans and write logs.
const OURS: [&str; 10] = [
    "agent",
    "api",
    "bus",
    "deployment_watcher",
    "drover",
    "eval_broker",
    "node_tracker",
    "plan_applier",
    "scheduler",
    "store",
];

/// Whether a module is this house's.
pub(crate) fn is_ours(target: &str) -> bool {
    target.split("::").next().is_some_and(|name| OURS.contains(&name))
}

/// Which spans make up a trace: this house's, not those that libraries make for themselves.
pub(crate) fn filter() -> Targets {
    Targets::new().with_targets(OURS.map(|target| (target, tracing::Level::INFO)))
}
