//! Reads: their consistency (`docs/architecture/http-api.md`) and blocking queries (http-api §5).
//!
//! A default read requests the head from the applier and waits until the replica has reached its index. Reads that arrive
//! while a request is in flight share the next one. So the head is always confirmed after the read arrived: its index
//! covers every write that was acknowledged to anybody before, including those of this process.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, DatabaseMatch};
use model::{Index, JobKey};
use serde::Serialize;
use state::{Snapshot, State, Table, WatchKey};
use tokio::sync::{mpsc, oneshot};
use wire::Subject;
use wire::feed::{GetHead, Head};

use super::list::{self, Effort, Render};
use super::{
    Body, CacheKey, Content, Error, Meta, NO_REGION, Page, PermitKind, Query, ReadOptions, Response, Work,
    piece,
};
use crate::Api;

/// Maximum number of reads in the queue for the next head request.
const WAITING_READS_MAX: usize = 4_096;
/// Timeout of one head request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause before a failed head request is repeated.
const HEAD_RETRY_AFTER: Duration = Duration::from_millis(100);
/// How often a replica that has another history than the head is looked at again.
const HISTORY_RECHECK: Duration = Duration::from_millis(50);
/// The error of reads while this server's database is not that of the applier.
const OTHER_DATABASE: &str =
    "this server reads another database than the plan applier writes; its log names both";
/// The error of reads while the applier's database lacks writes that this server has seen.
const LOST_WRITES: &str =
    "the plan applier's database lacks acknowledged writes that this server has seen; its log says which";
/// An applier counts as known if its last message is no older than this.
const LEADER_KNOWN_FOR: Duration = Duration::from_secs(5);
/// Default and maximum time of a blocking query.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// Minimum time between two evaluations of a [`Selection`], so that many changes in a row cost one evaluation.
const REEVALUATE_AFTER: Duration = Duration::from_millis(100);
/// An evaluation that took long is repeated after this multiple of its time, so that it takes a tenth of a thread at most.
const REEVALUATE_AFTER_MULTIPLE: u32 = 9;
/// A blocking query waits up to 1/16 longer, at random, so that many queries do not end at once.
const JITTER_DIVISOR: u32 = 16;

/// Requests the applier's head on behalf of all reads.
#[derive(Debug, Clone)]
pub(crate) struct HeadClient(mpsc::Sender<oneshot::Sender<Option<Head>>>);

impl HeadClient {
    /// The head, confirmed after this call began; `None` if the request failed.
    async fn fetch(&self) -> Option<Head> {
        let (reply, head) = oneshot::channel();
        self.0.send(reply).await.ok()?;
        head.await.ok().flatten()
    }
}

/// Makes a [`HeadClient`] and the task that serves it.
pub(crate) fn head_client(bus: Bus) -> (HeadClient, impl Future<Output = ()> + Send) {
    let (sender, mut receiver) = mpsc::channel::<oneshot::Sender<Option<Head>>>(WAITING_READS_MAX);
    let serve = async move {
        let mut waiting = Vec::new();
        // A read that arrives during a request waits for the next one: the current response may be older than the read.
        while receiver.recv_many(&mut waiting, WAITING_READS_MAX).await > 0 {
            let response = bus.request::<GetHead, Head>(Subject::GetHead, &GetHead {}, HEAD_TIMEOUT).await;
            if let Err(error) = &response {
                tracing::debug!(error = telemetry::chain(error), "cannot request the applier's head");
            }
            let head = response.ok();
            for reply in waiting.drain(..) {
                // Fails if the client has disconnected.
                let _ = reply.send(head);
            }
        }
    };
    (HeadClient(sender), serve)
}

/// What a read depends on: the keys whose changes wake it, and the index that it reports.
pub(crate) struct Watched<'a> {
    keys: Vec<WatchKey>,
    index: Box<dyn Fn(&State) -> Index + 'a>,
}

impl<'a> Watched<'a> {
    /// Watches `keys`. `index` returns the last index at which the result changed.
    pub(crate) fn new(keys: impl Into<Vec<WatchKey>>, index: impl Fn(&State) -> Index + 'a) -> Self {
        Self { keys: keys.into(), index: Box::new(index) }
    }

