//! One evaluation's way through a worker: wait for its index, schedule, submit, and again until it leaves.
//!
//! What follows from an answer [`Attempts`](crate::attempt::Attempts) decides. While anything is waited for, the hand-out
//! is renewed.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, CommandError};
use model::eval::Evaluation;
use model::{EvalId, Index, Timestamp};
use scheduling::{Attempt, NewId, Proposal};
use state::{Replica, Snapshot, State};
use telemetry::{attribute, clock, traces};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};
use wire::Subject;
use wire::broker::{Delivery, HandOut, HandOutAction, HandOutAnswer, SCHEDULER_VERSION};
use wire::command::{Command, Done, SubmitPlan};

use crate::attempt::{Attempts, End, Next, Why};
use crate::backoff::HoldBack;
use crate::metrics;
use crate::outstanding::{Kept, Outstanding, is_at_cost};
use crate::threads::Threads;

/// Name of the spans of waiting for that.
const WAIT_FOR_INDEX: &str = "wait for index";
/// How long a worker waits for its replica to reach an index.
const INDEX_WAIT: Duration = Duration::from_secs(5);
/// How long a plan is sent again and again while no applier answers.
const PLAN_WITHIN: Duration = Duration::from_secs(30);
/// How long a worker that is to stop still waits for the answer to a plan.
const STOP_GRACE: Duration = Duration::from_secs(2);
/// How often a hand-out is renewed within its lease.
const RENEWALS_PER_LEASE: u32 = 4;
/// The least time between two renewals, however short the lease.
const RENEWAL_PAUSE_MIN: Duration = Duration::from_millis(10);
/// How long the broker has to answer.
const BROKER_WITHIN: Duration = Duration::from_secs(1);

/// Works out what brings a job to where it should be; [`scheduling::schedule`].
pub(crate) type Schedule = fn(&Attempt<'_>, NewId<'_>) -> Proposal;

/// What all workers of a process share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bus: Bus,
    pub(crate) replica: Arc<Replica>,
    pub(crate) threads: Threads,
    pub(crate) schedule: Schedule,
    pub(crate) outstanding: Outstanding,
    pub(crate) hold_back: HoldBack,
    pub(crate) stop: CancellationToken,
}

/// What a thread found when it was an evaluation's turn.
enum Found {
    /// With what keeps its plan outstanding.
    Proposal(Box<Proposal>, Option<Kept>),
    /// The evaluation is finished or gone.
    Nothing,
    /// The replica was reset to an older index.
    Behind,
    Failed(String),
}

/// Works on an evaluation until it leaves, and tells the broker if it goes back. The permit is one of those that bound how
/// many there are at once.
pub(crate) async fn work(shared: Arc<Shared>, delivery: Delivery, permit: OwnedSemaphorePermit) {
    let permit = Arc::new(permit);
    let end = tokio::select! {
        end = process(&shared, delivery, &permit) => end,
        () = renew(&shared.bus, delivery) => {
            tracing::debug!(eval.id = %delivery.eval_id, "the broker took the evaluation away");
            End::Finished
        }
    };
    match end {
        End::Finished => {
            metrics::processed(delivery.kind);
            shared.hold_back.well();
        }
        End::GivenBack(why) => {
            tracing::debug!(eval.id = %delivery.eval_id, ?why, "giving the evaluation back");
            shared.hold_back.given_back(why, shared.replica.snapshot().index());
            let begun = clock::monotonic();
            let _ = tell_broker(&shared.bus, delivery, HandOutAction::GiveBack).await;
            metrics::given_back(why.as_str(), begun.elapsed());
        }
        End::Failed(error) => {
            tracing::error!(eval.id = %delivery.eval_id, error, "cannot work on the evaluation");
            let begun = clock::monotonic();
            let _ = tell_broker(&shared.bus, delivery, HandOutAction::Fail).await;
            metrics::given_back("failed", begun.elapsed());
        }
    }
}

