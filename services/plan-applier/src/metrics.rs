//! Metrics of the applier.

use std::time::Duration;

use model::{Epoch, Index, NodeId, Timestamp};
use store::LogSize;
use telemetry::metrics::catalogue::{
    APPLIER, APPLIER_BATCH, APPLIER_BATCH_BYTES, APPLIER_COMMIT, APPLIER_INDEX, APPLIER_JUDGE,
    APPLIER_LOG_BLOCKED, APPLIER_LOG_BYTES, APPLIER_LOG_FULL, APPLIER_LOG_OLDEST, APPLIER_LOG_PARTS,
    APPLIER_NODES_REJECTED, APPLIER_PLANS, APPLIER_PROJECTED, APPLIER_PROJECTION_LAG, APPLIER_REFUSED,
    APPLIER_REPEATED, APPLIER_WAITING, APPLIER_WRITES_FAILED, LEADER_BARRIER, LEADER_RECONCILE, LEASES_LOST,
    LEASES_TAKEN, PLAN_EVALUATE, PLAN_NODE_REJECTED, PLAN_NODE_SCORE, PLAN_QUEUE_DEPTH, PLAN_SUBMIT,
    RAFT_APPLY, RAFT_CANDIDATE, RAFT_COMMIT_TIME, RAFT_DISPATCH_LOG, RAFT_FOLLOWER, RAFT_LAST_CONTACT,
    RAFT_LEADER,
};
use telemetry::metrics::{set_active, set_standby};
use wire::LogRow;
use wire::command::{Answer, PlanVerdict};

use crate::batch::Reply;

/// This process has become the active applier.
pub(crate) fn became_active(epoch: Epoch) {
    RAFT_LEADER.add(1);
    LEASES_TAKEN.add_with(1, &[APPLIER]);
    set_active(APPLIER, epoch.0);
}

/// This process is no longer active, because another applier took over or because it stops.
pub(crate) fn no_longer_active(is_deposed: bool) {
    if is_deposed {
        LEASES_LOST.add_with(1, &[APPLIER]);
    }
    set_standby(APPLIER);
}

/// This process begins to stand by.
pub(crate) fn began_standby() {
    RAFT_FOLLOWER.add(1);
}

/// This process tries to take the lease of an applier that is gone.
pub(crate) fn tries_takeover() {
    RAFT_CANDIDATE.add(1);
}

/// A new applier has brought its replica to the head.
pub(crate) fn caught_up(took: Duration) {
    LEADER_RECONCILE.record(took);
}

/// The database confirmed the epoch, `since_last` after the previous confirmation.
pub(crate) fn epoch_confirmed(since_last: Duration) {
    RAFT_LAST_CONTACT.record(since_last);
}

/// Change sets were published.
pub(crate) fn published(took: Duration) {
    RAFT_DISPATCH_LOG.record(took);
}

/// A write failed, or its outcome is unknown.
pub(crate) fn write_failed(outcome: &'static str) {
    APPLIER_WRITES_FAILED.add_with(1, &[outcome]);
}

/// The size of the log.
pub(crate) fn log_size(log: &LogSize) {
    APPLIER_LOG_BYTES.set(log.bytes as f64);
    APPLIER_LOG_PARTS.set(log.parts as f64);
    APPLIER_LOG_BLOCKED.set(log.held_up as f64);
    APPLIER_LOG_OLDEST.set(log.oldest.as_secs() as f64);
    APPLIER_LOG_FULL.set(f64::from(u8::from(log.is_full)));
}

/// The number of waiting commands, and how many of them are plans.
pub(crate) fn waiting(commands: usize, plans: usize) {
    APPLIER_WAITING.set(commands as f64);
    PLAN_QUEUE_DEPTH.set(plans as f64);
}

/// A repeated command was answered from the log.
pub(crate) fn repeated() {
    APPLIER_REPEATED.add(1);
}

/// The time that it took to judge commands, and whether there were plans among them.
pub(crate) fn judged(took: Duration, has_plans: bool) {
    APPLIER_JUDGE.record(took.as_secs_f64());
    if has_plans {
        PLAN_EVALUATE.record(took);
    }
}

/// A write succeeded after `took`.
pub(crate) fn write_succeeded(rows: &[LogRow], took: Duration) {
    let Some(last) = rows.last() else { return LEADER_BARRIER.record(took) };
    APPLIER_COMMIT.record(took.as_secs_f64());
    RAFT_COMMIT_TIME.record(took);
    RAFT_APPLY.add(rows.len() as u64);
    APPLIER_BATCH.record(rows.len() as f64);
    APPLIER_BATCH_BYTES.record(rows.iter().map(|row| row.bytes.len()).sum::<usize>() as f64);
    APPLIER_INDEX.set(last.index.0 as f64);
}

/// A request was answered, `took` after its arrival.
pub(crate) fn replied(reply: &Reply, took: Duration) {
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

/// A node was rejected in a plan, so many times within the window.
pub(crate) fn node_rejected(node: NodeId, rejections: usize) {
    PLAN_NODE_SCORE.set_with(rejections as f64, &[&node.to_string()]);
}

/// The tables have reached `index`, whose cluster time is `at`.
pub(crate) fn projected(index: Index, at: Timestamp) {
    APPLIER_PROJECTED.set(index.0 as f64);
    let lag = telemetry::clock::now().0.saturating_sub(at.0).max(0);
    APPLIER_PROJECTION_LAG.record(Duration::from_nanos(lag.unsigned_abs()).as_secs_f64());
}
