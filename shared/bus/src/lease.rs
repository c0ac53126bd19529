//! Leases of the singletons other than the applier. The holder of a lease is the active process of its service
//! (`docs/architecture/leases.md`).
//!
//! A lease only avoids conflicts. Safety comes from its epoch, which every command of a singleton carries.

use std::time::{Duration, Instant};

use model::cluster::Singleton;
use model::{Epoch, ProcessId};
use state::Replica;
use telemetry::clock;
use telemetry::metrics::catalogue::{LEASES_LOST, LEASES_TAKEN};
use telemetry::repeats::{Outage, Repeats};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::command::{Answer, Command, HolderAlive, LEASE, ProbeHolder, RenewLease, TakeLease};
use wire::{Refusal, Subject};

use crate::call::RequestError;
use crate::connection::Bus;
use crate::lease_connection::LeaseConnection;
use crate::lease_status::LeaseStatuses;
use crate::serve::Requests;

/// Interval between renewals of a lease, and between requests of a process that waits for one.
const RENEW_EVERY: Duration = Duration::from_millis(LEASE.as_millis() as u64 / 3);
/// Delay after a renewal without a response. It is short, because a new applier keeps leases for only a second for
/// holders that have yet to announce themselves.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// Interval at which a waiting process probes the holder of the lease.
const PROBE_EVERY: Duration = Duration::from_millis(250);
/// Timeout of a probe.
const PROBE_TIMEOUT: Duration = Duration::from_millis(200);
/// Number of consecutive probes without a responder after which a waiting process may take the lease before it expires.
const PROBES_FAILED_MIN: u32 = 2;
/// How long one command for a lease is repeated.
const TAKE_WITHIN: Duration = Duration::from_secs(30);

/// The right to be the active process of a singleton. It renews itself until it is dropped.
#[derive(Debug)]
pub struct Lease {
    /// The epoch that the singleton's commands carry.
    pub epoch: Epoch,
    lost: watch::Receiver<bool>,
    _tasks: JoinSet<()>,
    _active: MarkedActive,
    /// Where the tasks run.
    _connection: LeaseConnection,
}

/// A lease that was granted, and the tasks that keep it.
struct Granted {
    epoch: Epoch,
    lost: watch::Receiver<bool>,
    tasks: JoinSet<()>,
    active: MarkedActive,
}

/// While it exists, this process's metrics count as those of the active process, and its lease as held.
#[derive(Debug)]
struct MarkedActive {
    service: Singleton,
    leases: LeaseStatuses,
}

impl Drop for MarkedActive {
    fn drop(&mut self) {
        let service = self.service.as_str();
        telemetry::metrics::set_standby(service);
        self.leases.lost(service, clock::monotonic(), "given up");
    }
}

/// Waits until this process gets the lease of `service`, however long another process holds it.
///
/// The process must follow the feed, so that the lease is renewed as soon as a new applier announces itself. Its
/// replica provides the epoch of a holder that may be gone. While the applier writes another database than the process
/// reads, the process does not request the lease, and loses one that it holds.
pub async fn hold(bus: &Bus, replica: &Replica, service: Singleton, process: ProcessId) -> Lease {
    let mut is_logged = false;
    let mut holder = Holder::new(replica, service);
    let contact = bus.contact();
    let connection = connection(bus, service).await;
    loop {
        contact.database_agrees().await;
        let gone = holder.gone_epoch();
        match connection.run(|bus| async move { take(&bus, service, process, gone).await }).await {
            Ok(Granted { epoch, lost, tasks, active }) => {
                tracing::info!(service = service.as_str(), epoch = epoch.0, "acquired the lease");
                LEASES_TAKEN.add_with(1, &[service.as_str()]);
                telemetry::metrics::set_active(service.as_str(), epoch.0);
                // The active process decides by the cluster's time what is due.
                contact.first_head().await;
                return Lease { epoch, lost, _tasks: tasks, _active: active, _connection: connection };
            }
            Err(reason) => {
                if !std::mem::replace(&mut is_logged, true) {
                    tracing::info!(service = service.as_str(), reason, "waiting for the lease");
                }
                holder.watch(bus, rand::random_range(RENEW_EVERY / 2..=RENEW_EVERY)).await;
            }
        }
    }
}

/// Opens the connection that keeps the lease, and retries until that succeeds.
async fn connection(bus: &Bus, service: Singleton) -> LeaseConnection {
    let outage = Outage::default();
    loop {
        match LeaseConnection::open(bus).await {
            Ok(connection) => return connection,
            Err(error) => {
                let error = telemetry::chain(&error);
                if let Some(Repeats { attempts, lasting_secs, .. }) =
                    outage.failed(&error, clock::monotonic())
                {
                    let service = service.as_str();
                    tracing::warn!(
                        service,
                        error,
                        attempts,
                        lasting_secs,
                        "cannot open the connection of the lease"
                    );
                }
                tokio::time::sleep(RENEW_EVERY).await;
            }
        }
    }
}

impl Lease {
    /// Returns when the lease is lost. From then on, another process may be active.
    pub async fn lost(&self) {
        // If the sender is dropped, nothing renews the lease any more, so that counts as lost.
        let _ = self.lost.clone().wait_for(|lost| *lost).await;
    }
}

/// The state of a lease's holder, as a waiting process sees it.
struct Holder<'a> {
    replica: &'a Replica,
    service: Singleton,
    /// The epoch of its lease.
    epoch: Option<Epoch>,
    /// Number of consecutive probes that found no responder.
    failed_probes: u32,
}

