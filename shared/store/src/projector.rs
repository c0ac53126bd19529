//! The projection: brings the object tables up to date with the log, in bulk, writing only the newest state of each object.

use std::sync::Arc;
use std::time::Duration;

use fail::fail_point;
use futures::FutureExt;
use model::change::ChangeSet;
use model::{Epoch, Index};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use state::State;

use crate::atomic_epoch::AtomicEpoch;
use crate::error::{Error, commit, database};
use crate::projection::{self, Projected};
use crate::server::{Connections, Limits, Server};
use crate::tables::{self, Pacer};
use crate::touched::Touched;

const LIMITS: Limits = Limits {
    name: "drover projection",
    statement: Duration::from_mins(2),
    lock: Duration::from_mins(1),
    idle_in_transaction: Duration::from_secs(10),
    timeout: Duration::from_mins(10),
    durable: false,
    settings: &[
        // What a crash loses is written again from the log: rows and `projection` are committed together.
        ("synchronous_commit", "off"),
        // A generic plan, made without knowing the length of the arrays, would scan them once for each row.
        ("plan_cache_mode", "force_custom_plan"),
        // Rows are found by their keys. To join a few thousand rows, the planner would read a whole table, and do so again
        // and again while the table grows.
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
    ],
};

/// Keeps the object tables up to date with the log, on a connection of its own. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Projector {
    connections: Connections,
    epoch: Arc<AtomicEpoch>,
}

impl Projector {
    pub(crate) fn new(server: &Arc<Server>, epoch: Arc<AtomicEpoch>) -> Self {
        Self { connections: Connections::new(server, LIMITS), epoch }
    }

    /// The last index in the object tables. From this call on, no older epoch can write them.
    ///
    /// # Errors
    /// [`Error::Deposed`] if another applier took over. After any other error, call it again.
    pub async fn projected(&self) -> Result<Index, Error> {
        let epoch = self.epoch.get()?;
        let action = "claim the object tables";
        let work = self.connections.run(action, move |connection| {
            async move {
                projection::terminate_others(connection, epoch, LIMITS.name).await?;
                Ok(projection::claim(connection, epoch).await?.index)
            }
            .boxed()
        });
        work.await
    }

    /// Brings the object tables to the last of `sets`. The sets must follow the index of the tables; sets that the tables
    /// already contain are skipped. `after` is the state at the last set. Only the newest state of the objects that the
    /// sets touch is written. If there are many rows, writing them is spread evenly over `duration`.
    ///
    /// # Errors
    /// [`Error::Deposed`] if another applier took over. [`Error::Gap`] if change sets are missing, which must be read from
    /// the log. After any other error, call it again.
    ///
    /// # Panics
    /// If `after` is not at the index of the last set.
    pub async fn project(
        &self,
        sets: &[Arc<ChangeSet>],
        after: &State,
        duration: Duration,
    ) -> Result<(), Error> {
        let Some(last) = sets.last() else { return Ok(()) };
        assert_eq!(after.index(), last.index, "the state is at the index of the last change set");
        let epoch = self.epoch.get()?;
        let (sets, after) = (sets.to_vec(), after.clone());
        let work = self.connections.run("write the object tables", move |connection| {
            async move { project(connection, epoch, &sets, &after, duration).await }.boxed()
        });
        work.await
    }
}

async fn project(
    connection: &mut PgConnection,
    epoch: Epoch,
    sets: &[Arc<ChangeSet>],
    after: &State,
    duration: Duration,
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
        let mut pacer = Pacer::new(duration, &touched);
        tables::project(&mut transaction, &touched, before.index, after, &mut pacer).await?;
        fail_point!("projection.written");
        projection::advance(&mut transaction, Projected { index: after.index(), at: after.at() }).await?;
    }
    transaction.commit().await.map_err(commit("write the object tables"))?;
    fail_point!("projection.done");
    Ok(())
}
