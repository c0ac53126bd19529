//! Metrics of workers.

use std::time::Duration;

use model::job::JobType;
use telemetry::metrics::Timer;
use telemetry::metrics::catalogue::{
    SCHEDULER_DEQUEUE, SCHEDULER_EVALS, SCHEDULER_INDEX_WAIT, SCHEDULER_PLACEMENTS, SCHEDULER_PLANS,
    SCHEDULER_RETURNED, SCHEDULER_RUN, SCHEDULER_SUBMIT, WORKER_DEQUEUE, WORKER_INVOKE_BATCH,
    WORKER_INVOKE_SERVICE, WORKER_INVOKE_SYSBATCH, WORKER_INVOKE_SYSTEM, WORKER_SEND_NACK,
    WORKER_SUBMIT_PLAN, WORKER_WAIT_FOR_INDEX,
};
use wire::command::PlanVerdict;

/// Records how long workers waited for evaluations.
pub(crate) fn dequeued(waited: Duration) {
    SCHEDULER_DEQUEUE.record(waited.as_secs_f64());
    WORKER_DEQUEUE.record(waited);
}

/// Records how long a worker waited for its replica to reach an index.
pub(crate) fn index_waited(waited: Duration) {
    SCHEDULER_INDEX_WAIT.record(waited.as_secs_f64());
    WORKER_WAIT_FOR_INDEX.record(waited);
}

/// Records how long scheduling took, including the wait for a thread.
pub(crate) fn scheduled(kind: JobType, took: Duration) {
    SCHEDULER_RUN.record_with(took.as_secs_f64(), &[kind.as_str()]);
    let timer: &Timer = match kind {
        JobType::Service => &WORKER_INVOKE_SERVICE,
        JobType::Batch => &WORKER_INVOKE_BATCH,
        JobType::System => &WORKER_INVOKE_SYSTEM,
        JobType::SysBatch => &WORKER_INVOKE_SYSBATCH,
    };
    timer.record(took);
}

/// Records how long submitting a plan took, how many allocations the plan places, and the verdict; `None` if the plan
/// was refused or not answered.
pub(crate) fn submitted(took: Duration, placements: usize, verdict: Option<PlanVerdict>) {
    SCHEDULER_SUBMIT.record(took.as_secs_f64());
    WORKER_SUBMIT_PLAN.record(took);
    let verdict = match verdict {
        Some(PlanVerdict::Whole) => "whole",
        Some(PlanVerdict::Part) => "part",
        Some(PlanVerdict::Nothing) => "nothing",
        Some(PlanVerdict::Stale) => "stale",
        None => "refused",
    };
    SCHEDULER_PLANS.add_with(1, &[verdict]);
    SCHEDULER_PLACEMENTS.add(placements as u64);
}

/// Records that the work on an evaluation is finished.
pub(crate) fn processed(kind: JobType) {
    SCHEDULER_EVALS.add_with(1, &[kind.as_str()]);
}

/// Records that an evaluation was returned or nacked, and how long the report to the broker took.
pub(crate) fn given_back(reason: &'static str, took: Duration) {
    SCHEDULER_RETURNED.add_with(1, &[reason]);
    WORKER_SEND_NACK.record(took);
}
