//! Metrics messages: converts the recorded series of a process to a message, and a message back to series.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{Epoch, ProcessId, Text};
use telemetry::clock;
use telemetry::metrics::{self, Distribution, Kind, Series, Value, catalogue};
use tokio_util::sync::CancellationToken;
use wire::metrics::{LABEL_BYTES_MAX, ProcessInfo, ProcessMetrics, SERIES_MAX};
use wire::{Role, Subject};

use crate::connection::Bus;

/// Interval at which a process publishes its metrics.
pub const PUBLISHED_EVERY: Duration = Duration::from_secs(5);
/// Delay of the first publication after the start of a process.
const FIRST_AFTER: Duration = Duration::from_millis(250);
/// Delay after a lease was taken or lost, in which further ones may follow.
const LEASES_SETTLE: Duration = Duration::from_millis(100);
/// Timeout for sending the last snapshot of a process that ends.
const LAST_WITHIN: Duration = Duration::from_secs(1);

/// The reason why a snapshot cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The columns of a kind differ in length, or refer to missing names.
    #[error("its columns do not match each other")]
    Columns,
    /// It has too many series.
    #[error("it has more than {SERIES_MAX} series")]
    TooManySeries,
}

/// Publishes the metrics of this process with what `describe` says about it: every few seconds, when it becomes the active
/// process of a service or stops being it, and when it ends, until `stop`. Run once for each process.
pub async fn publish(
    bus: Bus,
    role: Role,
    process: ProcessId,
    describe: impl Fn() -> ProcessInfo,
    stop: CancellationToken,
) {
    let (subject, service) = (Subject::ProcessMetrics((role, process)), role.as_str());
    let mut pause = FIRST_AFTER;
    for sequence in 1.. {
        let is_last = stop.run_until_cancelled(due(pause)).await.is_none();
        pause = PUBLISHED_EVERY;
        metrics::observe_tasks();
        metrics::observe(service);
        let mut snapshot = snapshot(service, process, &metrics::snapshot_and_reset_window());
        (snapshot.sequence, snapshot.is_last, snapshot.info) = (sequence, is_last, describe());
        let snapshot = Arc::new(snapshot);
        bus.set_own_metrics(Arc::clone(&snapshot));
        // Without a connection this fails. The next snapshot then contains the same data and more.
        let _ = bus.publish(subject, &*snapshot).await;
        if is_last {
            let _ = tokio::time::timeout(LAST_WITHIN, bus.flush()).await;
            return;
        }
    }
}

/// Waits until the next publication: for `pause`, or until shortly after a lease was taken or lost.
async fn due(pause: Duration) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        () = metrics::active_changed() => tokio::time::sleep(LEASES_SETTLE).await,
    }
}

/// Converts series to a message.
fn snapshot(service: &str, process: ProcessId, series: &[Series]) -> ProcessMetrics {
    let active = metrics::active().into_iter().map(|(name, epoch)| (Text::from(name), Epoch(epoch)));
    let mut message = ProcessMetrics {
        process,
        service: service.into(),
        at: clock::now(),
        sequence: 0,
        is_last: false,
        info: ProcessInfo::default(),
        active: active.collect(),
        left_out: series.len().saturating_sub(SERIES_MAX) as u64,
        names: Vec::new(),
        counters: wire::metrics::Counters::default(),
        gauges: wire::metrics::Gauges::default(),
        distributions: wire::metrics::Distributions::default(),
    };
    for series in series.iter().take(SERIES_MAX) {
        if message.names.last().is_none_or(|name| **name != *series.meta.name) {
            message.names.push(series.meta.name.into());
        }
        let name =
            u16::try_from(message.names.len() - 1).expect("the catalogue has fewer than 65,536 metrics");
        let labels = series.labels.iter().map(|value| truncate(value).into()).collect();
        match &series.value {
            Value::Counter(value) => {
                message.counters.names.push(name);
                message.counters.labels.push(labels);
                message.counters.values.push(*value);
            }
            Value::Gauge(value) => {
                message.gauges.names.push(name);
                message.gauges.labels.push(labels);
                message.gauges.values.push(*value);
            }
            Value::Distribution(distribution) => {
                let columns = &mut message.distributions;
                columns.names.push(name);
                columns.labels.push(labels);
                columns.buckets.push(distribution.buckets.clone());
                columns.sums.push(distribution.sum);
                columns.squares.push(distribution.squares);
                columns.mins.push(distribution.min);
                columns.maxs.push(distribution.max);
            }
        }
    }
    message
}

/// Truncates a label value to the maximum length.
fn truncate(text: &str) -> &str {
    &text[..text.floor_char_boundary(LABEL_BYTES_MAX)]
}

