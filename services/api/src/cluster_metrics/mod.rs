//! Metrics of the whole cluster (http-api §30): the metrics of all processes, merged, and metrics computed from the state.
//!
//! Every process publishes its metrics. Each API process keeps the last snapshot of every process, so any of them can
//! report the whole cluster. Metrics that follow from the state alone are computed from the replica, at most every few
//! seconds.

mod agent_poller;
mod cluster;
mod computed;
mod shape;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bus::{Bus, Request, Requests};
use model::Epoch;
use state::Replica;
use telemetry::clock;
use telemetry::metrics::catalogue::{API_METRICS_COMPUTE, API_PROCESSES_SEEN, API_SNAPSHOTS_REFUSED};
use telemetry::metrics::{Series, prometheus};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinSet;
use wire::metrics::ProcessMetrics;
use wire::{Role, Subject};

use self::agent_poller::AgentPoller;
use self::cluster::{ClusterMetrics, Line, TooManyProcesses};
pub(crate) use self::cluster::{Member, MemberService, ServiceState};
use crate::http::{Background, Error, Work};

/// Time for which metrics computed from the state are reused.
const COMPUTED_TTL: Duration = Duration::from_secs(5);
/// Interval of the check for silent processes.
const SILENCE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Which metrics of agents are published.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PublishedMetrics {
    /// Host metrics of nodes.
    pub(crate) nodes: bool,
    /// Resource usage of tasks.
    pub(crate) allocs: bool,
}

/// Metrics that an API process reports.
#[derive(Debug)]
pub(crate) struct Metrics {
    cluster: Mutex<ClusterMetrics>,
    computed: AsyncMutex<Option<Computed>>,
    agent_poller: AgentPoller,
    published: PublishedMetrics,
}

/// Metrics computed from the state, and when.
#[derive(Debug, Clone)]
struct Computed {
    at: Instant,
    series: Arc<Vec<Series>>,
}

impl Metrics {
    /// Without any metrics yet. `published` selects the metrics that are requested from agents.
    pub(crate) fn new(published: PublishedMetrics) -> Self {
        let cluster = Mutex::new(ClusterMetrics::new(clock::monotonic()));
        Self { cluster, computed: AsyncMutex::new(None), agent_poller: AgentPoller::default(), published }
    }

    /// Receives the metrics that processes publish, for as long as the future is polled.
    pub(crate) async fn collect(self: Arc<Self>, bus: Bus, replica: Arc<Replica>) {
        // Dropping the set aborts its tasks.
        let mut tasks = JoinSet::new();
        for role in Role::SERVICES.into_iter().chain([Role::Servers]) {
            match bus.serve(Subject::every_metrics_of(role)).await {
                Ok(published) => drop(tasks.spawn(Arc::clone(&self).receive_all(published))),
                Err(error) => {
                    let error = telemetry::chain(&error);
                    tracing::error!(error, %role, "cannot subscribe to the metrics of other processes");
                }
            }
        }
        let (own, receiving) = (bus.own_metrics(), Arc::clone(&self));
        tasks.spawn(receiving.receive_own(own));
        let polling = Arc::clone(&self);
        tasks.spawn(async move { polling.agent_poller.poll(&bus, &replica, polling.published).await });
        let mut ticks = tokio::time::interval(SILENCE_CHECK_INTERVAL);
        loop {
            ticks.tick().await;
            let mut cluster = self.cluster();
            cluster.advance_to(clock::monotonic());
            API_PROCESSES_SEEN.set(cluster.processes() as f64);
        }
    }

    /// Receives published metrics until the subscription ends.
    async fn receive_all(self: Arc<Self>, mut published: Requests) {
        while let Some(request) = published.next().await {
            self.receive(request).await;
        }
    }

    /// Receives the metrics of this process until it ends. They arrive by NATS as well, unless NATS refuses them because
    /// the process has another role's credentials, which its metrics show.
    async fn receive_own(self: Arc<Self>, mut own: watch::Receiver<Option<Arc<ProcessMetrics>>>) {
        while own.changed().await.is_ok() {
            let message = own.borrow_and_update().clone();
            if let Some(message) = message.filter(|message| !message.is_last) {
                // This process counts among those that are reported, unless there are too many of them.
                let _ = self.record(&message);
            }
        }
    }

    async fn receive(&self, request: Request) {
        let subject = request.subject().to_owned();
        let Some((_, message)) = request.read::<ProcessMetrics>().await else { return };
        let publisher = Subject::publisher_of(&subject);
        if publisher.is_none_or(|(role, id)| role.as_str() != &*message.service || id != message.process) {
            return reject("another process's subject", &subject);
        }
        if let Err(reason) = self.record(&message) {
            reject(reason, &subject);
        }
    }

    /// Records the metrics of a process. A message that was already recorded changes nothing.
    ///
    /// # Errors
    /// If they cannot be used.
    fn record(&self, message: &ProcessMetrics) -> Result<(), &'static str> {
        let series = bus::metrics::series(message).map_err(|_| "garbled")?;
        self.cluster().record(message, series, clock::monotonic()).map_err(|TooManyProcesses| "too many")
    }

    /// All series of the cluster, by name and labels.
    ///
    /// # Errors
    /// If this server has no thread to compute them.
    pub(crate) async fn lines(
        &self,
        background: &Background,
        replica: &Replica,
        has_leader: bool,
    ) -> Result<Vec<Line>, Error> {
        let computed = self.computed(background, replica).await?;
        let agent_series = self.agent_poller.series();
        Ok(self.cluster().lines(computed.iter().chain(agent_series.iter()), has_leader))
    }

    /// The processes of the cluster, each as it described itself last. `newest_epoch` is the newest epoch of a service's
    /// lease that this server knows of: an older lease is not one any more.
    pub(crate) fn members(&self, newest_epoch: impl Fn(&str) -> Option<Epoch>) -> Vec<Member> {
        let now = clock::monotonic();
        let mut cluster = self.cluster();
        cluster.advance_to(now);
        cluster.members(now, newest_epoch)
    }

    async fn computed(&self, background: &Background, replica: &Replica) -> Result<Arc<Vec<Series>>, Error> {
        // A caller that arrives during the computation waits for the lock and gets the same result.
        let mut computed = self.computed.lock().await;
        if let Some(computed) = &*computed
            && computed.at.elapsed() < COMPUTED_TTL
        {
            return Ok(Arc::clone(&computed.series));
        }
        let (snapshot, published) = (replica.snapshot(), self.published);
        let started = clock::monotonic();
        // The computation goes on if its caller leaves, so the next caller waits for it.
        let series = background.run(Work::Metrics, move || computed::series(&snapshot, published)).await?;
        let series = Arc::new(series);
        API_METRICS_COMPUTE.record(started.elapsed().as_secs_f64());
        *computed = Some(Computed { at: clock::monotonic(), series: Arc::clone(&series) });
        Ok(series)
    }

    fn cluster(&self) -> std::sync::MutexGuard<'_, ClusterMetrics> {
        self.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats metrics as Prometheus text.
pub(crate) fn text(lines: Vec<Line>) -> String {
    prometheus::text(&lines.into_iter().map(|line| line.shown).collect::<Vec<_>>())
}

pub(crate) use self::shape::json;

fn reject(reason: &'static str, subject: &str) {
    API_SNAPSHOTS_REFUSED.add_with(1, &[reason]);
    tracing::debug!(subject, reason, "metrics of a process rejected");
}
