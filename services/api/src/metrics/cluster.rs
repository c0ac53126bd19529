//! [`ClusterMetrics`]: what the processes of the cluster publish, made into series of the cluster. Pure.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use model::{Epoch, ProcessId, Text};
use telemetry::metrics::prometheus::Shown;
use telemetry::metrics::{Distribution, Kind, Merge, Meta, Metric, Series, Value, catalogue};
use wire::metrics::ProcessMetrics;

/// How long an interval of the JSON form lasts.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);
/// How long a process may be silent until it is not shown any more. It publishes every five seconds.
const HIDDEN_AFTER: Duration = Duration::from_secs(20);
/// How long a silent process's sums are remembered. If it comes back, what was added up already is not added again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);
/// The most processes that are kept.
const PROCESSES_MAX: usize = 1_024;
/// The most series of all processes together that are added up.
const TOTALS_MAX: usize = 65_536;

/// There are too many processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyProcesses;

/// A series as it is shown, with what was observed in the last interval.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// The series.
    pub(crate) shown: Shown,
    /// What was observed of it in the last interval. Of a counter: how much it grew, by ones.
    pub(crate) interval: Distribution,
}

/// What is known of the processes' metrics.
#[derive(Debug)]
pub(super) struct ClusterMetrics {
    processes: BTreeMap<ProcessId, Process>,
    /// Counters and distributions of all processes added up, those that have gone included: so that sums do not fall when a
    /// process ends.
    totals: BTreeMap<Key, Total>,
    interval_ends: Instant,
}

/// Tells series apart.
type Key = (&'static str, Vec<String>);

#[derive(Debug)]
struct Process {
    service: Text,
    sequence: u64,
    last_received: Instant,
    /// Whether it has been silent for too long.
    is_silent: bool,
    active: Vec<(Text, Epoch)>,
    series: BTreeMap<Key, Total>,
}

/// A series, with what was observed in the interval that goes on and in the one before it.
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

    /// Sets the value, and returns what came since the one before.
    fn set(&mut self, value: Value) -> Distribution {
        let delta = match (&self.value, &value) {
            (Value::Counter(previous), Value::Counter(now)) => ones(now.saturating_sub(*previous)),
            (Value::Distribution(previous), Value::Distribution(now)) => now.since(previous),
            // A gauge has no past, and the kind of a metric does not change.
            (Value::Counter(_) | Value::Gauge(_) | Value::Distribution(_), _) => Distribution::default(),
        };
        self.value = value;
        self.current.merge(&delta);
        delta
    }

    /// Adds what came.
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

/// So many observations of 1 each, as the reference sees what is counted.
fn ones(count: u64) -> Distribution {
    if count == 0 {
        return Distribution::default();
    }
    let sum = count as f64;
    Distribution { buckets: vec![count], sum, squares: sum, min: 1.0, max: 1.0 }
}

fn line(series: Series, more: Vec<(&'static str, String)>, interval: Distribution) -> Line {
    Line { shown: Shown { series, more, window: interval.clone() }, interval }
}

impl ClusterMetrics {
    pub(super) fn new(now: Instant) -> Self {
        Self { processes: BTreeMap::new(), totals: BTreeMap::new(), interval_ends: now + INTERVAL }
    }

    /// How many processes are shown.
    pub(super) fn processes(&self) -> usize {
        self.shown().count()
    }

    fn shown(&self) -> impl Iterator<Item = (ProcessId, &Process)> {
        let shown = self.processes.iter().filter(|(_, process)| !process.is_silent);
        shown.map(|(id, process)| (*id, process))
    }

    /// Takes in what a process published.
    ///
    /// # Errors
    /// If too many processes are known already.
    pub(super) fn record(
        &mut self,
        message: &ProcessMetrics,
        series: Vec<Series>,
        now: Instant,
    ) -> Result<(), TooManyProcesses> {
        self.advance_to(now);
        if self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&message.process) {
            // Those that are silent are remembered only as long as there is room.
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
            series: BTreeMap::new(),
        });
        if message.sequence <= process.sequence {
            // It was overtaken, or came twice.
            return Ok(());
        }
        (process.sequence, process.last_received, process.is_silent) = (message.sequence, now, false);
        process.active.clone_from(&message.active);
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

    /// Forgets processes that are silent, and ends the interval when it is time.
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

    /// All series, by name and labels; `computed` are those that follow from the state.
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

    /// Series that each process has of its own, and those of which one process is asked.
    fn process_lines(&self) -> impl Iterator<Item = Line> {
        self.shown().flat_map(move |(id, process)| {
            let shown = process.series.iter().filter(move |(_, own)| {
                own.meta.active().is_none_or(|service| self.active(service) == Some(id))
            });
            shown.filter_map(move |((_, labels), own)| {
                let process_labels =
                    || vec![("service", process.service.to_string()), ("process", id.to_string())];
                match own.meta.merge {
                    Merge::Each | Merge::EachActive(_) => Some(own.line(labels, process_labels())),
                    Merge::Active(_) => Some(own.line(labels, Vec::new())),
                    Merge::Sum | Merge::Api => None,
                }
            })
        })
    }

    /// The process that is active for a service, as far as they say so themselves: of two the one with the later lease.
    fn active(&self, service: &str) -> Option<ProcessId> {
        let epoch = |process: &Process| {
            process.active.iter().find(|(name, _)| **name == *service).map(|(_, epoch)| *epoch)
        };
        let active = self.shown().filter_map(|(id, process)| Some((epoch(process)?, id)));
        active.max().map(|(_, id)| id)
    }

    /// Series that are added up. Those without labels are there from the beginning: to Prometheus, a series that is not there is
    /// not 0.
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

    /// What is known of the appliers as a group.
    fn applier_lines(&self, has_leader: bool) -> [Line; 2] {
        // A process of all services is an applier, too.
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
