//! A standby applier: waiting for the lease, and catching up with the log (`docs/architecture/leases.md`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{DatabaseMatch, RequestError};
use model::{Index, Timestamp};
use store::{Confirmed, Error, Tail, TakeOutcome};
use telemetry::clock;
use telemetry::repeats::{Outage, Repeats};
use wire::Subject;
use wire::feed::{GetHead, Head};

use crate::cluster_clock::{ClusterClock, Reading};
use crate::request_log::{REQUEST_RETENTION, REQUESTS_MAX, RequestLog};
use crate::timekeeper::Timekeeper;
use crate::{Context, lost_writes, metrics, refusing};

/// How often a standby tries to take the lease.
const TAKE_INTERVAL: Duration = Duration::from_millis(250);
/// How long a standby waits for the answer to a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a process that has just started waits for an announcement, if an applier answers that this database does not
/// know. A database that contradicts the announcements is recognized within some seconds.
const COMPARE_TIMEOUT: Duration = Duration::from_secs(10);
/// After this many consecutive probes without responders, a standby takes over before the lease ends.
const PROBES_MIN: u32 = 2;
/// How long to wait for the feed to load the state when a process starts. Loading it twice at once would take twice as
/// long.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of the log that are read at once while catching up.
const PAGE_BYTES: usize = 8 << 20;

/// What a new applier begins with.
pub(crate) struct Takeover {
    /// The head, with this applier's epoch. The shared replica has reached it.
    pub(crate) head: Head,
    /// The commands that were committed recently.
    pub(crate) request_log: RequestLog,
    /// The cluster's time.
    pub(crate) time: Timekeeper,
}

/// Waits until no other applier is active, takes the lease, and brings the replica to the head. Returns `None` when the
/// process is to stop.
///
/// # Errors
/// If a subscription to NATS fails.
pub(crate) async fn take_over(context: &Context) -> anyhow::Result<Option<Takeover>> {
    let mut unanswered = 0;
    let outage = Outage::default();
    let until = clock::monotonic() + COMPARE_TIMEOUT;
    metrics::began_standby();
    loop {
        if context.stop.is_cancelled() {
            return Ok(None);
        }
        if is_disputed(context, until).await {
            unanswered = 0;
            pause(context).await;
            continue;
        }
        observe_seen(context);
        let holder_is_gone = unanswered >= PROBES_MIN;
        if holder_is_gone {
            metrics::tries_takeover();
        }
        let begun = clock::monotonic();
        match context.writer.take_lease(context.process, holder_is_gone).await {
            Ok(TakeOutcome::Active(taken)) => match measured_catch_up(context, taken, begun).await {
                Ok(takeover) => {
                    let head = takeover.head;
                    let announced = Head { at: head.at.max(takeover.time.now()), ..head };
                    if let Some(error) =
                        lost_writes::wait_for_reports(context, announced, &takeover.request_log).await?
                    {
                        refusing::until_accepted(context, &error).await?;
                        continue;
                    }
                    tracing::info!(epoch = %head.epoch, index = %head.index, "the applier is active");
                    return Ok(Some(takeover));
                }
                Err(error) if error.needs_acceptance() => refusing::until_accepted(context, &error).await?,
                Err(error) => log_failure(&outage, &error),
            },
            Ok(TakeOutcome::Held { by, .. }) => {
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "the database can be reached again");
                }
                unanswered = if by == context.process {
                    PROBES_MIN
                } else if is_unanswered(context).await {
                    unanswered + 1
                } else {
                    0
                };
            }
            Err(error) if error.needs_acceptance() => refusing::until_accepted(context, &error).await?,
            Err(error) => log_failure(&outage, &error),
        }
        pause(context).await;
    }
}

/// Tells the writer what this process knows to have been durable: the last announcement, and what its replica has. A replica
/// of another history than the announcements' is about to be loaded again.
fn observe_seen(context: &Context) {
    let announced = context.bus.contact().head();
    if let Some(head) = announced {
        context.writer.observe_head(head.history, head.index);
    }
    let snapshot = context.replica.snapshot();
    let (history, index) = (snapshot.history(), snapshot.index());
    if index.is_set() && announced.is_none_or(|head| head.history == history) {
        context.writer.observe_head(history, index);
    }
}

fn log_failure(outage: &Outage, error: &Error) {
    let error = telemetry::chain(error);
    if let Some(Repeats { attempts, lasting_secs, .. }) = outage.failed(&error, clock::monotonic()) {
        tracing::warn!(error, attempts, lasting_secs, "cannot take over");
    }
}

/// Waits for the next attempt, or until the process is to stop.
async fn pause(context: &Context) {
    tokio::select! {
        () = context.stop.cancelled() => {}
        () = tokio::time::sleep(TAKE_INTERVAL) => {}
    }
}

