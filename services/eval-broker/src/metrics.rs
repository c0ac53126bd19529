//! Metrics of the broker.

use std::time::Duration;

use model::eval::EvalTrigger;
use model::job::JobType;
use model::{JobKey, Nanos, Timestamp};
use telemetry::metrics::catalogue::{
    BLOCKED_CPU, BLOCKED_ESCAPED, BLOCKED_JOB_CPU, BLOCKED_JOB_MEMORY, BLOCKED_MEMORY, BLOCKED_QUOTA,
    BLOCKED_TOTAL, BROKER, BROKER_BATCH_READY, BROKER_BATCH_UNACKED, BROKER_BLOCKED, BROKER_CANCELABLE,
    BROKER_EVAL_WAITING, BROKER_EXPIRED, BROKER_FAILED, BROKER_FAILED_READY, BROKER_PENDING, BROKER_PROCESS,
    BROKER_READY, BROKER_RESPONSE, BROKER_SERVICE_READY, BROKER_SERVICE_UNACKED, BROKER_SYSBATCH_READY,
    BROKER_SYSBATCH_UNACKED, BROKER_SYSTEM_READY, BROKER_SYSTEM_UNACKED, BROKER_UNACKED, BROKER_WAIT,
    BROKER_WAITING, NOMAD_BROKER_CANCELABLE, NOMAD_BROKER_PENDING, NOMAD_BROKER_PROCESS, NOMAD_BROKER_READY,
    NOMAD_BROKER_RESPONSE, NOMAD_BROKER_UNACKED, NOMAD_BROKER_WAIT, NOMAD_BROKER_WAITING,
};
use telemetry::metrics::{Gauge, SERIES_PER_METRIC_MAX, set_standby};

use crate::blocked::{BlockedEvals, Location};
use crate::queue::{EvalQueue, Finished, QueueStats};

/// Sets the gauges of queued and blocked evaluations.
pub(crate) fn publish(queue: &EvalQueue, blocked: &BlockedEvals, now: Timestamp) {
    let stats = queue.stats();
    for kind in JobType::ALL {
        let ready = count(stats.ready.get(kind).copied().unwrap_or(0));
        let unacked = count(stats.unacked.get(kind).copied().unwrap_or(0));
        BROKER_READY.set_with(ready, &[kind.as_str()]);
        BROKER_UNACKED.set_with(unacked, &[kind.as_str()]);
        let (of_ready, of_unacked): (&Gauge, &Gauge) = match kind {
            JobType::Service => (&BROKER_SERVICE_READY, &BROKER_SERVICE_UNACKED),
            JobType::Batch => (&BROKER_BATCH_READY, &BROKER_BATCH_UNACKED),
            JobType::System => (&BROKER_SYSTEM_READY, &BROKER_SYSTEM_UNACKED),
            JobType::SysBatch => (&BROKER_SYSBATCH_READY, &BROKER_SYSBATCH_UNACKED),
        };
        of_ready.set(ready);
        of_unacked.set(unacked);
    }
    publish_sums(&stats);
    let seconds = |due: Timestamp| (due - now).0.max(0) as f64 / Nanos::SECOND.0 as f64;
    let delayed = queue.delayed(SERIES_PER_METRIC_MAX);
    BROKER_EVAL_WAITING.replace(delayed.into_iter().map(|(job, due)| (job_labels(&job), seconds(due))));

    let blocked_stats = blocked.stats();
    BROKER_BLOCKED.set(count(blocked_stats.total));
    BLOCKED_TOTAL.set(count(blocked_stats.total));
    BLOCKED_ESCAPED.set(count(blocked_stats.escaped));
    BLOCKED_QUOTA.set(count(blocked_stats.quota_limited));
    let labels = |location: &Location| {
        [&location.datacenter, &location.node_class, &location.node_pool].map(ToString::to_string).to_vec()
    };
    BLOCKED_CPU
        .replace(blocked.shortages().sums().map(|(location, cpu_mhz, _)| (labels(location), cpu_mhz as f64)));
    BLOCKED_MEMORY.replace(
        blocked.shortages().sums().map(|(location, _, memory_mb)| (labels(location), memory_mb as f64)),
    );
    let by_job = blocked.shortages_by_job(SERIES_PER_METRIC_MAX);
    BLOCKED_JOB_CPU.replace(by_job.iter().map(|(job, (cpu_mhz, _))| (job_labels(job), *cpu_mhz as f64)));
    BLOCKED_JOB_MEMORY
        .replace(by_job.iter().map(|(job, (_, memory_mb))| (job_labels(job), *memory_mb as f64)));
}

fn publish_sums(stats: &QueueStats) {
    NOMAD_BROKER_READY.set(count(stats.ready.values().sum()));
    NOMAD_BROKER_UNACKED.set(count(stats.unacked.values().sum()));
    for (gauges, value) in [
        ([&BROKER_PENDING, &NOMAD_BROKER_PENDING], stats.pending),
        ([&BROKER_WAITING, &NOMAD_BROKER_WAITING], stats.delayed),
        ([&BROKER_CANCELABLE, &NOMAD_BROKER_CANCELABLE], stats.superseded),
        ([&BROKER_FAILED, &BROKER_FAILED_READY], stats.failed),
    ] {
        gauges.iter().for_each(|gauge| gauge.set(count(value)));
    }
}

/// Clears the gauges, because another process is active and sets them.
pub(crate) fn clear() {
    set_standby(BROKER);
}

/// Counts leases that expired.
pub(crate) fn expired(leases: usize) {
    BROKER_EXPIRED.add(leases as u64);
}

/// Records an evaluation that a scheduler finished.
pub(crate) fn finished(finished: &Finished) {
    let trigger = &finished.eval.trigger;
    // Clients can send any text as a trigger; the number of label values must be bounded.
    let trigger = if matches!(trigger, EvalTrigger::Other(_)) { "other" } else { trigger.as_str() };
    let labels = [finished.eval.kind.as_str(), trigger];
    let worked = duration(finished.worked);
    BROKER_PROCESS.record_with(worked.as_secs_f64(), &labels);
    NOMAD_BROKER_PROCESS.record(worked);
    if let Some(waited) = finished.waited.map(duration) {
        BROKER_WAIT.record_with(waited.as_secs_f64(), &labels);
        NOMAD_BROKER_WAIT.record(waited);
        BROKER_RESPONSE.record_with((waited + worked).as_secs_f64(), &labels);
        NOMAD_BROKER_RESPONSE.record(waited + worked);
    }
}

/// The labels of a job's series.
fn job_labels(job: &JobKey) -> Vec<String> {
    vec![job.id.to_string(), job.namespace.to_string()]
}

fn count(count: usize) -> f64 {
    count as f64
}

fn duration(length: Nanos) -> Duration {
    Duration::from_nanos(length.0.max(0).unsigned_abs())
}
