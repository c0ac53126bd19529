//! [`Shell`]: the actor that owns a core, with its timer, and the task that brings it the changes of the state.

use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use bus::Contact;
use model::{Epoch, Nanos, Timestamp};
use state::{FollowEvent, Follower};
use tokio::sync::mpsc;
use wire::command::Done;

use crate::core::{Core, Write};

/// The actor of an active core.
pub struct Shell<C: Core> {
    core: C,
    epoch: Epoch,
    /// Has the cluster's time.
    contact: Contact,
    writes: mpsc::Sender<Write>,
    timer: Option<(Timestamp, SpawnHandle)>,
}

/// The replica's state has changed.
#[derive(Message)]
#[rtype(result = "()")]
struct StateChanged(FollowEvent);

/// The outcome of a command; `None` if it failed or its outcome is unknown.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Written(pub(crate) Option<Done>);

/// This process is no longer active.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Stop;

/// Sends every state change to the actor. Awaiting each reply is the back-pressure.
pub(crate) async fn follow<C: Core>(mut follower: Follower, shell: Addr<Shell<C>>) {
    while shell.send(StateChanged(follower.next().await)).await.is_ok() {}
}

impl<C: Core> std::fmt::Debug for Shell<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shell").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl<C: Core> Shell<C> {
    pub(crate) fn new(core: C, epoch: Epoch, contact: Contact, writes: mpsc::Sender<Write>) -> Self {
        Self { core, epoch, contact, writes, timer: None }
    }

    /// Lets the handler of a service's own message use the core, at the cluster's time, and then does what follows.
    pub fn with<R>(&mut self, ctx: &mut Context<Self>, handle: impl FnOnce(&mut C, Timestamp) -> R) -> R {
        let now = self.now();
        let result = handle(&mut self.core, now);
        self.advance(ctx);
        result
    }

    fn now(&self) -> Timestamp {
        self.contact.cluster_now()
    }

    /// Called after each event: lets the core work, sends the next command, and sets the timer.
    fn advance(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        self.core.work(now);
        if let Some(write) = self.core.next_write(self.epoch, now) {
            // The channel has room: the core emits one command at a time.
            if self.writes.try_send(write).is_err() {
                self.core.not_written(now);
            }
        }
        let due = self.core.poll_timeout();
        if due == self.timer.map(|(due, _)| due) {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.timer = due.map(|due| {
            let delay = Nanos::MILLISECOND.max(due - now);
            let timer = ctx.run_later(Duration::from_nanos(delay.0.unsigned_abs()), |shell, ctx| {
                shell.timer = None;
                shell.with(ctx, C::handle_timeout);
            });
            (due, timer)
        });
    }
}

impl<C: Core> Actor for Shell<C> {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(C::MAILBOX_CAPACITY);
        if let Some(interval) = C::METRICS_INTERVAL {
            ctx.run_interval(interval, |shell, _| shell.core.publish_metrics(shell.now()));
        }
        self.advance(ctx);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        self.core.retire();
    }
}

impl<C: Core> Handler<StateChanged> for Shell<C> {
    type Result = ();

    fn handle(&mut self, StateChanged(followed): StateChanged, ctx: &mut Self::Context) {
        self.with(ctx, |core, now| match followed {
            FollowEvent::Reset(state) => core.restore(state, now),
            FollowEvent::Step(step) => core.step(&step, now),
        });
    }
}

impl<C: Core> Handler<Written> for Shell<C> {
    type Result = ();

    fn handle(&mut self, Written(done): Written, ctx: &mut Self::Context) {
        self.with(ctx, |core, now| match done {
            Some(done) => core.written(&done, now),
            None => core.not_written(now),
        });
    }
}

impl<C: Core> Handler<Stop> for Shell<C> {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
