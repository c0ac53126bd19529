//! Follows the change feed to keep the replica of a process up to date (`docs/architecture/feed.md`).
//!
//! Change sets arrive over NATS, which may lose any of them. Missing change sets are read from the log. If the log does
//! not have them any more, the state is loaded anew. An applier in the same process updates the replica faster
//! ([`Replica::adopt`]); the feed's change sets are then repeats.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fail::fail_point;
use model::change::ChangeSet;
use model::{HistoryId, Index};
use state::{Inconsistent, Replica, State};
use telemetry::clock;
use telemetry::metrics::catalogue::{FEED_GAPS, FEED_INDEX, FEED_LAG, FEED_LOADS, FEED_READ_FROM_LOG};
use telemetry::repeats::{Outage, Repeats};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::feed::{Changes, Head};
use wire::{DecodeError, Subject, Wire};

use crate::backoff::backoff;
use crate::connection::Bus;
use crate::contact::{Contact, ReceivedHead};
use crate::database::{Comparison, DatabaseMatch, LocatedHead};
use crate::error::Error;
use crate::serve::{Request, Requests};

/// Maximum number of change sets that are applied at once, as one step for the followers of the replica. It splits a long
/// page of the log into several steps.
const STEP_SETS_MAX: usize = 256;
/// Larger batches take some milliseconds to decode, and are decoded on a separate thread, so that other tasks do not
/// wait. The change sets of one commit under load take a third of this limit; handing these over would cost more than
/// the wait.
const DECODED_INLINE_BYTES_MAX: usize = 128 << 10;
/// Messages that arrived together are applied together up to this size.
const BATCH_BYTES_MAX: usize = 1 << 20;
/// A batch of at least this many change sets means load. Then the following change sets may be batched.
const LOAD_SETS_MIN: u64 = 16;
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// Minimum time between two loads of the state.
const LOADS_APART: Duration = Duration::from_secs(2);
/// How long a replica must have been ahead of every received head before it counts as ahead of the log. Change sets may
/// overtake the announcements of earlier ones.
const AHEAD_MIN: Duration = Duration::from_millis(2500);
/// Time after an announcement in which its change sets may still arrive. They are sent separately, and may overtake each
/// other.
const ARRIVAL_TIMEOUT: Duration = Duration::from_millis(50);
/// How long a history that the log did not have is attributed to a mistaken applier.
const HISTORY_REFUTED_FOR: Duration = Duration::from_secs(5);

/// The log of committed change sets. Its methods may be called again at any time, and their results may be discarded.
pub trait Log: Send + Sync + 'static {
    /// Loads the newest durable state.
    fn load(&self) -> impl Future<Output = Result<State, LogError>> + Send;

    /// Reads the change sets after `index`, one page of them.
    fn after(&self, index: Index) -> impl Future<Output = Result<LogPage, LogError>> + Send;

    /// Reads the head.
    fn head(&self) -> impl Future<Output = Result<Head, LogError>> + Send;

    /// The address of the database that holds the log, for messages.
    fn address(&self) -> String;
}

/// The reason why the log cannot be read.
pub type LogError = Box<dyn std::error::Error + Send + Sync>;

/// A page of the log.
#[derive(Debug)]
pub enum LogPage {
    /// Consecutive change sets, without a gap.
    Sets {
        /// The history that they belong to.
        history: HistoryId,
        /// Index of the last change set in the log at the time of the read.
        head: Index,
        /// The encoded change sets that follow the requested index; none if that index was the last.
        sets: Vec<Bytes>,
    },
    /// The log does not have the next change set any more.
    Trimmed,
}

/// Keeps `replica` up to date, and records in `contact` the applier's announcements, and whether the log is the one that
/// the applier writes, until `stop`. Loads the state first.
///
/// Under load, change sets that arrive within `batch_delay` are applied together. That is cheaper than applying them
/// one by one: each time, the process must be woken, and the state must be loaded into the caches of its core.
///
/// Run once for each process, in its own task.
pub async fn follow(
    bus: Bus,
    replica: Arc<Replica>,
    log: impl Log,
    contact: Contact,
    batch_delay: Duration,
    stop: CancellationToken,
) {
    let feed = Feed {
        replica,
        log: Arc::new(log),
        contact,
        batch_delay,
        history: None,
        refuted: None,
        ahead: None,
        behind: None,
        loaded: None,
        failures: 0,
        outage: Outage::default(),
    };
    tokio::select! {
        () = stop.cancelled() => {}
        ended = feed.run(bus) => {
            if let Err(error) = ended {
                tracing::error!(error = telemetry::chain(&error), "cannot follow the change feed");
            }
        }
    }
}

