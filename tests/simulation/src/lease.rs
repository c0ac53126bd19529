//! Holding the lease of a singleton: what `bus::lease` does.

use model::cluster::Singleton;
use model::{Epoch, Nanos, ProcessId};
use plan_applier::Reply as Verdict;
use wire::command::{Answer, Command, Done, LEASE, RenewLease, TakeLease};

use crate::messages::{Body, Reply, Subject, Timer};
use crate::world::Ctx;

const TURN: Nanos = Nanos::from_secs(1);
const RETRY: Nanos = Nanos(100 * Nanos::MILLISECOND.0);

/// A singleton's lease, held or wanted.
pub(crate) struct Lease {
    service: Singleton,
    process: ProcessId,
    held: Option<Held>,
    asking: bool,
    call: Option<(u64, Nanos)>,
}

#[derive(Debug, Clone, Copy)]
struct Held {
    epoch: Epoch,
    since: Nanos,
}

/// What is to be done for the lease's sake.
pub(crate) enum Turn {
    Nothing,
    Take(Command),
    /// It is lost.
    Lost,
}

impl Lease {
    pub(crate) fn new(service: Singleton, process: ProcessId) -> Self {
        Self { service, process, held: None, asking: false, call: None }
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.held.map(|held| held.epoch)
    }

    /// It is time to renew it, or to ask for it.
    pub(crate) fn turn(&mut self, ctx: &mut Ctx<'_>) -> Turn {
        let Some(held) = self.held else {
            ctx.timer(TURN, Timer::Lease);
            if std::mem::replace(&mut self.asking, true) {
                return Turn::Nothing;
            }
            return Turn::Take(Command::TakeLease(TakeLease {
                service: self.service,
                process: self.process,
                gone: None,
            }));
        };
        if ctx.world.now.0 - held.since.0 >= nanos(LEASE) {
            return self.lose(ctx);
        }
        let renew = RenewLease { service: self.service, process: self.process, epoch: held.epoch };
        self.call = Some((ctx.request(Subject::Lease, Body::Renew(renew), TURN), ctx.world.now));
        ctx.timer(RETRY, Timer::Lease);
        Turn::Nothing
    }

    /// The command for it ended after it was sent at `asked`. Whether it is held now.
    pub(crate) fn taken(&mut self, done: Option<&Done>, ctx: &mut Ctx<'_>) -> bool {
        self.asking = false;
        let Some(epoch) = done.and_then(|done| done.epoch) else { return false };
        // When it was granted is not known exactly: the first renewal says.
        self.held = Some(Held { epoch, since: ctx.world.now });
        ctx.timer(Nanos::ZERO, Timer::Lease);
        true
    }

    /// Takes a reply to a renewal.
    pub(crate) fn replied(&mut self, call: u64, reply: &Reply, ctx: &mut Ctx<'_>) -> Turn {
        let Some((_, asked)) = self.call.filter(|(known, _)| *known == call) else { return Turn::Nothing };
        self.call = None;
        match reply {
            Reply::Verdict(Verdict::Answer(Answer::Done(_))) => {
                if let Some(held) = &mut self.held {
                    held.since = asked;
                }
                Turn::Nothing
            }
            Reply::Verdict(Verdict::Refuse(_)) => self.lose(ctx),
            _ => Turn::Nothing,
        }
    }

    fn lose(&mut self, ctx: &mut Ctx<'_>) -> Turn {
        self.call = None;
        if self.held.take().is_none() {
            return Turn::Nothing;
        }
        ctx.timer(TURN, Timer::Lease);
        Turn::Lost
    }
}

fn nanos(length: std::time::Duration) -> i64 {
    i64::try_from(length.as_nanos()).unwrap_or(i64::MAX)
}
