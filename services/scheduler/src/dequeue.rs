//! Dequeues evaluations: one long poll per process, for as many evaluations as its workers can accept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::RequestError;
use model::Epoch;
use model::cluster::Singleton;
use model::job::JobType;
use state::{Replica, State, Table, WatchKey};
use telemetry::clock;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use wire::broker::{Delivery, Dequeue, Dequeued, EvalLeaseAction, SCHEDULER_VERSION};
use wire::{RefusalKind, Subject};

use crate::attempt::ReturnReason;
use crate::backoff::Backoff;
use crate::metrics;
use crate::worker::{self, Shared};

/// How long the broker may hold a dequeue request for which it has no evaluation.
const POLL_TIMEOUT: Duration = Duration::from_millis(500);
/// Additional time for the answer to arrive.
const POLL_MARGIN: Duration = Duration::from_secs(1);
/// Maximum number of evaluations in one request.
const BATCH_MAX: usize = 32;
/// Shortest and longest delay after a request that was not answered. allows up to 10 s; this is less, because a
/// request costs one small message, and work should resume quickly when the broker is back.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// A missing broker is not logged for this long after the start of the process.
const WARN_AFTER: Duration = Duration::from_secs(10);

/// Dequeues evaluations and starts work on them until the workers are stopped; then waits for the work in progress.
pub(crate) async fn run(
    shared: Arc<Shared>,
    kinds: Vec<JobType>,
    evals_max: usize,
    mut paused: watch::Receiver<bool>,
) {
    let slots = Arc::new(Semaphore::new(evals_max));
    let mut running = JoinSet::new();
    let mut broker = BrokerClient { backoff: Backoff::new(RETRY), started: clock::monotonic() };
    loop {
        let permits = tokio::select! {
            permits = acquire_permits(&shared, &slots, &mut paused) => permits,
            () = shared.stop.cancelled() => break,
        };
        let deliveries = broker.dequeue(&shared, &kinds, permits.len()).await;
        for (delivery, permit) in deliveries.into_iter().zip(permits) {
            if shared.stop.is_cancelled() {
                let _ = worker::send_lease_action(&shared.bus, delivery, EvalLeaseAction::GiveBack).await;
            } else {
                running.spawn(worker::work(Arc::clone(&shared), delivery, permit));
            }
        }
        while let Some(ended) = running.try_join_next() {
            ended.expect("workers do not panic");
        }
    }
    running.join_all().await;
}

/// Waits until evaluations may be dequeued and at least one can be accepted. Returns a permit for each.
async fn acquire_permits(
    shared: &Shared,
    slots: &Arc<Semaphore>,
    paused: &mut watch::Receiver<bool>,
) -> Vec<OwnedSemaphorePermit> {
    shared.dequeue_pause.wait(&shared.replica).await;
    until_resumed(&shared.replica, paused).await;
    // Plans that are made from another database than the applier's are worth nothing.
    shared.bus.contact().database_agrees().await;
    let first = Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed");
    let more = std::iter::from_fn(|| Arc::clone(slots).try_acquire_owned().ok());
    std::iter::once(first).chain(more).take(BATCH_MAX).collect()
}

/// Waits until dequeuing is paused neither by this process nor by an operator.
async fn until_resumed(replica: &Replica, paused: &mut watch::Receiver<bool>) {
    let is_paused = |state: &State| state.scheduler_config().is_some_and(|config| config.pause_eval_broker);
    if !*paused.borrow_and_update() && !is_paused(&replica.snapshot()) {
        return;
    }
    let mut config = replica.watch([WatchKey::Table(Table::SchedulerConfig)]);
    while *paused.borrow_and_update() || is_paused(&replica.snapshot()) {
        tokio::select! {
            // If the sender is dropped, workers are never resumed.
            changed = paused.changed() => if changed.is_err() { std::future::pending().await },
            () = config.changed() => {}
        }
    }
}

/// Epoch of the active broker.
fn broker_epoch(state: &State) -> Option<Epoch> {
    state.lease(Singleton::EvalBroker).map(|lease| lease.epoch)
}

/// State of the requests to the broker.
struct BrokerClient {
    backoff: Backoff,
    started: Instant,
}

impl BrokerClient {
    /// Requests at most `max` evaluations. After an error it returns only when another request may succeed.
    async fn dequeue(&mut self, shared: &Shared, kinds: &[JobType], max: usize) -> Vec<Delivery> {
        let dequeue = Dequeue {
            kinds: kinds.to_vec(),
            max: u16::try_from(max).unwrap_or(u16::MAX),
            timeout_ms: u32::try_from(POLL_TIMEOUT.as_millis()).unwrap_or(u32::MAX),
            scheduler_version: SCHEDULER_VERSION,
        };
        // The watch starts before the request, so that a takeover in between is not missed.
        let mut leases = shared.replica.watch([WatchKey::Table(Table::Leases)]);
        let epoch = broker_epoch(&shared.replica.snapshot());
        let since = clock::monotonic();
        let request =
            shared.bus.request::<_, Dequeued>(Subject::Dequeue, &dequeue, POLL_TIMEOUT + POLL_MARGIN);
        let broker_changed = async {
            while broker_epoch(&shared.replica.snapshot()) == epoch {
                leases.changed().await;
            }
        };
        let answer = tokio::select! {
            answer = request => answer,
            // The broker that received the request is no longer active. Evaluations that it leases are leased again by
            // the new one.
            () = broker_changed => {
                self.backoff.reset();
                return Vec::new();
            }
        };
        match answer {
            Ok(dequeued) => {
                self.backoff.reset();
                if !dequeued.evals.is_empty() {
                    metrics::dequeued(since.elapsed());
                }
                dequeued.evals
            }
            Err(error) => {
                self.failed(shared, &error, &mut leases).await;
                Vec::new()
            }
        }
    }

    async fn failed(&mut self, shared: &Shared, error: &RequestError, leases: &mut state::Watch) {
        if !self.backoff.has_failed() && self.started.elapsed() >= WARN_AFTER {
            tracing::warn!(error = telemetry::chain(error), "cannot dequeue evaluations from the broker");
        }
        let delay = self.backoff.failed();
        if matches!(error, RequestError::Refused(refusal) if refusal.kind == RefusalKind::Outdated) {
            tracing::error!(
                error = telemetry::chain(error),
                "this scheduler is outdated and gets no evaluations"
            );
            shared.dequeue_pause.returned(ReturnReason::Outdated, shared.replica.snapshot().index());
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = shared.stop.cancelled() => {}
            // Another broker may have become active.
            () = leases.changed() => self.backoff.reset(),
        }
    }
}