impl<'a> Holder<'a> {
    fn new(replica: &'a Replica, service: Singleton) -> Self {
        Self { replica, service, epoch: None, failed_probes: 0 }
    }

    /// The epoch of the holder if the holder is gone.
    fn gone_epoch(&self) -> Option<Epoch> {
        self.epoch.filter(|_| self.failed_probes >= PROBES_FAILED_MIN)
    }

    /// Probes the holder for this time, or until it is gone.
    async fn watch(&mut self, bus: &Bus, length: Duration) {
        let end = clock::monotonic() + length;
        self.failed_probes = 0;
        while clock::monotonic() < end && self.gone_epoch().is_none() {
            tokio::time::sleep(PROBE_EVERY).await;
            let epoch = self.replica.snapshot().lease(self.service).map(|lease| lease.epoch);
            if epoch != self.epoch {
                // This is another holder, which may not be subscribed yet.
                (self.epoch, self.failed_probes) = (epoch, 0);
            }
            let subject = Subject::LeaseHolder(self.service);
            match bus.request::<_, HolderAlive>(subject, &ProbeHolder {}, PROBE_TIMEOUT).await {
                Err(RequestError::NoResponders) => self.failed_probes += 1,
                // The holder responds, or may only be slow.
                Ok(HolderAlive {}) | Err(_) => self.failed_probes = 0,
            }
        }
    }
}

/// Requests the lease once. The error is the reason why it was not granted.
async fn take(
    bus: &Bus,
    service: Singleton,
    process: ProcessId,
    gone: Option<Epoch>,
) -> Result<Granted, String> {
    let requested_at = clock::monotonic();
    let command = Command::TakeLease(TakeLease { service, process, gone });
    let done = bus.command(&command, TAKE_WITHIN).await.map_err(|error| telemetry::chain(&error))?;
    let epoch = done.epoch.ok_or("the applier's response contains no epoch")?;
    let renewal = RenewLease { service, process, epoch };
    let since = if requested_at.elapsed() < RENEW_EVERY {
        requested_at
    } else {
        // The command was repeated, so it is not known which repeat was granted.
        renew(bus, &renewal, RENEW_EVERY).await.map_err(|error| error.to_string())?
    };
    bus.leases().held(service.as_str(), epoch, since + LEASE);
    let active = MarkedActive { service, leases: bus.leases().clone() };
    let (lost_sender, lost) = watch::channel(false);
    let probes = bus.serve(Subject::LeaseHolder(service).to_string()).await;
    let probes = probes.map_err(|error| telemetry::chain(&error))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(renew_until_lost(bus.clone(), renewal, since, lost_sender));
    tasks.spawn(answer_probes(probes));
    Ok(Granted { epoch, lost, tasks, active })
}

async fn answer_probes(mut probes: Requests) {
    while let Some(request) = probes.next().await {
        if let Some((request, ProbeHolder {})) = request.read().await {
            request.answer(&HolderAlive {}).await;
        }
    }
}

/// The reason why a lease was not renewed.
#[derive(Debug, thiserror::Error)]
enum NotRenewed {
    #[error("refused: {}", .0.message)]
    Refused(Refusal),
    #[error("{0}")]
    NoResponse(String),
}

/// Renews the lease, and returns the time from which it lasts. That is the time before the request; the applier counts
/// from a later time.
async fn renew(bus: &Bus, renewal: &RenewLease, within: Duration) -> Result<Instant, NotRenewed> {
    let requested_at = clock::monotonic();
    match bus.request(Subject::RenewLease(bus.role()), renewal, within).await {
        Ok(Answer::Done(_)) => Ok(requested_at),
        Ok(Answer::Retry { reason }) => Err(NotRenewed::NoResponse(reason.to_string())),
        Err(RequestError::Refused(refusal)) => Err(NotRenewed::Refused(refusal)),
        Err(error) => Err(NotRenewed::NoResponse(telemetry::chain(&error))),
    }
}

/// Renews the lease until it is lost, and then sets `lost`.
async fn renew_until_lost(bus: Bus, renewal: RenewLease, mut since: Instant, lost: watch::Sender<bool>) {
    let contact = bus.contact();
    let service = renewal.service.as_str();
    let mut applier = contact.epoch();
    let mut next = since + RENEW_EVERY;
    let reason = loop {
        let end = since + LEASE;
        tokio::select! {
            () = tokio::time::sleep_until(next.min(end).into()) => {}
            // A new applier does not know of renewals before its own time.
            () = contact.another_applier(applier) => {}
            contradiction = contact.database_differs() => break contradiction,
        }
        let left = end.saturating_duration_since(clock::monotonic());
        if left.is_zero() {
            break "not renewed in time".to_owned();
        }
        applier = contact.epoch();
        match renew(&bus, &renewal, left.min(RENEW_EVERY)).await {
            Ok(renewed) => {
                since = renewed;
                next = renewed + RENEW_EVERY;
                bus.leases().held(service, renewal.epoch, since + LEASE);
            }
            Err(NotRenewed::NoResponse(_)) => next = clock::monotonic() + RETRY_DELAY,
            Err(NotRenewed::Refused(refusal)) => break refusal.message.to_string(),
        }
    };
    LEASES_LOST.add_with(1, &[service]);
    bus.leases().lost(service, clock::monotonic(), &reason);
    tracing::warn!(service, epoch = renewal.epoch.0, reason, "lost the lease");
    lost.send_replace(true);
}
