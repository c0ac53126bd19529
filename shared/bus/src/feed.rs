//! The change feed: keeps a process's one replica up to date (design §4).
//!
//! Change sets come over NATS, which may lose any of them; what is missing is read from the log, and where the log no
//! longer has it, the state is loaded anew. An applier in the same process is faster ([`Replica::adopt`]); what the feed
//! then brings are repeats.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use fail::fail_point;
use model::change::ChangeSet;
use model::{HistoryId, Index};
use state::{Inconsistent, Replica, State};
use telemetry::clock;
use telemetry::metrics::catalogue::{FEED_GAPS, FEED_INDEX, FEED_LAG, FEED_LOADS, FEED_READ_FROM_LOG};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::feed::{Changes, Head};
use wire::{DecodeError, Subject, Wire};

use crate::backoff::backoff;
use crate::connection::{Bus, Error};
use crate::contact::{Contact, Heard};
use crate::serve::{Request, Requests};

/// How many change sets are applied at once, and make one step for those who follow the replica: what a long page brings
/// they take in piece by piece.
const APPLIED_AT_ONCE: usize = 256;
/// Change sets of more bytes than these together take some milliseconds, and are not decoded on a thread that others wait for.
/// What is committed together under load takes a third of them: to hand that over costs more than others wait.
const DECODED_INLINE_BYTES_MAX: usize = 128 << 10;
/// Messages that came together are taken in together up to so many bytes.
const TAKEN_BYTES_MAX: usize = 1 << 20;
/// So many change sets at once are load: then those that follow may be gathered before they are taken in.
const LOAD: u64 = 16;
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);
/// A state is loaded no more often than this.
const LOADS_APART: Duration = Duration::from_secs(2);
/// How long a replica must have been ahead of every head heard since to be taken for ahead of the log: change sets may
/// overtake the announcement of those before them.
const AHEAD_MIN: Duration = Duration::from_millis(2500);
/// How long after an announcement the change sets may come that it speaks of: they are sent apart, and overtake each other.
const ARRIVES_WITHIN: Duration = Duration::from_millis(50);
/// How long a history that the log did not have is taken for that of a mistaken applier.
const HISTORY_REFUTED_FOR: Duration = Duration::from_secs(5);

/// Where committed change sets are kept. It may be asked again at any time, and its answer may be thrown away.
pub trait Log: Send + Sync + 'static {
    /// The newest durable state.
    fn load(&self) -> impl Future<Output = Result<State, LogError>> + Send;

    /// Change sets that follow `index`, as many as are good to take at once.
    fn after(&self, index: Index) -> impl Future<Output = Result<LogPage, LogError>> + Send;
}

/// Why the log could not be read.
pub type LogError = Box<dyn std::error::Error + Send + Sync>;

/// A piece of the log.
#[derive(Debug)]
pub enum LogPage {
    /// Change sets without a gap.
    Sets {
        /// The history that they belong to.
        history: HistoryId,
        /// The index of the last one in the log at that moment.
        head: Index,
        /// As the log keeps them, from the one that follows the index asked for; none if that was the last.
        sets: Vec<Bytes>,
    },
    /// What follows is not kept any more.
    Trimmed,
}

/// Keeps `replica` up to date, and `contact` with the applier, until `stop`. Loads the state first.
///
/// Under load what comes within `gathered` is taken in at once, which costs a part of what it costs piece by piece: each
/// time the process has to be woken, and what it then looks at comes back into the caches of its core.
///
/// One for each process, on a task of its own.
pub async fn follow(
    bus: Bus,
    replica: Arc<Replica>,
    log: impl Log,
    contact: Contact,
    gathered: Duration,
    stop: CancellationToken,
) {
    let feed = Feed {
        replica,
        log,
        contact,
        gathered,
        history: None,
        refuted: None,
        ahead: None,
        behind: None,
        loaded: None,
        failures: 0,
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
    log: L,
    contact: Contact,
    /// How long change sets are gathered under load.
    gathered: Duration,
    /// The history that the replica belongs to; `None` before the first load.
    history: Option<HistoryId>,
    /// A history that was announced but is not the log's, and when that was found.
    refuted: Option<(HistoryId, Instant)>,
    /// An index of the replica's that no head heard since has reached, and since when.
    ahead: Option<(Index, Instant)>,
    /// A head that the replica had not reached when it was announced, and by when it should have.
    behind: Option<(Index, Instant)>,
    /// When the state was loaded last.
    loaded: Option<Instant>,
    /// How often in a row the log could not be read.
    failures: u32,
}

/// Why a state is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Why {
    /// It is the first.
    First,
    /// The log does not go back far enough.
    Trimmed,
    /// Somebody speaks of another history.
    History,
    /// The replica had an index that the log may never have had.
    Ahead(Index),
    /// A change set could not be applied.
    Inconsistent,
}