/// Converts a message to series. Metrics that this program does not know, or knows with another kind or other labels,
/// are left out: they belong to another version.
///
/// # Errors
/// If the message is malformed.
pub fn series(message: &ProcessMetrics) -> Result<Vec<Series>, Unusable> {
    let ProcessMetrics { names, counters, gauges, distributions, .. } = message;
    let columns = [
        (counters.names.len(), vec![counters.labels.len(), counters.values.len()]),
        (gauges.names.len(), vec![gauges.labels.len(), gauges.values.len()]),
        (
            distributions.names.len(),
            vec![
                distributions.labels.len(),
                distributions.buckets.len(),
                distributions.sums.len(),
                distributions.squares.len(),
                distributions.mins.len(),
                distributions.maxs.len(),
            ],
        ),
    ];
    if columns.iter().any(|(rows, others)| others.iter().any(|length| length != rows)) {
        return Err(Unusable::Columns);
    }
    if columns.iter().map(|(rows, _)| rows).sum::<usize>() > SERIES_MAX {
        return Err(Unusable::TooManySeries);
    }
    let known: HashMap<&str, &'static metrics::Meta> =
        catalogue::all().map(|metric| (metric.meta().name, metric.meta())).collect();
    let metas: Vec<_> = names.iter().map(|name| known.get(&**name).copied()).collect();
    let mut found = Vec::new();
    let mut add = |name: u16, labels: &[Text], value: Value| {
        let meta = metas.get(usize::from(name)).ok_or(Unusable::Columns)?;
        let Some(meta) = meta.filter(|meta| matches(meta, &value) && meta.labels.len() == labels.len())
        else {
            return Ok(());
        };
        let labels = labels.iter().map(|value| truncate(value).to_owned()).collect();
        found.push(Series { meta, labels, value });
        Ok(())
    };
    for (row, name) in counters.names.iter().enumerate() {
        add(*name, &counters.labels[row], Value::Counter(counters.values[row]))?;
    }
    for (row, name) in gauges.names.iter().enumerate() {
        add(*name, &gauges.labels[row], Value::Gauge(gauges.values[row]))?;
    }
    for (row, name) in distributions.names.iter().enumerate() {
        let value = Distribution {
            buckets: distributions.buckets[row].clone(),
            sum: distributions.sums[row],
            squares: distributions.squares[row],
            min: distributions.mins[row],
            max: distributions.maxs[row],
        };
        add(*name, &distributions.labels[row], Value::Distribution(value))?;
    }
    Ok(found)
}

/// Whether a value matches the metric's kind and buckets.
fn matches(meta: &metrics::Meta, value: &Value) -> bool {
    match (meta.kind, value) {
        (Kind::Counter, Value::Counter(_)) | (Kind::Gauge, Value::Gauge(_)) => true,
        (Kind::Histogram | Kind::Timer, Value::Distribution(distribution)) => {
            distribution.buckets.len() == meta.bounds().len() + 1
        }
        (Kind::Counter | Kind::Gauge | Kind::Histogram | Kind::Timer, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const PROCESS: ProcessId = ProcessId::from_bytes([6; 16]);

    fn recorded() -> Vec<Series> {
        catalogue::APPLIER_PLANS.add_with(2, &["whole"]);
        catalogue::BROKER_READY.set_with(4.0, &["batch"]);
        catalogue::PLAN_EVALUATE.record(Duration::from_millis(3));
        let names = ["drover.applier.plans", "drover.broker.ready", "nomad.plan.evaluate"];
        metrics::snapshot().into_iter().filter(|one| names.contains(&one.meta.name)).collect()
    }

    #[test]
    fn recorded_metrics_survive_encoding_and_decoding() {
        let recorded = recorded();
        let mut back = series(&snapshot("dev", PROCESS, &recorded)).unwrap();
        back.sort_by_key(|one| one.meta.name);
        assert_eq!(back.len(), 3);
        for (one, other) in recorded.iter().zip(&back) {
            assert_eq!(
                (one.meta.name, &one.labels, &one.value),
                (other.meta.name, &other.labels, &other.value)
            );
        }
    }

    #[test]
    fn unknown_metrics_of_another_version_are_left_out() {
        let mut message = snapshot("dev", PROCESS, &recorded());
        message.names[0] = "drover.of.tomorrow".into();
        message.distributions.buckets[0].pop();
        let names: Vec<_> = series(&message).unwrap().iter().map(|one| one.meta.name).collect();
        assert_eq!(names, ["drover.broker.ready"]);
    }

    #[test]
    fn a_garbled_message_is_refused() {
        let good = snapshot("dev", PROCESS, &recorded());
        let mut message = good.clone();
        message.gauges.values.clear();
        assert_eq!(series(&message).unwrap_err(), Unusable::Columns);
        message = good.clone();
        message.counters.names[0] = 99;
        assert_eq!(series(&message).unwrap_err(), Unusable::Columns);
        message = good;
        message.counters.names = vec![0; SERIES_MAX + 1];
        message.counters.labels = vec![vec!["whole".into()]; SERIES_MAX + 1];
        message.counters.values = vec![1; SERIES_MAX + 1];
        assert_eq!(series(&message).unwrap_err(), Unusable::TooManySeries);
    }

    #[test]
    fn a_long_label_is_cut_between_characters() {
        let text = "ü".repeat(LABEL_BYTES_MAX);
        assert_eq!(truncate(&text).len(), LABEL_BYTES_MAX);
        assert_eq!(truncate("short"), "short");
    }
}
