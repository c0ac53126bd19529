//! A process of the evaluation broker: [`Broker`] with messages around it, as in `eval_broker::actor`.

use std::sync::Arc;

use eval_broker::Settings;
use eval_broker::core::Broker;
use eval_broker::waiters::{Waiter, Waiters};
use model::cluster::Singleton;
use model::job::JobType;
use model::{Nanos, ProcessId, RequestId};
use state::State;
use wire::command::Command;

use crate::commands::Commands;
use crate::disk::Disk;
use crate::lease::{Lease, LeaseAction};
use crate::messages::{Address, Body, Input, Message, Reply, Subject, Timer};
use crate::replica::{Replica, Update};
use crate::world::{Ctx, Process};

const SETTINGS: Settings = Settings { lease: Nanos::from_secs(2), delivery_limit: 3 };
const WRITE_TIMEOUT: Nanos = Nanos::from_secs(5);
const TAKE_LEASE_TIMEOUT: Nanos = Nanos::from_secs(5);
const SUBJECTS: [Subject; 2] = [Subject::Dequeue, Subject::EvalLease];

/// The broker process.
pub(crate) struct BrokerProcess {
    replica: Replica,
    lease: Lease,
    commands: Commands<Purpose>,
    active: Option<Active>,
}

/// The purpose of a command.
enum Purpose {
    TakeLease,
    /// A write of the activation with this number.
    Write(u64),
}

struct Active {
    broker: Broker,
    waiters: Waiters<Option<Address>>,
    number: u64,
}

impl BrokerProcess {
    pub(crate) fn new(id: ProcessId) -> Self {
        Self {
            replica: Replica::new(true),
            lease: Lease::new(Singleton::EvalBroker, id),
            commands: Commands::new(),
            active: None,
        }
    }

    fn handle_update(&mut self, update: Update, ctx: &mut Ctx<'_>) {
        match update {
            Update::Nothing => {}
            Update::Loaded => ctx.timer(Nanos::ZERO, Timer::Lease),
            Update::Step(step) => {
                if let Some(active) = &mut self.active {
                    drop(active.broker.step(&step, self.replica.cluster_now(ctx)));
                }
            }
            Update::Reset => {
                if let (Some(active), Some(state)) = (&mut self.active, self.replica.state()) {
                    active.broker =
                        Broker::restore(SETTINGS, Arc::clone(state), self.replica.cluster_now(ctx));
                }
            }
        }
    }

    fn activate(&mut self, ctx: &mut Ctx<'_>) {
        let Some(state) = self.replica.state().cloned() else { return };
        let broker = Broker::restore(SETTINGS, state, self.replica.cluster_now(ctx));
        self.active = Some(Active { broker, waiters: Waiters::default(), number: ctx.number() });
        SUBJECTS.into_iter().for_each(|subject| ctx.subscribe(subject));
    }

    fn act_on_lease(&mut self, action: LeaseAction, ctx: &mut Ctx<'_>) {
        match action {
            LeaseAction::Nothing => {}
            LeaseAction::Take(command) => {
                self.commands.send(command, Purpose::TakeLease, TAKE_LEASE_TIMEOUT, ctx);
            }
            LeaseAction::Lost => {
                self.active = None;
                SUBJECTS.into_iter().for_each(|subject| ctx.unsubscribe(subject));
            }
        }
    }

    fn handle_message(&mut self, Message { from, body }: Message, ctx: &mut Ctx<'_>) {
        let now = self.replica.cluster_now(ctx);
        let Some(active) = &mut self.active else { return };
        match body {
            Body::Dequeue(dequeue) => {
                let wait = Nanos(i64::from(dequeue.timeout_ms) * Nanos::MILLISECOND.0);
                active.waiters.add(Waiter {
                    kinds: dequeue.kinds,
                    max: dequeue.max.into(),
                    deadline: now + wait,
                    reply: from,
                });
            }
            Body::EvalLease(request) => {
                let (id, token) = (request.eval_id, request.token);
                let held = active.broker.apply_lease_action(id, token, request.action, now);
                ctx.answer(from, Reply::EvalLease(held));
            }
            _ => {}
        }
    }

    fn advance(&mut self, ctx: &mut Ctx<'_>) {
        let now = self.replica.cluster_now(ctx);
        let (Some(active), Some(epoch)) = (&mut self.active, self.lease.epoch()) else { return };
        if active.broker.poll_timeout().is_some_and(|due| due <= now) {
            active.broker.handle_timeout(now);
        }
        for reply in active.waiters.handle_timeout(now) {
            ctx.answer(reply, Reply::Dequeued(Vec::new()));
        }
        loop {
            let ready = active.broker.ready_count(JobType::ALL);
            let broker = &mut active.broker;
            let served = active.waiters.serve(ready, |kinds, max| {
                broker.dequeue(kinds, max, now, || RequestId::from_bytes(ctx.id()))
            });
            if served.is_empty() {
                break;
            }
            for (reply, deliveries) in served {
                ctx.answer(reply, Reply::Dequeued(deliveries));
            }
        }
        if let Some(write) = active.broker.next_write(epoch, now) {
            let purpose = Purpose::Write(active.number);
            self.commands.send(Command::UpdateEvals(write), purpose, WRITE_TIMEOUT, ctx);
        }
    }
}

impl Process for BrokerProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => {
                self.replica.start(ctx);
                ctx.timer(Nanos::ZERO, Timer::Poll);
            }
            Input::Timer(Timer::Poll) => ctx.timer(Nanos(100 * Nanos::MILLISECOND.0), Timer::Poll),
            Input::Timer(Timer::Lease) => {
                let action = self.lease.poll(self.replica.has_lost(), ctx);
                self.act_on_lease(action, ctx);
            }
            Input::Timer(Timer::Resend(id)) => self.commands.resend(id, ctx),
            Input::Timer(_) => {}
            Input::Message(message) => {
                let update = self.replica.handle_message(&message.body, ctx);
                self.handle_update(update, ctx);
                self.handle_message(message, ctx);
            }
            Input::Reply(call, reply) => {
                let action = self.lease.handle_reply(call, &reply, ctx);
                self.act_on_lease(action, ctx);
                match self.commands.handle_reply(call, &reply, ctx) {
                    Some((Purpose::TakeLease, result)) if self.lease.granted(result.as_ref().ok(), ctx) => {
                        self.activate(ctx);
                    }
                    Some((Purpose::TakeLease, _)) => {}
                    Some((Purpose::Write(number), result)) => {
                        let now = self.replica.cluster_now(ctx);
                        if let Some(active) = self.active.as_mut().filter(|active| active.number == number) {
                            match result {
                                Ok(done) => active.broker.written(done.index),
                                Err(_) => active.broker.not_written(now),
                            }
                        }
                    }
                    None => {}
                }
            }
            Input::DbReply(call, reply) => {
                let update = self.replica.handle_db_reply(call, &reply, ctx);
                self.handle_update(update, ctx);
            }
        }
        self.advance(ctx);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }

    fn replica(&self) -> Option<&Arc<State>> {
        self.replica.state()
    }
}
