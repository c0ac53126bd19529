//! Takes and renews the lease of a singleton, as `bus::lease` does.

use model::cluster::Singleton;
use model::{Epoch, Nanos, ProcessId};
use plan_applier::Reply as ApplierReply;
use wire::command::{Answer, Command, Done, LEASE, RenewLease, TakeLease};

use crate::messages::{Body, Reply, Subject, Timer};
use crate::world::Ctx;

const LEASE_TIMEOUT: Nanos = Nanos::from_secs(1);
const RETRY: Nanos = Nanos(100 * Nanos::MILLISECOND.0);

/// A process's view of the lease of a singleton, whether held or not.
pub(crate) struct Lease {
    service: Singleton,
    process: ProcessId,
    held: Option<Held>,
    is_taking: bool,
    call: Option<(u64, Nanos)>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    epoch: Epoch,
    since: Nanos,
}

/// The next step of the process for its lease.
pub(crate) enum LeaseAction {
    Nothing,
    Take(Command),
    /// The lease is lost.
    Lost,
}

impl Lease {
    pub(crate) fn new(service: Singleton, process: ProcessId) -> Self {
        Self { service, process, held: None, is_taking: false, call: None }
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.held.map(|held| held.epoch)
    }

    /// Renews the lease, or asks for it. Called when the timer fires. If the database lacks what the process has seen, a lease
    /// is given up, and none is taken.
    pub(crate) fn poll(&mut self, has_lost: bool, ctx: &mut Ctx<'_>) -> LeaseAction {
        if has_lost && self.held.is_some() {
            return self.lose(ctx);
        }
        let Some(held) = self.held else {
            ctx.timer(LEASE_TIMEOUT, Timer::Lease);
            if has_lost {
                return LeaseAction::Nothing;
            }
            if std::mem::replace(&mut self.is_taking, true) {
                return LeaseAction::Nothing;
            }
            return LeaseAction::Take(Command::TakeLease(TakeLease {
                service: self.service,
                process: self.process,
                gone: None,
            }));
        };
        if ctx.world.now.0 - held.since.0 >= nanos(LEASE) {
            return self.lose(ctx);
        }
        let renew = RenewLease { service: self.service, process: self.process, epoch: held.epoch };
        self.call = Some((ctx.request(Subject::Lease, Body::Renew(renew), LEASE_TIMEOUT), ctx.world.now));
        ctx.timer(RETRY, Timer::Lease);
        LeaseAction::Nothing
    }

    /// Handles the outcome of [`Command::TakeLease`]. Returns whether the lease is held now.
    pub(crate) fn granted(&mut self, done: Option<&Done>, ctx: &mut Ctx<'_>) -> bool {
        self.is_taking = false;
        let Some(epoch) = done.and_then(|done| done.epoch) else { return false };
        // The grant's time is not known exactly. The first renewal sets it.
        self.held = Some(Held { epoch, since: ctx.world.now });
        ctx.timer(Nanos::ZERO, Timer::Lease);
        true
    }

    /// Handles a reply to a renewal.
    pub(crate) fn handle_reply(&mut self, call: u64, reply: &Reply, ctx: &mut Ctx<'_>) -> LeaseAction {
        let Some((_, sent_at)) = self.call.filter(|(known, _)| *known == call) else {
            return LeaseAction::Nothing;
        };
        self.call = None;
        match reply {
            Reply::Applier(ApplierReply::Answer(Answer::Done(_))) => {
                if let Some(held) = &mut self.held {
                    held.since = sent_at;
                }
                LeaseAction::Nothing
            }
            Reply::Applier(ApplierReply::Refuse(_)) => self.lose(ctx),
            _ => LeaseAction::Nothing,
        }
    }

    fn lose(&mut self, ctx: &mut Ctx<'_>) -> LeaseAction {
        self.call = None;
        if self.held.take().is_none() {
            return LeaseAction::Nothing;
        }
        ctx.timer(LEASE_TIMEOUT, Timer::Lease);
        LeaseAction::Lost
    }
}

fn nanos(length: std::time::Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}
