//! Keeps the object tables behind the log (design §4, *Projection*), for as long as this applier is active.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use model::Index;
use model::change::ChangeSet;
use state::{Snapshot, State};
use store::{Database, Error, Projector, Tail};
use telemetry::clock;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{Surroundings, measure};

/// How long it waits before it tries again.
const RETRY: Duration = Duration::from_millis(500);
/// How long change sets are gathered: what changes again meanwhile is written once, and what a job that was registered
/// on a quiet cluster waits for is committed before its tables are written.
const GATHER_MIN: Duration = Duration::from_millis(100);
/// Under load so many times as long as the last took to write lie between the beginnings of two…
const GATHER_TIMES: u32 = 8;
/// …but no longer than this.
const GATHER_MAX: Duration = Duration::from_secs(3);
/// What was gathered for a while is written over this share of that time, so that there is a rest for what takes longer.
const WRITTEN_OVER: f64 = 0.75;
/// Bytes of the log read at once by an applier that finds the tables behind.
const PAGE_BYTES: usize = 8 << 20;
/// How often it looks, without new change sets, whether the tables are still where it brought them: a database that
/// crashes loses what it had not made durable.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Change sets that are committed and not in the tables yet.
#[derive(Debug, Default)]
struct Backlog {
    sets: Vec<Arc<ChangeSet>>,
    /// The state at the last of them.
    after: Option<State>,
    /// When the first of them came.
    since: Option<Instant>,
}

/// What is to be written next.
struct Taken {
    sets: Vec<Arc<ChangeSet>>,
    /// The state at the last of them.
    after: State,
    /// Over what time it is to be written.
    over: Duration,
}

/// Where committed change sets are handed over.
#[derive(Debug, Default)]
pub(crate) struct Projection {
    backlog: Mutex<Backlog>,
    grown: Notify,
    end: CancellationToken,
}

impl Projection {
    /// Begins to project, from where the tables are; `at` is the state at the head.
    pub(crate) fn start(around: &Surroundings, at: Snapshot) -> Arc<Self> {
        let projection = Arc::new(Self { end: around.stop.child_token(), ..Self::default() });
        let (database, projector) = (around.database.clone(), around.writer.projector());
        tokio::spawn(run(Arc::clone(&projection), database, projector, at));
        projection
    }

    /// Hands over change sets with the state after them.
    pub(crate) fn committed(&self, sets: &[Arc<ChangeSet>], after: &Snapshot) {
        let mut backlog = self.backlog();
        backlog.sets.extend(sets.iter().cloned());
        backlog.after = Some(State::clone(after));
        backlog.since.get_or_insert_with(clock::monotonic);
        drop(backlog);
        self.grown.notify_one();
    }

    /// Ends it; whoever is active next carries on.
    pub(crate) fn end(&self) {
        self.end.cancel();
    }

    /// Adds change sets that came meanwhile, and moves the state on to the last of them.
    fn append_to(&self, sets: &mut Vec<Arc<ChangeSet>>, after: &mut State) {
        let backlog = std::mem::take(&mut *self.backlog());
        if let Some(newest) = backlog.after {
            sets.extend(backlog.sets);
            *after = newest;
        }
    }

    /// Waits for change sets, gathers what comes right after and until a moment, and takes all that there are.
    async fn take(&self, earliest: Instant) -> Taken {
        loop {
            let grown = self.grown.notified();
            if self.backlog().after.is_some() {
                tokio::time::sleep_until(earliest.max(clock::monotonic() + GATHER_MIN).into()).await;
                let Backlog { sets, after, since } = std::mem::take(&mut *self.backlog());
                if let Some(after) = after {
                    let gathered =
                        since.map_or(Duration::ZERO, |since| clock::monotonic().duration_since(since));
                    let over = gathered.min(GATHER_MAX).mul_f64(WRITTEN_OVER);
                    return Taken { sets, after, over };
                }
            }
            grown.await;
        }
    }

    fn backlog(&self) -> MutexGuard<'_, Backlog> {
        // Nothing is half done in there when somebody panics.
        self.backlog.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn run(projection: Arc<Projection>, database: Database, projector: Projector, at: Snapshot) {
    let end = projection.end.clone();
    let tables = Tables { projection, database, projector };
    let work = async {
        let sets = loop {
            match tables.behind(at.index()).await {
                Ok(sets) => break sets,
                Err(error) => wait_after(error).await?,
            }
        };
        let mut taken = Taken { sets, after: State::clone(&at), over: Duration::ZERO };
        loop {
            let begun = clock::monotonic();
            let at = tables.bring_to(taken).await?;
            measure::projected(at.index(), at.at());
            let took = clock::monotonic().duration_since(begun);
            taken = tables.next(at, begun + (took * GATHER_TIMES).min(GATHER_MAX)).await?;
        }
    };
    tokio::select! {
        ended = work => {
            let ended: Result<Infallible, Error> = ended;
            let Err(error) = ended;
            tracing::info!(error = telemetry::chain(&error), "projection goes over to another applier");
        }
        () = end.cancelled() => {}
    }
}

/// The object tables, and what they lag behind.
struct Tables {
    projection: Arc<Projection>,
    database: Database,
    projector: Projector,
}

impl Tables {
    /// Brings the tables to what was taken, or to a later state. Returns the state that they are at.
    async fn bring_to(&self, taken: Taken) -> Result<State, Error> {
        let Taken { mut sets, mut after, over } = taken;
        loop {
            let Err(error) = self.projector.project(&sets, &after, over).await else {
                return Ok(after);
            };
            let is_gap = matches!(error, Error::Gap { .. });
            wait_after(error).await?;
            // What came meanwhile goes along: the newest state is all that counts.
            self.projection.append_to(&mut sets, &mut after);
            if is_gap {
                // The database crashed, and with it went projections that it had not made durable. The log has it all.
                match self.behind(after.index()).await {
                    Ok(all) => sets = all,
                    Err(error) => wait_after(error).await?,
                }
            }
        }
    }

    /// Waits for something to bring to the tables, which are at `reached`, and takes it with what comes until a moment.
    async fn next(&self, reached: State, earliest: Instant) -> Result<Taken, Error> {
        loop {
            if let Ok(taken) = timeout(LOOK_EVERY, self.projection.take(earliest)).await {
                return Ok(taken);
            }
            match self.behind(reached.index()).await {
                Ok(lost) if lost.is_empty() => {}
                Ok(lost) => {
                    tracing::warn!(
                        reached = reached.index().0,
                        lost = lost.len(),
                        "the database lost what was in the tables; filling them again from the log"
                    );
                    return Ok(Taken { sets: lost, after: reached, over: Duration::ZERO });
                }
                Err(error) => wait_after(error).await?,
            }
        }
    }

    /// The change sets from where the tables are to `head`.
    async fn behind(&self, head: Index) -> Result<Vec<Arc<ChangeSet>>, Error> {
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
}

/// Waits after an error that may pass; hands back one that will not.
async fn wait_after(error: Error) -> Result<(), Error> {
    if matches!(error, Error::Deposed { .. }) {
        return Err(error);
    }
    tracing::warn!(error = telemetry::chain(&error), "cannot bring the tables up to date");
    tokio::time::sleep(RETRY).await;
    Ok(())
}
