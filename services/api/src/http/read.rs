//! Reads: how fresh an answer is (design §4, *Reading what was written*), and waiting for something new (http-api §5).
//!
//! A default read asks the applier for its head and waits until the replica is there. One question serves all reads that
//! wait for the next one to go out. That head was confirmed after the read arrived, so it covers whatever anybody has
//! been told of before, this process's own writes included.

use std::time::Duration;

use bus::Bus;
use model::{Index, JobKey};
use serde::Serialize;
use state::{Snapshot, State, Table, WatchKey};
use tokio::sync::{mpsc, oneshot};
use wire::Subject;
use wire::feed::{AskHead, Head};

use super::list::{self, Piece};
use super::{Body, CacheKey, Error, Meta, NO_LEADER, Page, Query, ReadOptions, Response};
use crate::Api;

/// Reads that wait for the next question to go out; further ones wait for their place.
const WAITING_READS_MAX: usize = 4_096;
/// How long one question waits for its answer.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a read waits before it asks again.
const HEAD_RETRY_AFTER: Duration = Duration::from_millis(100);
/// An applier that announced itself so lately is known.
const LEADER_KNOWN_FOR: Duration = Duration::from_secs(5);
/// How long a blocking query waits that does not say, and the longest that one may.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The shortest time between two looks at what only looking tells the newness of: of many changes in a row, one look is
/// enough.
const REEVALUATE_AFTER: Duration = Duration::from_millis(100);
/// What part of its wait a blocking query may be held longer, so that many do not end at once.
const JITTER_DIVISOR: u32 = 16;

/// Asks for the applier's head, on behalf of all who want it.
#[derive(Debug, Clone)]
pub(crate) struct HeadClient(mpsc::Sender<oneshot::Sender<Option<Head>>>);

impl HeadClient {
    /// The head, confirmed after this call began; `None` if there is no answer.
    async fn fetch(&self) -> Option<Head> {
        let (reply, head) = oneshot::channel();
        self.0.send(reply).await.ok()?;
        head.await.ok().flatten()
    }
}

/// Makes [`Heads`], and what has to run for them to be answered.
pub(crate) fn head_client(bus: Bus) -> (HeadClient, impl Future<Output = ()> + Send) {
    let (sender, mut receiver) = mpsc::channel::<oneshot::Sender<Option<Head>>>(WAITING_READS_MAX);
    let serve = async move {
        let mut waiting = Vec::new();
        // Whoever comes while a question is out waits for the next one: the answer to this one may be from before.
        while receiver.recv_many(&mut waiting, WAITING_READS_MAX).await > 0 {
            let response = bus.request::<AskHead, Head>(Subject::AskHead, &AskHead {}, HEAD_TIMEOUT).await;
            if let Err(error) = &response {
                tracing::debug!(error = telemetry::chain(error), "cannot ask the applier for its head");
            }
            let head = response.ok();
            for reply in waiting.drain(..) {
                // Fails if the client has gone.
                let _ = reply.send(head);
            }
        }
    };
    (HeadClient(sender), serve)
}

/// What a read shows: how to notice that it changed.
pub(crate) struct Watched<'a> {
    keys: Vec<WatchKey>,
    index: Box<dyn Fn(&State) -> Index + 'a>,
}

impl<'a> Watched<'a> {
    /// Something that changes with these keys, the last time at an index.
    pub(crate) fn new(keys: impl Into<Vec<WatchKey>>, index: impl Fn(&State) -> Index + 'a) -> Self {
        Self { keys: keys.into(), index: Box::new(index) }
    }

    /// A table.
    pub(crate) fn table(table: Table) -> Watched<'static> {
        Watched::new([WatchKey::Table(table)], move |state| state.table_index(table))
    }

    /// What of a table has a name that begins so. Its index is the table's.
    pub(crate) fn prefix(table: Table, prefix: &str) -> Watched<'static> {
        let key = match prefix {
            "" => WatchKey::Table(table),
            prefix => WatchKey::Prefix(table, prefix.into()),
        };
        Watched::new([key], move |state| state.table_index(table))
    }

    /// What a table holds of a job.
    pub(crate) fn of_job(table: Table, job: &'a JobKey) -> Self {
        Self::new([WatchKey::Job(table, job.clone())], move |state| state.job_index(table, job))
    }

    /// The index to show; never 0, which clients do not take for one (http-api §4).
    fn index_in(&self, state: &State) -> Index {
        (self.index)(state).max(Index(1))
    }
}

