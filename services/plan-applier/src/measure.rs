//! What the applier counts.

use std::time::Duration;

use model::{Index, Timestamp};
use telemetry::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use wire::command::{Answer, PlanVerdict};

use crate::batch::{Batch, Reply};

static WAITING: Gauge = gauge("drover.applier.commands.waiting");
static BATCH_COMMANDS: Histogram = histogram("drover.applier.batch.commands");
static BATCH_BYTES: Histogram = histogram("drover.applier.batch.bytes");
static COMMIT: Histogram = histogram("drover.applier.commit.seconds");
static JUDGE: Histogram = histogram("drover.applier.judge.seconds");
static REFUSED: Counter = counter("drover.applier.refused");
static REPEATED: Counter = counter("drover.applier.repeated");
static PLANS: Counter = counter("drover.applier.plans");
static NODES_REJECTED: Counter = counter("drover.applier.plans.rejected.nodes");
static INDEX: Gauge = gauge("drover.applier.index");
static PROJECTED: Gauge = gauge("drover.applier.projection.index");
static PROJECTION_LAG: Histogram = histogram("drover.applier.projection.lag.seconds");

/// How many commands wait.
pub(crate) fn waiting(commands: usize) {
    WAITING.set(commands as f64);
}

/// A repeat of a command was answered from the log.
pub(crate) fn repeated() {
    REPEATED.add(1);
}

/// How long it took to judge so much of a batch.
pub(crate) fn judged(took: Duration) {
    JUDGE.record(took.as_secs_f64());
}

/// A batch was committed, which took so long.
pub(crate) fn committed(batch: &Batch, took: Duration) {
    COMMIT.record(took.as_secs_f64());
    BATCH_COMMANDS.record(batch.replies.len() as f64);
    BATCH_BYTES.record(batch.rows.iter().map(|row| row.bytes.len()).sum::<usize>() as f64);
    if let Some((set, _)) = batch.steps.last() {
        INDEX.set(set.index.0 as f64);
    }
    for (_, reply) in &batch.replies {
        match reply {
            Reply::Refuse(refusal) => {
                REFUSED.add_with(1, &[("kind", &format!("{:?}", refusal.kind))]);
            }
            Reply::Answer(Answer::Done(done)) => {
                let Some(plan) = &done.plan else { continue };
                let verdict = match plan.verdict {
                    PlanVerdict::Whole => "whole",
                    PlanVerdict::Part => "part",
                    PlanVerdict::Nothing => "nothing",
                    PlanVerdict::Stale => "stale",
                };
                PLANS.add_with(1, &[("verdict", verdict)]);
                NODES_REJECTED.add(plan.rejected_nodes.len() as u64);
            }
            Reply::Answer(Answer::Retry { .. }) => {}
        }
    }
}

/// The tables are at this index, which the cluster was at at that moment.
pub(crate) fn projected(index: Index, at: Timestamp) {
    PROJECTED.set(index.0 as f64);
    let lag = telemetry::clock::now().0.saturating_sub(at.0).max(0);
    PROJECTION_LAG.record(Duration::from_nanos(lag.unsigned_abs()).as_secs_f64());
}
