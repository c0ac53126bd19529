//! [`EvalBroker`]: the actor that owns the broker's core, and the tasks that feed it changes and carry out its
//! commands.

use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use bus::{Bus, Contact};
use model::eval::EvalStatus;
use model::job::JobType;
use model::{Epoch, Index, Nanos, Timestamp};
use state::{FollowEvent, Follower};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{attribute, clock, traces};
use tokio::sync::{mpsc, oneshot};
use wire::broker::{Delivery, EvalLeaseAction, EvalLeaseRequest};
use wire::command::{Command, UpdateEvals};

use crate::core::Broker;
use crate::metrics;
use crate::queue::Settings;
use crate::waiters::{Waiter, Waiters};

/// Interval at which the gauges are set.
const METRICS_INTERVAL: Duration = Duration::from_secs(2);
/// How long a command is sent again before the updates are collected anew.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// Capacity of the actor's mailbox; further senders wait.
const MAILBOX: usize = 256;

/// The active broker.
pub(crate) struct EvalBroker {
    broker: Broker,
    waiters: Waiters<oneshot::Sender<Vec<Delivery>>>,
    settings: Settings,
    bus: Bus,
    contact: Contact,
    epoch: Epoch,
    writes: mpsc::Sender<UpdateEvals>,
    timer: Option<(Timestamp, SpawnHandle)>,
}

/// The state changed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StateChanged(FollowEvent);

/// A worker requests evaluations. The receiver gets them, or an empty list after the timeout. Without a receiver, too
/// many requests are waiting.
#[derive(Message)]
#[rtype(result = "Option<oneshot::Receiver<Vec<Delivery>>>")]
pub(crate) struct Dequeue {
    pub(crate) kinds: Vec<JobType>,
    pub(crate) max: usize,
    pub(crate) wait: Duration,
}

/// A worker's action on an evaluation that it has leased. The answer is whether it still held the lease.
#[derive(Message)]
#[rtype(result = "bool")]
pub(crate) struct WorkerAction(pub(crate) EvalLeaseRequest);

/// The write was committed at this index; `None` if it may not have been.
#[derive(Message)]
#[rtype(result = "()")]
struct Written(Option<Index>);

/// This process is no longer active.
#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Stops the actor when dropped; its timers would keep it alive otherwise.
pub(crate) struct StopOnDrop(pub(crate) Addr<EvalBroker>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.do_send(Stop);
    }
}

/// Sends the broker every change. Awaiting the reply gives back-pressure.
pub(crate) async fn follow(mut follower: Follower, broker: Addr<EvalBroker>) {
    while broker.send(StateChanged(follower.next().await)).await.is_ok() {}
}

/// Sends the broker's commands one at a time.
pub(crate) async fn write(mut writes: mpsc::Receiver<UpdateEvals>, bus: Bus, broker: Addr<EvalBroker>) {
    let outage = Outage::default();
    while let Some(write) = writes.recv().await {
        for failed in write.updates.iter().filter(|update| update.status == EvalStatus::Failed) {
            for id in &failed.ids {
                tracing::warn!(eval.id = %id, "evaluation reached the delivery limit");
            }
        }
        let written = match bus.command(&Command::UpdateEvals(write), WRITE_TIMEOUT).await {
            Ok(done) => {
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "evaluation updates are committed again");
                }
                Some(done.index)
            }
            Err(error) => {
                let error = telemetry::chain(&error);
                if let Some(Repeats { attempts, lasting_secs, .. }) =
                    outage.failed(&error, clock::monotonic())
                {
                    tracing::warn!(error, attempts, lasting_secs, "cannot commit evaluation updates");
                }
                None
            }
        };
        if broker.send(Written(written)).await.is_err() {
            return;
        }
    }
}

impl EvalBroker {
    pub(crate) fn new(
        broker: Broker,
        settings: Settings,
        bus: Bus,
        epoch: Epoch,
        writes: mpsc::Sender<UpdateEvals>,
    ) -> Self {
        let (waiters, contact) = (Waiters::default(), bus.contact());
        Self { broker, waiters, settings, bus, contact, epoch, writes, timer: None }
    }

    /// The cluster's time, by which evaluations become due. The clock of this host takes no part.
    fn now(&self) -> Timestamp {
        self.contact.cluster_now()
    }

    /// Runs after every message: serves waiting workers, sends the next command, and sets the timer.
    fn advance(&mut self, ctx: &mut Context<Self>) {
        let now = self.now();
        self.serve(now);
        if let Some(write) = self.broker.next_write(self.epoch, now) {
            // The channel has capacity, because the core emits one command at a time.
            if self.writes.try_send(write).is_err() {
                self.broker.not_written(now);
            }
        }
        self.set_timer(now, ctx);
    }