/// Why a change set could not be applied.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("cannot read a change set")]
    Unreadable(#[from] DecodeError),
    #[error("cannot apply a change set")]
    Inconsistent(#[from] Inconsistent),
}

/// Waits until the time for a head to be reached is over.
async fn overdue(behind: Option<(Index, Instant)>) -> Index {
    let Some((target, at)) = behind else { return std::future::pending().await };
    tokio::time::sleep_until(at.into()).await;
    target
}

impl<L: Log> Feed<L> {
    async fn run(mut self, bus: Bus) -> Result<(), Error> {
        // Listening begins before loading, so that nothing is missed in between.
        let mut changes = bus.serve(Subject::Changes.to_string()).await?;
        let heads = bus.serve(Subject::Head.to_string()).await?;
        let mut listening = JoinSet::new();
        listening.spawn(listen(heads, self.contact.clone()));
        let mut link = bus.link();
        let mut made = link.borrow().made;
        let mut head = self.contact.heads();
        self.load(Why::First).await;
        self.contact.set_loaded();
        loop {
            let behind = self.behind;
            tokio::select! {
                // A head is looked at only when nothing that it might speak of waits to be applied.
                biased;
                request = changes.next() => match request {
                    Some(request) => {
                        let before = self.index();
                        let mut next = Some(request);
                        while let Some(request) = next {
                            next = self.take(request, &mut changes).await;
                        }
                        let taken = self.index().0.saturating_sub(before.0);
                        // To sleep for no time takes up to a millisecond.
                        if taken >= LOAD && !self.gathered.is_zero() {
                            tokio::time::sleep(self.gathered).await;
                        }
                    }
                    // The connection was closed for good, which is how the process ends.
                    None => return Ok(()),
                },
                Ok(now) = async { link.wait_for(|link| link.made != made).await.map(|link| link.made) } => {
                    made = now;
                    // Whatever was sent meanwhile is lost.
                    self.catch_up(None).await;
                }
                Ok(()) = head.changed() => {
                    let heard = *head.borrow_and_update();
                    if let Some(heard) = heard {
                        self.compare(heard).await;
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

    /// Takes in a message of the feed, and those that have come since and follow on it. Returns the first that does not.
    async fn take(&mut self, request: Request, more: &mut Requests) -> Option<Request> {
        let (_, changes) = request.read::<Changes>().await?;
        if self.history != Some(changes.history) {
            self.doubt(changes.history).await;
            return None;
        }
        let mut last = Index(changes.first.0.checked_add(changes.sets.len() as u64)?.saturating_sub(1));
        if changes.first > self.index().next() {
            FEED_GAPS.add(1);
            self.catch_up(Some(Index(changes.first.0 - 1))).await;
        }
        let next = self.index().next();
        if !(changes.first..=last).contains(&next) {
            // Repeats, or the log is not as far as it should be; the next head will tell.
            return None;
        }
        fail_point!("feed.taken");
        let from = (next.0 - changes.first.0) as usize;
        let mut carried: Vec<Bytes> = changes.sets.into_iter().skip(from).map_while(|set| set).collect();
        let mut another = None;
        let mut bytes: usize = carried.iter().map(Bytes::len).sum();
        while another.is_none()
            && bytes < TAKEN_BYTES_MAX
            && next.0 + carried.len() as u64 > last.0
            && let Some(request) = more.next_now()
        {
            match request.body::<Changes>() {
                Ok(Changes { history, first, sets })
                    if Some(history) == self.history && first == last.next() && !sets.is_empty() =>
                {
                    last = Index(last.0.saturating_add(sets.len() as u64));
                    let before = carried.len();
                    carried.extend(sets.into_iter().map_while(|set| set));
                    bytes += carried[before..].iter().map(Bytes::len).sum::<usize>();
                }
                Ok(_) | Err(_) => another = Some(request),
            }
        }
        self.apply(carried).await;
        // What the messages were too small for.
        self.catch_up(Some(last)).await;
        another
    }

    /// Compares the replica with an announced head.
    async fn compare(&mut self, Heard { head, at }: Heard) {
        if self.history != Some(head.history) {
            return self.doubt(head.history).await;
        }
        let index = self.index();
        FEED_INDEX.set(index.0 as f64);
        FEED_LAG.set(head.index.0.saturating_sub(index.0) as f64);
        match self.ahead {
            Some((seen, since)) if head.index < seen => {
                if at.saturating_duration_since(since) >= AHEAD_MIN {
                    self.load(Why::Ahead(seen)).await;
                }
            }
            Some(_) | None => self.ahead = (index > head.index).then_some((index, clock::monotonic())),
        }
        let is_awaited = self.behind.is_some_and(|(target, _)| index < target);
        if !is_awaited {
            self.behind = (index < head.index).then(|| (head.index, clock::monotonic() + ARRIVES_WITHIN));
        }
    }

    /// Somebody speaks of another history; the log says which one is right.
    async fn doubt(&mut self, history: HistoryId) {
        let is_refuted = self.refuted.is_some_and(|(refuted, at)| {
            refuted == history && clock::monotonic().duration_since(at) < HISTORY_REFUTED_FOR
        });
        if is_refuted {
            return;
        }
        self.load(Why::History).await;
        self.refuted = (self.history != Some(history)).then(|| (history, clock::monotonic()));
    }

    /// Reads from the log what is missing up to `target`, or up to where it ends now: what comes after that the feed brings,
    /// and who reads a log that grows until there is no more never gets back to it.
    async fn catch_up(&mut self, mut target: Option<Index>) {
        loop {
            let index = self.index();
            if target.is_some_and(|target| index >= target) {
                return;
            }
            match self.after(index).await {
                LogPage::Trimmed => return self.load(Why::Trimmed).await,
                LogPage::Sets { history, .. } if self.history != Some(history) => {
                    return self.load(Why::History).await;
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

    /// Applies encoded change sets; if that cannot be done, loads the state.
    async fn apply(&mut self, sets: Vec<Bytes>) {
        let replica = Arc::clone(&self.replica);
        let bytes: usize = sets.iter().map(Bytes::len).sum();
        let applied = if bytes <= DECODED_INLINE_BYTES_MAX {
            apply(&replica, &sets)
        } else {
            let applying = tokio::task::spawn_blocking(move || apply(&replica, &sets));
            applying.await.expect("a panic while applying ends the process, as anywhere else")
        };
        match applied {
            // After a gap because somebody else was faster, or slower than he seemed, the next head tells what is missing.
            Ok(()) | Err(Unfit::Inconsistent(Inconsistent::Gap { .. })) => {}
            Err(error) => {
                tracing::error!(error = telemetry::chain(&error), "a change set does not fit the replica");
                self.load(Why::Inconsistent).await;
            }
        }
    }

    /// Loads the state. The replica goes back to it only where it must have been wrong.
    async fn load(&mut self, why: Why) {
        if let Some(loaded) = self.loaded {
            tokio::time::sleep_until((loaded + LOADS_APART).into()).await;
        }
        let state = self.loaded().await;
        fail_point!("feed.loaded");
        self.loaded = Some(clock::monotonic());
        (self.ahead, self.behind) = (None, None);
        FEED_LOADS.add(1);
        let (index, history) = (state.index(), state.history());
        let is_another_history = self.history.replace(history).is_some_and(|known| known != history);
        let was_wrong = match why {
            Why::First | Why::Trimmed | Why::History => is_another_history,
            Why::Ahead(seen) => is_another_history || index < seen,
            Why::Inconsistent => true,
        };
        if was_wrong {
            self.replica.reset(state);
        } else {
            self.replica.catch_up(state);
        }
        tracing::info!(index = index.0, %history, ?why, was_wrong, "loaded the state");
    }

    async fn loaded(&mut self) -> State {
        loop {
            match self.log.load().await {
                Ok(loaded) => {
                    self.succeeded();
                    return loaded;
                }
                Err(error) => self.failed(error).await,
            }
        }
    }

    async fn after(&mut self, index: Index) -> LogPage {
        loop {
            match self.log.after(index).await {
                Ok(page) => {
                    self.succeeded();
                    return page;
                }
                Err(error) => self.failed(error).await,
            }
        }
    }

    fn succeeded(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            tracing::info!("the log can be read again");
        }
    }

    async fn failed(&mut self, error: LogError) {
        if self.failures == 0 {
            tracing::warn!(error = telemetry::chain(error.as_ref()), "cannot read the log, trying again");
        }
        tokio::time::sleep(backoff(self.failures, RETRY_MIN, RETRY_MAX)).await;
        self.failures = self.failures.saturating_add(1);
    }

    fn index(&self) -> Index {
        self.replica.snapshot().index()
    }
}

fn apply(replica: &Replica, sets: &[Bytes]) -> Result<(), Unfit> {
    for sets in sets.chunks(APPLIED_AT_ONCE) {
        let decode = |bytes| wire::decode(ChangeSet::KIND, ChangeSet::VERSION, bytes).map(Arc::new);
        let sets = sets.iter().map(|bytes| decode(bytes)).collect::<Result<Vec<Arc<ChangeSet>>, _>>()?;
        replica.apply(sets)?;
    }
    Ok(())
}

/// Hears what the applier announces, whatever else the feed is busy with.
async fn listen(mut heads: Requests, contact: Contact) {
    while let Some(request) = heads.next().await {
        if let Some((_, head)) = request.read::<Head>().await {
            contact.hear(head);
        }
    }
}
