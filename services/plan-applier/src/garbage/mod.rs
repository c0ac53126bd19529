//! Collecting garbage for as long as this applier is active: [`find`] looks through the replica now and then, and what it
//! finds goes through the same queue as every other command, one slice after the other, so that nobody waits for more
//! than one. There are no evaluations for it, unlike.

mod args;
pub(crate) mod find;
pub(crate) mod rules;

use std::time::Duration;

use bus::Requests;
use telemetry::clock;
use tokio_util::sync::{CancellationToken, DropGuard};
use wire::Subject;
use wire::command::{Command, ForceGarbage, GarbageBegun};

pub use self::args::Args;
use self::find::{Ages, find};
use crate::Surroundings;

/// How long one slice is tried.
const SLICE_WITHIN: Duration = Duration::from_secs(30);
/// How many times as long as a slice took everybody else has before the next one: whatever forgetting costs, in commits,
/// tables and replicas, most of the machine goes on with its work.
const PAUSE_TIMES: u32 = 3;
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Garbage is collected until this is dropped.
#[derive(Debug)]
pub(crate) struct Collection {
    _end: DropGuard,
}

impl Collection {
    /// Begins, and listens for those who want it at once.
    ///
    /// # Errors
    /// If NATS refuses to serve.
    pub(crate) async fn start(around: &Surroundings) -> Result<Self, bus::Error> {
        let end = CancellationToken::new();
        let forces = around.bus.serve(Subject::ForceGarbage.to_string()).await?;
        tokio::spawn(end.clone().run_until_cancelled_owned(collect_again_and_again(around.clone(), forces)));
        Ok(Self { _end: end.drop_guard() })
    }
}

async fn collect_again_and_again(around: Surroundings, mut forces: Requests) {
    loop {
        let ages = tokio::select! {
            () = tokio::time::sleep(around.garbage.interval()) => around.garbage.ages(),
            force = forces.next() => {
                let Some(force) = force else { return };
                // One that cannot be read has been refused.
                let Some((force, ForceGarbage {})) = force.read().await else { continue };
                force.answer(&GarbageBegun {}).await;
                Ages::FORCED
            }
        };
        collect(&around, ages).await;
    }
}

/// Collects what there is now. What a failure leaves is found again the next time.
async fn collect(around: &Surroundings, ages: Ages) {
    let state = around.replica.snapshot();
    let now = clock::now().max(state.at());
    // A look at a million allocations takes a while.
    let found = tokio::task::spawn_blocking(move || find(&state, ages, now));
    let found = found.await.expect("looking for garbage does not panic");
    let slices = found.len();
    for garbage in found {
        let command = Command::CollectGarbage(garbage);
        let began = clock::monotonic();
        if let Err(error) = around.bus.command(&command, SLICE_WITHIN).await {
            tracing::warn!(error = telemetry::chain(&error), "cannot collect all garbage");
            return;
        }
        let took = clock::monotonic().saturating_duration_since(began);
        tokio::time::sleep((took * PAUSE_TIMES).min(PAUSE_MAX)).await;
    }
    if slices > 0 {
        tracing::info!(slices, "garbage was collected");
    }
}