    /// Watches a table.
    pub(crate) fn table(table: Table) -> Watched<'static> {
        Watched::new([WatchKey::Table(table)], move |state| state.table_index(table))
    }

    /// Watches the objects of a table whose name begins with `prefix`. The index is that of the whole table.
    pub(crate) fn prefix(table: Table, prefix: &str) -> Watched<'static> {
        let key = match prefix {
            "" => WatchKey::Table(table),
            prefix => WatchKey::Prefix(table, prefix.into()),
        };
        Watched::new([key], move |state| state.table_index(table))
    }

    /// Watches the objects of a table that belong to a job.
    pub(crate) fn of_job(table: Table, job: &'a JobKey) -> Self {
        Self::new([WatchKey::Job(table, job.clone())], move |state| state.job_index(table, job))
    }

    /// Index to report. It is never 0, because clients reject an index of 0 (http-api §4).
    fn index_in(&self, state: &State) -> Index {
        (self.index)(state).max(Index(1))
    }
}

/// Objects that a query selects from the state. Their index is known only after the query is evaluated.
pub(crate) trait Selection {
    /// Last index at which one of the objects changed.
    fn index(&self) -> Index;

    /// Keys to watch for changes of the result.
    fn watch_keys(&self) -> Vec<WatchKey>;

    /// Whether `other` contains the same objects, whatever their contents.
    fn has_same_objects(&self, other: &Self) -> bool;
}

impl Api {
    /// Checks that a request is for this cluster. The reference compares regions where it would forward a request, so what
    /// it checks before that comes first: methods, parameters and bodies, but neither ids nor the objects themselves.
    ///
    /// # Errors
    /// If it is for another region (http-api §3).
    pub(crate) fn check_region(&self, query: &Query) -> Result<(), Error> {
        match query.text("region") {
            "" => Ok(()),
            region if region == self.args.region => Ok(()),
            _ => Err(Error::failed(NO_REGION)),
        }
    }

    /// A snapshot that is as fresh as requested.
    ///
    /// # Errors
    /// If the newest state is requested and there is no active applier, the applier writes another database or one that went
    /// back, or the replica does not catch up in time.
    pub(crate) async fn fresh_snapshot(&self, stale: bool) -> Result<Snapshot, Error> {
        if stale {
            return Ok(self.replica.snapshot());
        }
        if let Some(problem) = self.wrong_database() {
            return Err(Error::unavailable(problem));
        }
        let head = async {
            loop {
                match self.head_client.fetch().await {
                    Some(head) => return head,
                    None => tokio::time::sleep(HEAD_RETRY_AFTER).await,
                }
            }
        };
        let head =
            tokio::time::timeout(self.limits.leader_timeout, head).await.map_err(|_| self.no_leader())?;
        tokio::time::timeout(self.limits.catch_up_timeout, self.reach(&head)).await.map_err(|_| {
            let reached = self.replica.snapshot();
            let (history, index) = (reached.history(), reached.index());
            Error::unavailable(if history == head.history {
                format!(
                    "this server is behind: it has reached index {index}, the cluster is at {}",
                    head.index
                )
            } else {
                format!("this server is behind: it has the history {history}, the cluster {}", head.history)
            })
        })
    }

    /// Waits until the replica has reached a head. Indexes of different histories are not comparable.
    async fn reach(&self, head: &Head) -> Snapshot {
        loop {
            let snapshot = self.replica.wait_for(head.index).await;
            if snapshot.history() == head.history {
                return snapshot;
            }
            drop(snapshot);
            tokio::time::sleep(HISTORY_RECHECK).await;
        }
    }

