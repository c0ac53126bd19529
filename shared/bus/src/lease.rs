//! Leases of singletons other than the applier: which of several processes works (design §5).
//!
//! A lease keeps the peace. Safety is its epoch, which goes with each command that a singleton sends.

use std::time::{Duration, Instant};

use model::cluster::Singleton;
use model::{Epoch, ProcessId};
use state::Replica;
use telemetry::clock;
use telemetry::metrics::catalogue::{LEASES_LOST, LEASES_TAKEN};
use tokio::sync::watch;
use tokio::task::JoinSet;
use wire::command::{Answer, AskHolder, Command, Holding, LEASE, RenewLease, TakeLease};
use wire::{Refusal, Subject};

use crate::call::RequestError;
use crate::connection::Bus;
use crate::serve::Requests;

/// How often a lease is renewed, and how often somebody without one asks for it.
const TURN: Duration = Duration::from_millis(LEASE.as_millis() as u64 / 3);
/// How soon a renewal that went astray is sent again. A new applier holds leases for a second for those who announce
/// themselves.
const RETRY: Duration = Duration::from_millis(100);
/// How often a process without a lease looks whether its holder is there.
const LOOK: Duration = Duration::from_millis(250);
/// How long it waits for the answer.
const LOOK_WITHIN: Duration = Duration::from_millis(200);
/// So many looks in a row that find nobody listening allow it to take the lease before that runs out.
const LOOKS: u32 = 2;
/// How long one command for a lease is repeated.
const TAKE_WITHIN: Duration = Duration::from_secs(30);

/// The right to be the active process of a singleton. Renews itself, until it is dropped.
#[derive(Debug)]
pub struct Lease {
    /// What the singleton's commands carry.
    pub epoch: Epoch,
    lost: watch::Receiver<bool>,
    _tasks: JoinSet<()>,
    _shown: Shown,
}

/// While it lives, this process's metrics are shown as those of the active process.
#[derive(Debug)]
struct Shown(Singleton);

impl Drop for Shown {
    fn drop(&mut self) {
        telemetry::metrics::set_standby(self.0.as_str());
    }
}

/// Waits until this process is granted the lease of `service`, however long others hold it.
///
/// The process follows the feed, so that the lease is renewed as soon as a new applier announces itself; its replica says
/// which epoch the holder has that may be gone.
pub async fn hold(bus: &Bus, replica: &Replica, service: Singleton, process: ProcessId) -> Lease {
    let mut is_told = false;
    let mut holder = Holder::new(replica, service);
    loop {
        match take(bus, service, process, holder.gone()).await {
            Ok(lease) => {
                tracing::info!(service = service.as_str(), epoch = lease.epoch.0, "took the lease");
                LEASES_TAKEN.add_with(1, &[service.as_str()]);
                telemetry::metrics::set_active(service.as_str(), lease.epoch.0);
                return lease;
            }
            Err(reason) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::info!(service = service.as_str(), reason, "waiting for the lease");
                }
                holder.watch(bus, rand::random_range(TURN / 2..=TURN)).await;
            }
        }
    }
}

impl Lease {
    /// Returns when the lease is lost: another process may be active from then on.
    pub async fn lost(&self) {
        // Without its sender nobody renews it any more, so that is no better.
        let _ = self.lost.clone().wait_for(|lost| *lost).await;
    }
}

/// What a process that waits for a lease knows of its holder.
struct Holder<'a> {
    replica: &'a Replica,
    service: Singleton,
    /// The epoch that it holds.
    epoch: Option<Epoch>,
    /// So many looks in a row found nobody.
    unanswered: u32,
}

impl<'a> Holder<'a> {
    fn new(replica: &'a Replica, service: Singleton) -> Self {
        Self { replica, service, epoch: None, unanswered: 0 }
    }

    /// The epoch of a holder that is gone.
    fn gone(&self) -> Option<Epoch> {
        self.epoch.filter(|_| self.unanswered >= LOOKS)
    }

