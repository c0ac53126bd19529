//! The plan applier: the one writer. Turns commands into change sets, commits many of them at once, and only then
//! publishes and answers (design §§1, 4 to 6).
//!
//! [`judge`] decides, without I/O, what a command does, and [`applier`] what is written and said when; [`active`] is the
//! loop around them, for as long as this process is the active applier, and [`standby`] what it does before. How commits
//! reach the disk is `store`'s business, how messages travel `bus`'s.

mod active;
pub mod applier;
mod batch;
mod garbage;
mod intake;
pub mod judge;
mod keyring;
mod leases;
mod measure;
mod pace;
mod projection;
mod queue;
mod refusing;
mod remembered;
mod span;
mod standby;
mod trimming;

pub use crate::batch::{Incoming, Reply};
pub use crate::garbage::Args;
pub use crate::remembered::Remembered;

use std::sync::Arc;

use bus::Bus;
use model::ProcessId;
use state::{Replica, Scope};
use store::{Database, Writer};
use tokio_util::sync::CancellationToken;

/// What the applier reads of the state.
pub const SCOPE: Scope = Scope::ALL.without_lists();

/// What an applier has to do with the world, whether it is active or stands by.
#[derive(Clone)]
pub(crate) struct Surroundings {
    pub(crate) bus: Bus,
    pub(crate) replica: Arc<Replica>,
    pub(crate) database: Database,
    pub(crate) writer: Writer,
    pub(crate) garbage: Args,
    pub(crate) process: ProcessId,
    pub(crate) stop: CancellationToken,
}

/// Stands by until no other applier is active, then applies commands until another one takes over, and so on until
/// `stop`.
///
/// A database that nothing may be written to before an operator accepts it is waited for.
///
/// # Errors
/// If the database cannot be reached at the start.
pub async fn run(
    args: Args,
    store: store::Args,
    bus: Bus,
    replica: Arc<Replica>,
    process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let writer = Writer::connect(&store).await?;
    writer.migrate().await?;
    let database = Database::connect(&store).await?;
    let around = Surroundings { bus, replica, database, writer, garbage: args, process, stop };
    // On threads of its own, wherever the caller is: judging takes milliseconds. What is under way is never dropped.
    match tokio::spawn(take_turns(around)).await {
        Ok(ended) => ended,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Stands by and is active, in turns.
async fn take_turns(around: Surroundings) -> anyhow::Result<()> {
    loop {
        let Some(taken) = standby::take_over(&around).await? else { return Ok(()) };
        // Boxed, for it holds several states and would be a part of all futures around it.
        if let Some(error) = Box::pin(active::run(&around, taken)).await? {
            refusing::until_accepted(&around, &error).await?;
        }
        if around.stop.is_cancelled() {
            return Ok(());
        }
    }
}
