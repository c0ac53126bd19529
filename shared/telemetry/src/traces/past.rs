//! Spans that are recorded after they have ended, such as the wait in a queue, because only then is their trace known.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use model::{Timestamp, TraceContext};
use opentelemetry::trace::{Span as _, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue};

use super::{TRACER, to_otel};

/// The name of an attribute from [`attributes`](super::attributes), and its value.
pub type Attribute = (&'static str, Cow<'static, str>);

/// Records a span that started and ended in the past, as a child of another span.
pub fn record_past(
    name: &'static str,
    parent: &TraceContext,
    began: Timestamp,
    ended: Timestamp,
    attributes: impl FnOnce() -> Vec<Attribute>,
) {
    let Some(tracer) = TRACER.get() else { return };
    if parent.flags() & opentelemetry::TraceFlags::SAMPLED.to_u8() == 0 {
        return;
    }
    let attributes = attributes().into_iter().map(|(name, value)| KeyValue::new(name, value)).collect();
    let builder =
        tracer.span_builder(name).with_start_time(system_time(began)).with_attributes::<Vec<_>>(attributes);
    let parent = Context::new().with_remote_span_context(to_otel(parent));
    tracer.build_with_context(builder, &parent).end_with_timestamp(system_time(ended.max(began)));
}

fn system_time(at: Timestamp) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(u64::try_from(at.0).unwrap_or(0))
}
