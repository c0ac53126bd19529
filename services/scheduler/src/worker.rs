//! The work on one evaluation: wait for its index, schedule, submit, and repeat until done.
//!
//! [`Attempts`](crate::attempt::Attempts) decides what follows from an answer. The lease of the evaluation is renewed
//! all the time.

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use model::eval::Evaluation;
use model::{EvalId, Index, Timestamp};
use scheduling::{Attempt, NewId, Proposal};
use state::{Replica, Snapshot, State};
use telemetry::{attribute, clock, traces};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use wire::Subject;
use wire::broker::{Delivery, EvalLeaseAction, EvalLeaseRequest, EvalLeaseResponse, SCHEDULER_VERSION};
use wire::command::{Command, CommandError, Done, SubmitPlan};

use crate::attempt::{Attempts, End, Next, ReturnReason};
use crate::backoff::DequeuePause;
use crate::metrics;
use crate::outstanding::{Outstanding, OutstandingGuard, lacks_capacity};
use crate::threads::Threads;

/// Name of the spans of waiting for an index.
const WAIT_FOR_INDEX: &str = "wait for index";
/// How long a worker waits for its replica to reach an index.
const INDEX_WAIT: Duration = Duration::from_secs(5);
/// How long a plan is sent again while no applier answers.
const PLAN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a stopping worker waits for the answer to a plan.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How many times a lease is renewed within its duration.
const RENEWALS_PER_LEASE: u32 = 4;
/// Shortest interval between two renewals, however short the lease.
const RENEWAL_INTERVAL_MIN: Duration = Duration::from_millis(10);
/// How long to wait for the broker's answer.
const BROKER_TIMEOUT: Duration = Duration::from_secs(1);

/// Computes a proposal; in production [`scheduling::schedule`].
pub(crate) type Schedule = fn(&Attempt<'_>, NewId<'_>) -> Proposal;

/// State that all workers of a process share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bus: Bus,
    pub(crate) replica: Arc<Replica>,
    pub(crate) threads: Threads,
    pub(crate) schedule: Schedule,
    pub(crate) outstanding: Outstanding,
    pub(crate) dequeue_pause: DequeuePause,
    pub(crate) stop: CancellationToken,
}

/// The outcome of scheduling on a thread.
enum Scheduled {
    /// The proposal, and the guard that keeps its plan outstanding.
    Proposal(Box<Proposal>, Option<OutstandingGuard>),
    /// The evaluation is finished or deleted.
    NotNeeded,
    /// The replica was reset to an older index.
    Behind,
    Failed(String),
}

/// Works on an evaluation until done, and reports to the broker if it is returned or nacked. The permit limits the
/// number of evaluations that are worked on at once.
pub(crate) async fn work(shared: Arc<Shared>, delivery: Delivery, permit: OwnedSemaphorePermit) {
    let permit = Arc::new(permit);
    let end = tokio::select! {
        end = process(&shared, delivery, &permit) => end,
        () = renew(&shared.bus, delivery) => {
            tracing::debug!(eval.id = %delivery.eval_id, "the lease of the evaluation is lost");
            End::Finished
        }
    };
    match end {
        End::Finished => {
            metrics::processed(delivery.kind);
            shared.dequeue_pause.succeeded();
        }
        End::Returned(why) => {
            tracing::debug!(eval.id = %delivery.eval_id, ?why, "returning the evaluation to the broker");
            shared.dequeue_pause.returned(why, shared.replica.snapshot().index());
            let begun = clock::monotonic();
            let _ = send_lease_action(&shared.bus, delivery, EvalLeaseAction::GiveBack).await;
            metrics::given_back(why.as_str(), begun.elapsed());
        }
        End::Failed(_) => {
            let begun = clock::monotonic();
            let _ = send_lease_action(&shared.bus, delivery, EvalLeaseAction::Fail).await;
            metrics::given_back("failed", begun.elapsed());
        }
    }
}

/// Reports an action on a leased evaluation to the broker. Returns whether the lease was still held; `None` if the
/// broker did not answer, which is harmless, because the lease expires by itself.
pub(crate) async fn send_lease_action(
    bus: &Bus,
    delivery: Delivery,
    action: EvalLeaseAction,
) -> Option<bool> {
    let request = EvalLeaseRequest { eval_id: delivery.eval_id, token: delivery.token, action };
    let answer = bus.request::<_, EvalLeaseResponse>(Subject::EvalLease, &request, BROKER_TIMEOUT).await;
    answer.ok().map(|answer| answer.held)
}

