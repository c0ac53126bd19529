//! Keeps the object tables up to date with the log while this applier is active (`docs/architecture/log.md`).

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::Index;
use model::change::ChangeSet;
use state::{Snapshot, State};
use store::{Database, Error, Projector, Tail};
use telemetry::clock;
use telemetry::repeats::{Outage, Repeats};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{Context, metrics};

/// The pause before a retry.
const RETRY: Duration = Duration::from_millis(500);
/// How long change sets are collected into one batch. An object that changes again meanwhile is written once, and a job
/// that was registered on a quiet cluster is placed before its tables are written.
const BATCH_DELAY_MIN: Duration = Duration::from_millis(100);
/// Under load, the time from the beginning of one projection to the next is this multiple of the duration of the first…
const BATCH_DELAY_FACTOR: u32 = 8;
/// …but at most this.
const BATCH_DELAY_MAX: Duration = Duration::from_secs(3);
/// A batch is written over this fraction of the time in which it was collected, which leaves a margin for slower writes.
const WRITE_TIME_FRACTION: f64 = 0.75;
/// Bytes of the log that are read at once when the tables are behind.
const PAGE_BYTES: usize = 8 << 20;
/// How often the tables' index is checked while there are no new change sets: a database that crashes loses projections
/// that were not durable yet.
const CHECK_INTERVAL: Duration = Duration::from_secs(10);

/// Change sets that are committed and not in the tables yet.
#[derive(Debug, Default)]
struct Backlog {
    sets: Vec<Arc<ChangeSet>>,
    /// The state at the last of the change sets.
    after: Option<State>,
    /// When the first of the change sets was added.
    since: Option<Instant>,
}

/// Change sets to write to the tables together.
struct ProjectionBatch {
    sets: Vec<Arc<ChangeSet>>,
    /// The state at the last of the change sets.
    after: State,
    /// The duration over which to spread writing them.
    write_time: Duration,
}

/// Receives committed change sets for the projection.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    backlog: Mutex<Backlog>,
    grown: Notify,
    end: CancellationToken,
}

impl Projection {
    /// Starts the projection at the tables' current index; `at` is the state at the head.
    pub(crate) fn start(context: &Context, at: Snapshot) -> Arc<Self> {
        let projection = Arc::new(Self { end: context.stop.child_token(), ..Self::default() });
        let (database, projector) = (context.database.clone(), context.writer.projector());
        tokio::spawn(run(Arc::clone(&projection), database, projector, at));
        projection
    }

    /// Adds committed change sets, with the state after them.
    pub(crate) fn committed(&self, sets: &[Arc<ChangeSet>], after: &Snapshot) {
        let mut backlog = self.backlog();
        backlog.sets.extend(sets.iter().cloned());
        backlog.after = Some(State::clone(after));
        backlog.since.get_or_insert_with(clock::monotonic);
        drop(backlog);
        self.grown.notify_one();
    }

    /// Ends the projection; the next active applier continues it.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }

    /// Appends the change sets in the backlog to `sets`, and sets `after` to the state at the last of them.
    fn append_to(&self, sets: &mut Vec<Arc<ChangeSet>>, after: &mut State) {
        let backlog = std::mem::take(&mut *self.backlog());
        if let Some(newest) = backlog.after {
            sets.extend(backlog.sets);
            *after = newest;
        }
    }

