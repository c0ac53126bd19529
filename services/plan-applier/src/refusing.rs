//! Refuses all requests while the database may lack acknowledged writes: nothing is written to it before an operator
//! accepts it (`docs/architecture/log.md`). The refusals contain the reason and what an operator can do.

use std::time::Duration;

use bus::{Request, Requests};
use store::Error;
use wire::{Refusal, RefusalKind, Subject};

use crate::Context;

/// How often the database is checked for acceptance.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// An applier counts as active if it announced itself within this time. It does so every second.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(3);

/// Refuses all requests until an operator accepts the database, or until this process is to stop.
///
/// # Errors
/// If a subscription to NATS fails.
pub(crate) async fn until_accepted(context: &Context, error: &Error) -> anyhow::Result<()> {
    let reason = telemetry::chain(error);
    tracing::error!(error = reason, "nothing is written before an operator accepts the database");
    let mut is_known_to_others = !matches!(error, Error::WentBack { .. } | Error::Diverged { .. });
    let mark = error.reason_to_refuse().unwrap_or_else(|| reason.clone());
    let mut commands: Requests = context.bus.serve(Subject::EVERY_COMMAND).await?;
    let mut renewals: Requests = context.bus.serve(Subject::EVERY_RENEWAL).await?;
    let mut heads: Requests = context.bus.serve(Subject::GetHead.to_string()).await?;
    let mut check = tokio::time::interval(CHECK_INTERVAL);
    loop {
        tokio::select! {
            () = context.stop.cancelled() => return Ok(()),
            Some(request) = commands.next() => refuse(context, request, &reason).await,
            Some(request) = renewals.next() => refuse(context, request, &reason).await,
            Some(request) = heads.next() => refuse(context, request, &reason).await,
            _ = check.tick() => {
                if !is_known_to_others {
                    // Appliers that are started later have not observed the lost index.
                    is_known_to_others = context.writer.mark_refused(&mark).await.is_ok();
                }
                if is_known_to_others && context.writer.check().await.is_ok() {
                    tracing::info!("an operator accepted the database");
                    return Ok(());
                }
            }
        }
    }
}

/// Retrying does not help the sender, because an operator has to act. If another applier is active, only this process has
/// a wrong database, and the other one answers.
async fn refuse(context: &Context, request: Request, reason: &str) {
    let contact = context.bus.contact();
    let is_another = contact.head().is_some_and(|head| head.applier != context.process);
    if is_another && contact.heard_ago().is_some_and(|ago| ago < ANNOUNCED_WITHIN) {
        return;
    }
    request.refuse(Refusal { kind: RefusalKind::NotReady, message: reason.into() }).await;
}
