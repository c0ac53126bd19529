//! Follows the change feed to keep the replica of a process up to date (`docs/architecture/feed.md`).
//!
//! Change sets arrive over NATS, which may lose any of them. Missing change sets are read from the log. If the log does
//! not have them any more, the state is loaded anew. An applier in the same process updates the replica faster
//! ([`Replica::adopt`]); the feed's change sets are then repeats.

mod listen;
mod log;
mod losses;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fail::fail_point;
use model::change::ChangeSet;
use model::{HistoryId, Index, RequestId};
use state::{Inconsistent, Replica};
use telemetry::clock;
use telemetry::metrics::catalogue::{FEED_GAPS, FEED_INDEX, FEED_LAG, FEED_LOADS, FEED_READ_FROM_LOG};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::feed::{Changes, Committer};
use wire::{DecodeError, Subject, Wire};

use self::listen::{compare_databases, receive_heads};
use self::log::LogReader;
pub use self::log::{Log, LogError, LogPage};
use self::losses::LossDetector;
use crate::connection::Bus;
use crate::contact::{Contact, ReceivedHead};
use crate::continuity::Continues;
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

/// Keeps `replica` up to date, and records in `contact` the applier's announcements, and whether the log is the one that
/// the applier writes, until `stop`. Loads the state first.
///
/// Under load, change sets that arrive within `batch_delay` are applied together. That is cheaper than applying them
/// one by one: each time, the process must be woken, and the state must be loaded into the caches of its core.
///
/// A replica never goes back within a history, nor applies change sets that do not continue it (`docs/architecture/log.md`):
/// it tells the applier that its database lacks writes, and waits.
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
    let log = Arc::new(log);
    let feed = Feed {
        losses: Arc::new(LossDetector::new(bus.clone(), Arc::clone(&replica), contact.clone())),
        replica,
        reader: LogReader::new(Arc::clone(&log), contact.clone()),
        contact,
        batch_delay,
        history: None,
        refuted: None,
        ahead: None,
        behind: None,
        loaded: None,
    };
    tokio::select! {
        () = stop.cancelled() => {}
        ended = feed.run(bus, log) => {
            if let Err(error) = ended {
                tracing::error!(error = telemetry::chain(&error), "cannot follow the change feed");
            }
        }
    }
}

