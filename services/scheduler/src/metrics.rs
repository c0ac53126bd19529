//! What is counted of workers, for people.

use std::time::Duration;

use model::job::JobType;
use telemetry::metrics::{Counter, Histogram, counter, histogram};
use wire::command::PlanVerdict;

static DEQUEUE: Histogram = histogram("drover.worker.dequeue.seconds");
static INDEX_WAIT: Histogram = histogram("drover.worker.index_wait.seconds");
static SCHEDULE: Histogram = histogram("drover.worker.schedule.seconds");
static SUBMIT: Histogram = histogram("drover.worker.plan.seconds");
static VERDICTS: Counter = counter("drover.worker.plans");

/// How long workers waited for evaluations.
pub(crate) fn dequeued(waited: Duration) {
    DEQUEUE.record(waited.as_secs_f64());
}

/// How long a worker waited for its replica to reach an index.
pub(crate) fn index_waited(waited: Duration) {
    INDEX_WAIT.record(waited.as_secs_f64());
}

/// How long a scheduler took, its wait for a thread included.
pub(crate) fn scheduled(kind: JobType, took: Duration) {
    SCHEDULE.record_with(took.as_secs_f64(), &[("scheduler", kind.as_str())]);
}

/// How long a plan was under way, and what became of it; `None`: it was refused, or nobody answered.
pub(crate) fn submitted(took: Duration, verdict: Option<PlanVerdict>) {
    SUBMIT.record(took.as_secs_f64());
    let verdict = match verdict {
        Some(PlanVerdict::Whole) => "whole",
        Some(PlanVerdict::Part) => "part",
        Some(PlanVerdict::Nothing) => "nothing",
        Some(PlanVerdict::Stale) => "stale",
        None => "refused",
    };
    VERDICTS.add_with(1, &[("verdict", verdict)]);
}
