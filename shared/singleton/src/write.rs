//! The task that sends the commands of a core, one at a time, and logs an outage once.

use std::time::Duration;

use actix::Addr;
use bus::Bus;
use telemetry::clock;
use telemetry::repeats::{Outage, Repeats};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::core::{Core, Write};
use crate::shell::{Shell, Written};

/// How long one command is retried. After that the core decides anew.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Sends the commands until the actor has stopped.
pub(crate) async fn write<C: Core>(mut writes: mpsc::Receiver<Write>, bus: Bus, shell: Addr<Shell<C>>) {
    let outage = Outage::default();
    while let Some(Write { command, span }) = writes.recv().await {
        let written = match bus.command(&command, WRITE_TIMEOUT).instrument(span).await {
            Ok(done) => {
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "{}", C::COMMITS_AGAIN);
                }
                Some(done)
            }
            Err(error) => {
                let error = telemetry::chain(&error);
                if let Some(Repeats { attempts, lasting_secs, .. }) =
                    outage.failed(&error, clock::monotonic())
                {
                    tracing::warn!(error, attempts, lasting_secs, "{}", C::CANNOT_COMMIT);
                }
                None
            }
        };
        if shell.send(Written(written)).await.is_err() {
            return;
        }
    }
}