struct Feed<L> {
    replica: Arc<Replica>,
    losses: Arc<LossDetector>,
    reader: LogReader<L>,
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
    /// The replica has an index that the log may never have had.
    Ahead,
    /// The log no longer has what would show whether it continues the replica.
    Unverifiable,
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
    async fn run(mut self, bus: Bus, log: Arc<L>) -> Result<(), Error> {
        // Subscribing comes before loading, so that no change set is missed in between.
        let mut changes = bus.serve(Subject::Changes.to_string()).await?;
        let heads = bus.serve(Subject::Head.to_string()).await?;
        let mut listeners = JoinSet::new();
        listeners.spawn(receive_heads(heads, self.contact.clone(), Arc::clone(&self.losses)));
        listeners.spawn(compare_databases(log, self.contact.clone()));
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
        let by = changes.by;
        if self.losses.check(changes.history, by).await != Continues::Yes || self.contact.has_lost() {
            return None;
        }
        let mut last = Index(changes.first.0.checked_add(changes.sets.len() as u64)?.saturating_sub(1));
        if changes.first > self.index().next() {
            FEED_GAPS.add(1);
            self.catch_up(Some(Index(changes.first.0 - 1))).await;
            if self.contact.has_lost() {
                return None;
            }
        }
        let (index, request) = self.position();
        let next = index.next();
        if next == changes.first
            && let Some(by) = by
        {
            let (history, previous) = (changes.history, changes.previous);
            let continues = self.losses.continuity().check_next(history, by, index, request, previous);
            match continues {
                Continues::Yes => {}
                Continues::Stale | Continues::Unknown => {
                    self.load(LoadReason::Unverifiable).await;
                    return None;
                }
                Continues::Lacks(lost) => {
                    self.losses.report(lost).await;
                    return None;
                }
            }
        }
        if !(changes.first..=last).contains(&next) {
            // These are repeats, or the log is not as far as it should be. The next head will show which.
            self.holds(by, last);
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
                Ok(Changes { history, by: same, first, sets, .. })
                    if Some(history) == self.history
                        && same == by
                        && first == last.next()
                        && !sets.is_empty() =>
                {
                    last = Index(last.0.saturating_add(sets.len() as u64));
                    let before = batch.len();
                    batch.extend(sets.into_iter().map_while(|set| set));
                    bytes += batch[before..].iter().map(Bytes::len).sum::<usize>();
                }
                Ok(_) | Err(_) => rest = Some(request),
            }
        }
        if self.apply(batch).await {
            self.holds(by, last);
        }
        // Change sets that were too large for a message.
        self.catch_up(Some(last)).await;
        rest
    }

    /// Records that the replica holds the change sets of an applier up to an index, as far as it has reached it.
    fn holds(&mut self, by: Option<Committer>, last: Index) {
        if let (Some(by), Some(history)) = (by, self.history) {
            self.losses.continuity().holds(history, last.min(self.index()), by);
        }
    }

    /// Whether the log, which lacked something of the replica, continues it again.
    async fn is_found_again(&mut self) -> bool {
        let (index, last) = self.position();
        match self.reader.after(index).await {
            LogPage::Sets { head, previous, .. } if self.history == Some(head.history) => {
                let continues = self.losses.continuity().check_page(&head, index, last, previous);
                if let Continues::Lacks(lost) = continues {
                    self.losses.report(lost).await;
                }
                continues == Continues::Yes
            }
            LogPage::Sets { .. } | LogPage::Trimmed => false,
        }
    }

    /// Compares the replica with an announced head.
    async fn compare(&mut self, ReceivedHead { head, at, .. }: ReceivedHead) {
        if self.history != Some(head.history) {
            return self.check_history(head.history).await;
        }
        let by = head.committer();
        match self.losses.check(head.history, by).await {
            Continues::Yes => {}
            Continues::Unknown => return self.catch_up(None).await,
            Continues::Stale | Continues::Lacks(_) => return,
        }
        if self.contact.has_lost() {
            if !self.is_found_again().await {
                return;
            }
            self.losses.lacks_nothing();
        }
        if let Some(by) = by {
            self.losses.continuity().announced(by);
        }
        let index = self.index();
        FEED_INDEX.set(index.0 as f64);
        FEED_LAG.set(head.index.0.saturating_sub(index.0) as f64);
        self.check_ahead(head.index, at).await;
        let index = self.index();
        let is_awaited = self.behind.is_some_and(|(target, _)| index < target);
        if !is_awaited {
            self.behind = (index < head.index).then(|| (head.index, clock::monotonic() + ARRIVAL_TIMEOUT));
        }
    }

    /// Loads the state if the replica has been ahead of the announced indexes for long.
    async fn check_ahead(&mut self, announced: Index, at: Instant) {
        let index = self.index();
        match self.ahead {
            Some((seen, since)) if announced < seen => {
                if at.saturating_duration_since(since) >= AHEAD_MIN {
                    self.load(LoadReason::Ahead).await;
                }
            }
            Some(_) | None => self.ahead = (index > announced).then_some((index, clock::monotonic())),
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
        let in_log = self.reader.head().await.history;
        if self.history != Some(in_log) {
            self.load(LoadReason::History).await;
        }
        self.refuted = (self.history != Some(history)).then(|| (history, clock::monotonic()));
    }

    /// Reads missing change sets from the log up to `target`, or up to the log's current head. The feed brings the
    /// later ones; reading a growing log to its end would never return to the feed.
    async fn catch_up(&mut self, mut target: Option<Index>) {
        loop {
            let (index, last) = self.position();
            if target.is_some_and(|target| index >= target) {
                return;
            }
            match self.reader.after(index).await {
                LogPage::Trimmed => return self.load_unless_lost(LoadReason::Trimmed).await,
                LogPage::Sets { head, .. } if self.history != Some(head.history) => {
                    return self.load(LoadReason::History).await;
                }
                LogPage::Sets { head, previous, sets } => {
                    target = target.or(Some(head.index));
                    if self.position() != (index, last) {
                        // The applier in this process was faster. Only a page that begins where the replica is shows whether
                        // the log continues it.
                        continue;
                    }
                    let continues = self.losses.continuity().check_page(&head, index, last, previous);
                    match continues {
                        Continues::Yes => {}
                        Continues::Stale | Continues::Unknown => {
                            return self.load_unless_lost(LoadReason::Unverifiable).await;
                        }
                        Continues::Lacks(lost) => return self.losses.report(lost).await,
                    }
                    FEED_READ_FROM_LOG.add(sets.len() as u64);
                    let last = Index(index.0 + sets.len() as u64);
                    if self.apply(sets).await {
                        self.losses.continuity().read(last, &head);
                    }
                }
            }
            if self.index() <= index {
                return;
            }
        }
    }

    /// Applies encoded change sets. If that fails, loads the state. Returns whether the replica has them.
    async fn apply(&mut self, sets: Vec<Bytes>) -> bool {
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
            Ok(()) => true,
            Err(ApplyError::Inconsistent(Inconsistent::Gap { .. })) => false,
            Err(error) => {
                tracing::error!(
                    error = telemetry::chain(&error),
                    "a change set does not match the replica, loading the state"
                );
                self.load(LoadReason::Inconsistent).await;
                false
            }
        }
    }

    /// Loads the state, unless the log is known to lack change sets that the replica has: a loaded state does not show that
    /// once the log is further than the replica.
    async fn load_unless_lost(&mut self, reason: LoadReason) {
        if !self.contact.has_lost() {
            self.load(reason).await;
        }
    }

    /// Loads the state. The replica does not go back to an earlier index of its history.
    async fn load(&mut self, reason: LoadReason) {
        if let Some(loaded) = self.loaded {
            tokio::time::sleep_until((loaded + LOADS_APART).into()).await;
        }
        // What the replica has was in the log before.
        let before = self.index();
        let (state, head) = self.reader.load().await;
        fail_point!("feed.loaded");
        self.loaded = Some(clock::monotonic());
        (self.ahead, self.behind) = (None, None);
        FEED_LOADS.add(1);
        let (index, history) = (state.index(), state.history());
        if let Some(known) = self.history {
            let continues = self.losses.continuity().check_loaded(&head, known, before);
            if let Continues::Lacks(lost) = continues {
                return self.losses.report(lost).await;
            }
        }
        self.losses.continuity().read(index, &head);
        let is_another_history = self.history.replace(history).is_some_and(|known| known != history);
        let was_wrong = is_another_history || reason == LoadReason::Inconsistent;
        if was_wrong {
            self.replica.reset(state);
        } else {
            self.replica.catch_up(state);
        }
        if is_another_history {
            self.losses.lacks_nothing();
        }
        tracing::info!(index = index.0, %history, ?reason, was_wrong, "loaded the state");
    }

    fn index(&self) -> Index {
        self.replica.snapshot().index()
    }

    /// The replica's index, and the request of its last change set.
    fn position(&self) -> (Index, Option<RequestId>) {
        let snapshot = self.replica.snapshot();
        (snapshot.index(), snapshot.last_request())
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
