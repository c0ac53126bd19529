//! Garbage collection while this applier is active. [`find`] searches the replica periodically. What it finds is sent as
//! commands through the same queue as all other commands, one slice after the other, so that no other command waits for
//! more than one slice. Unlike in, there are no evaluations for garbage collection.

mod args;
pub(crate) mod find;
pub(crate) mod rules;

use std::time::Duration;

use bus::Requests;
use model::Timestamp;
use telemetry::clock;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::Subject;
use wire::command::{Command, ForceGarbageCollection, GarbageCollectionStarted};

pub use self::args::Args;
use self::find::{Ages, find};
use crate::Context;
use crate::timekeeper::Timekeeper;

/// How long the command for one slice is retried.
const SLICE_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a slice, as a multiple of the time that the slice took. Whatever collecting costs in commits, tables and
/// replicas, most of the machine's time remains for other work.
const PAUSE_FACTOR: u32 = 3;
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Collects garbage until it is dropped.
#[derive(Debug)]
pub(crate) struct Collection {
    _end: DropGuard,
}

impl Collection {
    /// Starts the collection, and subscribes to requests to collect at once.
    ///
    /// # Errors
    /// If a subscription to NATS fails.
    pub(crate) async fn start(context: &Context, time: Timekeeper) -> Result<Self, bus::Error> {
        let end = CancellationToken::new();
        let force_requests = context.bus.serve(Subject::ForceGarbageCollection.to_string()).await?;
        tokio::spawn(end.clone().run_until_cancelled_owned(collect_periodically(
            context.clone(),
            time,
            force_requests,
        )));
        Ok(Self { _end: end.drop_guard() })
    }
}

async fn collect_periodically(context: Context, time: Timekeeper, mut force_requests: Requests) {
    loop {
        let ages = tokio::select! {
            () = tokio::time::sleep(context.garbage.interval()) => context.garbage.ages(),
            force = force_requests.next() => {
                let Some(force) = force else { return };
                // A request that cannot be decoded has been refused already.
                let Some((force, ForceGarbageCollection {})) = force.read().await else { continue };
                force.answer(&GarbageCollectionStarted {}).await;
                Ages::FORCED
            }
        };
        collect(&context, time.now(), ages).await;
    }
}

/// Collects the garbage that exists at the cluster's time `now`. What remains after a failure is found by the next collection.
async fn collect(context: &Context, now: Timestamp, ages: Ages) {
    let state = context.replica.snapshot();
    // Searching a million allocations takes a while.
    let found = tokio::task::spawn_blocking(move || find(&state, ages, now));
    let found = found.await.expect("the search for garbage does not panic");
    let slices = found.len();
    for garbage in found {
        let command = Command::CollectGarbage(garbage);
        let began = clock::monotonic();
        if let Err(error) = context.bus.command(&command, SLICE_TIMEOUT).await {
            tracing::warn!(error = telemetry::chain(&error), "cannot collect all garbage");
            return;
        }
        let took = clock::monotonic().saturating_duration_since(began);
        tokio::time::sleep((took * PAUSE_FACTOR).min(PAUSE_MAX)).await;
    }
    if slices > 0 {
        tracing::info!(slices, "collected garbage");
    }
}
