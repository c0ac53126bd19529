//! Looks after the log for as long as this applier is active: new parts ahead of the commits, old ones away behind the
//! projection (design §4, *Trimming*). Which, and how without holding anybody up, is `store`'s business.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use state::Replica;
use store::{Error, LogSize, Writer};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::{Surroundings, measure};

/// How often the log is looked after. What a burst can write meanwhile is far less than the log may take.
const EVERY: Duration = Duration::from_secs(2);

/// The log is looked after until this is dropped.
#[derive(Debug)]
pub(crate) struct Trimming {
    is_full: Arc<AtomicBool>,
    _end: DropGuard,
}

impl Trimming {
    /// Begins to look after the log.
    pub(crate) fn start(around: &Surroundings) -> Self {
        let (is_full, end) = (Arc::default(), CancellationToken::new());
        let (writer, replica) = (around.writer.clone(), Arc::clone(&around.replica));
        let work = look_after(writer, replica, Arc::clone(&is_full));
        tokio::spawn(end.clone().run_until_cancelled_owned(work));
        Self { is_full, _end: end.drop_guard() }
    }

    /// Whether the log takes all the space that it may.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }
}

async fn look_after(writer: Writer, replica: Arc<Replica>, is_full: Arc<AtomicBool>) {
    let mut is_held_up = false;
    loop {
        let now = telemetry::clock::now().max(replica.snapshot().at());
        match writer.maintain_log(now).await {
            Ok(log) => {
                measure::log(&log);
                tell_changes(&log, is_full.swap(log.is_full, Ordering::Relaxed), is_held_up);
                is_held_up = log.held_up > 0;
            }
            // The loop of the applier finds out by itself.
            Err(Error::Deposed { .. }) => return,
            Err(error) if error.is_busy() => {
                tracing::debug!(error = telemetry::chain(&error), "the log is looked after later");
            }
            Err(error) => {
                tracing::warn!(error = telemetry::chain(&error), "cannot look after the log");
            }
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Tells operators what they may want to do something about.
fn tell_changes(log: &LogSize, was_full: bool, was_held_up: bool) {
    let LogSize { bytes, parts, held_up, is_full, .. } = *log;
    match (was_full, is_full) {
        (false, true) => tracing::warn!(bytes, "the log is full: commands that can wait are turned away"),
        (true, false) => tracing::info!(bytes, "the log has room again"),
        (false, false) | (true, true) => {}
    }
    if held_up > 0 && !was_held_up {
        tracing::info!(bytes, parts, held_up, "somebody still reads old parts of the log: they go later");
    }
}