/// What somebody sees of the state, where only looking tells which objects that is and how new they are.
pub(crate) trait Selection {
    /// The last index at which something of it changed.
    fn index(&self) -> Index;

    /// What changes with it.
    fn watch_keys(&self) -> Vec<WatchKey>;

    /// Whether it holds the same objects as another, however they fare.
    fn has_same_objects(&self, other: &Self) -> bool;
}

/// A body, and where its next page begins.
pub(crate) struct Content {
    /// The body.
    pub(crate) body: Body,
    /// The token, if there is a next page.
    pub(crate) next_token: Option<String>,
}

impl From<Body> for Content {
    fn from(body: Body) -> Self {
        Self { body, next_token: None }
    }
}

impl Content {
    /// The answer, with these headers.
    pub(crate) fn into_response(self, meta: Meta) -> Response {
        Response::ok(self.body).with(Meta { next_token: self.next_token, ..meta })
    }
}

impl Api {
    /// A state that is fresh enough.
    ///
    /// # Errors
    /// If it has to be the newest, and there is no applier to say which that is.
    pub(crate) async fn fresh_snapshot(&self, stale: bool) -> Result<Snapshot, Error> {
        if stale {
            return Ok(self.replica.snapshot());
        }
        let head = async {
            loop {
                match self.head_client.fetch().await {
                    Some(head) => return head,
                    None => tokio::time::sleep(HEAD_RETRY_AFTER).await,
                }
            }
        };
        let head = tokio::time::timeout(self.limits.leader_timeout, head)
            .await
            .map_err(|_| Error::failed(NO_LEADER))?;
        tokio::time::timeout(self.limits.catch_up_timeout, self.replica.wait_for(head.index)).await.map_err(
            |_| {
                let reached = self.replica.snapshot().index();
                Error::failed(format!(
                    "this server is behind: it has reached index {reached}, the cluster is at {}",
                    head.index
                ))
            },
        )
    }

    /// Answers a read, as fresh as it wants and after waiting as long as it wants. `shape` is to look at nothing but the
    /// state and what the query says: others who ask the same get the same answer.
    ///
    /// # Errors
    /// If it cannot be fresh enough, or `shape` fails; that something is not there is an answer like others.
    pub(crate) async fn read(
        &self,
        query: &Query,
        watched: Watched<'_>,
        shape: impl FnOnce(&Snapshot) -> Result<Content, Error>,
    ) -> Result<Response, Error> {
        let (snapshot, meta) = self.snapshot_for(query, &watched).await?;
        let key = CacheKey::new(&snapshot, query.cache_key());
        if let Some(content) = self.response_cache.get(&key) {
            return Ok(content.into_response(meta));
        }
        match shape(&snapshot) {
            Ok(content) => Ok(self.response_cache.insert(key, content).into_response(meta)),
            Err(error) if error.is_not_found() => Ok(Response::error(error).with(meta)),
            Err(error) => Err(error),
        }
    }

