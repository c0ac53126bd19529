//! Spans: conversion of trace contexts, parents and links, errors, and spans that are recorded afterwards.
//!
//! If spans are not exported, none is created. A trace that a client or another process began is passed on nevertheless
//! ([`follow`]), so that log lines, messages and objects carry its id.

pub mod attributes;
mod past;
mod sampler;

use std::collections::HashSet;
use std::sync::OnceLock;

use model::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{
    FutureExt as _, SpanContext, SpanId, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
};
use opentelemetry_sdk::trace::SdkTracer;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::Targets;

pub use past::{Attribute, record_past};
pub(crate) use sampler::LinkedSampler;

/// Maximum number of links of a span; equal to the SDK's limit.
const LINKS_MAX: usize = 128;

/// Creates the spans of this process. Set only if spans are exported.
static TRACER: OnceLock<SdkTracer> = OnceLock::new();

/// Sets the tracer that records the spans of this process.
pub(crate) fn set_up(tracer: SdkTracer) {
    // Fails on a second call, which `init` already refuses.
    let _ = TRACER.set(tracer);
}

/// Whether spans of this process are exported.
pub fn are_exported() -> bool {
    TRACER.get().is_some()
}

/// The context of the current span or, where spans are not exported, of the trace that the current work follows; `None`
/// outside of any trace.
pub fn current_trace() -> Option<TraceContext> {
    Context::map_current(|context| from_otel(context.span().span_context()))
}

/// The trace context of a span; `None` if the span is disabled. A span that has not started yet starts with this call.
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

/// Creates a span if there is a current span; otherwise returns a disabled span, so that no new trace begins.
pub fn within(span: impl FnOnce() -> Span) -> Span {
    if current_trace().is_some() { span() } else { Span::none() }
}

/// Makes a span of another process the parent of `span`, which must not have been entered yet.
pub fn adopt(span: &Span, trace: &TraceContext) {
    // Fails only if spans are not exported.
    let _ = span.set_parent(remote(trace));
}

/// Runs `work` in a trace without creating a span, so that its log lines and messages carry the ids of the trace and the
/// span.
pub fn in_trace<T>(trace: &TraceContext, work: impl FnOnce() -> T) -> T {
    let _attached = remote(trace).attach();
    work()
}

/// Like [`in_trace`], for a future. Without a trace, `work` stays in that of the caller. A span that `work` enters takes
/// precedence, so this has an effect where spans are not exported.
pub fn follow<F: Future>(trace: Option<TraceContext>, work: F) -> impl Future<Output = F::Output> {
    work.with_context(trace.as_ref().map_or_else(Context::current, remote))
}

/// A context in which a span of another process is the current one.
fn remote(trace: &TraceContext) -> Context {
    Context::new().with_remote_span_context(to_otel(trace))
}

/// Links a span to another span.
pub fn link(span: &Span, trace: &TraceContext) {
    span.add_link(to_otel(trace));
}

/// The relation between the span of a batch and the spans of its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joined {
    /// The batch is the root of a new trace, with a link to each item, or no item is traced. The items' own spans
    /// should link to the batch.
    Root,
    /// All items belong to one trace. The batch is a child of the first item's span, with a link to every other item.
    Child,
}

/// Relates the span of a batch, which must not have been entered yet, to the spans of its items.
///
/// A span has one parent. If all items belong to one trace, the batch becomes a part of that trace. If they belong to
/// several traces, the batch gets its own trace and links to the items, as OpenTelemetry's conventions for messaging
/// prescribe.
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
        // Links to unsampled spans are the least useful, so they are the first to be left out.
        items.sort_by_key(|item| item.flags() & TraceFlags::SAMPLED.to_u8() == 0);
        Joined::Root
    };
    link_all(span, items);
    joined
}

/// Links a span to other spans, up to the maximum number of links.
pub fn link_all(span: &Span, traces: impl IntoIterator<Item = TraceContext>) {
    traces.into_iter().take(LINKS_MAX).for_each(|trace| link(span, &trace));
}

/// Marks a span as failed. `kind` is the class of the error, with low cardinality.
pub fn fail(span: &Span, kind: &'static str, message: &str) {
    if span.is_disabled() {
        return;
    }
    span.set_attribute(attributes::ERROR_TYPE, kind);
    span.set_status(Status::error(message.to_owned()));
}

/// The crates of this workspace that create spans and write logs.
const OWN_CRATES: [&str; 10] = [
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

/// Whether a module belongs to this workspace.
pub(crate) fn is_own_crate(target: &str) -> bool {
    target.split("::").next().is_some_and(|name| OWN_CRATES.contains(&name))
}

/// A filter for the spans that make up a trace: those of this workspace, without those of libraries.
pub(crate) fn filter() -> Targets {
    Targets::new().with_targets(OWN_CRATES.map(|target| (target, tracing::Level::INFO)))
}

/// A filter that enables no spans.
pub(crate) fn no_spans() -> Targets {
    Targets::new()
}

#[cfg(test)]
mod tests;
