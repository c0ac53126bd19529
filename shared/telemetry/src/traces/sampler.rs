//! Head sampling of batches: a root span with links is sampled if at least one linked span is sampled.

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};

/// Samples root spans by their links, and leaves all other decisions to the sampler of the `OTEL_TRACES_SAMPLER`
/// variables. That sampler would sample batches independently of their items, and links of sampled items would then
/// lead nowhere.
#[derive(Debug, Clone)]
pub(crate) struct LinkedSampler {
    inner: Box<dyn ShouldSample>,
}

impl LinkedSampler {
    /// A sampler that wraps the sampler of the standard environment variables.
    pub(crate) fn from_env() -> Self {
        Self::around(opentelemetry_sdk::trace::Config::default().sampler)
    }

    pub(super) fn around(inner: Box<dyn ShouldSample>) -> Self {
        Self { inner }
    }
}

impl ShouldSample for LinkedSampler {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let has_parent = parent.is_some_and(Context::has_active_span);
        if has_parent || links.is_empty() {
            return self.inner.should_sample(parent, trace_id, name, kind, attributes, links);
        }
        let decision = if links.iter().any(|link| link.span_context.is_sampled()) {
            SamplingDecision::RecordAndSample
        } else {
            SamplingDecision::Drop
        };
        SamplingResult { decision, attributes: Vec::new(), trace_state: TraceState::default() }
    }
}
