//! Tests of merging metrics.

use super::*;

const A: ProcessId = ProcessId::from_bytes([1; 16]);
const B: ProcessId = ProcessId::from_bytes([2; 16]);

/// Metrics of a cluster, with a simulated clock.
struct Scene {
    metrics: ClusterMetrics,
    now: Instant,
    sequence: u64,
}

impl Scene {
    fn new() -> Self {
        let now = telemetry::clock::monotonic();
        Self { metrics: ClusterMetrics::new(now), now, sequence: 0 }
    }

    fn publish(&mut self, process: ProcessId, series: Vec<Series>) {
        self.publish_as(process, "eval-broker", None, false, series);
    }

    fn publish_as(
        &mut self,
        process: ProcessId,
        service: &str,
        epoch: Option<u64>,
        is_last: bool,
        series: Vec<Series>,
    ) {
        self.sequence += 1;
        let message = ProcessMetrics {
            process,
            service: service.into(),
            at: model::Timestamp::UNSET,
            sequence: self.sequence,
            is_last,
            info: ProcessInfo::default(),
            active: epoch.map(|epoch| (service.into(), Epoch(epoch))).into_iter().collect(),
            left_out: 0,
            names: Vec::new(),
            counters: wire::metrics::Counters::default(),
            gauges: wire::metrics::Gauges::default(),
            distributions: wire::metrics::Distributions::default(),
        };
        self.metrics.record(&message, series, self.now).unwrap();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.metrics.advance_to(self.now);
    }

    /// Lines of a metric, as labels and value.
    fn lines(&self, name: &str) -> Vec<(String, Value)> {
        let lines = self.metrics.lines([].iter(), true);
        let named = lines.into_iter().filter(|line| line.shown.series.meta.name == name);
        named
            .map(|Line { shown, .. }| {
                let more = shown.more.iter().map(|(name, value)| format!("{name}={value}"));
                let labels: Vec<String> = shown.series.labels.iter().cloned().chain(more).collect();
                (labels.join(","), shown.series.value)
            })
            .collect()
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.lines(name).pop().map(|(_, value)| value)
    }

    fn interval(&self, name: &str) -> Distribution {
        let lines = self.metrics.lines([].iter(), true);
        lines.into_iter().find(|line| line.shown.series.meta.name == name).unwrap().interval
    }
}

fn series(name: &str, labels: &[&str], value: Value) -> Series {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    Series { meta: catalogue::find(name).unwrap(), labels, value }
}

fn applied(count: u64) -> Vec<Series> {
    vec![series("nomad.raft.apply", &[], Value::Counter(count))]
}

#[test]
fn sums_are_over_all_processes_and_do_not_fall_when_one_ends() {
    let mut scene = Scene::new();
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(0)), "it exists from the start");
    scene.publish(A, applied(10));
    scene.publish(B, applied(4));
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(14)));
    scene.publish(A, applied(12));
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(16)));
    scene.pass(HIDDEN_AFTER);
    assert_eq!(scene.metrics.processes(), 0);
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(16)));
    // B was silent, but it is the same process: its earlier count is not added again.
    scene.publish(B, applied(5));
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(17)));
    scene.publish_as(B, "plan-applier", None, true, applied(6));
    assert_eq!(scene.metrics.processes(), 0);
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(18)));
}

#[test]
fn gauges_of_all_are_of_those_that_live() {
    let mut scene = Scene::new();
    let tasks = |count| vec![series("nomad.runtime.num_goroutines", &[], Value::Gauge(count))];
    scene.publish(A, tasks(5.0));
    scene.publish(B, tasks(7.0));
    assert_eq!(scene.lines("nomad.runtime.num_goroutines"), [(String::new(), Value::Gauge(12.0))]);
    scene.publish_as(A, "api", None, true, tasks(6.0));
    assert_eq!(scene.lines("nomad.runtime.num_goroutines"), [(String::new(), Value::Gauge(7.0))]);
}

