//! A process of the evaluation broker: [`Broker`] with messages around it as in `eval_broker::actor`.

use eval_broker::Settings;
use eval_broker::broker::Broker;
use eval_broker::waiters::{Waiter, Waiters};
use model::cluster::Singleton;
use model::job::JobType;
use model::{Nanos, ProcessId, RequestId};
use wire::command::Command;

use crate::commands::Commands;
use crate::feed::{Feed, Learned};
use crate::lease::{Lease, Turn};
use crate::messages::{Address, Asked, Body, Input, Reply, Subject, Timer};
use crate::world::{Ctx, Disk, Process};

const SETTINGS: Settings = Settings { lease: Nanos::from_secs(2), delivery_limit: 3 };
const WRITE_WITHIN: Nanos = Nanos::from_secs(5);
const TAKE_WITHIN: Nanos = Nanos::from_secs(5);
const SUBJECTS: [Subject; 2] = [Subject::Dequeue, Subject::HandOut];

/// The process.
pub(crate) struct BrokerProcess {
    feed: Feed,
    lease: Lease,
    commands: Commands<Purpose>,
    active: Option<Active>,
}

/// What a command is for.
enum Purpose {
    TakeLease,
    /// Of the active broker that counts so.
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
            feed: Feed::new(),
            lease: Lease::new(Singleton::EvalBroker, id),
            commands: Commands::new(),
            active: None,
        }
    }

    fn learned(&mut self, learned: Learned, ctx: &mut Ctx<'_>) {
        match learned {
            Learned::Nothing => {}
            Learned::Loaded => ctx.timer(Nanos::ZERO, Timer::Lease),
            Learned::Step(step) => {
                if let Some(active) = &mut self.active {
                    drop(active.broker.step(&step, ctx.wall()));
                }
            }
        }
    }

    fn begin(&mut self, ctx: &mut Ctx<'_>) {
        let Some(state) = self.feed.state(ctx.world).cloned() else { return };
        let broker = Broker::restore(SETTINGS, state, ctx.wall());
        self.active = Some(Active { broker, waiters: Waiters::default(), number: ctx.number() });
        SUBJECTS.into_iter().for_each(|subject| ctx.serve(subject));
    }

    fn turn(&mut self, turn: Turn, ctx: &mut Ctx<'_>) {
        match turn {
            Turn::Nothing => {}
            Turn::Take(command) => {
                self.commands.send(command, Purpose::TakeLease, TAKE_WITHIN, ctx);
            }
            Turn::Lost => {
                self.active = None;
                SUBJECTS.into_iter().for_each(|subject| ctx.leave(subject));
            }
        }
    }

    fn asked(&mut self, Asked { from, body }: Asked, ctx: &mut Ctx<'_>) {
        let Some(active) = &mut self.active else { return };
        match body {
            Body::Dequeue(dequeue) => {
                let wait = Nanos(i64::from(dequeue.timeout_ms) * Nanos::MILLISECOND.0);
                active.waiters.add(Waiter {
                    kinds: dequeue.kinds,
                    max: dequeue.max.into(),
                    deadline: ctx.wall() + wait,
                    reply: from,
                });
            }
            Body::HandOut(hand_out) => {
                let (id, token) = (hand_out.eval_id, hand_out.token);
                let held = active.broker.hand_out(id, token, hand_out.action, ctx.wall());
                ctx.answer(from, Reply::HandOut(held));
            }
            _ => {}
        }
    }

    fn carry_on(&mut self, ctx: &mut Ctx<'_>) {
        let (Some(active), Some(epoch)) = (&mut self.active, self.lease.epoch()) else { return };
        let now = ctx.wall();
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
            self.commands.send(Command::UpdateEvals(write), purpose, WRITE_WITHIN, ctx);
        }
    }
}

impl Process for BrokerProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => {
                self.feed.start(ctx);
                ctx.timer(Nanos::ZERO, Timer::Look);
            }
            Input::Timer(Timer::Look) => ctx.timer(Nanos(100 * Nanos::MILLISECOND.0), Timer::Look),
            Input::Timer(Timer::Lease) => {
                let turn = self.lease.turn(ctx);
                self.turn(turn, ctx);
            }
            Input::Timer(Timer::Again(id)) => self.commands.again(id, ctx),
            Input::Timer(_) => {}
            Input::Asked(asked) => {
                let learned = self.feed.hear(&asked.body, ctx);
                self.learned(learned, ctx);
                self.asked(asked, ctx);
            }
            Input::Reply(call, reply) => {
                let turn = self.lease.replied(call, &reply, ctx);
                self.turn(turn, ctx);
                match self.commands.replied(call, &reply, ctx) {
                    Some((Purpose::TakeLease, result)) if self.lease.taken(result.as_ref().ok(), ctx) => {
                        self.begin(ctx);
                    }
                    Some((Purpose::TakeLease, _)) => {}
                    Some((Purpose::Write(number), result)) => {
                        let now = ctx.wall();
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
            Input::Row(call, row) => {
                let learned = self.feed.read_row(call, &row, ctx);
                self.learned(learned, ctx);
            }
        }
        self.carry_on(ctx);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }
}
