//! What the applier counts.

use std::time::Duration;

use model::{Index, Timestamp};
use store::{LogRow, LogSize};
use telemetry::metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use wire::command::{Answer, PlanVerdict};

use crate::batch::Reply;

static WAITING: Gauge = gauge("drover.applier.commands.waiting");
static BATCH_CHANGE_SETS: Histogram = histogram("drover.applier.batch.change_sets");
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
static LOG_BYTES: Gauge = gauge("drover.applier.log.bytes");
static LOG_PARTS: Gauge = gauge("drover.applier.log.parts");
/// Parts that somebody's transaction keeps from being taken away.
static LOG_HELD_UP: Gauge = gauge("drover.applier.log.parts.held_up");
/// The cluster's time at the oldest change set that is kept; 0 if there is none.
static LOG_OLDEST: Gauge = gauge("drover.applier.log.oldest.seconds");
/// 1 while commands are turned away because the log takes all the space that it may.
static LOG_FULL: Gauge = gauge("drover.applier.log.full");

/// How the log stands.
pub(crate) fn log(log: &LogSize) {
    LOG_BYTES.set(log.bytes as f64);
    LOG_PARTS.set(log.parts as f64);
    LOG_HELD_UP.set(log.held_up as f64);
    LOG_OLDEST.set(log.oldest.as_secs() as f64);
    LOG_FULL.set(f64::from(u8::from(log.is_full)));
}

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

/// A write ended after so long, and the epoch held.
pub(crate) fn durable(rows: &[LogRow], took: Duration) {
    COMMIT.record(took.as_secs_f64());
    BATCH_CHANGE_SETS.record(rows.len() as f64);
    BATCH_BYTES.record(rows.iter().map(|row| row.bytes.len()).sum::<usize>() as f64);
    if let Some(last) = rows.last() {
        INDEX.set(last.index.0 as f64);
    }
}

/// Somebody was answered.
pub(crate) fn said(reply: &Reply) {
    match reply {
        Reply::Refuse(refusal) => {
            REFUSED.add_with(1, &[("kind", &format!("{:?}", refusal.kind))]);
        }
        Reply::Answer(Answer::Done(done)) => {
            let Some(plan) = &done.plan else { return };
            let verdict = match plan.verdict {
                PlanVerdict::Whole => "whole",
                PlanVerdict::Part => "part",
                PlanVerdict::Nothing => "nothing",
                PlanVerdict::Stale => "stale",
            };
            PLANS.add_with(1, &[("verdict", verdict)]);
            NODES_REJECTED.add(plan.rejected_nodes.len() as u64);
        }
        Reply::Answer(Answer::Retry { .. }) | Reply::Head(_) => {}
    }
}

/// The tables are at this index, which the cluster was at at that moment.
pub(crate) fn projected(index: Index, at: Timestamp) {
    PROJECTED.set(index.0 as f64);
    let lag = telemetry::clock::now().0.saturating_sub(at.0).max(0);
    PROJECTION_LAG.record(Duration::from_nanos(lag.unsigned_abs()).as_secs_f64());
}
