//! Taking evaluations: one long poll a process, for as many evaluations as its workers have room for.

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
use wire::broker::{Delivery, Dequeue, Dequeued, HandOutAction, SCHEDULER_VERSION};
use wire::{RefusalKind, Subject};

use crate::attempt::Why;
use crate::backoff::Backoff;
use crate::metrics;
use crate::worker::{self, Shared};

/// How long the broker keeps a question waiting that it has nothing for.
const POLL: Duration = Duration::from_millis(500);
/// How much longer its answer may take.
const POLL_MARGIN: Duration = Duration::from_secs(1);
/// The most evaluations asked for at once.
const BATCH_MAX: usize = 32;
/// How long to wait after a question that was not answered. Not up to 10 s, as has it: asking costs one small
/// message, and a broker that is back should have work done at once.
const RETRY: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// For how long after its start a process says nothing of a broker that is not there.
const QUIET: Duration = Duration::from_secs(10);

/// Takes evaluations and has them worked on, until the workers are to stop; then waits for those under way.
pub(crate) async fn take(
    shared: Arc<Shared>,
    kinds: Vec<JobType>,
    evals_max: usize,
    mut paused: watch::Receiver<bool>,
) {
    let room = Arc::new(Semaphore::new(evals_max));
    let mut under_way = JoinSet::new();
    let mut broker = Broker { backoff: Backoff::new(RETRY), started: clock::monotonic() };
    loop {
        let permits = tokio::select! {
            permits = ready(&shared, &room, &mut paused) => permits,
            () = shared.stop.cancelled() => break,
        };
        let deliveries = broker.ask(&shared, &kinds, permits.len()).await;
        for (delivery, permit) in deliveries.into_iter().zip(permits) {
            if shared.stop.is_cancelled() {
                let _ = worker::tell_broker(&shared.bus, delivery, HandOutAction::GiveBack).await;
            } else {
                under_way.spawn(worker::work(Arc::clone(&shared), delivery, permit));
            }
        }
        while let Some(ended) = under_way.try_join_next() {
            ended.expect("a worker does not panic");
        }
    }
    under_way.join_all().await;
}

/// Waits until evaluations may be taken, and there is room for some.
async fn ready(
    shared: &Shared,
    room: &Arc<Semaphore>,
    paused: &mut watch::Receiver<bool>,
) -> Vec<OwnedSemaphorePermit> {
    shared.hold_back.wait(&shared.replica).await;
    resumed(&shared.replica, paused).await;
    let first = Arc::clone(room).acquire_owned().await.expect("the semaphore is never closed");
    let more = std::iter::from_fn(|| Arc::clone(room).try_acquire_owned().ok());
    std::iter::once(first).chain(more).take(BATCH_MAX).collect()
}

/// Waits until neither this process nor an operator has the workers rest.
async fn resumed(replica: &Replica, paused: &mut watch::Receiver<bool>) {
    let rests = |state: &State| state.scheduler_config().is_some_and(|config| config.pause_eval_broker);
    if !*paused.borrow_and_update() && !rests(&replica.snapshot()) {
        return;
    }
    let mut config = replica.watch([WatchKey::Table(Table::SchedulerConfig)]);
    while *paused.borrow_and_update() || rests(&replica.snapshot()) {
        tokio::select! {
            // Without its sender nobody is left to resume.
            changed = paused.changed() => if changed.is_err() { std::future::pending().await },
            () = config.changed() => {}
        }
    }
}

/// Which broker is active.
fn broker_epoch(state: &State) -> Option<Epoch> {
    state.lease(Singleton::EvalBroker).map(|lease| lease.epoch)
}

/// The broker, as far as this process gets an answer from it.
struct Broker {
    backoff: Backoff,
    started: Instant,
}

impl Broker {
    /// Asks for at most `max` evaluations. After an error it returns only when it may be worth asking again.
    async fn ask(&mut self, shared: &Shared, kinds: &[JobType], max: usize) -> Vec<Delivery> {
        let dequeue = Dequeue {
            kinds: kinds.to_vec(),
            max: u16::try_from(max).unwrap_or(u16::MAX),
            timeout_ms: u32::try_from(POLL.as_millis()).unwrap_or(u32::MAX),
            scheduler_version: SCHEDULER_VERSION,
        };
        // Watched before asking, so that a broker that takes over meanwhile is not missed.
        let mut leases = shared.replica.watch([WatchKey::Table(Table::Leases)]);
        let epoch = broker_epoch(&shared.replica.snapshot());
        let asked = clock::monotonic();
        let asking = shared.bus.request::<_, Dequeued>(Subject::Dequeue, &dequeue, POLL + POLL_MARGIN);
        let another = async {
            while broker_epoch(&shared.replica.snapshot()) == epoch {
                leases.changed().await;
            }
        };
        let answer = tokio::select! {
            answer = asking => answer,
            // Whoever was asked is not the broker any more, and what it hands out is handed out again.
            () = another => {
                self.backoff.reset();
                return Vec::new();
            }
        };
        match answer {
            Ok(dequeued) => {
                self.backoff.reset();
                if !dequeued.evals.is_empty() {
                    metrics::dequeued(asked.elapsed());
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
        if !self.backoff.has_failed() && self.started.elapsed() >= QUIET {
            tracing::warn!(error = telemetry::chain(error), "no evaluations from the broker");
        }
        let delay = self.backoff.failed();
        if matches!(error, RequestError::Refused(refusal) if refusal.kind == RefusalKind::Outdated) {
            tracing::error!(error = telemetry::chain(error), "this scheduler is too old and places nothing");
            shared.hold_back.given_back(Why::Outdated, shared.replica.snapshot().index());
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
