//! [`ClusterMetrics`]: merges the metrics of all processes into series of the cluster. Pure.

mod members;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::{Epoch, ProcessId, Text};
use telemetry::metrics::prometheus::ExposedSeries;
use telemetry::metrics::{Distribution, Kind, Merge, Meta, Metric, Series, Value, catalogue};
use wire::metrics::{ProcessInfo, ProcessMetrics};

pub(crate) use self::members::{Member, MemberService, ServiceState};

/// Length of an interval of the JSON form.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// Time after which a silent process is no longer reported. A process publishes every five seconds.
const HIDDEN_AFTER: Duration = Duration::from_secs(20);
/// Time for which the counters of a silent process are remembered, so that nothing is counted twice if it comes back.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// Maximum number of processes that are remembered.
const PROCESSES_MAX: usize = 1_024;
/// Maximum number of summed series of all processes.
const TOTALS_MAX: usize = 65_536;

/// The limit on processes is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyProcesses;

/// A series for output, with its observations in the last interval.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Series.
    pub(crate) shown: ExposedSeries,
    /// Observations in the last interval. For a counter, its growth, as that many observations of 1.
    pub(crate) interval: Distribution,
}

/// Metrics of all processes.
#[derive(Debug)]
pub(super) struct ClusterMetrics {
    processes: BTreeMap<ProcessId, Process>,
    /// Sums of the counters and distributions of all processes. They include processes that have ended, so that a sum never
    /// falls.
    totals: BTreeMap<Key, Total>,
    interval_ends: Instant,
}