#[test]
fn only_the_active_process_of_a_service_is_shown() {
    let ready = |count| {
        vec![
            series("nomad.broker.total_ready", &[], Value::Gauge(count)),
            series("drover.broker.ready", &["batch"], Value::Gauge(count)),
            series("drover.feed.lag.change_sets", &[], Value::Gauge(count)),
        ]
    };
    let mut scene = Scene::new();
    scene.publish_as(A, "eval-broker", Some(3), false, ready(5.0));
    scene.publish_as(B, "eval-broker", None, false, ready(1.0));
    assert_eq!(scene.lines("nomad.broker.total_ready"), [(String::new(), Value::Gauge(5.0))]);
    let shown = format!("batch,service=eval-broker,process={A}");
    assert_eq!(scene.lines("drover.broker.ready"), [(shown, Value::Gauge(5.0))]);
    assert_eq!(scene.lines("drover.feed.lag.change_sets").len(), 2, "every process has its own");
    // A was killed and B has taken over: A's last metrics are not shown beside B's.
    scene.publish_as(B, "eval-broker", Some(4), false, ready(2.0));
    assert_eq!(scene.lines("nomad.broker.total_ready"), [(String::new(), Value::Gauge(2.0))]);
    assert_eq!(scene.lines("drover.broker.ready").len(), 1);
}

#[test]
fn an_interval_has_what_came_within_it() {
    let took = |buckets: &[u64], sum: f64, max: f64| {
        let mut all = vec![0; 20];
        all[..buckets.len()].copy_from_slice(buckets);
        let value = Distribution { buckets: all, sum, squares: sum * sum, min: 0.5, max };
        let mut series = vec![series("nomad.plan.evaluate", &[], Value::Distribution(value))];
        series.extend(applied(sum as u64));
        series
    };
    let mut scene = Scene::new();
    scene.publish(A, took(&[0, 1], 2.0, 2.0));
    assert_eq!(scene.interval("nomad.plan.evaluate").count(), 0, "no interval has ended");
    scene.pass(INTERVAL);
    assert_eq!(scene.interval("nomad.plan.evaluate").count(), 1);
    assert_eq!(scene.interval("nomad.raft.apply").count(), 2);
    scene.publish(A, took(&[0, 1, 2], 8.0, 4.0));
    scene.publish(B, took(&[1], 1.0, 1.0));
    scene.pass(INTERVAL);
    let interval = scene.interval("nomad.plan.evaluate");
    assert_eq!((interval.count(), interval.sum, interval.min, interval.max), (3, 7.0, 0.5, 4.0));
    assert_eq!(scene.interval("nomad.raft.apply").count(), 7);
    scene.pass(INTERVAL);
    assert_eq!(scene.interval("nomad.plan.evaluate").count(), 0);
    let Some(Value::Distribution(all)) = scene.value("nomad.plan.evaluate") else {
        panic!("it is a distribution")
    };
    assert_eq!((all.count(), all.sum), (4, 9.0));
}

#[test]
fn outdated_metrics_are_dropped() {
    let mut scene = Scene::new();
    scene.publish(A, applied(10));
    scene.sequence -= 1;
    scene.publish(A, applied(3));
    assert_eq!(scene.value("nomad.raft.apply"), Some(Value::Counter(10)));
}

#[test]
fn there_are_no_more_processes_than_there_may_be() {
    let mut scene = Scene::new();
    for number in 0..PROCESSES_MAX as u32 {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        scene.publish(ProcessId::from_bytes(id), applied(1));
    }
    let message = ProcessMetrics {
        process: ProcessId::from_bytes([0xff; 16]),
        service: "api".into(),
        at: model::Timestamp::UNSET,
        sequence: 1,
        is_last: false,
        info: ProcessInfo::default(),
        active: Vec::new(),
        left_out: 0,
        names: Vec::new(),
        counters: wire::metrics::Counters::default(),
        gauges: wire::metrics::Gauges::default(),
        distributions: wire::metrics::Distributions::default(),
    };
    assert_eq!(scene.metrics.record(&message, Vec::new(), scene.now), Err(TooManyProcesses));
    scene.pass(HIDDEN_AFTER);
    assert_eq!(scene.metrics.record(&message, Vec::new(), scene.now), Ok(()));
}