    /// The same of a list; `make` is as for [`list::body`].
    ///
    /// # Errors
    /// If it cannot be fresh enough.
    pub(crate) async fn list<T: Serialize + 'static>(
        &self,
        query: &Query,
        watched: Watched<'_>,
        page: Page<'_>,
        make: impl Fn(&State, Option<&str>, usize) -> Piece<T> + 'static,
    ) -> Result<Response, Error> {
        let (snapshot, meta) = self.snapshot_for(query, &watched).await?;
        let key = CacheKey::new(&snapshot, query.cache_key());
        let content = match self.response_cache.get(&key) {
            Some(content) => content,
            None => self.response_cache.insert(key, list::body(snapshot, page, make).await),
        };
        Ok(content.into_response(meta))
    }

    /// What is to be shown: fresh enough, and changed if that is waited for; with the headers that say so.
    async fn snapshot_for(&self, query: &Query, watched: &Watched<'_>) -> Result<(Snapshot, Meta), Error> {
        let options = query.read_options()?;
        let mut snapshot = self.fresh_snapshot(options.stale).await?;
        let is_blocking = options.after.is_set() && watched.index_in(&snapshot) <= options.after;
        if is_blocking {
            drop(snapshot);
            snapshot = self.wait_for_change(watched, &options).await;
        }
        let meta = self.meta(watched.index_in(&snapshot), options.stale || is_blocking);
        Ok((snapshot, meta))
    }

    /// The same of what only looking tells the newness of; `look` looks at a state.
    ///
    /// # Errors
    /// If it cannot be fresh enough.
    pub(crate) async fn select<S: Selection>(
        &self,
        query: &Query,
        evaluate: impl AsyncFn(&State) -> S,
    ) -> Result<(Snapshot, S, Meta), Error> {
        let options = query.read_options()?;
        let snapshot = self.fresh_snapshot(options.stale).await?;
        let selection = evaluate(&snapshot).await;
        if !options.after.is_set() || selection.index() > options.after {
            let meta = self.meta(selection.index().max(Index(1)), options.stale);
            return Ok((snapshot, selection, meta));
        }
        drop(snapshot);
        let (snapshot, newer) = self.wait_for_other_selection(&selection, &options, &evaluate).await;
        // What went away takes its index with it, but indexes never fall.
        let index = if newer.has_same_objects(&selection) { newer.index() } else { snapshot.index() };
        Ok((snapshot, newer, self.meta(index.max(Index(1)), true)))
    }

    /// Waits until something else is seen than before, or as long as that may take.
    async fn wait_for_other_selection<S: Selection>(
        &self,
        before: &S,
        options: &ReadOptions,
        evaluate: &impl AsyncFn(&State) -> S,
    ) -> (Snapshot, S) {
        let [random_byte, ..] = telemetry::clock::random_bytes();
        let mut watch = self.replica.watch(before.watch_keys());
        let changed = async {
            loop {
                {
                    let snapshot = self.replica.snapshot();
                    let selection = evaluate(&snapshot).await;
                    if selection.index() > options.after || !selection.has_same_objects(before) {
                        return (snapshot, selection);
                    }
                }
                tokio::time::sleep(REEVALUATE_AFTER).await;
                watch.changed().await;
            }
        };
        tokio::select! {
            changed = changed => return changed,
            () = tokio::time::sleep(wait_time(options.wait, random_byte)) => {}
            () = self.stop.cancelled() => {}
        }
        let snapshot = self.replica.snapshot();
        let selection = evaluate(&snapshot).await;
        (snapshot, selection)
    }

    /// The headers of what is shown at an index, by this process alone if `stale`.
    pub(crate) fn meta(&self, index: Index, stale: bool) -> Meta {
        Meta { index: Some(index), contact: Some(self.contact(stale)), next_token: None }
    }

    /// Waits until what is shown has changed after the index that the client has seen, or it has waited long enough.
    async fn wait_for_change(&self, watched: &Watched<'_>, options: &ReadOptions) -> Snapshot {
        let [random_byte, ..] = telemetry::clock::random_bytes();
        let mut watch = self.replica.watch(watched.keys.iter().cloned());
        let changed = async {
            loop {
                // No snapshot is held while waiting: it would keep all that is overwritten meanwhile.
                let snapshot = self.replica.snapshot();
                if watched.index_in(&snapshot) > options.after {
                    return snapshot;
                }
                drop(snapshot);
                watch.changed().await;
            }
        };
        tokio::select! {
            snapshot = changed => snapshot,
            () = tokio::time::sleep(wait_time(options.wait, random_byte)) => self.replica.snapshot(),
            () = self.stop.cancelled() => self.replica.snapshot(),
        }
    }

    /// How long ago the applier was heard of, and whether there is one. Whoever has just been asked is there.
    pub(crate) fn contact(&self, stale: bool) -> (Duration, bool) {
        if !stale {
            return (Duration::ZERO, true);
        }
        let ago = self.contact.heard_ago();
        (ago.unwrap_or_default(), ago.is_some_and(|ago| ago < LEADER_KNOWN_FOR))
    }
}

/// How long a blocking query waits (http-api §5.2); `draw` is chance.
fn wait_time(wait: Option<Duration>, random_byte: u8) -> Duration {
    let wait = wait.filter(|wait| !wait.is_zero()).unwrap_or(WAIT_MAX).min(WAIT_MAX);
    wait + wait / JITTER_DIVISOR * u32::from(random_byte) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_bounded_and_a_little_uneven() {
        assert_eq!(wait_time(None, 0), Duration::from_secs(300));
        assert_eq!(wait_time(Some(Duration::ZERO), 0), Duration::from_secs(300));
        assert_eq!(wait_time(Some(Duration::from_secs(3_600)), 0), Duration::from_secs(300));
        assert_eq!(wait_time(Some(Duration::from_secs(16)), 0), Duration::from_secs(16));
        assert_eq!(wait_time(Some(Duration::from_secs(16)), u8::MAX), Duration::from_secs(17));
    }
}