/// Tells the broker what to do with an evaluation that was handed out; whether that was still so. `None`: it did not
/// answer, which does no harm, for the lease ends by itself.
pub(crate) async fn tell_broker(bus: &Bus, delivery: Delivery, action: HandOutAction) -> Option<bool> {
    let hand_out = HandOut { eval_id: delivery.eval_id, token: delivery.token, action };
    let answer = bus.request::<_, HandOutAnswer>(Subject::HandOut, &hand_out, BROKER_WITHIN).await;
    answer.ok().map(|answer| answer.held)
}

/// Renews the hand-out until the broker says that it is over. A broker that does not answer does not stop the work: what
/// keeps it safe is the applier.
async fn renew(bus: &Bus, delivery: Delivery) {
    let lease = Duration::from_millis(delivery.lease_ms.into());
    let every = (lease / RENEWALS_PER_LEASE).max(RENEWAL_PAUSE_MIN);
    loop {
        tokio::time::sleep(every).await;
        if tell_broker(bus, delivery, HandOutAction::Renew).await == Some(false) {
            return;
        }
    }
}

async fn process(shared: &Shared, delivery: Delivery, permit: &Arc<OwnedSemaphorePermit>) -> End {
    let since = clock::now();
    let Some(snapshot) = wait_for(&shared.replica, delivery.wait_index).await else {
        return End::GivenBack(Why::Behind(delivery.wait_index));
    };
    let Some(eval) = unfinished(&snapshot, delivery.eval_id) else { return End::Finished };
    if let Some(trace) = &eval.trace {
        // Whose trace it is has become known just now.
        traces::record_past(WAIT_FOR_INDEX, trace, since, clock::now(), || {
            vec![
                (attribute::EVAL_ID, eval.id.to_string().into()),
                (attribute::INDEX, delivery.wait_index.to_string().into()),
            ]
        });
    }
    let span = span(&eval);
    let end = attempts(shared, delivery, permit).instrument(span.clone()).await;
    if let End::Failed(error) = &end {
        traces::fail(&span, "panic", error);
    }
    end
}

async fn attempts(shared: &Shared, delivery: Delivery, permit: &Arc<OwnedSemaphorePermit>) -> End {
    let mut attempts = Attempts::new(delivery.wait_index);
    let mut next = attempts.attempt();
    loop {
        let (at_least, fruitless) = match next {
            Next::Schedule { at_least, fruitless } => (at_least, fruitless),
            Next::End(end) => return end,
        };
        if shared.stop.is_cancelled() {
            return End::GivenBack(Why::Stopping);
        }
        let is_behind = shared.replica.snapshot().index() < at_least;
        let wait = || tracing::info_span!(WAIT_FOR_INDEX, { attribute::INDEX } = at_least.0.cast_signed());
        let wait = if is_behind { traces::within(wait) } else { Span::none() };
        if wait_for(&shared.replica, at_least).instrument(wait).await.is_none() {
            return End::GivenBack(Why::Behind(at_least));
        }
        let (proposal, outstanding) = match schedule(shared, delivery, at_least, fruitless, permit).await {
            Found::Proposal(proposal, outstanding) => (*proposal, outstanding),
            Found::Nothing => return End::Finished,
            Found::Behind => return End::GivenBack(Why::Behind(at_least)),
            Found::Failed(error) => return End::Failed(error),
        };
        let seen = proposal.plan.snapshot_index;
        let Some(answer) = submit(shared, proposal).await else { return End::GivenBack(Why::Stopping) };
        tracing::debug!(eval.id = %delivery.eval_id, snapshot = %seen, is_taken = answer.is_ok(), "the plan is answered");
        if let (Some(kept), Ok(done)) = (outstanding, &answer) {
            keep_until(shared, done.index, kept).await;
        }
        next = attempts.answered(&answer);
        if next == Next::End(End::GivenBack(Why::Overtaken)) {
            // What overtook it is newer than what was seen here. Whoever gets the evaluation next should not be refused
            // for the same reason.
            let _ = wait_for(&shared.replica, seen.next()).await;
        }
    }
}