/// Renews the lease until the broker reports that it is over. The work continues if the broker does not answer, because
/// the applier guarantees safety.
async fn renew(bus: &Bus, delivery: Delivery) {
    let lease = Duration::from_millis(delivery.lease_ms.into());
    let every = (lease / RENEWALS_PER_LEASE).max(RENEWAL_INTERVAL_MIN);
    loop {
        tokio::time::sleep(every).await;
        if send_lease_action(bus, delivery, EvalLeaseAction::Renew).await == Some(false) {
            return;
        }
    }
}

async fn process(shared: &Shared, delivery: Delivery, permit: &Arc<OwnedSemaphorePermit>) -> End {
    let since = clock::now();
    let Some(snapshot) = wait_for_index(&shared.replica, delivery.wait_index).await else {
        return End::Returned(ReturnReason::Behind(delivery.wait_index));
    };
    let Some(eval) = live_eval(&snapshot, delivery.eval_id) else { return End::Finished };
    if let Some(trace) = &eval.trace {
        // The wait is recorded afterwards, because the trace is known only from the evaluation.
        traces::record_past(WAIT_FOR_INDEX, trace, since, clock::now(), || {
            vec![
                (attribute::EVAL_ID, eval.id.to_string().into()),
                (attribute::INDEX, delivery.wait_index.to_string().into()),
            ]
        });
    }
    let attempts = async {
        let end = run_attempts(shared, delivery, permit).await;
        if let End::Failed(error) = &end {
            traces::fail(&Span::current(), "panic", error);
            tracing::error!(eval.id = %delivery.eval_id, error, "cannot process the evaluation");
        }
        end
    };
    traces::follow(eval.trace, attempts.instrument(span(&eval))).await
}

async fn run_attempts(shared: &Shared, delivery: Delivery, permit: &Arc<OwnedSemaphorePermit>) -> End {
    let mut attempts = Attempts::new(delivery.wait_index);
    let mut next = attempts.attempt();
    loop {
        let (at_least, attempts_without_progress) = match next {
            Next::Schedule { at_least, attempts_without_progress } => (at_least, attempts_without_progress),
            Next::End(end) => return end,
        };
        if shared.stop.is_cancelled() {
            return End::Returned(ReturnReason::Stopping);
        }
        let is_behind = shared.replica.snapshot().index() < at_least;
        let wait = || tracing::info_span!(WAIT_FOR_INDEX, { attribute::INDEX } = at_least.0.cast_signed());
        let wait = if is_behind { traces::within(wait) } else { Span::none() };
        if wait_for_index(&shared.replica, at_least).instrument(wait).await.is_none() {
            return End::Returned(ReturnReason::Behind(at_least));
        }
        let (proposal, outstanding) =
            match schedule(shared, delivery, at_least, attempts_without_progress, permit).await {
                Scheduled::Proposal(proposal, outstanding) => (*proposal, outstanding),
                Scheduled::NotNeeded => return End::Finished,
                Scheduled::Behind => return End::Returned(ReturnReason::Behind(at_least)),
                Scheduled::Failed(error) => return End::Failed(error),
            };
        let snapshot_index = proposal.plan.snapshot_index;
        let Some(answer) = submit(shared, proposal).await else {
            return End::Returned(ReturnReason::Stopping);
        };
        tracing::debug!(eval.id = %delivery.eval_id, snapshot = %snapshot_index, is_taken = answer.is_ok(), "received the answer to the plan");
        if let (Some(guard), Ok(done)) = (outstanding, &answer) {
            keep_outstanding(shared, done.index, guard).await;
        }
        next = attempts.answered(&answer);
        if next == Next::End(End::Returned(ReturnReason::Superseded)) {
            // The state that made the plan unnecessary is newer than the snapshot. Wait for it, so that the next worker
            // is not refused for the same reason.
            let _ = wait_for_index(&shared.replica, snapshot_index.next()).await;
        }
    }
}

async fn wait_for_index(replica: &Replica, index: Index) -> Option<Snapshot> {
    let since = clock::monotonic();
    let reached = tokio::time::timeout(INDEX_WAIT, replica.wait_for(index)).await;
    metrics::index_waited(since.elapsed());
    reached.ok()
}

