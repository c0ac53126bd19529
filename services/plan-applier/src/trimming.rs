//! Maintains the log while this applier is active: creates new partitions ahead of the commits, and drops old ones behind
//! the projection (`docs/architecture/log.md`). The crate `store` decides which, and does it without blocking other
//! transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use store::{Error, LogSize, Writer};
use telemetry::clock;
use telemetry::repeats::{Outage, Repeats};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::timekeeper::Timekeeper;
use crate::{Context, metrics};

/// How often the log is maintained. A burst writes far less in this time than the log may take.
const INTERVAL: Duration = Duration::from_secs(2);

/// Maintains the log until it is dropped.
#[derive(Debug)]
pub(crate) struct Trimming {
    is_full: Arc<AtomicBool>,
    _end: DropGuard,
}

impl Trimming {
    /// Starts the maintenance.
    pub(crate) fn start(context: &Context, time: Timekeeper) -> Self {
        let (is_full, end) = (Arc::default(), CancellationToken::new());
        let work = maintain(context.writer.clone(), time, Arc::clone(&is_full));
        tokio::spawn(end.clone().run_until_cancelled_owned(work));
        Self { is_full, _end: end.drop_guard() }
    }

    /// Whether the log has reached its size limit.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

async fn maintain(writer: Writer, time: Timekeeper, is_full: Arc<AtomicBool>) {
    let mut is_held_up = false;
    let outage = Outage::default();
    loop {
        match writer.maintain_log(time.now()).await {
            Ok(log) => {
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "the log is maintained again");
                }
                metrics::log_size(&log);
                log_transitions(&log, is_full.swap(log.is_full, Ordering::Relaxed), is_held_up);
                is_held_up = log.held_up > 0;
            }
            // The active applier's loop detects this itself.
            Err(Error::Deposed { .. }) => return,
            Err(error) if error.is_busy() => {
                tracing::debug!(error = telemetry::chain(&error), "postponed the maintenance of the log");
            }
            Err(error) => {
                let error = telemetry::chain(&error);
                if let Some(Repeats { attempts, lasting_secs, .. }) =
                    outage.failed(&error, clock::monotonic())
                {
                    tracing::warn!(error, attempts, lasting_secs, "cannot maintain the log");
                }
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Logs changes that an operator may want to act on.
fn log_transitions(log: &LogSize, was_full: bool, was_held_up: bool) {
    let LogSize { bytes, parts, held_up, is_full, .. } = *log;
    match (was_full, is_full) {
        (false, true) => tracing::warn!(bytes, "the log is full: rejecting commands that can wait"),
        (true, false) => tracing::info!(bytes, "the log is no longer full"),
        (false, false) | (true, true) => {}
    }
    if held_up > 0 && !was_held_up {
        tracing::info!(
            bytes,
            parts,
            held_up,
            "open transactions still read old log partitions: dropping them later"
        );
    }
}
