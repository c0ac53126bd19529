//! Waiting for new data at the end of a file or log. A request that waits does not count towards the limit of requests
//! that read, and reads again only when something has changed.

use std::time::{Duration, Instant};

use telemetry::clock;
use tokio::sync::SemaphorePermit;
use tokio::time::sleep;
use wire::files::WAIT_MS_MAX;
use wire::{Refusal, RefusalKind};

use super::Files;
use crate::disk::watch::{Watch, Watcher};

/// The maximum number of requests that wait; further ones are refused.
pub(super) const WAITING_MAX: usize = 4_096;
/// The minimum interval between two looks of a request, however often something changes.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// The interval at which a request looks although no change was noticed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The watches of a request; `None` for a path that cannot be watched.
pub(super) type Watches = [Option<Watch>; 2];

/// The wait of one request.
pub(super) struct Wait<'a> {
    files: &'a Files,
    deadline: Instant,
    /// When the request last looked for data.
    looked_at: Instant,
    /// Its place among those that wait, once it does.
    permit: Option<SemaphorePermit<'a>>,
}

impl<'a> Wait<'a> {
    /// Begins the wait of a request that wants to wait this long at most.
    pub(super) fn begin(files: &'a Files, wait_ms: u32) -> Self {
        let now = clock::monotonic();
        let deadline = now + Duration::from_millis(wait_ms.min(WAIT_MS_MAX).into());
        Self { files, deadline, looked_at: now, permit: None }
    }

    /// The watcher that notices changes. `None` if the request does not wait any more, or if the agent has no watcher.
    pub(super) fn watcher(&self) -> Option<Watcher> {
        self.files.watcher.clone().filter(|_| !self.remaining().is_zero())
    }

    /// Waits until one of the watches has noticed a change, or it is time to look anyway. Returns whether to look again.
    pub(super) async fn next(&mut self, mut watches: Watches) -> Result<bool, Refusal> {
        if self.remaining().is_zero() {
            return Ok(false);
        }
        if self.permit.is_none() {
            self.permit = Some(self.files.waiting.try_acquire().map_err(|_| too_many())?);
        }
        let [first, second] = &mut watches;
        tokio::select! {
            () = changed(first) => {}
            () = changed(second) => {}
            () = sleep(POLL_INTERVAL.min(self.remaining())) => {}
        }
        let since = clock::monotonic().saturating_duration_since(self.looked_at);
        sleep(LOOK_INTERVAL.saturating_sub(since).min(self.remaining())).await;
        self.looked_at = clock::monotonic();
        Ok(true)
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(clock::monotonic())
    }
}

async fn changed(watch: &mut Option<Watch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

fn too_many() -> Refusal {
    let message = format!("more than {WAITING_MAX} requests wait for new data of files on this node");
    Refusal { kind: RefusalKind::NotReady, message: message.into() }
}
