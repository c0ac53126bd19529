//! Spans: trace contexts into and out of them, parents and links, errors, and spans that are recorded after the fact.
//!
//! Every function here returns at once where spans are not exported.

pub mod attributes;
mod past;
mod sampler;

use std::collections::HashSet;
use std::sync::OnceLock;

use model::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState};
use opentelemetry_sdk::trace::SdkTracer;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::Targets;

pub use past::{Attribute, record_past};
pub(crate) use sampler::LinkedSampler;

/// The most links of one span; the SDK's own limit is the same.
const LINKS_MAX: usize = 128;

/// Creates the spans of this process. Set if spans are exported.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Makes spans of this process go to a tracer.
pub(crate) fn set_up(tracer: SdkTracer) {
    // Fails on a second call, which `init` refuses before.
    let _ = TRACER.set(tracer);
}

/// Whether spans of this process are exported.
pub fn are_exported() -> bool {
    TRACER.get().is_some()
}

/// Trace context of the current span; `None` outside of any span, and where spans are not exported.
pub fn current_trace() -> Option<TraceContext> {
    if are_exported() { trace_of(&Span::current()) } else { None }
}

/// Trace context of a span, which starts with this call if it has not started; `None` if the span is disabled.
pub fn trace_of(span: &Span) -> Option<TraceContext> {
    if span.is_disabled() {
        return None;
    }
    let context = span.context();
    from_otel(context.span().span_context())
}

fn from_otel(found: &SpanContext) -> Option<TraceContext> {
    if !found.is_valid() {
        return None;
    }
    let trace_id = u128::from_be_bytes(found.trace_id().to_bytes());
    let span_id = u64::from_be_bytes(found.span_id().to_bytes());
    TraceContext::new(trace_id, span_id, found.trace_flags().to_u8())
}

fn to_otel(trace: &TraceContext) -> SpanContext {
    SpanContext::new(
        TraceId::from(trace.trace_id()),
        SpanId::from(trace.span_id()),
        TraceFlags::new(trace.flags()),
        true,
        TraceState::default(),
    )
}

/// A span within the current one; disabled outside of any, where it would begin a trace of its own.
pub fn within(span: impl FnOnce() -> Span) -> Span {
    if current_trace().is_some() { span() } else { Span::none() }
}

/// Makes a span, which must not have been entered yet, a child of a span of another process.
pub fn adopt(span: &Span, trace: &TraceContext) {
    // Fails only where spans are not exported; then there is no trace to be part of.
    let _ = span.set_parent(Context::new().with_remote_span_context(to_otel(trace)));
}

/// Does something in a trace without a span of its own, so that what it logs carries the ids of the trace and the span.
pub fn in_trace<T>(trace: &TraceContext, work: impl FnOnce() -> T) -> T {
    if !are_exported() {
        return work();
    }
    let _attached = Context::new().with_remote_span_context(to_otel(trace)).attach();
    work()
}

/// Links a span to another span.
pub fn link(span: &Span, trace: &TraceContext) {
    span.add_link(to_otel(trace));
}

/// How the span of a batch relates to the spans that its items belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// It is the root of a trace of its own, with a link to each item, or no item is traced. The items' own spans should
    /// link to it.
    Root,
    /// All items belong to one trace: it is the child of the first item's span, with a link to each other item.
    Child,
}

/// Relates the span of a batch, which must not have been entered yet, to the spans that its items belong to.
///
/// A span has one parent. A batch whose items all belong to one trace becomes a part of that trace. Where they belong to
/// several, the batch gets a trace of its own and links to them, as OpenTelemetry's conventions for messages prescribe.
pub fn join(span: &Span, items: impl IntoIterator<Item = TraceContext>) -> Joined {
    if span.is_disabled() {
        return Joined::Root;
    }
    let mut seen = HashSet::new();
    let mut items: Vec<TraceContext> =
        items.into_iter().filter(|item| seen.insert((item.trace_id(), item.span_id()))).collect();
    let Some(first) = items.first().copied() else { return Joined::Root };
    let joined = if items.iter().all(|item| item.trace_id() == first.trace_id()) {
        adopt(span, &first);
        items.remove(0);
        Joined::Child
    } else {
        // Links to spans that nobody records lead nowhere; they are the first to be left out.
        items.sort_by_key(|item| item.flags() & TraceFlags::SAMPLED.to_u8() == 0);
        Joined::Root
    };
    link_all(span, items);
    joined
}

/// Links a span to other spans, as many as a span can have links.
pub fn link_all(span: &Span, traces: impl IntoIterator<Item = TraceContext>) {
    traces.into_iter().take(LINKS_MAX).for_each(|trace| link(span, &trace));
}

/// Marks a span as failed. `kind` is a short name of the class of error, of few different values.
pub fn fail(span: &Span, kind: &'static str, message: &str) {
    if span.is_disabled() {
        return;
    }
    span.set_attribute(attributes::ERROR_TYPE, kind);
    span.set_status(Status::error(message.to_owned()));
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

/// None at all.
pub(crate) fn no_spans() -> Targets {
    Targets::new()
}

#[cfg(test)]
mod tests;
