//! The plan applier: the only process that writes the state. It turns commands into change sets, commits many change sets
//! in one transaction, and only then publishes them and answers the commands (`docs/architecture/commit-path.md`).
//!
//! [`judge`] decides without I/O what a command does. The core, [`Applier`](crate::core::Applier), decides when results are
//! written and answered. [`actor`] runs both while this process is the active applier; [`standby`] runs before that. The
//! crate `store` writes commits to the database; `bus` carries messages.

mod actor;
mod batch;
pub mod cluster_clock;
pub mod core;
mod garbage;
mod intake;
pub mod judge;
mod keyring;
mod leases;
mod lost_writes;
mod metrics;
mod pace;
mod projection;
mod queue;
mod refusing;
mod rejections;
mod request_log;
mod span;
mod standby;
mod timekeeper;
mod trimming;

pub use crate::batch::{Incoming, Reply};
pub use crate::garbage::Args;
pub use crate::request_log::RequestLog;

use std::sync::Arc;

use bus::Bus;
use model::ProcessId;
use state::{Replica, Scope};
use store::{Database, Writer};
use tokio_util::sync::CancellationToken;

/// The tables of the state that the applier reads.
pub const SCOPE: Scope = Scope::ALL.without_lists();

/// Connections, settings and shared state of this process, for the active applier and a standby.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) bus: Bus,
    pub(crate) replica: Arc<Replica>,
    pub(crate) database: Database,
    pub(crate) writer: Writer,
    pub(crate) garbage: Args,
    pub(crate) process: ProcessId,
    pub(crate) stop: CancellationToken,
}

/// A database with the schema that this program needs, and the applier's access to it.
#[derive(Debug)]
pub struct Prepared {
    writer: Writer,
    database: Database,
}

/// Waits for the database and migrates its schema. A replica in the same process can be loaded only after that.
///
/// # Errors
/// If the database is not ready in time, or cannot be migrated.
pub async fn prepare(store: &store::Args) -> Result<Prepared, store::Error> {
    let writer = Writer::connect(store).await?;
    writer.migrate().await?;
    let database = Database::connect(store).await?;
    Ok(Prepared { writer, database })
}

/// Waits until no other applier is active, then applies commands until another applier takes over; repeats this until
/// `stop`.
///
/// If the database may not be written to before an operator accepts it, waits for that.
///
/// # Errors
/// If a subscription to NATS fails.
pub async fn run(
    args: Args,
    prepared: Prepared,
    bus: Bus,
    replica: Arc<Replica>,
    process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let Prepared { writer, database } = prepared;
    let context = Context { bus, replica, database, writer, garbage: args, process, stop };
    // Runs on the multi-threaded runtime, whatever the caller runs on, because judging takes milliseconds. The task is
    // never dropped while work is under way.
    match tokio::spawn(run_until_stopped(context)).await {
        Ok(ended) => ended,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Alternates between standby and active until `stop`.
async fn run_until_stopped(context: Context) -> anyhow::Result<()> {
    loop {
        let Some(takeover) = standby::take_over(&context).await? else { return Ok(()) };
        // Boxed, because it holds several states, which would otherwise be part of every enclosing future.
        if let Some(error) = Box::pin(actor::run(&context, takeover)).await? {
            refusing::until_accepted(&context, &error).await?;
        }
        if context.stop.is_cancelled() {
            return Ok(());
        }
    }
}
