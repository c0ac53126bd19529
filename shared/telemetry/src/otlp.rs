//! Exporters as the standard `OTEL_*` variables describe them.

use std::time::Duration;

use opentelemetry_otlp::{MetricExporter, SpanExporter};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::SdkTracerProvider;

use crate::{Error, metrics};

/// How often metrics are sent where `OTEL_METRIC_EXPORT_INTERVAL` does not say.
const METRICS_INTERVAL: Duration = Duration::from_secs(15);

/// Who this process is.
pub(crate) fn resource(service: &'static str) -> Resource {
    let builder = Resource::builder();
    if std::env::var_os("OTEL_SERVICE_NAME").is_some() {
        return builder.build();
    }
    builder.with_service_name(format!("drover-{service}")).build()
}

/// Where spans go; `None` where no collector is named.
pub(crate) fn tracer_provider(resource: Resource) -> Result<Option<SdkTracerProvider>, Error> {
    if !is_wanted("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER") {
        return Ok(None);
    }
    let exporter = SpanExporter::builder().with_tonic().build();
    let exporter = exporter.map_err(|source| Error::Exporter { what: "traces", source })?;
    Ok(Some(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build()))
}

/// Where metrics are counted, for whoever asks this process and, where one is named, for a collector.
pub(crate) fn meter_provider(resource: Resource) -> Result<SdkMeterProvider, Error> {
    let builder = SdkMeterProvider::builder().with_resource(resource).with_reader(metrics::reader());
    if !is_wanted("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_METRICS_EXPORTER") {
        return Ok(builder.build());
    }
    let exporter = MetricExporter::builder().with_tonic().build();
    let exporter = exporter.map_err(|source| Error::Exporter { what: "metrics", source })?;
    let mut periodic = PeriodicReader::builder(exporter);
    if std::env::var_os("OTEL_METRIC_EXPORT_INTERVAL").is_none() {
        periodic = periodic.with_interval(METRICS_INTERVAL);
    }
    Ok(builder.with_reader(periodic.build()).build())
}

/// Whether a collector is named, and nobody says `none`.
fn is_wanted(endpoint: &str, exporter: &str) -> bool {
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    let is_named = |name: &str| std::env::var(name).is_ok_and(|found| !found.is_empty());
    (is_named(endpoint) || is_named("OTEL_EXPORTER_OTLP_ENDPOINT"))
        && !is("OTEL_SDK_DISABLED", "true")
        && !is(exporter, "none")
}