    /// Waits for change sets, then until `earliest` and for at least the batching delay, and takes the whole backlog.
    async fn next_batch(&self, earliest: Instant) -> ProjectionBatch {
        loop {
            let grown = self.grown.notified();
            if self.backlog().after.is_some() {
                tokio::time::sleep_until(earliest.max(clock::monotonic() + BATCH_DELAY_MIN).into()).await;
                let Backlog { sets, after, since } = std::mem::take(&mut *self.backlog());
                if let Some(after) = after {
                    let waited =
                        since.map_or(Duration::ZERO, |since| clock::monotonic().duration_since(since));
                    let write_time = waited.min(BATCH_DELAY_MAX).mul_f64(WRITE_TIME_FRACTION);
                    return ProjectionBatch { sets, after, write_time };
                }
            }
            grown.await;
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // A panic cannot leave the backlog inconsistent.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(projection: Arc<Projection>, database: Database, projector: Projector, at: Snapshot) {
    let end = projection.end.clone();
    let tables = Tables { projection, database, projector, outage: Outage::default() };
    let work = async {
        let sets = loop {
            match tables.missing_sets(at.index()).await {
                Ok(sets) => break sets,
                Err(error) => tables.pause_after(error).await?,
            }
        };
        let mut batch = ProjectionBatch { sets, after: State::clone(&at), write_time: Duration::ZERO };
        loop {
            let begun = clock::monotonic();
            let at = tables.project(batch).await?;
            metrics::projected(at.index(), at.at());
            let took = clock::monotonic().duration_since(begun);
            batch = tables.next_batch(at, begun + (took * BATCH_DELAY_FACTOR).min(BATCH_DELAY_MAX)).await?;
        }
    };
    tokio::select! {
        ended = work => {
            let ended: Result<Infallible, Error> = ended;
            let Err(error) = ended;
            tracing::info!(error = telemetry::chain(&error), "stopping the projection: another applier has taken over");
        }
        () = end.cancelled() => {}
    }
}

/// Writes to the object tables, from the backlog and from the log.
struct Tables {
    projection: Arc<Projection>,
    database: Database,
    projector: Projector,
    /// Limits the lines about failures.
    outage: Outage,
}

impl Tables {
    /// Brings the tables to the end of the batch, or to a later state. Returns the state that they have reached.
    async fn project(&self, batch: ProjectionBatch) -> Result<State, Error> {
        let ProjectionBatch { mut sets, mut after, write_time } = batch;
        loop {
            let Err(error) = self.projector.project(&sets, &after, write_time).await else {
                self.succeeded();
                return Ok(after);
            };
            let is_gap = matches!(error, Error::Gap { .. });
            self.pause_after(error).await?;
            // The newer change sets are written as well, because only the newest state of each object counts.
            self.projection.append_to(&mut sets, &mut after);
            if is_gap {
                // The database crashed and lost projections that were not durable. The log has all change sets.
                match self.missing_sets(after.index()).await {
                    Ok(all) => sets = all,
                    Err(error) => self.pause_after(error).await?,
                }
            }
        }
    }

    /// Waits for the next batch, at least until `earliest`, and returns it. The tables are at `reached`.
    async fn next_batch(&self, reached: State, earliest: Instant) -> Result<ProjectionBatch, Error> {
        loop {
            if let Ok(batch) = timeout(CHECK_INTERVAL, self.projection.next_batch(earliest)).await {
                return Ok(batch);
            }
            match self.missing_sets(reached.index()).await {
                Ok(lost) if lost.is_empty() => self.succeeded(),
                Ok(lost) => {
                    tracing::warn!(
                        reached = reached.index().0,
                        lost = lost.len(),
                        "the database lost rows of the object tables; writing them again from the log"
                    );
                    return Ok(ProjectionBatch { sets: lost, after: reached, write_time: Duration::ZERO });
                }
                Err(error) => self.pause_after(error).await?,
            }
        }
    }

    /// The change sets after the tables' index, up to `head`.
    async fn missing_sets(&self, head: Index) -> Result<Vec<Arc<ChangeSet>>, Error> {
        let mut reached = self.projector.projected().await?;
        let mut sets = Vec::new();
        while reached < head {
            match self.database.changes_after(reached, PAGE_BYTES).await? {
                Tail::Page { rows, .. } if !rows.is_empty() => {
                    for row in rows.iter().filter(|row| row.index <= head) {
                        sets.push(Arc::new(row.change_set()?));
                    }
                    reached = rows[rows.len() - 1].index;
                }
                Tail::Page { .. } | Tail::Trimmed => return Err(Error::Gap { after: reached }),
            }
        }
        Ok(sets)
    }

    /// Logs an error and pauses. Returns the error if this applier was deposed, because no retry can succeed then.
    async fn pause_after(&self, error: Error) -> Result<(), Error> {
        if matches!(error, Error::Deposed { .. }) {
            return Err(error);
        }
        let error = telemetry::chain(&error);
        if let Some(Repeats { attempts, lasting_secs, .. }) = self.outage.failed(&error, clock::monotonic()) {
            tracing::warn!(error, attempts, lasting_secs, "cannot bring the object tables up to date");
        }
        tokio::time::sleep(RETRY).await;
        Ok(())
    }

    fn succeeded(&self) {
        if let Some(Repeats { attempts, lasting_secs, .. }) = self.outage.succeeded(clock::monotonic()) {
            tracing::info!(attempts, lasting_secs, "the object tables are brought up to date again");
        }
    }
}