/// Whether another applier is active that writes another database, or may be. There must not be two appliers, and this
/// database's lease cannot tell who is active on another one.
///
/// The announcements of the other applier decide. A process that has just started has not received any: until then it
/// probes, at most `until` this time, because an applier that answers but announces nothing has lost its database.
async fn is_disputed(context: &Context, until: Instant) -> bool {
    match context.bus.contact().database() {
        // What was seen of a database that went back is known to the writer.
        DatabaseMatch::Same | DatabaseMatch::WentBack(_) => false,
        DatabaseMatch::Other(_) => true,
        DatabaseMatch::Unknown if telemetry::clock::monotonic() >= until => false,
        DatabaseMatch::Unknown => match probe(context).await {
            Ok(active) => !context.database.head().await.is_ok_and(|own| {
                (active.history, active.epoch, active.applier) == (own.history, own.epoch, own.applier)
            }),
            Err(_) => false,
        },
    }
}

/// Asks the active applier for the head with which it began.
async fn probe(context: &Context) -> Result<Head, RequestError> {
    context.bus.request(Subject::Probe, &GetHead {}, PROBE_TIMEOUT).await
}

/// Whether the active applier's subject has no responders.
async fn is_unanswered(context: &Context) -> bool {
    matches!(probe(context).await, Err(RequestError::NoResponders))
}

/// Brings the shared replica to the head. The statement that took the lease began at `begun`.
async fn measured_catch_up(context: &Context, taken: Confirmed, begun: Instant) -> Result<Takeover, Error> {
    let Confirmed { head, now } = taken;
    let head = Head { began: Some(head.index), ..head };
    let ended = clock::monotonic();
    let reading = Reading { time: now, begun, ended, wall: clock::now() };
    let time = Timekeeper::new(ClusterClock::new(head.at, reading));
    catch_up(context, head).await?;
    let request_log = load_request_log(context, head).await?;
    metrics::caught_up(ended.elapsed());
    Ok(Takeover { head, request_log, time })
}

/// Brings the shared replica to the head of the log, which only this applier can move now. What the replica has already
/// must be in the log: it was durable once.
async fn catch_up(context: &Context, head: Head) -> Result<(), Error> {
    let load = || context.database.load(context.replica.scope());
    if !context.replica.snapshot().index().is_set() {
        let _ = tokio::time::timeout(LOAD_TIMEOUT, context.replica.wait_for(head.index)).await;
    }
    if context.replica.snapshot().history() != head.history {
        // The replica is empty, or belongs to a history that an operator has given up.
        context.replica.reset(load().await?.state);
    }
    loop {
        let snapshot = context.replica.snapshot();
        let (from, last) = (snapshot.index(), snapshot.last_request());
        drop(snapshot);
        if from > head.index {
            return Err(is_ahead(context, head, from).await?);
        }
        let page = match context.database.changes_after(from, PAGE_BYTES).await? {
            Tail::Page { rows, previous, .. } => match (last, previous) {
                (Some(last), Some(previous)) if last != previous => {
                    return Err(Error::Diverged { index: from });
                }
                (Some(_), Some(_)) => rows,
                (_, _) if rows.is_empty() => rows,
                // It cannot be seen whether they continue the replica. And loading the state is faster for an empty replica
                // than applying the whole log.
                (_, _) => {
                    context.replica.reset(load().await?.state);
                    continue;
                }
            },
            Tail::Trimmed => {
                context.replica.reset(load().await?.state);
                continue;
            }
        };
        if page.is_empty() {
            return Ok(());
        }
        let bytes = page.iter().map(|row| row.bytes.len()).sum();
        let sets = page.iter().map(|row| row.change_set().map(Arc::new));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        if context.replica.apply_sized(sets, bytes).is_err() {
            // The feed also updates the replica and was faster, or the change sets do not match it.
            context.replica.reset(load().await?.state);
        }
    }
}

/// Why the replica is ahead of the head at which this applier took over: either there is another applier already, or the
/// database went back.
async fn is_ahead(context: &Context, head: Head, index: Index) -> Result<Error, Error> {
    let now = context.database.head().await?;
    let is_mine = (now.history, now.epoch, now.applier) == (head.history, head.epoch, head.applier);
    Ok(if is_mine {
        Error::WentBack { seen: index, found: head.index }
    } else {
        Error::Deposed { epoch: head.epoch }
    })
}

/// Reads the requests that were committed within [`REQUEST_RETENTION`] before the head.
async fn load_request_log(context: &Context, head: Head) -> Result<RequestLog, Error> {
    let since = Timestamp(head.at.0.saturating_sub(REQUEST_RETENTION.0).max(0));
    let found = context.database.requests_since(since, REQUESTS_MAX).await?;
    // If there are more, those at the time of the oldest may not be complete.
    let oldest = found.first().filter(|_| found.len() >= REQUESTS_MAX);
    let since = oldest.map_or(since, |(_, _, at)| Timestamp(at.0 + 1));
    Ok(RequestLog::new(since, found))
}
