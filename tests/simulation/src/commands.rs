//! Commands that are sent again, under the same id, until they are answered or their time is up: what `Bus::command`
//! does.

use std::collections::BTreeMap;

use bus::CommandError;
use model::{Nanos, RequestId};
use plan_applier::Reply as Verdict;
use wire::command::{Answer, Command, Done};

use crate::messages::{Body, Reply, Subject, Timer};
use crate::world::Ctx;

/// How long one try waits.
const TRY: Nanos = Nanos::from_secs(1);
/// The pause before the next.
const PAUSE: (i64, i64) = (10_000_000, 300_000_000);

/// Commands under way, each with what it is for.
pub(crate) struct Commands<P> {
    sent: BTreeMap<RequestId, Sent<P>>,
    calls: BTreeMap<u64, RequestId>,
}

struct Sent<P> {
    command: Command,
    purpose: P,
    until: Nanos,
    call: u64,
}

impl<P> Commands<P> {
    pub(crate) fn new() -> Self {
        Self { sent: BTreeMap::new(), calls: BTreeMap::new() }
    }

    pub(crate) fn send(
        &mut self,
        command: Command,
        purpose: P,
        within: Nanos,
        ctx: &mut Ctx<'_>,
    ) -> RequestId {
        let id = ctx.request_id();
        ctx.world.checks.sent(id, &command);
        self.sent.insert(id, Sent { command, purpose, until: ctx.world.now + within, call: 0 });
        self.again(id, ctx);
        id
    }

    /// Sends one again whose pause is over.
    pub(crate) fn again(&mut self, id: RequestId, ctx: &mut Ctx<'_>) {
        let Some(sent) = self.sent.get_mut(&id) else { return };
        self.calls.remove(&sent.call);
        sent.call = ctx.request(Subject::Command, Body::Command(id, sent.command.clone()), TRY);
        self.calls.insert(sent.call, id);
    }

    /// Takes a reply to one of them; what it was for and how it ended, if it did.
    pub(crate) fn replied(
        &mut self,
        call: u64,
        reply: &Reply,
        ctx: &mut Ctx<'_>,
    ) -> Option<(P, Result<Done, CommandError>)> {
        let id = self.calls.remove(&call)?;
        let reason = match reply {
            Reply::Verdict(Verdict::Answer(Answer::Done(done))) => {
                let sent = self.sent.remove(&id)?;
                ctx.world.checks.acknowledged(id, done, &ctx.world.database);
                return Some((sent.purpose, Ok(done.clone())));
            }
            Reply::Verdict(Verdict::Refuse(refusal)) => {
                let sent = self.sent.remove(&id)?;
                return Some((sent.purpose, Err(CommandError::Refused(refusal.clone()))));
            }
            Reply::Verdict(Verdict::Answer(Answer::Retry { reason })) => reason.to_string(),
            reply => format!("{reply:?}"),
        };
        if ctx.world.now >= self.sent.get(&id)?.until {
            let sent = self.sent.remove(&id)?;
            return Some((sent.purpose, Err(CommandError::Unavailable { reason })));
        }
        let pause = ctx.world.between(PAUSE);
        ctx.timer(pause, Timer::Again(id));
        None
    }
}