    /// Looks whether the holder is there, for so long, or until it is gone.
    async fn watch(&mut self, bus: &Bus, length: Duration) {
        let end = clock::monotonic() + length;
        self.unanswered = 0;
        while clock::monotonic() < end && self.gone().is_none() {
            tokio::time::sleep(LOOK).await;
            let epoch = self.replica.snapshot().lease(self.service).map(|lease| lease.epoch);
            if epoch != self.epoch {
                // It is another one, and may not listen yet.
                (self.epoch, self.unanswered) = (epoch, 0);
            }
            let subject = Subject::LeaseHolder(self.service);
            match bus.request::<_, Holding>(subject, &AskHolder {}, LOOK_WITHIN).await {
                Err(RequestError::NoResponders) => self.unanswered += 1,
                // It answers, or may only be slow.
                Ok(Holding {}) | Err(_) => self.unanswered = 0,
            }
        }
    }
}

/// Asks for the lease once; or why it was not granted.
async fn take(
    bus: &Bus,
    service: Singleton,
    process: ProcessId,
    gone: Option<Epoch>,
) -> Result<Lease, String> {
    let asked = clock::monotonic();
    let command = Command::TakeLease(TakeLease { service, process, gone });
    let done = bus.command(&command, TAKE_WITHIN).await.map_err(|error| telemetry::chain(&error))?;
    let epoch = done.epoch.ok_or("the applier's answer names no epoch")?;
    let renewal = RenewLease { service, process, epoch };
    let since = if asked.elapsed() < TURN {
        asked
    } else {
        // It was asked for more than once, and nobody knows which time it was granted.
        renew(bus, &renewal, TURN).await.map_err(|error| error.to_string())?
    };
    let (tell, lost) = watch::channel(false);
    let asked = bus.serve(Subject::LeaseHolder(service).to_string()).await;
    let asked = asked.map_err(|error| telemetry::chain(&error))?;
    let mut tasks = JoinSet::new();
    tasks.spawn(keep(bus.clone(), renewal, since, tell));
    tasks.spawn(answer_those_who_wait(asked));
    Ok(Lease { epoch, lost, _tasks: tasks, _shown: Shown(service) })
}

async fn answer_those_who_wait(mut asked: Requests) {
    while let Some(request) = asked.next().await {
        if let Some((request, AskHolder {})) = request.read().await {
            request.answer(&Holding {}).await;
        }
    }
}

/// Why a lease was not renewed.
#[derive(Debug, thiserror::Error)]
enum NotRenewed {
    #[error("refused: {}", .0.message)]
    Refused(Refusal),
    #[error("{0}")]
    Astray(String),
}

/// Renews the lease; returns the moment from which it lasts. That is before it was asked for: the applier counts from
/// somewhat later.
async fn renew(bus: &Bus, renewal: &RenewLease, within: Duration) -> Result<Instant, NotRenewed> {
    let asked = clock::monotonic();
    match bus.request(Subject::RenewLease(bus.role()), renewal, within).await {
        Ok(Answer::Done(_)) => Ok(asked),
        Ok(Answer::Retry { reason }) => Err(NotRenewed::Astray(reason.to_string())),
        Err(RequestError::Refused(refusal)) => Err(NotRenewed::Refused(refusal)),
        Err(error) => Err(NotRenewed::Astray(telemetry::chain(&error))),
    }
}

/// Renews the lease for as long as that works, and tells when it does not any more.
async fn keep(bus: Bus, renewal: RenewLease, mut since: Instant, lost: watch::Sender<bool>) {
    let contact = bus.contact();
    let mut applier = contact.epoch();
    let mut next = since + TURN;
    let reason = loop {
        let end = since + LEASE;
        tokio::select! {
            () = tokio::time::sleep_until(next.min(end).into()) => {}
            // A new applier knows of no renewal before its own time.
            () = contact.another_applier(applier) => {}
        }
        let left = end.saturating_duration_since(clock::monotonic());
        if left.is_zero() {
            break "not renewed in time".to_owned();
        }
        applier = contact.epoch();
        match renew(&bus, &renewal, left.min(TURN)).await {
            Ok(renewed) => {
                since = renewed;
                next = renewed + TURN;
            }
            Err(NotRenewed::Astray(_)) => next = clock::monotonic() + RETRY,
            Err(NotRenewed::Refused(refusal)) => break refusal.message.to_string(),
        }
    };
    let service = renewal.service.as_str();
    LEASES_LOST.add_with(1, &[service]);
    tracing::warn!(service, epoch = renewal.epoch.0, reason, "lost the lease");
    lost.send_replace(true);
}