async fn wait_for(replica: &Replica, index: Index) -> Option<Snapshot> {
    let since = clock::monotonic();
    let reached = tokio::time::timeout(INDEX_WAIT, replica.wait_for(index)).await;
    metrics::index_waited(since.elapsed());
    reached.ok()
}

/// Keeps a plan outstanding until the replica has what became of it. Let go too early it does no harm.
async fn keep_until(shared: &Shared, index: Index, _kept: Kept) {
    tokio::select! {
        _ = tokio::time::timeout(INDEX_WAIT, shared.replica.wait_for(index)) => {}
        () = shared.stop.cancelled() => {}
    }
}

/// Has a thread schedule on the newest snapshot there is when it comes to it: the newer, the less is refused.
async fn schedule(
    shared: &Shared,
    delivery: Delivery,
    at_least: Index,
    fruitless: u8,
    permit: &Arc<OwnedSemaphorePermit>,
) -> Found {
    let (replica, schedule) = (Arc::clone(&shared.replica), shared.schedule);
    let outstanding = shared.outstanding.clone();
    // An evaluation that the broker takes away does not make room before its thread is done with it.
    let permit = Arc::clone(permit);
    let span = traces::within(|| {
        tracing::info_span!(
            "schedule",
            { attribute::ATTEMPT } = i64::from(fruitless),
            { attribute::INDEX } = tracing::field::Empty
        )
    });
    let since = clock::monotonic();
    let compute = shared.threads.compute(move |ids| {
        let _permit = permit;
        let snapshot = replica.snapshot();
        if snapshot.index() < at_least {
            return Found::Behind;
        }
        let Some(eval) = unfinished(&snapshot, delivery.eval_id) else { return Found::Nothing };
        let now = now_for(&snapshot, &eval, clock::now());
        span.record(attribute::INDEX, snapshot.index().0.cast_signed());
        let mut schedule_on = |state: &State| {
            let attempt = Attempt { state, eval: &eval, now, fruitless, rollouts: true, explain: false };
            span.in_scope(|| schedule(&attempt, &mut || ids.next()))
        };
        let ahead = outstanding.ahead_of(&snapshot).map(|ahead| schedule_on(&ahead));
        let proposal =
            ahead.filter(|proposal| !is_at_cost(proposal)).unwrap_or_else(|| schedule_on(&snapshot));
        let outstanding = outstanding.add(&proposal.plan, &snapshot);
        Found::Proposal(Box::new(proposal), outstanding)
    });
    let found = compute.await.unwrap_or_else(|panicked| Found::Failed(panicked.to_string()));
    metrics::scheduled(delivery.kind, since.elapsed());
    found
}

/// Submits a plan with its outcome; `None` if the worker is to stop and there is no answer yet.
async fn submit(shared: &Shared, proposal: Proposal) -> Option<Result<Done, CommandError>> {
    let Proposal { plan, outcome } = proposal;
    let placements = plan.placements.iter().map(|placements| placements.ids.len()).sum();
    let command =
        Command::SubmitPlan(Box::new(SubmitPlan { plan, outcome, scheduler_version: SCHEDULER_VERSION }));
    let since = clock::monotonic();
    let answer = tokio::select! {
        answer = shared.bus.command(&command, PLAN_WITHIN) => answer,
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

fn unfinished(state: &State, id: EvalId) -> Option<Arc<Evaluation>> {
    state.eval(id).filter(|eval| !eval.status.is_terminal()).map(Arc::clone)
}

/// The moment at which an evaluation is looked at: a worker whose clock is a little behind must not find something *not
/// yet due*, for nothing would wake it again (design §4).
fn now_for(state: &State, eval: &Evaluation, own: Timestamp) -> Timestamp {
    own.max(state.at()).max(eval.wait_until)
}

/// The span of the work on an evaluation, as part of the trace of what made it.
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
    fn now_is_never_before_what_is_known_to_have_passed() {
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
