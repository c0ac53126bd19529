//! What is counted of evaluations, for people. Nothing is labelled by job: there may be any number.

use std::collections::BTreeSet;

use model::Nanos;
use model::eval::EvalTrigger;
use model::job::JobType;
use telemetry::metrics::{Gauge, Histogram, gauge, histogram};

use crate::blocked::{BlockedEvals, BlockedStats, WantedBy};
use crate::queue::{EvalQueue, Finished, QueueStats};

static READY: Gauge = gauge("drover.broker.ready");
static UNACKED: Gauge = gauge("drover.broker.unacked");
static PENDING: Gauge = gauge("drover.broker.pending");
static WAITING: Gauge = gauge("drover.broker.waiting");
static FAILED: Gauge = gauge("drover.broker.failed");
static CANCELABLE: Gauge = gauge("drover.broker.cancelable");
static BLOCKED: Gauge = gauge("drover.blocked_evals.total_blocked");
static ESCAPED: Gauge = gauge("drover.blocked_evals.total_escaped");
static QUOTA_LIMITED: Gauge = gauge("drover.blocked_evals.total_quota_limit");
static CPU: Gauge = gauge("drover.blocked_evals.cpu.mhz");
static MEMORY: Gauge = gauge("drover.blocked_evals.memory.mb");
static WAIT_TIME: Histogram = histogram("drover.broker.wait.seconds");
static PROCESS_TIME: Histogram = histogram("drover.broker.process.seconds");
static RESPONSE_TIME: Histogram = histogram("drover.broker.response.seconds");

/// Publishes figures, and remembers which it has to take back.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    wanted: BTreeSet<WantedBy>,
}

impl Metrics {
    pub(crate) fn publish(&mut self, queue: &EvalQueue, blocked: &BlockedEvals) {
        publish(&queue.stats(), blocked.stats());
        let gone = std::mem::take(&mut self.wanted);
        for (by, cpu_mhz, memory_mb) in blocked.wanted().sums() {
            publish_wanted(by, cpu_mhz, memory_mb);
            self.wanted.insert(by.clone());
        }
        gone.difference(&self.wanted).for_each(|by| publish_wanted(by, 0, 0));
    }

    /// Nothing waits here any more: another process counts now.
    pub(crate) fn clear(&mut self) {
        publish(&QueueStats::default(), BlockedStats::default());
        std::mem::take(&mut self.wanted).iter().for_each(|by| publish_wanted(by, 0, 0));
    }

    pub(crate) fn finished(finished: &Finished) {
        let trigger = &finished.eval.trigger;
        // Any word may come as a trigger; a label for each there must not be.
        let trigger = if matches!(trigger, EvalTrigger::Other(_)) { "other" } else { trigger.as_str() };
        let labels = [("eval_type", finished.eval.kind.as_str()), ("triggered_by", trigger)];
        PROCESS_TIME.record_with(seconds(finished.worked), &labels);
        if let Some(waited) = finished.waited {
            WAIT_TIME.record_with(seconds(waited), &labels);
            RESPONSE_TIME.record_with(seconds(waited + finished.worked), &labels);
        }
    }
}

fn publish(queue: &QueueStats, blocked: BlockedStats) {
    for kind in JobType::ALL {
        let labels = [("scheduler", kind.as_str())];
        READY.set_with(count(queue.ready.get(kind).copied().unwrap_or(0)), &labels);
        UNACKED.set_with(count(queue.out.get(kind).copied().unwrap_or(0)), &labels);
    }
    PENDING.set(count(queue.behind));
    WAITING.set(count(queue.delayed));
    FAILED.set(count(queue.failed));
    CANCELABLE.set(count(queue.needless));
    BLOCKED.set(count(blocked.total));
    ESCAPED.set(count(blocked.escaped));
    QUOTA_LIMITED.set(count(blocked.quota_limited));
}

fn publish_wanted(by: &WantedBy, cpu_mhz: u64, memory_mb: u64) {
    let labels: [(&'static str, &str); 3] =
        [("datacenter", &by.datacenter), ("node_class", &by.node_class), ("node_pool", &by.node_pool)];
    CPU.set_with(cpu_mhz as f64, &labels);
    MEMORY.set_with(memory_mb as f64, &labels);
}

fn count(count: usize) -> f64 {
    count as f64
}

fn seconds(length: Nanos) -> f64 {
    length.0 as f64 / Nanos::SECOND.0 as f64
}