/// Keeps a plan outstanding until the replica contains its result. Ending early does no harm.
async fn keep_outstanding(shared: &Shared, index: Index, _guard: OutstandingGuard) {
    tokio::select! {
        _ = tokio::time::timeout(INDEX_WAIT, shared.replica.wait_for(index)) => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Schedules on a thread, on the newest snapshot at the time when the thread starts; newer snapshots cause fewer
/// refusals.
async fn schedule(
    shared: &Shared,
    delivery: Delivery,
    at_least: Index,
    attempts_without_progress: u8,
    permit: &Arc<OwnedSemaphorePermit>,
) -> Scheduled {
    let (replica, schedule) = (Arc::clone(&shared.replica), shared.schedule);
    let (outstanding, contact) = (shared.outstanding.clone(), shared.bus.contact());
    // If the broker takes the evaluation away, the permit is still held until the thread is done.
    let permit = Arc::clone(permit);
    let span = traces::within(|| {
        tracing::info_span!(
            "schedule",
            { attribute::ATTEMPT } = i64::from(attempts_without_progress),
            { attribute::INDEX } = tracing::field::Empty
        )
    });
    let since = clock::monotonic();
    let compute = shared.threads.compute(move |ids| {
        let _permit = permit;
        let snapshot = replica.snapshot();
        if snapshot.index() < at_least {
            return Scheduled::Behind;
        }
        let Some(eval) = live_eval(&snapshot, delivery.eval_id) else { return Scheduled::NotNeeded };
        let now = now_for(&snapshot, &eval, contact.cluster_now());
        span.record(attribute::INDEX, snapshot.index().0.cast_signed());
        let mut schedule_on = |state: &State| {
            let attempt = Attempt {
                state,
                eval: &eval,
                now,
                attempts_without_progress,
                rollouts: true,
                explain: false,
            };
            span.in_scope(|| schedule(&attempt, &mut || ids.next()))
        };
        let with_outstanding = outstanding.overlay_on(&snapshot).map(|state| schedule_on(&state));
        let proposal = with_outstanding
            .filter(|proposal| !lacks_capacity(proposal))
            .unwrap_or_else(|| schedule_on(&snapshot));
        let outstanding = outstanding.add(&proposal.plan, &snapshot);
        Scheduled::Proposal(Box::new(proposal), outstanding)
    });
    let scheduled = compute.await.unwrap_or_else(|panicked| Scheduled::Failed(panicked.to_string()));
    metrics::scheduled(delivery.kind, since.elapsed());
    scheduled
}

/// Submits a plan with its outcome; `None` if the worker stops before there is an answer.
async fn submit(shared: &Shared, proposal: Proposal) -> Option<Result<Done, CommandError>> {
    let Proposal { plan, outcome } = proposal;
    let placements = plan.placements.iter().map(|placements| placements.ids.len()).sum();
    let command =
        Command::SubmitPlan(Box::new(SubmitPlan { plan, outcome, scheduler_version: SCHEDULER_VERSION }));
    let since = clock::monotonic();
    let answer = tokio::select! {
        answer = shared.bus.command(&command, PLAN_TIMEOUT) => answer,
        () = stopping(&shared.stop) => return None,
    };
    let verdict = answer.as_ref().ok().and_then(|done| done.plan.as_ref()).map(|plan| plan.verdict);
    metrics::submitted(since.elapsed(), placements, verdict);
    Some(answer)
}

async fn stopping(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_GRACE).await;
}

fn live_eval(state: &State, id: EvalId) -> Option<Arc<Evaluation>> {
    state.eval(id).filter(|eval| !eval.status.is_terminal()).map(Arc::clone)
}

/// The time at which an evaluation is processed: the cluster's time, as this process knows it. It is not before the
/// evaluation's own time, so that nothing is found that is not yet due; nothing would wake the evaluation again
/// (`docs/architecture/evaluations.md`).
fn now_for(state: &State, eval: &Evaluation, cluster: Timestamp) -> Timestamp {
    cluster.max(state.at()).max(eval.wait_until)
}

/// The span of the work on an evaluation, in the evaluation's trace.
fn span(eval: &Evaluation) -> Span {
    let Some(trace) = &eval.trace else { return Span::none() };
    let span = tracing::info_span!(
        "process eval",
        { attribute::EVAL_ID } = %eval.id,
        { attribute::EVAL_TRIGGERED_BY } = eval.trigger.as_str(),
        { attribute::JOB_ID } = &*eval.job.id,
        { attribute::JOB_NAMESPACE } = &*eval.job.namespace,
        { attribute::JOB_TYPE } = eval.kind.as_str(),
    );
    telemetry::adopt(&span, trace);
    span
}

#[cfg(test)]
mod tests {
    use model::eval::EvalTrigger;
    use model::job::JobType;
    use model::{JobKey, Nanos};

    use super::*;

    #[test]
    fn now_is_not_before_the_time_for_which_the_evaluation_waited() {
        let own = Timestamp::from_secs(100);
        let job = JobKey::new("default", "web");
        let id = EvalId::from_bytes([1; 16]);
        let mut eval = Evaluation::new(id, job, JobType::Service, 50, EvalTrigger::AllocReschedule);
        let state = State::default();
        assert_eq!(now_for(&state, &eval, own), own);
        eval.wait_until = own + Nanos::MILLISECOND;
        assert_eq!(now_for(&state, &eval, own), eval.wait_until);
    }
}
