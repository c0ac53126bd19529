//! What the applier records of its work.

use std::time::Duration;

use model::{Epoch, Index, Timestamp};
use store::{LogRow, LogSize};
use telemetry::metrics::catalogue::{
    APPLIER, APPLIER_BATCH, APPLIER_BATCH_BYTES, APPLIER_COMMIT, APPLIER_INDEX, APPLIER_JUDGE,
    APPLIER_LOG_BYTES, APPLIER_LOG_FULL, APPLIER_LOG_HELD_UP, APPLIER_LOG_OLDEST, APPLIER_LOG_PARTS,
    APPLIER_NODES_REJECTED, APPLIER_PLANS, APPLIER_PROJECTED, APPLIER_PROJECTION_LAG, APPLIER_REFUSED,
    APPLIER_REPEATED, APPLIER_WAITING, APPLIER_WRITES_FAILED, LEADER_BARRIER, LEADER_RECONCILE, LEASES_LOST,
    LEASES_TAKEN, PLAN_EVALUATE, PLAN_NODE_REJECTED, PLAN_QUEUE_DEPTH, PLAN_SUBMIT, RAFT_APPLY,
    RAFT_CANDIDATE, RAFT_COMMIT_TIME, RAFT_DISPATCH_LOG, RAFT_FOLLOWER, RAFT_LAST_CONTACT, RAFT_LEADER,
};
use telemetry::metrics::{set_active, set_standby};
use wire::command::{Answer, PlanVerdict};

use crate::batch::Reply;

/// This process is the active applier from now on.
pub(crate) fn active(epoch: Epoch) {
    RAFT_LEADER.add(1);
    LEASES_TAKEN.add_with(1, &[APPLIER]);
    set_active(APPLIER, epoch.0);
}

/// It is not any more, because another one took over or because it stops.
pub(crate) fn standing_by(is_deposed: bool) {
    if is_deposed {
        LEASES_LOST.add_with(1, &[APPLIER]);
    }
    set_standby(APPLIER);
}

/// It begins to stand by.
pub(crate) fn follower() {
    RAFT_FOLLOWER.add(1);
}

/// It asks for the lease of an applier that is gone.
pub(crate) fn candidate() {
    RAFT_CANDIDATE.add(1);
}

/// A new applier brought its replica to the head.
pub(crate) fn caught_up(took: Duration) {
    LEADER_RECONCILE.record(took);
}

/// The database confirmed the epoch, so long after the time before.
pub(crate) fn contact(since_last: Duration) {
    RAFT_LAST_CONTACT.record(since_last);
}

/// Change sets were put on the feed.
pub(crate) fn published(took: Duration) {
    RAFT_DISPATCH_LOG.record(took);
}

/// A write was not carried out, or nobody knows.
pub(crate) fn write_failed(outcome: &'static str) {
    APPLIER_WRITES_FAILED.add_with(1, &[outcome]);
}

/// How the log stands.
pub(crate) fn log(log: &LogSize) {
    APPLIER_LOG_BYTES.set(log.bytes as f64);
    APPLIER_LOG_PARTS.set(log.parts as f64);
    APPLIER_LOG_HELD_UP.set(log.held_up as f64);
    APPLIER_LOG_OLDEST.set(log.oldest.as_secs() as f64);
    APPLIER_LOG_FULL.set(f64::from(u8::from(log.is_full)));
}

/// How many commands wait, and how many of them are plans.
pub(crate) fn waiting(commands: usize, plans: usize) {
    APPLIER_WAITING.set(commands as f64);
    PLAN_QUEUE_DEPTH.set(plans as f64);
}

/// A repeat of a command was answered from the log.
pub(crate) fn repeated() {
    APPLIER_REPEATED.add(1);
}

/// How long it took to judge so much of a batch, and whether there were plans in it.
pub(crate) fn judged(took: Duration, has_plans: bool) {
    APPLIER_JUDGE.record(took.as_secs_f64());
    if has_plans {
        PLAN_EVALUATE.record(took);
    }
}

/// A write ended after so long, and the epoch held.
pub(crate) fn durable(rows: &[LogRow], took: Duration) {
    let Some(last) = rows.last() else { return LEADER_BARRIER.record(took) };
    APPLIER_COMMIT.record(took.as_secs_f64());
    RAFT_COMMIT_TIME.record(took);
    RAFT_APPLY.add(rows.len() as u64);
    APPLIER_BATCH.record(rows.len() as f64);
    APPLIER_BATCH_BYTES.record(rows.iter().map(|row| row.bytes.len()).sum::<usize>() as f64);
    APPLIER_INDEX.set(last.index.0 as f64);
}

/// Somebody was answered, so long after asking.
pub(crate) fn said(reply: &Reply, took: Duration) {
    match reply {
        Reply::Refuse(refusal) => {
            APPLIER_REFUSED.add_with(1, &[&format!("{:?}", refusal.kind)]);
        }
        Reply::Answer(Answer::Done(done)) => {
            let Some(plan) = &done.plan else { return };
            let verdict = match plan.verdict {
                PlanVerdict::Whole => "whole",
                PlanVerdict::Part => "part",
                PlanVerdict::Nothing => "nothing",
                PlanVerdict::Stale => "stale",
            };
            PLAN_SUBMIT.record(took);
            APPLIER_PLANS.add_with(1, &[verdict]);
            APPLIER_NODES_REJECTED.add(plan.rejected_nodes.len() as u64);
            for node in &plan.rejected_nodes {
                PLAN_NODE_REJECTED.add_with(1, &[&node.to_string()]);
            }
        }
        Reply::Answer(Answer::Retry { .. }) | Reply::Head(_) => {}
    }
}

/// The tables are at this index, which the cluster was at at that moment.
pub(crate) fn projected(index: Index, at: Timestamp) {
    APPLIER_PROJECTED.set(index.0 as f64);
    let lag = telemetry::clock::now().0.saturating_sub(at.0).max(0);
    APPLIER_PROJECTION_LAG.record(Duration::from_nanos(lag.unsigned_abs()).as_secs_f64());
}