    fn serve(&mut self, now: Timestamp) {
        loop {
            let ready = self.broker.ready_count(JobType::ALL);
            let (broker, bus) = (&mut self.broker, &self.bus);
            let dequeue = |kinds: &[JobType], max| broker.dequeue(kinds, max, now, || bus.new_request_id());
            let served = self.waiters.serve(ready, dequeue);
            if served.is_empty() {
                return;
            }
            for (reply, deliveries) in served {
                deliveries.iter().for_each(|delivery| self.trace_wait(delivery, now));
                let Err(undelivered) = reply.send(deliveries) else { continue };
                for delivery in undelivered {
                    self.broker.apply_lease_action(
                        delivery.eval_id,
                        delivery.token,
                        EvalLeaseAction::GiveBack,
                        now,
                    );
                }
            }
        }
    }

    /// Records in the evaluation's trace how long it was in the queue.
    fn trace_wait(&self, delivery: &Delivery, now: Timestamp) {
        let Some((eval, waited)) = self.broker.queue().leased(delivery.eval_id) else { return };
        let Some(trace) = &eval.trace else { return };
        traces::in_trace(trace, || tracing::debug!(eval.id = %eval.id, "evaluation leased to a worker"));
        let enqueued = Timestamp(now.0.saturating_sub(waited.unwrap_or_default().0));
        traces::record_past("queue eval", trace, enqueued, now, || {
            vec![
                (attribute::EVAL_ID, eval.id.to_string().into()),
                (attribute::EVAL_TRIGGERED_BY, eval.trigger.to_string().into()),
                (attribute::JOB_ID, eval.job.id.to_string().into()),
                (attribute::JOB_NAMESPACE, eval.job.namespace.to_string().into()),
                (attribute::JOB_TYPE, eval.kind.as_str().into()),
            ]
        });
    }

    fn set_timer(&mut self, now: Timestamp, ctx: &mut Context<Self>) {
        let due = [self.broker.poll_timeout(), self.waiters.poll_timeout()].into_iter().flatten().min();
        if due == self.timer.map(|(due, _)| due) {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.timer = due.map(|due| {
            let length = Nanos::MILLISECOND.max(due - now);
            let timer = ctx.run_later(Duration::from_nanos(length.0.unsigned_abs()), |broker, ctx| {
                broker.timer = None;
                broker.handle_timeouts();
                broker.advance(ctx);
            });
            (due, timer)
        });
    }

    fn handle_timeouts(&mut self) {
        let now = self.now();
        let expired = self.broker.handle_timeout(now);
        metrics::expired(expired.len());
        for id in expired {
            tracing::info!(eval.id = %id, "lease of an evaluation expired");
        }
        for reply in self.waiters.handle_timeout(now) {
            // Fails if the worker is gone.
            let _ = reply.send(Vec::new());
        }
    }
}

impl Actor for EvalBroker {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        ctx.set_mailbox_capacity(MAILBOX);
        ctx.run_interval(METRICS_INTERVAL, |broker, _| {
            metrics::publish(broker.broker.queue(), broker.broker.blocked(), broker.now());
        });
        self.advance(ctx);
    }

    fn stopped(&mut self, _: &mut Self::Context) {
        metrics::clear();
    }
}

impl Handler<StateChanged> for EvalBroker {
    type Result = ();

    fn handle(&mut self, StateChanged(followed): StateChanged, ctx: &mut Self::Context) {
        let now = self.now();
        match followed {
            FollowEvent::Reset(state) => self.broker = Broker::restore(self.settings, state, now),
            FollowEvent::Step(step) => self.broker.step(&step, now).iter().for_each(metrics::finished),
        }
        self.advance(ctx);
    }
}

impl Handler<Dequeue> for EvalBroker {
    type Result = Option<oneshot::Receiver<Vec<Delivery>>>;

    fn handle(&mut self, Dequeue { kinds, max, wait }: Dequeue, ctx: &mut Self::Context) -> Self::Result {
        if self.waiters.is_full() {
            return None;
        }
        let (reply, receiver) = oneshot::channel();
        let wait = Nanos(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
        let deadline = self.now() + wait;
        self.waiters.add(Waiter { kinds, max, deadline, reply });
        self.advance(ctx);
        Some(receiver)
    }
}

impl Handler<WorkerAction> for EvalBroker {
    type Result = bool;

    fn handle(&mut self, WorkerAction(request): WorkerAction, ctx: &mut Self::Context) -> bool {
        let EvalLeaseRequest { eval_id, token, action } = request;
        let now = self.now();
        let held = self.broker.apply_lease_action(eval_id, token, action, now);
        self.advance(ctx);
        held
    }
}

impl Handler<Written> for EvalBroker {
    type Result = ();

    fn handle(&mut self, Written(index): Written, ctx: &mut Self::Context) {
        match index {
            Some(index) => self.broker.written(index),
            None => {
                let now = self.now();
                self.broker.not_written(now);
            }
        }
        self.advance(ctx);
    }
}

impl Handler<Stop> for EvalBroker {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