/// Metric name and label values of a series.
type Key = (&'static str, Vec<String>);

#[derive(Debug)]
struct Process {
    service: Text,
    sequence: u64,
    last_received: Instant,
    /// Whether it has been silent for [`HIDDEN_AFTER`].
    is_silent: bool,
    active: Vec<(Text, Epoch)>,
    info: ProcessInfo,
    series: BTreeMap<Key, Total>,
}

/// A series, with its observations in the current interval and in the last one.
#[derive(Debug, Clone)]
struct Total {
    meta: &'static Meta,
    value: Value,
    current: Distribution,
    last: Distribution,
}

impl Total {
    fn new(meta: &'static Meta) -> Self {
        let value = match meta.kind {
            Kind::Counter => Value::Counter(0),
            Kind::Gauge => Value::Gauge(0.0),
            Kind::Histogram | Kind::Timer => Value::Distribution(Distribution {
                buckets: vec![0; meta.bounds().len() + 1],
                ..Distribution::default()
            }),
        };
        Self { meta, value, current: Distribution::default(), last: Distribution::default() }
    }

    /// Sets the value, and returns what was observed since the previous value.
    fn set(&mut self, value: Value) -> Distribution {
        let delta = match (&self.value, &value) {
            (Value::Counter(previous), Value::Counter(now)) => ones(now.saturating_sub(*previous)),
            (Value::Distribution(previous), Value::Distribution(now)) => now.since(previous),
            // A gauge has no history, and the kind of a metric does not change.
            (Value::Counter(_) | Value::Gauge(_) | Value::Distribution(_), _) => Distribution::default(),
        };
        self.value = value;
        self.current.merge(&delta);
        delta
    }

    /// Adds new observations.
    fn add(&mut self, delta: &Distribution) {
        match &mut self.value {
            Value::Counter(sum) => *sum += delta.count(),
            Value::Distribution(all) => all.merge(delta),
            Value::Gauge(_) => {}
        }
        self.current.merge(delta);
    }

    fn end_interval(&mut self) {
        self.last = std::mem::take(&mut self.current);
    }

    fn line(&self, labels: &[String], more: Vec<(&'static str, String)>) -> Line {
        let series = Series { meta: self.meta, labels: labels.to_vec(), value: self.value.clone() };
        line(series, more, self.last.clone())
    }
}

/// `count` observations of 1 each: the reference reports counters that way.
fn ones(count: u64) -> Distribution {
    if count == 0 {
        return Distribution::default();
    }
    let sum = count as f64;
    Distribution { buckets: vec![count], sum, squares: sum, min: 1.0, max: 1.0 }
}

fn line(series: Series, more: Vec<(&'static str, String)>, interval: Distribution) -> Line {
    Line { shown: ExposedSeries { series, more, window: interval.clone() }, interval }
}

impl ClusterMetrics {
    pub(super) fn new(now: Instant) -> Self {
        Self { processes: BTreeMap::new(), totals: BTreeMap::new(), interval_ends: now + INTERVAL }
    }

    /// Number of processes that are reported.
    pub(super) fn processes(&self) -> usize {
        self.shown().count()
    }

    fn shown(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        let shown = self.processes.iter().filter(|(_, process)| !process.is_silent);
        shown.map(|(id, process)| (*id, process))
    }

    /// Records what a process published.
    ///
    /// # Errors
    /// If the maximum number of processes is known already.
    pub(super) fn record(
        &mut self,
        message: &ProcessMetrics,
        series: Vec<Series>,
        now: Instant,
    ) -> Result<(), TooManyProcesses> {
        self.advance_to(now);
        if self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&message.process) {
            // Silent processes are dropped when the limit is reached.
            self.processes.retain(|_, process| !process.is_silent);
            if self.processes.len() >= PROCESSES_MAX {
                return Err(TooManyProcesses);
            }
        }
        let process = self.processes.entry(message.process).or_insert_with(|| Process {
            service: message.service.clone(),
            sequence: 0,
            last_received: now,
            is_silent: false,
            active: Vec::new(),
            info: ProcessInfo::default(),
            series: BTreeMap::new(),
        });
        if message.sequence <= process.sequence {
            // The message was overtaken by a newer one, or is a duplicate.
            return Ok(());
        }
        (process.sequence, process.last_received, process.is_silent) = (message.sequence, now, false);
        process.active.clone_from(&message.active);
        process.info = members::bounded(&message.info);
        let mut previous = std::mem::take(&mut process.series);
        for Series { meta, labels, value } in series {
            let key = (meta.name, labels);
            let mut own = previous.remove(&key).unwrap_or_else(|| Total::new(meta));
            let delta = own.set(value);
            process.series.insert(key.clone(), own);
            let is_summed = meta.merge == Merge::Sum && meta.kind != Kind::Gauge;
            if is_summed && (self.totals.len() < TOTALS_MAX || self.totals.contains_key(&key)) {
                self.totals.entry(key).or_insert_with(|| Total::new(meta)).add(&delta);
            }
        }
        if message.is_last {
            self.processes.remove(&message.process);
        }
        Ok(())
    }

    /// Hides and forgets silent processes, and ends the interval when it is over.
    pub(super) fn advance_to(&mut self, now: Instant) {
        self.processes.retain(|_, process| {
            let silent_for = now.duration_since(process.last_received);
            process.is_silent = silent_for >= HIDDEN_AFTER;
            silent_for < FORGOTTEN_AFTER
        });
        if now < self.interval_ends {
            return;
        }
        self.interval_ends = now + INTERVAL;
        let process_series = self.processes.values_mut().flat_map(|process| process.series.values_mut());
        process_series.chain(self.totals.values_mut()).for_each(Total::end_interval);
    }

    /// All series, sorted by name and labels. `computed` are the series computed from the state.
    pub(super) fn lines<'a>(
        &self,
        computed: impl Iterator<Item = &'a Series>,
        has_leader: bool,
    ) -> Vec<Line> {
        let mut lines: Vec<Line> =
            computed.map(|one| line(one.clone(), Vec::new(), Distribution::default())).collect();
        lines.extend(self.process_lines());
        lines.extend(self.summed_lines());
        lines.extend(self.applier_lines(has_leader));
        lines.sort_by(|a, b| {
            let (a, b) = (&a.shown, &b.shown);
            (a.series.meta.name, &a.series.labels, &a.more).cmp(&(
                b.series.meta.name,
                &b.series.labels,
                &b.more,
            ))
        });
        lines
    }

    /// Series that are reported for each process, and those that are reported for the active process of a service only.
    fn process_lines(&self) -> impl Iterator<Item = Line> {
        self.shown().flat_map(move |(id, process)| {
            let shown = process.series.iter().filter(move |(_, own)| {
                own.meta.active().is_none_or(|service| self.active(service) == Some(id))
            });
            shown.filter_map(move |((_, labels), own)| {
                let process_labels =
                    || vec![("service", process.service.to_string()), ("process", id.to_string())];
                match own.meta.merge {
                    Merge::PerProcess | Merge::PerProcessActive(_) => {
                        Some(own.line(labels, process_labels()))
                    }
                    Merge::Active(_) => Some(own.line(labels, Vec::new())),
                    Merge::Sum | Merge::Api => None,
                }
            })
        })
    }

    /// The active process of a service. If several processes claim to be active, it is the one with the latest lease.
    fn active(&self, service: &str) -> Option<ProcessId> {
        let epoch = |process: &Process| {
            process.active.iter().find(|(name, _)| **name == *service).map(|(_, epoch)| *epoch)
        };
        let active = self.shown().filter_map(|(id, process)| Some((epoch(process)?, id)));
        active.max().map(|(_, id)| id)
    }

    /// Summed series. Those without labels exist from the start, because to Prometheus an absent series is not 0.
    fn summed_lines(&self) -> Vec<Line> {
        let mut sums: BTreeMap<Key, Total> = BTreeMap::new();
        for meta in catalogue::all().map(Metric::meta) {
            if meta.merge == Merge::Sum && meta.labels.is_empty() {
                sums.insert((meta.name, Vec::new()), Total::new(meta));
            }
        }
        sums.extend(self.totals.iter().map(|(key, total)| (key.clone(), total.clone())));
        for (key, own) in self.shown().flat_map(|(_, process)| &process.series) {
            if own.meta.merge == Merge::Sum
                && let Value::Gauge(value) = own.value
            {
                let sum = sums.entry(key.clone()).or_insert_with(|| Total::new(own.meta));
                if let Value::Gauge(sum) = &mut sum.value {
                    *sum += value;
                }
            }
        }
        sums.iter().map(|((_, labels), total)| total.line(labels, Vec::new())).collect()
    }

    /// Series that describe all appliers together.
    fn applier_lines(&self, has_leader: bool) -> [Line; 2] {
        // A process that runs all services can become the applier, too.
        let is_applier = |(_, process): &(ProcessId, &Process)| {
            matches!(&*process.service, catalogue::APPLIER | "servers")
        };
        let appliers = self.shown().filter(is_applier).count();
        let healthy = f64::from(u8::from(has_leader));
        let tolerance = appliers.saturating_sub(1) as f64;
        [
            catalogue::AUTOPILOT_HEALTHY.computed(Vec::new(), healthy),
            catalogue::AUTOPILOT_TOLERANCE.computed(Vec::new(), tolerance),
        ]
        .map(|series| line(series, Vec::new(), Distribution::default()))
    }
}

#[cfg(test)]
mod tests;
