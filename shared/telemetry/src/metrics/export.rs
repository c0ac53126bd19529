//! Exports metrics to an OpenTelemetry collector. Counters and gauges are read when the exporter asks for them.
//! Distributions cannot be read that way, so they are recorded a second time if a collector is configured.

use std::sync::{OnceLock, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider};
use opentelemetry_sdk::metrics::SdkMeterProvider;

use super::{Histogram, Meta, Metric, catalogue};

static METER: OnceLock<Meter> = OnceLock::new();

/// Registers all metrics with this provider, and records distributions for it from now on.
pub fn set_up(provider: &SdkMeterProvider) {
    let meter = METER.get_or_init(|| provider.meter("drover"));
    for metric in catalogue::all() {
        let meta = metric.meta();
        match metric {
            Metric::Counter(counter) => drop(
                meter
                    .u64_observable_counter(meta.name)
                    .with_description(meta.help)
                    .with_callback(move |observer| {
                        let observe = |labels: &[String], cell: &super::CounterCell| {
                            observer.observe(cell.get(), &attributes(meta, labels));
                        };
                        counter.cells.for_each(observe);
                    })
                    .build(),
            ),
            Metric::Gauge(gauge) => drop(
                meter
                    .f64_observable_gauge(meta.name)
                    .with_description(meta.help)
                    .with_callback(move |observer| {
                        gauge.cells.for_each(|labels, cell| {
                            if let Some(value) = cell.get() {
                                observer.observe(value, &attributes(meta, labels));
                            }
                        });
                        let replaced = gauge.replaced.lock().unwrap_or_else(PoisonError::into_inner);
                        for (labels, value) in replaced.iter() {
                            observer.observe(*value, &attributes(meta, labels));
                        }
                    })
                    .build(),
            ),
            Metric::Histogram(_) | Metric::Timer(_) => {}
        }
    }
}

/// Records an observation for the collector, if one is configured.
pub(super) fn record(histogram: &Histogram, value: f64, labels: &[&str]) {
    let Some(meter) = METER.get() else { return };
    let meta = &histogram.meta;
    let exported = histogram.exported.get_or_init(|| {
        let builder = meter.f64_histogram(meta.name).with_description(meta.help);
        builder.with_boundaries(meta.bounds().to_vec()).build()
    });
    let Some(cell) = histogram.cells.get_or_insert(labels) else { return };
    let owned = || labels.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
    exported.record(value, cell.attributes.get_or_init(|| attributes(meta, &owned())));
}

fn attributes(meta: &Meta, labels: &[String]) -> Vec<KeyValue> {
    let named = meta.labels.iter().zip(labels);
    named.map(|(name, value)| KeyValue::new(*name, value.clone())).collect()
}
