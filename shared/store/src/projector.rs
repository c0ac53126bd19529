//! The projection: the object tables follow the log, in bulk, the newest state of each object only.

use std::sync::Arc;
use std::time::Duration;

use fail::fail_point;
use futures::FutureExt;
use model::change::ChangeSet;
use model::{Epoch, Index};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use state::State;

use crate::error::{Error, commit, database};
use crate::projection::{self, Projected};
use crate::server::{Connections, Limits, Server};
use crate::tables::{self, Spread};
use crate::touched::Touched;
use crate::writer::AtomicEpoch;

const LIMITS: Limits = Limits {
    name: "drover projection",
    statement: Duration::from_mins(2),
    lock: Duration::from_mins(1),
    idle_in_transaction: Duration::from_secs(10),
    patience: Duration::from_mins(10),
    settings: &[
        // What a crash takes away is made again from the log, and rows and `projection` go together.
        ("synchronous_commit", "off"),
        // A plan made without knowing how long the arrays are would go through them once for each row.
        ("plan_cache_mode", "force_custom_plan"),
        // Rows are found by their keys. To join a few thousand of them the planner would read a whole table, again and again
        // while it grows.
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
    ],
};

/// Keeps the object tables behind the log, on a connection of its own. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Projector {
    connections: Connections,
    epoch: Arc<AtomicEpoch>,
}

impl Projector {
    pub(crate) fn new(server: &Arc<Server>, epoch: Arc<AtomicEpoch>) -> Self {
        Self { connections: Connections::new(server, LIMITS), epoch }
    }

    /// How far the object tables are, which from now on nobody writes with an older epoch.
    ///
    /// # Errors
    /// [`Error::Deposed`], or if it failed; then do it again.
    pub async fn projected(&self) -> Result<Index, Error> {
        let epoch = self.epoch.get()?;
        let action = "claim the object tables";
        let work = self.connections.run(action, move |connection| {
            async move {
                projection::end_others(connection, epoch, LIMITS.name).await?;
                Ok(projection::claim(connection, epoch).await?.index)
            }
            .boxed()
        });
        work.await
    }

    /// Brings the object tables to the last of `sets`, which follow on where they are; older ones are passed over.
    /// `after` is the state at the last of them, and only the newest state of what they touch is written, if it is much evenly
    /// over that time.
    ///
    /// # Errors
    /// On [`Error::Deposed`] it is the next applier's business. On [`Error::Gap`] change sets are missing, which the log
    /// has. On any other error do it again.
    ///
    /// # Panics
    /// If `after` is at another index than the last of `sets`.
    pub async fn project(&self, sets: &[Arc<ChangeSet>], after: &State, over: Duration) -> Result<(), Error> {
        let Some(last) = sets.last() else { return Ok(()) };
        assert_eq!(after.index(), last.index, "objects are written as they are at the last change set");
        let epoch = self.epoch.get()?;
        let (sets, after) = (sets.to_vec(), after.clone());
        let work = self.connections.run("write the object tables", move |connection| {
            async move { project(connection, epoch, &sets, &after, over).await }.boxed()
        });
        work.await
    }
}

async fn project(
    connection: &mut PgConnection,
    epoch: Epoch,
    sets: &[Arc<ChangeSet>],
    after: &State,
    over: Duration,
) -> Result<(), Error> {
    let mut transaction = connection.begin().await.map_err(database("begin a projection"))?;
    let before = projection::claim(&mut transaction, epoch).await?;
    fail_point!("projection.claimed");
    let newer: Vec<&ChangeSet> =
        sets.iter().map(|set| &**set).filter(|set| set.index > before.index).collect();
    for (set, expected) in newer.iter().zip(before.index.0 + 1..) {
        if set.index.0 != expected {
            return Err(Error::Gap { after: Index(expected - 1) });
        }
    }
    if !newer.is_empty() {
        let touched = Touched::by(newer.iter().copied());
        let mut spread = Spread::over(over, &touched);
        tables::project(&mut transaction, &touched, before.index, after, &mut spread).await?;
        fail_point!("projection.written");
        projection::advance(&mut transaction, Projected { index: after.index(), at: after.at() }).await?;
    }
    transaction.commit().await.map_err(commit("write the object tables"))?;
    fail_point!("projection.done");
    Ok(())
}
