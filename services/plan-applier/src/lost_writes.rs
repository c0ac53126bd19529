//! Reports of other processes that the database lacks writes which they have seen. An applier that has just started has seen
//! nothing itself, so it waits for them before it writes anything (`docs/architecture/log.md`).

use std::time::Duration;

use bus::Publisher;
use store::Error;
use wire::Subject;
use wire::feed::{Head, LostWrites};

use crate::{Context, RequestLog};

/// How long a new applier waits for reports. A replica answers an announcement at once.
const REPORTS_WITHIN: Duration = Duration::from_millis(300);

/// Announces the head, and returns an error if the database lacks a change set that another process has seen. Does not wait
/// if this process has followed the predecessor itself; reports reach the active applier as well.
///
/// # Errors
/// If a subscription to NATS fails.
pub(crate) async fn wait_for_reports(
    context: &Context,
    head: Head,
    request_log: &RequestLog,
) -> Result<Option<Error>, bus::Error> {
    let followed = context.bus.contact().head();
    let is_successor = followed.is_some_and(|known| {
        known.history == head.history && known.epoch.0.saturating_add(1) == head.epoch.0
    });
    if is_successor || !head.index.is_set() {
        return Ok(None);
    }
    let mut reports = context.bus.serve(Subject::LostWrites.to_string()).await?;
    // Without an answer, another standby would take over.
    let mut probes = context.bus.serve(Subject::Probe.to_string()).await?;
    let publisher = Publisher::new(context.bus.clone(), context.database.address());
    if let Err(error) = publisher.announce(&head).await {
        tracing::debug!(error = telemetry::chain(&error), "cannot announce the head");
    }
    let until = telemetry::clock::monotonic() + REPORTS_WITHIN;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => return Ok(None),
            () = context.stop.cancelled() => return Ok(None),
            Some(probe) = probes.next() => probe.answer(&head).await,
            Some(report) = reports.next() => {
                if let Some((_, lost)) = report.read::<LostWrites>().await
                    && request_log.lacks(&head, &lost)
                {
                    return Ok(Some(error(&lost, &head)));
                }
            }
        }
    }
}

/// The error of a database that lacks a change set which was seen.
pub(crate) fn error(lost: &LostWrites, head: &Head) -> Error {
    match head.began {
        Some(began) if lost.index > began => Error::WentBack { seen: lost.index, found: began },
        Some(_) | None => Error::Diverged { index: lost.index },
    }
}
