//! [`Serving`]: the broker's core in its shell, with the workers that wait for evaluations, metrics, logs and traces.

use std::time::Duration;

use actix::{Context, Handler, Message};
use bus::Bus;
use model::eval::EvalStatus;
use model::job::JobType;
use model::{Epoch, Nanos, Timestamp};
use singleton::{Core, Shell, Write};
use state::{Snapshot, Step};
use telemetry::{attribute, traces};
use tokio::sync::oneshot;
use wire::broker::{Delivery, EvalLeaseAction, EvalLeaseRequest};
use wire::command::{Command, Done, UpdateEvals};

use crate::core::Broker;
use crate::metrics;
use crate::queue::Settings;
use crate::waiters::{Waiter, Waiters};

/// The actor of the active broker.
pub(crate) type EvalBroker = Shell<Serving>;

/// The active broker.
pub(crate) struct Serving {
    broker: Broker,
    waiters: Waiters<oneshot::Sender<Vec<Delivery>>>,
    settings: Settings,
    bus: Bus,
}

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

impl Serving {
    pub(crate) fn new(settings: Settings, bus: Bus, state: Snapshot, now: Timestamp) -> Self {
        Self { broker: Broker::restore(settings, state, now), waiters: Waiters::default(), settings, bus }
    }

    /// Serves the waiting workers.
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
}

impl Core for Serving {
    const CANNOT_COMMIT: &'static str = "cannot commit evaluation updates";
    const COMMITS_AGAIN: &'static str = "evaluation updates are committed again";
    const MAILBOX_CAPACITY: usize = 256;
    const METRICS_INTERVAL: Option<Duration> = Some(Duration::from_secs(2));

    /// Workers that wait keep waiting.
    fn restore(&mut self, state: Snapshot, now: Timestamp) {
        self.broker = Broker::restore(self.settings, state, now);
    }

    fn step(&mut self, step: &Step, now: Timestamp) {
        self.broker.step(step, now).iter().for_each(metrics::finished);
    }

    fn work(&mut self, now: Timestamp) {
        self.serve(now);
    }

    fn next_write(&mut self, epoch: Epoch, now: Timestamp) -> Option<Write> {
        let write = self.broker.next_write(epoch, now)?;
        log_failed(&write);
        Some(Write::new(Command::UpdateEvals(write)))
    }

    fn poll_timeout(&self) -> Option<Timestamp> {
        [self.broker.poll_timeout(), self.waiters.poll_timeout()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Timestamp) {
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

    fn written(&mut self, done: &Done, _: Timestamp) {
        self.broker.written(done.index);
    }

    fn not_written(&mut self, now: Timestamp) {
        self.broker.not_written(now);
    }

    fn publish_metrics(&self, now: Timestamp) {
        metrics::publish(self.broker.queue(), self.broker.blocked(), now);
    }

    fn retire(&mut self) {
        metrics::clear();
    }
}

/// Logs the evaluations that fail because workers never finished them.
fn log_failed(write: &UpdateEvals) {
    for failed in write.updates.iter().filter(|update| update.status == EvalStatus::Failed) {
        for id in &failed.ids {
            tracing::warn!(eval.id = %id, "evaluation reached the delivery limit");
        }
    }
}

impl Handler<Dequeue> for EvalBroker {
    type Result = Option<oneshot::Receiver<Vec<Delivery>>>;

    fn handle(&mut self, Dequeue { kinds, max, wait }: Dequeue, ctx: &mut Context<Self>) -> Self::Result {
        self.with(ctx, |serving, now| {
            if serving.waiters.is_full() {
                return None;
            }
            let (reply, receiver) = oneshot::channel();
            let wait = Nanos(i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX));
            serving.waiters.add(Waiter { kinds, max, deadline: now + wait, reply });
            Some(receiver)
        })
    }
}

impl Handler<WorkerAction> for EvalBroker {
    type Result = bool;

    fn handle(&mut self, WorkerAction(request): WorkerAction, ctx: &mut Context<Self>) -> bool {
        let EvalLeaseRequest { eval_id, token, action } = request;
        self.with(ctx, |serving, now| serving.broker.apply_lease_action(eval_id, token, action, now))
    }
}
