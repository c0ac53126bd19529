//! Commands that are sent again under the same id until they are answered or time out, as `Bus::command` does.

use std::collections::BTreeMap;

use model::{Nanos, RequestId};
use plan_applier::Reply as ApplierReply;
use wire::command::{Answer, Command, CommandError, Done};

use crate::messages::{Body, Reply, Subject, Timer};
use crate::world::Ctx;

/// How long one attempt waits for a reply.
const ATTEMPT_TIMEOUT: Nanos = Nanos::from_secs(1);
/// The pause before the next attempt, as a range in nanoseconds.
const PAUSE: (i64, i64) = (10_000_000, 300_000_000);

/// Commands in flight, each with its purpose.
pub(crate) struct Commands<P> {
    in_flight: BTreeMap<RequestId, InFlight<P>>,
    calls: BTreeMap<u64, RequestId>,
}

struct InFlight<P> {
    command: Command,
    purpose: P,
    until: Nanos,
    call: u64,
}

impl<P> Commands<P> {
    pub(crate) fn new() -> Self {
        Self { in_flight: BTreeMap::new(), calls: BTreeMap::new() }
    }

    /// Whether no command is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_flight.is_empty()
    }

    pub(crate) fn send(
        &mut self,
        command: Command,
        purpose: P,
        within: Nanos,
        ctx: &mut Ctx<'_>,
    ) -> RequestId {
        let id = ctx.request_id();
        ctx.world.checks.command_sent(id, &command);
        self.in_flight.insert(id, InFlight { command, purpose, until: ctx.world.now + within, call: 0 });
        self.resend(id, ctx);
        id
    }

    /// Sends a command again after its pause.
    pub(crate) fn resend(&mut self, id: RequestId, ctx: &mut Ctx<'_>) {
        let Some(sent) = self.in_flight.get_mut(&id) else { return };
        self.calls.remove(&sent.call);
        sent.call = ctx.request(Subject::Command, Body::Command(id, sent.command.clone()), ATTEMPT_TIMEOUT);
        self.calls.insert(sent.call, id);
    }

    /// Handles a reply to one of the commands. Returns the command's purpose and outcome if it has ended.
    pub(crate) fn handle_reply(
        &mut self,
        call: u64,
        reply: &Reply,
        ctx: &mut Ctx<'_>,
    ) -> Option<(P, Result<Done, CommandError>)> {
        let id = self.calls.remove(&call)?;
        let reason = match reply {
            Reply::Applier(ApplierReply::Answer(Answer::Done(done))) => {
                let sent = self.in_flight.remove(&id)?;
                let database = &ctx.world.database;
                if !database.has_lost(done.index, id) {
                    let committed = database.set(done.index).map(|set| &**set);
                    ctx.world.checks.command_acknowledged(id, done, committed);
                }
                return Some((sent.purpose, Ok(done.clone())));
            }
            Reply::Applier(ApplierReply::Refuse(refusal)) => {
                let sent = self.in_flight.remove(&id)?;
                return Some((sent.purpose, Err(CommandError::Refused(refusal.clone()))));
            }
            Reply::Applier(ApplierReply::Answer(Answer::Retry { reason })) => reason.to_string(),
            reply => format!("{reply:?}"),
        };
        if ctx.world.now >= self.in_flight.get(&id)?.until {
            let sent = self.in_flight.remove(&id)?;
            return Some((sent.purpose, Err(CommandError::Unavailable { reason })));
        }
        let pause = ctx.world.between(PAUSE);
        ctx.timer(pause, Timer::Resend(id));
        None
    }
}
