//! Head sampling of batches: a root span with links is sampled if one of the spans that it links to is.

use opentelemetry::trace::{Link, SpanKind, TraceContextExt, TraceId, TraceState};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{SamplingDecision, SamplingResult, ShouldSample};

/// Decides by links where there is no parent, and leaves all other decisions to the sampler of the `OTEL_TRACES_SAMPLER`
/// variables. Otherwise a batch would be sampled by a chance of its own, and links of sampled spans would lead nowhere.
#[derive(Debug, Clone)]
pub(crate) struct LinkedSampler {
    inner: Box<dyn ShouldSample>,
}

impl LinkedSampler {
    /// A sampler that decides as the standard environment variables say, except for batches.
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
