//! A database that may lack what was acknowledged: nothing is written to it before an operator accepts it (design §5).
//! Whoever asks meanwhile is told why.

use std::time::Duration;

use bus::{Request, Requests};
use store::Error;
use wire::{Refusal, RefusalKind, Subject};

use crate::Surroundings;

/// How often it is looked whether the database was accepted.
const LOOK: Duration = Duration::from_secs(1);

/// Refuses everything until the database is accepted, or this process is to stop.
///
/// # Errors
/// If NATS refuses to serve.
pub(crate) async fn until_accepted(around: &Surroundings, error: &Error) -> anyhow::Result<()> {
    let reason = telemetry::chain(error);
    tracing::error!(error = reason, "nothing is written before an operator accepts the database");
    let mut is_known = !matches!(error, Error::WentBack { .. });
    let mut commands: Requests = around.bus.serve(Subject::EVERY_COMMAND).await?;
    let mut renewals: Requests = around.bus.serve(Subject::EVERY_RENEWAL).await?;
    let mut heads: Requests = around.bus.serve(Subject::AskHead.to_string()).await?;
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            () = around.stop.cancelled() => return Ok(()),
            Some(request) = commands.next() => refuse(request, &reason).await,
            Some(request) = renewals.next() => refuse(request, &reason).await,
            Some(request) = heads.next() => refuse(request, &reason).await,
            _ = look.tick() => {
                if !is_known {
                    // Appliers that are started later have not seen what this one has.
                    is_known = around.writer.mark_refused(&reason).await.is_ok();
                }
                if is_known && around.writer.check().await.is_ok() {
                    tracing::info!("the database was accepted");
                    return Ok(());
                }
            }
        }
    }
}

/// Waiting does not help whoever asks: it takes an operator.
async fn refuse(request: Request, reason: &str) {
    request.refuse(Refusal { kind: RefusalKind::NotReady, message: reason.into() }).await;
}