struct Feed<L> {
    replica: Arc<Replica>,
    log: Arc<L>,
    contact: Contact,
    /// How long change sets are batched under load.
    batch_delay: Duration,
    /// The history of the replica; `None` before the first load.
    history: Option<HistoryId>,
    /// A history that was announced but is not that of the log, and the time when that was found.
    refuted: Option<(HistoryId, Instant)>,
    /// An index of the replica that no head received since has reached, and the time when it was found.
    ahead: Option<(Index, Instant)>,
    /// A head that the replica had not reached when it was announced, and the time by which it should have.
    behind: Option<(Index, Instant)>,
    /// When the state was last loaded.
    loaded: Option<Instant>,
    /// Number of consecutive failures to read the log.
    failures: u32,
    /// Limits the lines about these failures.
    outage: Outage,
}

/// The reason why a state is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadReason {
    /// It is the first load.
    First,
    /// The log does not go back far enough.
    Trimmed,
    /// A message names another history.
    History,
    /// The replica had an index that the log may never have had.
    Ahead(Index),
    /// A change set could not be applied.
    Inconsistent,
}

/// The reason why a change set could not be applied.
#[derive(Debug, thiserror::Error)]
enum ApplyError {
    #[error("cannot decode a change set")]
    Unreadable(#[from] DecodeError),
    #[error("cannot apply a change set")]
    Inconsistent(#[from] Inconsistent),
}

/// Waits until the deadline for a head is over.
async fn overdue(behind: Option<(Index, Instant)>) -> Index {
    let Some((target, at)) = behind else { return std::future::pending().await };
    tokio::time::sleep_until(at.into()).await;
    target
}

impl<L: Log> Feed<L> {
    async fn run(mut self, bus: Bus) -> Result<(), Error> {
        // Subscribing comes before loading, so that no change set is missed in between.
        let mut changes = bus.serve(Subject::Changes.to_string()).await?;
        let heads = bus.serve(Subject::Head.to_string()).await?;
        let mut listeners = JoinSet::new();
        listeners.spawn(receive_heads(heads, self.contact.clone()));
        listeners.spawn(compare_databases(Arc::clone(&self.log), self.contact.clone()));
        let mut link = bus.link();
        let mut made = link.borrow().made;
        let mut head = self.contact.heads();
        self.load(LoadReason::First).await;
        self.contact.set_loaded();
        loop {
            let behind = self.behind;
            tokio::select! {
                // A head is compared only when no received change set is waiting to be applied.
                biased;
                request = changes.next() => match request {
                    Some(request) => {
                        let before = self.index();
                        let mut next = Some(request);
                        while let Some(request) = next {
                            next = self.receive(request, &mut changes).await;
                        }
                        let received = self.index().0.saturating_sub(before.0);
                        // Sleeping for a duration of zero takes up to a millisecond.
                        if received >= LOAD_SETS_MIN && !self.batch_delay.is_zero() {
                            tokio::time::sleep(self.batch_delay).await;
                        }
                    }
                    // The connection was closed for good, which happens when the process ends.
                    None => return Ok(()),
                },
                Ok(now) = async { link.wait_for(|link| link.made != made).await.map(|link| link.made) } => {
                    made = now;
                    // All messages since the loss of the connection are lost.
                    self.catch_up(None).await;
                }
                Ok(()) = head.changed() => {
                    let received = head.borrow_and_update().clone();
                    if let Some(received) = received {
                        self.compare(received).await;
                    }
                }
                target = overdue(behind) => {
                    self.behind = None;
                    if self.index() < target {
                        FEED_GAPS.add(1);
                        self.catch_up(Some(target)).await;
                    }
                }
            }
        }
    }

    /// Applies a message of the feed, together with the messages that have arrived since and continue it. Returns the first
    /// message that does not continue it.
    async fn receive(&mut self, request: Request, more: &mut Requests) -> Option<Request> {
        let (_, changes) = request.read::<Changes>().await?;
        if self.history != Some(changes.history) {
            self.check_history(changes.history).await;
            return None;
        }
        let mut last = Index(changes.first.0.checked_add(changes.sets.len() as u64)?.saturating_sub(1));
        if changes.first > self.index().next() {
            FEED_GAPS.add(1);
            self.catch_up(Some(Index(changes.first.0 - 1))).await;
        }
        let next = self.index().next();
        if !(changes.first..=last).contains(&next) {
            // These are repeats, or the log is not as far as it should be. The next head will show which.
            return None;
        }
        fail_point!("feed.taken");
        let from = (next.0 - changes.first.0) as usize;
        let mut batch: Vec<Bytes> = changes.sets.into_iter().skip(from).map_while(|set| set).collect();
        let mut rest = None;
        let mut bytes: usize = batch.iter().map(Bytes::len).sum();
        while rest.is_none()
            && bytes < BATCH_BYTES_MAX
            && next.0 + batch.len() as u64 > last.0
            && let Some(request) = more.next_now()
        {
            match request.body::<Changes>() {
                Ok(Changes { history, first, sets })
                    if Some(history) == self.history && first == last.next() && !sets.is_empty() =>
                {
                    last = Index(last.0.saturating_add(sets.len() as u64));
                    let before = batch.len();
                    batch.extend(sets.into_iter().map_while(|set| set));
                    bytes += batch[before..].iter().map(Bytes::len).sum::<usize>();
                }
                Ok(_) | Err(_) => rest = Some(request),
            }
        }
        self.apply(batch).await;
        // Change sets that were too large for a message.
        self.catch_up(Some(last)).await;
        rest
    }

    /// Compares the replica with an announced head.
    async fn compare(&mut self, ReceivedHead { head, at, .. }: ReceivedHead) {
        if self.history != Some(head.history) {
            return self.check_history(head.history).await;
        }
        let index = self.index();
        FEED_INDEX.set(index.0 as f64);
        FEED_LAG.set(head.index.0.saturating_sub(index.0) as f64);
        match self.ahead {
            Some((seen, since)) if head.index < seen => {
                if at.saturating_duration_since(since) >= AHEAD_MIN {
                    self.load(LoadReason::Ahead(seen)).await;
                }
            }
            Some(_) | None => self.ahead = (index > head.index).then_some((index, clock::monotonic())),
        }
        let is_awaited = self.behind.is_some_and(|(target, _)| index < target);
        if !is_awaited {
            self.behind = (index < head.index).then(|| (head.index, clock::monotonic() + ARRIVAL_TIMEOUT));
        }
    }

    /// Handles a message that names another history. Only the log knows which history is right: this loads the state if the
    /// log has another history than the replica. The log is not asked if it has recently refuted the same history.
    async fn check_history(&mut self, history: HistoryId) {
        let is_refuted = self.refuted.is_some_and(|(refuted, at)| {
            refuted == history && clock::monotonic().duration_since(at) < HISTORY_REFUTED_FOR
        });
        if is_refuted {
            return;
        }
        let in_log = self.read_head().await.history;
        if self.history != Some(in_log) {
            self.load(LoadReason::History).await;
        }
        self.refuted = (self.history != Some(history)).then(|| (history, clock::monotonic()));
    }

    /// Reads missing change sets from the log up to `target`, or up to the log's current head. The feed brings the
    /// later ones; reading a growing log to its end would never return to the feed.
    async fn catch_up(&mut self, mut target: Option<Index>) {
        loop {
            let index = self.index();
            if target.is_some_and(|target| index >= target) {
                return;
            }
            match self.read_log(index).await {
                LogPage::Trimmed => return self.load(LoadReason::Trimmed).await,
                LogPage::Sets { history, .. } if self.history != Some(history) => {
                    return self.load(LoadReason::History).await;
                }
                LogPage::Sets { head, sets, .. } => {
                    target = target.or(Some(head));
                    FEED_READ_FROM_LOG.add(sets.len() as u64);
                    self.apply(sets).await;
                }
            }
            if self.index() <= index {
                return;
            }
        }
    }

    /// Applies encoded change sets. If that fails, loads the state.
    async fn apply(&mut self, sets: Vec<Bytes>) {
        let replica = Arc::clone(&self.replica);
        let bytes: usize = sets.iter().map(Bytes::len).sum();
        let applied = if bytes <= DECODED_INLINE_BYTES_MAX {
            apply(&replica, &sets)
        } else {
            let task = tokio::task::spawn_blocking(move || apply(&replica, &sets));
            task.await.expect("applying change sets does not panic, and the task is not cancelled")
        };
        match applied {
            // A gap here means that another writer of the replica was faster or slower. The next head shows what is
            // missing.
            Ok(()) | Err(ApplyError::Inconsistent(Inconsistent::Gap { .. })) => {}
            Err(error) => {
                tracing::error!(
                    error = telemetry::chain(&error),
                    "a change set does not match the replica, loading the state"
                );
                self.load(LoadReason::Inconsistent).await;
            }
        }
    }

    /// Loads the state. The replica only goes back to an earlier index if it must have been wrong.
    async fn load(&mut self, reason: LoadReason) {
        if let Some(loaded) = self.loaded {
            tokio::time::sleep_until((loaded + LOADS_APART).into()).await;
        }
        let state = self.load_from_log().await;
        fail_point!("feed.loaded");
        self.loaded = Some(clock::monotonic());
        (self.ahead, self.behind) = (None, None);
        FEED_LOADS.add(1);
        let (index, history) = (state.index(), state.history());
        let is_another_history = self.history.replace(history).is_some_and(|known| known != history);
        let was_wrong = match reason {
            LoadReason::First | LoadReason::Trimmed | LoadReason::History => is_another_history,
            LoadReason::Ahead(seen) => is_another_history || index < seen,
            LoadReason::Inconsistent => true,
        };
        if was_wrong {
            self.replica.reset(state);
        } else {
            self.replica.catch_up(state);
        }
        tracing::info!(index = index.0, %history, ?reason, was_wrong, "loaded the state");
    }

    async fn load_from_log(&mut self) -> State {
        loop {
            match self.log.load().await {
                Ok(loaded) => {
                    self.log_succeeded();
                    return loaded;
                }
                Err(error) => self.log_failed(error).await,
            }
        }
    }

    async fn read_log(&mut self, index: Index) -> LogPage {
        loop {
            match self.log.after(index).await {
                Ok(page) => {
                    self.log_succeeded();
                    return page;
                }
                Err(error) => self.log_failed(error).await,
            }
        }
    }

    async fn read_head(&mut self) -> Head {
        loop {
            match self.log.head().await {
                Ok(head) => {
                    self.log_succeeded();
                    return head;
                }
                Err(error) => self.log_failed(error).await,
            }
        }
    }

    fn log_succeeded(&mut self) {
        self.contact.record_log_read(Ok(()));
        self.failures = 0;
        if let Some(Repeats { attempts, lasting_secs, .. }) = self.outage.succeeded(clock::monotonic()) {
            tracing::info!(attempts, lasting_secs, "the log can be read again");
        }
    }

    async fn log_failed(&mut self, error: LogError) {
        let error = telemetry::chain(error.as_ref());
        if let Some(Repeats { attempts, lasting_secs, .. }) = self.outage.failed(&error, clock::monotonic()) {
            tracing::warn!(error, attempts, lasting_secs, "cannot read the log, trying again");
        }
        self.contact.record_log_read(Err(error));
        tokio::time::sleep(backoff(self.failures, RETRY_MIN, RETRY_MAX)).await;
        self.failures = self.failures.saturating_add(1);
    }

    fn index(&self) -> Index {
        self.replica.snapshot().index()
    }
}

fn apply(replica: &Replica, sets: &[Bytes]) -> Result<(), ApplyError> {
    for sets in sets.chunks(STEP_SETS_MAX) {
        let bytes = sets.iter().map(Bytes::len).sum();
        let decode = |bytes| wire::decode(ChangeSet::KIND, ChangeSet::VERSION, bytes).map(Arc::new);
        let sets = sets.iter().map(|bytes| decode(bytes)).collect::<Result<Vec<Arc<ChangeSet>>, _>>()?;
        replica.apply_sized(sets, bytes)?;
    }
    Ok(())
}

/// Records the applier's announcements, also while the feed is busy.
async fn receive_heads(mut heads: Requests, contact: Contact) {
    while let Some(request) = heads.next().await {
        if let Some((request, head)) = request.read::<Head>().await {
            contact.record_announcement(head, request.database().map(Arc::from));
        }
    }
}

/// Compares the log with the applier's announcements, and records whether it is the log that the applier writes. A database
/// that does not answer delays neither the feed nor the announcements.
async fn compare_databases<L: Log>(log: Arc<L>, contact: Contact) {
    let address: Arc<str> = log.address().into();
    let mut comparison = Comparison::default();
    let mut heads = contact.heads();
    while heads.changed().await.is_ok() {
        let received = heads.borrow_and_update().clone();
        let Some(ReceivedHead { head, at, database }) = received else { continue };
        if comparison.announced(&head, at) {
            let own = match log.head().await {
                Ok(head) => LocatedHead { head, address: Some(Arc::clone(&address)) },
                Err(error) => {
                    contact.record_log_read(Err(telemetry::chain(error.as_ref())));
                    continue;
                }
            };
            contact.record_log_read(Ok(()));
            comparison.compare(LocatedHead { head, address: database }, own, at);
        }
        let was_other = contact.database().is_other();
        contact.set_database(comparison.result());
        match (was_other, comparison.result()) {
            (false, DatabaseMatch::Other(other)) => {
                tracing::error!(error = other.to_string(), "the plan applier writes another database");
            }
            (true, DatabaseMatch::Same) => tracing::info!("the plan applier writes this database again"),
            (_, _) => {}
        }
    }
}
