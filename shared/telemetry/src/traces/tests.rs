//! Tests of trace contexts, parents, links and sampling.

use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::trace::{SpanKind, TracerProvider as _};
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider, SpanData, SpanExporter};
use tracing::Level;
use tracing_subscriber::layer::SubscriberExt as _;

use super::attributes::ERROR_TYPE;
use super::*;

/// An exporter that collects spans.
#[derive(Debug, Clone, Default)]
struct Collected(Arc<Mutex<Vec<SpanData>>>);

impl SpanExporter for Collected {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(batch);
        Ok(())
    }
}

/// The spans that `work` creates, in the order in which they end.
fn spans_of(sampler: Sampler, work: impl FnOnce()) -> Vec<SpanData> {
    let exporter = Collected::default();
    let provider = SdkTracerProvider::builder()
        .with_sampler(LinkedSampler::around(Box::new(sampler)))
        .with_simple_exporter(exporter.clone())
        .build();
    let tracer = provider.tracer("test");
    let subscriber = tracing_subscriber::registry().with(tracing_opentelemetry::layer().with_tracer(tracer));
    tracing::subscriber::with_default(subscriber, work);
    drop(provider);
    std::mem::take(&mut *exporter.0.lock().unwrap_or_else(PoisonError::into_inner))
}

fn context(trace: u128, span: u64, flags: u8) -> TraceContext {
    TraceContext::new(trace, span, flags).unwrap()
}

fn batch(items: impl IntoIterator<Item = TraceContext>) -> Joined {
    let span = tracing::span!(Level::INFO, "batch");
    let joined = join(&span, items);
    span.in_scope(|| {});
    joined
}

fn links(span: &SpanData) -> Vec<u64> {
    span.links.iter().map(|link| u64::from_be_bytes(link.span_context.span_id().to_bytes())).collect()
}

#[test]
fn a_batch_of_one_trace_is_part_of_it() {
    let spans = spans_of(Sampler::AlwaysOn, || {
        let items = [context(1, 11, 1), context(1, 12, 1), context(1, 11, 1)];
        assert_eq!(batch(items), Joined::Child);
    });
    let span = &spans[0];
    assert_eq!(span.span_context.trace_id(), TraceId::from(1));
    assert_eq!((span.parent_span_id, links(span)), (SpanId::from(11), vec![12]));
}

#[test]
fn a_batch_of_several_traces_is_a_root_that_links_to_all() {
    let spans = spans_of(Sampler::AlwaysOff, || {
        assert_eq!(batch([context(1, 11, 0), context(2, 12, 1), context(3, 13, 1)]), Joined::Root);
        assert_eq!(batch([context(1, 11, 0), context(2, 12, 0)]), Joined::Root);
        assert_eq!(batch([]), Joined::Root);
    });
    // The second batch has only unsampled traces. The third has no links, so the given sampler decides.
    assert_eq!(spans.len(), 1, "{spans:?}");
    assert_eq!(spans[0].parent_span_id, SpanId::INVALID);
    assert_eq!(links(&spans[0]), [12, 13, 11], "sampled spans come first");
}

#[test]
fn links_are_bounded() {
    let spans = spans_of(Sampler::AlwaysOn, || {
        batch((1..1_000).map(|number| context(number, 7, 1)));
    });
    assert_eq!((links(&spans[0]).len(), spans[0].links.dropped_count), (LINKS_MAX, 0));
}

#[test]
fn a_client_that_does_not_sample_is_respected() {
    for flags in [0, 1] {
        let spans = spans_of(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)), || {
            let span = tracing::span!(Level::INFO, "request", otel.kind = "server");
            adopt(&span, &context(1, 11, flags));
            let inside = span.in_scope(|| trace_of(&Span::current())).unwrap();
            assert_eq!(
                (inside.trace_id(), inside.flags()),
                (1, flags),
                "the trace id is passed on even if unsampled"
            );
        });
        assert_eq!(spans.len(), usize::from(flags));
        assert!(spans.iter().all(|span| span.span_kind == SpanKind::Server));
    }
}

#[test]
fn a_failed_span_says_so() {
    let spans = spans_of(Sampler::AlwaysOn, || {
        let span = tracing::span!(Level::INFO, "work");
        span.in_scope(|| {});
        fail(&span, "timeout", "no response in time");
    });
    assert_eq!(spans[0].status, Status::error("no response in time"));
    assert!(spans[0].attributes.iter().any(|found| found.key.as_str() == ERROR_TYPE));
}

#[test]
fn a_disabled_span_has_no_trace() {
    let spans = spans_of(Sampler::AlwaysOn, || {
        assert_eq!(trace_of(&Span::none()), None);
        assert_eq!(join(&Span::none(), [context(1, 11, 1)]), Joined::Root);
        fail(&Span::none(), "timeout", "");
    });
    assert_eq!(spans, []);
}

#[tokio::test]
async fn a_trace_is_passed_on_where_no_spans_are_exported() {
    let trace = context(1, 11, 1);
    let observed = || async {
        tokio::task::yield_now().await;
        current_trace()
    };
    assert_eq!(observed().await, None);
    assert_eq!(follow(None, observed()).await, None);
    assert_eq!(follow(Some(trace), observed()).await, Some(trace));
    assert_eq!(follow(Some(trace), async { follow(None, observed()).await }).await, Some(trace));
    assert_eq!(in_trace(&trace, current_trace), Some(trace));
    assert_eq!(current_trace(), None);
}

#[test]
fn a_span_takes_precedence_over_the_trace_that_it_is_in() {
    let spans = spans_of(Sampler::AlwaysOn, || {
        let trace = context(1, 11, 1);
        let span = in_trace(&trace, || tracing::span!(Level::INFO, "part"));
        let inside = in_trace(&trace, || span.in_scope(current_trace)).unwrap();
        assert_eq!(Some(inside), trace_of(&span));
        assert_ne!(inside.span_id(), trace.span_id());
    });
    assert_eq!(spans[0].span_context.trace_id(), TraceId::from(1));
}