    /// Answers a read with the requested consistency, after blocking if requested. `shape` must depend on nothing but the
    /// state and the query, because its result is cached for equal requests.
    ///
    /// # Errors
    /// If no snapshot is fresh enough, or `shape` fails. An error that keeps the headers, such as a 404, is a response here.
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
            Err(error) if error.keeps_headers => Ok(Response::error(error).with(meta)),
            Err(error) => Err(error),
        }
    }

    /// Like [`Self::read`], for what takes long to render. `shape` returns JSON.
    ///
    /// # Errors
    /// Those of [`Self::read`], or if this server has no thread for it.
    pub(crate) async fn read_in_background(
        &self,
        query: &Query,
        watched: Watched<'_>,
        work: Work,
        shape: impl FnOnce(&State) -> Result<Vec<u8>, Error> + Send + 'static,
    ) -> Result<Response, Error> {
        let (snapshot, meta) = self.snapshot_for(query, &watched).await?;
        let key = CacheKey::new(&snapshot, query.cache_key());
        if let Some(content) = self.response_cache.get(&key) {
            return Ok(content.into_response(meta));
        }
        match self.background.run(work, move || shape(&snapshot)).await? {
            Ok(json) => Ok(self.response_cache.insert(key, Body::Json(json).into()).into_response(meta)),
            Err(error) if error.keeps_headers => Ok(Response::error(error).with(meta)),
            Err(error) => Err(error),
        }
    }

    /// Like [`Self::read`], for a list. `render` is as for [`list::body`].
    ///
    /// # Errors
    /// If no snapshot is fresh enough, the list exceeds the limits of its filter, or this server has no threads for it.
    pub(crate) async fn list(
        &self,
        query: &Query,
        watched: Watched<'_>,
        page: Page<'_>,
        effort: Effort,
        render: impl Render,
    ) -> Result<Response, Error> {
        let (snapshot, meta) = self.snapshot_for(query, &watched).await?;
        let key = CacheKey::new(&snapshot, query.cache_key());
        let content = match self.response_cache.get(&key) {
            Some(content) => content,
            None => {
                let services = (&self.background, &self.permits);
                let content = list::body(services, snapshot, page, effort, render).await?;
                self.response_cache.insert(key, content)
            }
        };
        Ok(content.into_response(meta))
    }

    /// Like [`Self::list`], for all objects that `find` finds in a state, in their order. `shape` makes an item of one.
    ///
    /// # Errors
    /// If no snapshot is fresh enough, or this server has no threads for the list.
    pub(crate) async fn list_found<K: Send + 'static, T: Serialize>(
        &self,
        query: &Query,
        watched: Watched<'_>,
        find: impl FnOnce(&State) -> Vec<K>,
        shape: impl Fn(&State, &K) -> T + Send + 'static,
    ) -> Result<Response, Error> {
        let (snapshot, meta) = self.snapshot_for(query, &watched).await?;
        let key = CacheKey::new(&snapshot, query.cache_key());
        let content = match self.response_cache.get(&key) {
            Some(content) => content,
            None => {
                let found = find(&snapshot);
                let content = self.render_found(snapshot, found, Effort::Cheap, shape).await?;
                self.response_cache.insert(key, content)
            }
        };
        Ok(content.into_response(meta))
    }

    /// Renders a list of objects that were found in a state.
    ///
    /// # Errors
    /// If this server has no threads for the list.
    pub(crate) async fn render_found<K: Send + 'static, T: Serialize>(
        &self,
        snapshot: Snapshot,
        found: Vec<K>,
        effort: Effort,
        shape: impl Fn(&State, &K) -> T + Send + 'static,
    ) -> Result<Content, Error> {
        let render = move |state: &State, from: Option<&str>, limit: usize| {
            // The token of a piece is the position of its first object.
            let from = from.and_then(|token| token.parse().ok()).unwrap_or(0);
            let rest = found.iter().enumerate().skip(from);
            let token = |(position, _): &(usize, &K)| position.to_string();
            piece(rest, limit, |_| Ok(true), token, |(_, object)| shape(state, object))
        };
        let page = Page { limit: None, from: None, reverse: false };
        list::body((&self.background, &self.permits), snapshot, page, effort, render).await
    }

    /// The snapshot to answer a query from, with the response headers. It is fresh enough, and changed if the query blocks.
    async fn snapshot_for(&self, query: &Query, watched: &Watched<'_>) -> Result<(Snapshot, Meta), Error> {
        let options = query.read_options()?;
        self.check_region(query)?;
        let mut snapshot = self.fresh_snapshot(options.stale).await?;
        let is_blocking = options.after.is_set() && watched.index_in(&snapshot) <= options.after;
        if is_blocking {
            drop(snapshot);
            let _permit = self.permits.take(PermitKind::BlockingQuery)?;
            snapshot = self.wait_for_change(watched, &options).await;
        }
        let meta = self.meta(watched.index_in(&snapshot), options.stale || is_blocking);
        Ok((snapshot, meta))
    }

    /// Like [`Self::snapshot_for`], for a [`Selection`]. `evaluate` evaluates the query on a state.
    ///
    /// # Errors
    /// If no snapshot is fresh enough, or those of `evaluate`.
    pub(crate) async fn select<S: Selection>(
        &self,
        query: &Query,
        evaluate: impl AsyncFn(Snapshot) -> Result<S, Error>,
    ) -> Result<(Snapshot, S, Meta), Error> {
        let options = query.read_options()?;
        self.check_region(query)?;
        let snapshot = self.fresh_snapshot(options.stale).await?;
        let selection = evaluate(Arc::clone(&snapshot)).await?;
        if !options.after.is_set() || selection.index() > options.after {
            let meta = self.meta(selection.index().max(Index(1)), options.stale);
            return Ok((snapshot, selection, meta));
        }
        drop(snapshot);
        let _permit = self.permits.take(PermitKind::BlockingQuery)?;
        let (snapshot, newer) = self.wait_for_other_selection(&selection, &options, &evaluate).await?;
        // An object that was removed no longer counts towards the selection's index, but the reported index must never
        // fall. So the index of the whole state is reported then.
        let index = if newer.has_same_objects(&selection) { newer.index() } else { snapshot.index() };
        Ok((snapshot, newer, self.meta(index.max(Index(1)), true)))
    }

    /// Waits until the selection changes, or the waiting time has passed.
    async fn wait_for_other_selection<S: Selection>(
        &self,
        before: &S,
        options: &ReadOptions,
        evaluate: &impl AsyncFn(Snapshot) -> Result<S, Error>,
    ) -> Result<(Snapshot, S), Error> {
        let [random_byte, ..] = telemetry::clock::random_bytes();
        let mut watch = self.replica.watch(before.watch_keys());
        let changed = async {
            loop {
                let started = telemetry::clock::monotonic();
                {
                    let snapshot = self.replica.snapshot();
                    let selection = evaluate(Arc::clone(&snapshot)).await?;
                    if selection.index() > options.after || !selection.has_same_objects(before) {
                        return Ok::<_, Error>((snapshot, selection));
                    }
                }
                let pause = REEVALUATE_AFTER.max(started.elapsed() * REEVALUATE_AFTER_MULTIPLE);
                tokio::time::sleep(pause).await;
                watch.changed().await;
            }
        };
        tokio::select! {
            changed = changed => return changed,
            () = tokio::time::sleep(wait_time(options.wait, random_byte)) => {}
            () = self.stop.cancelled() => {}
        }
        let snapshot = self.replica.snapshot();
        let selection = evaluate(Arc::clone(&snapshot)).await?;
        Ok((snapshot, selection))
    }

    /// Response headers for an index. `stale` says that the local replica answered without the applier.
    pub(crate) fn meta(&self, index: Index, stale: bool) -> Meta {
        Meta { index: Some(index), contact: Some(self.contact(stale)), next_token: None }
    }

    /// Waits until the watched index exceeds the client's, or the waiting time has passed.
    async fn wait_for_change(&self, watched: &Watched<'_>, options: &ReadOptions) -> Snapshot {
        let [random_byte, ..] = telemetry::clock::random_bytes();
        let mut watch = self.replica.watch(watched.keys.iter().cloned());
        let changed = async {
            loop {
                // No snapshot is held while waiting: it would keep alive everything that is overwritten meanwhile.
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

    /// Why what this server has read is not the state that the applier writes; `None` if it is.
    pub(crate) fn wrong_database(&self) -> Option<&'static str> {
        match self.contact.database() {
            DatabaseMatch::Unknown | DatabaseMatch::Same => None,
            DatabaseMatch::Other(_) => Some(OTHER_DATABASE),
            DatabaseMatch::WentBack(_) => Some(LOST_WRITES),
        }
    }

    /// Time since the last message of the applier, and whether it is known. A read that is not stale has just requested its
    /// head. The applier of another database is not known.
    pub(crate) fn contact(&self, stale: bool) -> (Duration, bool) {
        if !stale {
            return (Duration::ZERO, true);
        }
        let ago = self.contact.heard_ago();
        let is_known = ago.is_some_and(|ago| ago < LEADER_KNOWN_FOR) && self.wrong_database().is_none();
        (ago.unwrap_or_default(), is_known)
    }
}

/// How long a blocking query waits (http-api §5.2). `random_byte` selects the jitter.
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
