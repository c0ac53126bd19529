//! Before an applier is active: waiting for the lease, and catching up with the log (design §5).

use std::sync::Arc;
use std::time::Duration;

use bus::RequestError;
use model::Timestamp;
use store::{Error, Tail, TakeOutcome};
use wire::Subject;
use wire::feed::{AskHead, Head};

use crate::remembered::{REMEMBERED_FOR, Remembered};
use crate::{Surroundings, measure, refusing};

/// How often a standby looks whether the applier is there.
const LOOK: Duration = Duration::from_millis(250);
/// How long it waits for the answer to a probe.
const PROBE: Duration = Duration::from_millis(200);
/// So many probes in a row that find nobody listening allow it to take over before the lease is over.
const PROBES: u32 = 2;
/// How long the feed may take, which loads the state when a process starts. Loaded twice at once it takes twice as long.
const LOADED_WITHIN: Duration = Duration::from_secs(10);
/// Bytes of the log read at once while catching up.
const PAGE_BYTES: usize = 8 << 20;

/// What a new applier begins with.
pub(crate) struct Taken {
    /// The head, under this applier's epoch. The shared replica is there.
    pub(crate) head: Head,
    /// What was committed lately.
    pub(crate) remembered: Remembered,
}

/// Waits until no other applier is active, becomes it, and brings the replica to the head. `None` when it is to stop.
///
/// # Errors
/// If NATS refuses to serve.
pub(crate) async fn take_over(around: &Surroundings) -> anyhow::Result<Option<Taken>> {
    let mut unanswered = 0;
    measure::follower();
    loop {
        if around.stop.is_cancelled() {
            return Ok(None);
        }
        // What the applier before announced was durable.
        if let Some(head) = around.bus.contact().head() {
            around.writer.observe_head(&head);
        }
        let is_gone = unanswered >= PROBES;
        if is_gone {
            measure::candidate();
        }
        match around.writer.take_lease(around.process, is_gone).await {
            Ok(TakeOutcome::Active(head)) => match measured_catch_up(around, head).await {
                Ok(taken) => {
                    tracing::info!(epoch = %head.epoch, index = %head.index, "the applier is active");
                    return Ok(Some(taken));
                }
                Err(error) => tracing::warn!(error = telemetry::chain(&error), "cannot take over"),
            },
            Ok(TakeOutcome::Held { by, .. }) if by == around.process => unanswered = PROBES,
            Ok(TakeOutcome::Held { .. }) => {
                unanswered = if is_unanswered(around).await { unanswered + 1 } else { 0 }
            }
            Err(error) if error.needs_acceptance() => refusing::until_accepted(around, &error).await?,
            Err(error) => tracing::warn!(error = telemetry::chain(&error), "cannot take over"),
        }
        tokio::select! {
            () = around.stop.cancelled() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Whether nobody listens where the active applier should.
async fn is_unanswered(around: &Surroundings) -> bool {
    let probe = around.bus.request::<AskHead, Head>(Subject::Probe, &AskHead {}, PROBE).await;
    matches!(probe, Err(RequestError::NoResponders))
}

async fn measured_catch_up(around: &Surroundings, head: Head) -> Result<Taken, Error> {
    let begun = telemetry::clock::monotonic();
    let taken = catch_up(around, head).await;
    measure::caught_up(begun.elapsed());
    taken
}

/// Brings the shared replica to the head of the log, which nobody else can move now.
async fn catch_up(around: &Surroundings, head: Head) -> Result<Taken, Error> {
    let load = || around.database.load(around.replica.scope());
    if !around.replica.snapshot().index().is_set() {
        let _ = tokio::time::timeout(LOADED_WITHIN, around.replica.wait_for(head.index)).await;
    }
    if around.replica.snapshot().history() != head.history {
        // What the replica has is of a history that an operator gave up, or is nothing yet.
        around.replica.reset(load().await?.state);
    }
    while around.replica.snapshot().index() < head.index {
        let from = around.replica.snapshot().index();
        let page = match around.database.changes_after(from, PAGE_BYTES).await? {
            // A replica that has nothing yet is loaded faster than it is played through.
            Tail::Page { rows, .. } if from.is_set() && !rows.is_empty() => rows,
            Tail::Page { .. } | Tail::Trimmed => {
                around.replica.reset(load().await?.state);
                continue;
            }
        };
        let sets = page.iter().map(|row| row.change_set().map(Arc::new));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        if around.replica.apply(sets).is_err() {
            // Somebody else brings it up to date as well, and was faster; or it is of another history.
            around.replica.reset(load().await?.state);
        }
    }
    if around.replica.snapshot().index() > head.index {
        around.replica.reset(load().await?.state);
    }
    Ok(Taken { head, remembered: remembered(around, head).await? })
}

/// What was committed in the last minutes.
async fn remembered(around: &Surroundings, head: Head) -> Result<Remembered, Error> {
    let since = Timestamp(head.at.0.saturating_sub(REMEMBERED_FOR.0).max(0));
    let found = around.database.requests_since(since).await?;
    Ok(Remembered::new(since, found))
}
