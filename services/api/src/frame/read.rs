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
use super::{Answer, Body, Error, Meta, NO_LEADER, Page, Query, Question, Reading};
use crate::Api;

/// Reads that wait for the next question to go out; further ones wait for their place.
const ASKING_MAX: usize = 4_096;
/// How long one question waits for its answer.
const HEAD_WITHIN: Duration = Duration::from_secs(2);
/// How long a read waits before it asks again.
const ASK_AGAIN: Duration = Duration::from_millis(100);
/// An applier that announced itself so lately is known.
const KNOWN_WITHIN: Duration = Duration::from_secs(5);
/// How long a blocking query waits that does not say, and the longest that one may.
const WAIT_MAX: Duration = Duration::from_secs(300);
/// The shortest time between two looks at what only looking tells the newness of: of many changes in a row, one look is
/// enough.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// What part of its wait a blocking query may be held longer, so that many do not end at once.
const JITTER_PART: u32 = 16;

/// Asks for the applier's head, on behalf of all who want it.
#[derive(Debug, Clone)]
pub(crate) struct Heads(mpsc::Sender<oneshot::Sender<Option<Head>>>);

impl Heads {
    /// The head, confirmed after this call began; `None` if there is no answer.
    async fn ask(&self) -> Option<Head> {
        let (wants, head) = oneshot::channel();
        self.0.send(wants).await.ok()?;
        head.await.ok().flatten()
    }
}

/// Makes [`Heads`], and what has to run for them to be answered.
pub(crate) fn heads(bus: Bus) -> (Heads, impl Future<Output = ()> + Send) {
    let (asking, mut asked) = mpsc::channel::<oneshot::Sender<Option<Head>>>(ASKING_MAX);
    let serve = async move {
        let mut waiting = Vec::new();
        // Whoever comes while a question is out waits for the next one: the answer to this one may be from before.
        while asked.recv_many(&mut waiting, ASKING_MAX).await > 0 {
            let answer = bus.request::<AskHead, Head>(Subject::AskHead, &AskHead {}, HEAD_WITHIN).await;
            if let Err(error) = &answer {
                tracing::debug!(error = telemetry::chain(error), "cannot ask the applier for its head");
            }
            let head = answer.ok();
            for wants in waiting.drain(..) {
                // Fails if the client has gone.
                let _ = wants.send(head);
            }
        }
    };
    (Heads(asking), serve)
}

/// What a read shows: how to notice that it changed.
pub(crate) struct Shown<'a> {
    keys: Vec<WatchKey>,
    index: Box<dyn Fn(&State) -> Index + 'a>,
}

impl<'a> Shown<'a> {
    /// Something that changes with these keys, the last time at an index.
    pub(crate) fn new(keys: impl Into<Vec<WatchKey>>, index: impl Fn(&State) -> Index + 'a) -> Self {
        Self { keys: keys.into(), index: Box::new(index) }
    }

    /// A table.
    pub(crate) fn table(table: Table) -> Shown<'static> {
        Shown::new([WatchKey::Table(table)], move |state| state.table_index(table))
    }

    /// What of a table has a name that begins so. Its index is the table's.
    pub(crate) fn prefix(table: Table, prefix: &str) -> Shown<'static> {
        let key = match prefix {
            "" => WatchKey::Table(table),
            prefix => WatchKey::Prefix(table, prefix.into()),
        };
        Shown::new([key], move |state| state.table_index(table))
    }

    /// What a table holds of a job.
    pub(crate) fn of_job(table: Table, job: &'a JobKey) -> Self {
        Self::new([WatchKey::Job(table, job.clone())], move |state| state.job_index(table, job))
    }

    /// The index to show; never 0, which clients do not take for one (http-api §4).
    fn at(&self, state: &State) -> Index {
        (self.index)(state).max(Index(1))
    }
}

