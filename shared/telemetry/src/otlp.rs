//! OTLP exporters, configured by the standard `OTEL_*` variables.

use std::time::Duration;

use opentelemetry::{Key, KeyValue};
use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;

use crate::traces::LinkedSampler;
use crate::{Error, Identity};

/// Interval of metric exports if `OTEL_METRIC_EXPORT_INTERVAL` is not set.
const METRICS_INTERVAL: Duration = Duration::from_secs(15);

/// The resource that describes this process. Attributes in `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` take
/// precedence.
pub(crate) fn resource(identity: &Identity) -> Resource {
    const NAME: &str = "service.name";
    const UNNAMED: &str = "unknown_service";
    let given = Resource::builder().build();
    let is_given = |name: &'static str| {
        let found = given.get(&Key::new(name));
        found.is_some_and(|value| name != NAME || !value.as_str().starts_with(UNNAMED))
    };
    let known = [
        (NAME, format!("drover-{}", identity.service)),
        ("service.version", identity.version.to_owned()),
        ("service.instance.id", identity.instance.clone()),
        ("host.name", identity.host.clone()),
    ];
    let known = known.into_iter().filter(|(name, _)| !is_given(name));
    Resource::builder().with_attributes(known.map(|(name, value)| KeyValue::new(name, value))).build()
}

/// The exporter of spans; `None` if no collector is configured.
pub(crate) fn tracer_provider(resource: Resource) -> Result<Option<SdkTracerProvider>, Error> {
    if !is_enabled("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER") {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_tonic().build();
    let exporter = exporter.map_err(|source| Error::Exporter { what: "traces", source })?;
    let provider =
        SdkTracerProvider::builder().with_resource(resource).with_sampler(LinkedSampler::from_env());
    Ok(Some(provider.with_batch_exporter(exporter).build()))
}

/// The exporter of metrics; `None` if no collector is configured.
pub(crate) fn meter_provider(resource: Resource) -> Result<Option<SdkMeterProvider>, Error> {
    if !is_enabled("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER") {
        return Ok(None);
    }
    let builder = SdkMeterProvider::builder().with_resource(resource);
    let exporter = MetricExporter::builder().with_tonic().build();
    let exporter = exporter.map_err(|source| Error::Exporter { what: "metrics", source })?;
    let mut periodic = PeriodicReader::builder(exporter);
    if std::env::var_os("OTEL_METRIC_EXPORT_INTERVAL").is_none() {
        periodic = periodic.with_interval(METRICS_INTERVAL);
    }
    Ok(Some(builder.with_reader(periodic.build()).build()))
}

/// Whether a collector is configured, and the exporter is not disabled.
fn is_enabled(endpoint: &str, exporter: &str) -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_named = |name: &str| std::env::var(name).is_ok_and(|found| !found.is_empty());
    (is_named(endpoint) || is_named("OTEL_EXPORTER_OTLP_ENDPOINT"))
        && !is("OTEL_SDK_DISABLED", "true")
        && !is(exporter, "none")
}
