//! Serves the workers' requests to the active broker.

use std::sync::Arc;
use std::time::Duration;

use actix::Addr;
use bus::{Request, Requests, TrackedResponses, Undelivered};
use tokio::sync::Semaphore;
use wire::broker::{
    self, Delivery, Dequeued, EvalLeaseAction, EvalLeaseRequest, EvalLeaseResponse, SCHEDULER_VERSION,
};
use wire::{Refusal, RefusalKind};

use crate::actor::{Dequeue, EvalBroker, WorkerAction};
use crate::waiters::WAITERS_MAX;

/// Maximum number of evaluations that a worker gets at once.
const DEQUEUE_MAX: usize = 64;
/// Maximum number of dequeue requests that are handled at once, including those that wait.
const REQUESTS_MAX: usize = 2 * WAITERS_MAX;
/// Timeout of requests that do not set one.
const WAIT_DEFAULT: Duration = Duration::from_secs(1);
/// How long before the requester's deadline a request is answered, so that the answer arrives in time.
const ANSWER_MARGIN: Duration = Duration::from_millis(50);

/// Answers dequeue requests, each when evaluations are available or after its timeout. Must run on the actor's thread.
pub(crate) async fn dequeues(
    mut requests: Requests,
    answers: TrackedResponses<Vec<Delivery>>,
    broker: Addr<EvalBroker>,
) {
    let permits = Arc::new(Semaphore::new(REQUESTS_MAX));
    while let Some(request) = requests.next().await {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let (answers, broker) = (answers.clone(), broker.clone());
        tokio::task::spawn_local(async move {
            dequeue(request, answers, broker).await;
            drop(permit);
        });
    }
}

/// Releases evaluations whose worker was gone when the answer was sent.
pub(crate) async fn undelivered(mut undelivered: Undelivered<Vec<Delivery>>, broker: Addr<EvalBroker>) {
    while let Some(deliveries) = undelivered.next().await {
        tracing::debug!(evals = deliveries.len(), "worker gone before it received its evaluations");
        for Delivery { eval_id, token, .. } in deliveries {
            let release = EvalLeaseRequest { eval_id, token, action: EvalLeaseAction::GiveBack };
            if broker.send(WorkerAction(release)).await.is_err() {
                return;
            }
        }
    }
}

/// Answers the workers' actions on evaluations that they have leased.
pub(crate) async fn lease_actions(mut requests: Requests, broker: Addr<EvalBroker>) {
    while let Some(request) = requests.next().await {
        let Some((request, action)) = request.read::<EvalLeaseRequest>().await else { continue };
        let Ok(held) = broker.send(WorkerAction(action)).await else { return };
        request.answer(&EvalLeaseResponse { held }).await;
    }
}

async fn dequeue(request: Request, answers: TrackedResponses<Vec<Delivery>>, broker: Addr<EvalBroker>) {
    let Some((request, body)) = request.read::<broker::Dequeue>().await else { return };
    if let Err(refusal) = check_request(&body) {
        return request.refuse(refusal).await;
    }
    let wait = match body.timeout_ms {
        0 => WAIT_DEFAULT,
        millis => Duration::from_millis(millis.into()),
    };
    let dequeue = Dequeue {
        kinds: body.kinds,
        max: usize::from(body.max).clamp(1, DEQUEUE_MAX),
        wait: wait.min(request.remaining().saturating_sub(ANSWER_MARGIN)),
    };
    match broker.send(dequeue).await {
        Ok(Some(evals)) => {
            // Empty also if the broker stopped in the meantime; the worker then asks the next broker.
            let evals = evals.await.unwrap_or_default();
            answers.send(request, &Dequeued { evals: evals.clone() }, evals).await;
        }
        Ok(None) => {
            let message = format!("too many workers wait for evaluations (limit {WAITERS_MAX})");
            request.refuse(Refusal { kind: RefusalKind::NotReady, message: message.into() }).await;
        }
        Err(_) => request.answer(&Dequeued { evals: Vec::new() }).await,
    }
}

/// Checks a dequeue request. A worker newer than this broker is accepted, because the applier decides whether
/// it understands the worker's plans.
fn check_request(body: &broker::Dequeue) -> Result<(), Refusal> {
    if body.kinds.is_empty() {
        let message = "dequeue requires at least one scheduler type".into();
        return Err(Refusal { kind: RefusalKind::Invalid, message });
    }
    let version = body.scheduler_version;
    if version < SCHEDULER_VERSION {
        let message = format!(
            "dequeue disallowed: calling scheduler version is {version}; leader version is {SCHEDULER_VERSION}"
        );
        return Err(Refusal { kind: RefusalKind::Outdated, message: message.into() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::job::JobType;

    use super::*;

    #[test]
    fn only_workers_that_know_how_get_evaluations() {
        let body = |kinds: &[JobType], scheduler_version| broker::Dequeue {
            kinds: kinds.to_vec(),
            max: 1,
            timeout_ms: 1,
            scheduler_version,
        };
        assert_eq!(check_request(&body(&[JobType::Batch], SCHEDULER_VERSION)), Ok(()));
        assert_eq!(check_request(&body(&[JobType::Batch], SCHEDULER_VERSION + 1)), Ok(()));
        let refusal = check_request(&body(&[JobType::Batch], 0)).unwrap_err();
        assert_eq!(refusal.kind, RefusalKind::Outdated);
        assert_eq!(
            &*refusal.message,
            "dequeue disallowed: calling scheduler version is 0; leader version is 1"
        );
        assert_eq!(check_request(&body(&[], SCHEDULER_VERSION)).unwrap_err().kind, RefusalKind::Invalid);
    }
}