/// What somebody sees of the state, where only looking tells which objects that is and how new they are.
pub(crate) trait Sight {
    /// The last index at which something of it changed.
    fn index(&self) -> Index;

    /// What changes with it.
    fn keys(&self) -> Vec<WatchKey>;

    /// Whether it holds the same objects as another, however they fare.
    fn is_of_same(&self, other: &Self) -> bool;
}

/// A body, and where its next page begins.
pub(crate) struct Part {
    /// The body.
    pub(crate) body: Body,
    /// The token, if there is a next page.
    pub(crate) next_token: Option<String>,
}

impl From<Body> for Part {
    fn from(body: Body) -> Self {
        Self { body, next_token: None }
    }
}

impl Part {
    /// The answer, with these headers.
    pub(crate) fn into_answer(self, meta: Meta) -> Answer {
        Answer::ok(self.body).with(Meta { next_token: self.next_token, ..meta })
    }
}

impl Api {
    /// A state that is fresh enough.
    ///
    /// # Errors
    /// If it has to be the newest, and there is no applier to say which that is.
    pub(crate) async fn fresh(&self, stale: bool) -> Result<Snapshot, Error> {
        if stale {
            return Ok(self.replica.snapshot());
        }
        let head = async {
            loop {
                match self.heads.ask().await {
                    Some(head) => return head,
                    None => tokio::time::sleep(ASK_AGAIN).await,
                }
            }
        };
        let head = tokio::time::timeout(self.limits.leader_within, head)
            .await
            .map_err(|_| Error::failed(NO_LEADER))?;
        tokio::time::timeout(self.limits.catch_up_within, self.replica.wait_for(head.index)).await.map_err(
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
        shown: Shown<'_>,
        shape: impl FnOnce(&Snapshot) -> Result<Part, Error>,
    ) -> Result<Answer, Error> {
        let (snapshot, meta) = self.seen(query, &shown).await?;
        let question = Question::new(&snapshot, query.asked());
        if let Some(part) = self.kept.find(&question) {
            return Ok(part.into_answer(meta));
        }
        match shape(&snapshot) {
            Ok(part) => Ok(self.kept.keep(question, part).into_answer(meta)),
            Err(error) if error.is_not_found() => Ok(Answer::error(error).with(meta)),
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
        shown: Shown<'_>,
        page: Page<'_>,
        make: impl Fn(&State, Option<&str>, usize) -> Piece<T> + 'static,
    ) -> Result<Answer, Error> {
        let (snapshot, meta) = self.seen(query, &shown).await?;
        let question = Question::new(&snapshot, query.asked());
        let part = match self.kept.find(&question) {
            Some(part) => part,
            None => self.kept.keep(question, list::body(snapshot, page, make).await),
        };
        Ok(part.into_answer(meta))
    }

    /// What is to be shown: fresh enough, and changed if that is waited for; with the headers that say so.
    async fn seen(&self, query: &Query, shown: &Shown<'_>) -> Result<(Snapshot, Meta), Error> {
        let reading = query.reading()?;
        let mut snapshot = self.fresh(reading.stale).await?;
        let waits = reading.after.is_set() && shown.at(&snapshot) <= reading.after;
        if waits {
            drop(snapshot);
            snapshot = self.changed(shown, &reading).await;
        }
        let meta = self.meta(shown.at(&snapshot), reading.stale || waits);
        Ok((snapshot, meta))
    }

    /// The same of what only looking tells the newness of; `look` looks at a state.
    ///
    /// # Errors
    /// If it cannot be fresh enough.
    pub(crate) async fn sight<S: Sight>(
        &self,
        query: &Query,
        look: impl AsyncFn(&State) -> S,
    ) -> Result<(Snapshot, S, Meta), Error> {
        let reading = query.reading()?;
        let snapshot = self.fresh(reading.stale).await?;
        let sight = look(&snapshot).await;
        if !reading.after.is_set() || sight.index() > reading.after {
            let meta = self.meta(sight.index().max(Index(1)), reading.stale);
            return Ok((snapshot, sight, meta));
        }
        drop(snapshot);
        let (snapshot, newer) = self.other_sight(&sight, &reading, &look).await;
        // What went away takes its index with it, but indexes never fall.
        let index = if newer.is_of_same(&sight) { newer.index() } else { snapshot.index() };
        Ok((snapshot, newer, self.meta(index.max(Index(1)), true)))
    }

    /// Waits until something else is seen than before, or as long as that may take.
    async fn other_sight<S: Sight>(
        &self,
        before: &S,
        reading: &Reading,
        look: &impl AsyncFn(&State) -> S,
    ) -> (Snapshot, S) {
        let [draw, ..] = telemetry::clock::random_bytes();
        let mut watch = self.replica.watch(before.keys());
        let changed = async {
            loop {
                {
                    let snapshot = self.replica.snapshot();
                    let sight = look(&snapshot).await;
                    if sight.index() > reading.after || !sight.is_of_same(before) {
                        return (snapshot, sight);
                    }
                }
                tokio::time::sleep(LOOK_AGAIN).await;
                watch.changed().await;
            }
        };
        tokio::select! {
            changed = changed => return changed,
            () = tokio::time::sleep(patience(reading.wait, draw)) => {}
            () = self.stop.cancelled() => {}
        }
        let snapshot = self.replica.snapshot();
        let sight = look(&snapshot).await;
        (snapshot, sight)
    }

    /// The headers of what is shown at an index, by this process alone if `stale`.
    pub(crate) fn meta(&self, index: Index, stale: bool) -> Meta {
        Meta { index: Some(index), contact: Some(self.contact(stale)), next_token: None }
    }

    /// Waits until what is shown has changed after the index that the client has seen, or it has waited long enough.
    async fn changed(&self, shown: &Shown<'_>, reading: &Reading) -> Snapshot {
        let [draw, ..] = telemetry::clock::random_bytes();
        let mut watch = self.replica.watch(shown.keys.iter().cloned());
        let changed = async {
            loop {
                // No snapshot is held while waiting: it would keep all that is overwritten meanwhile.
                let snapshot = self.replica.snapshot();
                if shown.at(&snapshot) > reading.after {
                    return snapshot;
                }
                drop(snapshot);
                watch.changed().await;
            }
        };
        tokio::select! {
            snapshot = changed => snapshot,
            () = tokio::time::sleep(patience(reading.wait, draw)) => self.replica.snapshot(),
            () = self.stop.cancelled() => self.replica.snapshot(),
        }
    }

    /// How long ago the applier was heard of, and whether there is one. Whoever has just been asked is there.
    pub(crate) fn contact(&self, stale: bool) -> (Duration, bool) {
        if !stale {
            return (Duration::ZERO, true);
        }
        let ago = self.contact.heard_ago();
        (ago.unwrap_or_default(), ago.is_some_and(|ago| ago < KNOWN_WITHIN))
    }
}

/// How long a blocking query waits (http-api §5.2); `draw` is chance.
fn patience(wait: Option<Duration>, draw: u8) -> Duration {
    let wait = wait.filter(|wait| !wait.is_zero()).unwrap_or(WAIT_MAX).min(WAIT_MAX);
    wait + wait / JITTER_PART * u32::from(draw) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_bounded_and_a_little_uneven() {
        assert_eq!(patience(None, 0), Duration::from_secs(300));
        assert_eq!(patience(Some(Duration::ZERO), 0), Duration::from_secs(300));
        assert_eq!(patience(Some(Duration::from_secs(3_600)), 0), Duration::from_secs(300));
        assert_eq!(patience(Some(Duration::from_secs(16)), 0), Duration::from_secs(16));
        assert_eq!(patience(Some(Duration::from_secs(16)), u8::MAX), Duration::from_secs(17));
    }
}
