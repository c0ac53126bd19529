//! A process of scheduler workers: [`Attempts`] and the real scheduler with messages around them, as in
//! `scheduler::worker`.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::eval::Evaluation;
use model::job::JobType;
use model::{Index, Nanos};
use scheduler::attempt::{Attempts, End, Next, ReturnReason};
use scheduling::{Attempt, Proposal, schedule};
use state::State;
use wire::broker::{Delivery, Dequeue, EvalLeaseAction, EvalLeaseRequest, SCHEDULER_VERSION};
use wire::command::{Command, SubmitPlan};

use crate::commands::Commands;
use crate::disk::Disk;
use crate::messages::{Body, Input, Reply, Subject, Timer};
use crate::replica::{Replica, Update};
use crate::world::{Ctx, Process};

/// How many evaluations are worked on at once.
const TASKS_MAX: usize = 2;
const POLL: Nanos = Nanos(500 * Nanos::MILLISECOND.0);
const POLL_TIMEOUT: Nanos = Nanos(1500 * Nanos::MILLISECOND.0);
const RETRY: Nanos = Nanos(200 * Nanos::MILLISECOND.0);
const INDEX_WAIT: Nanos = Nanos::from_secs(5);
const PLAN_TIMEOUT: Nanos = Nanos::from_secs(10);
const BROKER_TIMEOUT: Nanos = Nanos::from_secs(1);
/// How long scheduling takes: longer than in production, so that more happens meanwhile.
const COMPUTE_TIME: (i64, i64) = (100_000, 400_000_000);

/// The worker process.
pub(crate) struct WorkerProcess {
    replica: Replica,
    commands: Commands<u64>,
    polling: Option<u64>,
    tasks: BTreeMap<u64, Task>,
    renewals: BTreeMap<u64, u64>,
}

struct Task {
    delivery: Delivery,
    attempts: Attempts,
    phase: Phase,
}

enum Phase {
    Waiting { at_least: Index, attempts_without_progress: u8, until: Nanos },
    Computing(Option<Box<Proposal>>),
    Submitted,
}

impl WorkerProcess {
    pub(crate) fn new() -> Self {
        Self {
            replica: Replica::new(false),
            commands: Commands::new(),
            polling: None,
            tasks: BTreeMap::new(),
            renewals: BTreeMap::new(),
        }
    }

    fn poll(&mut self, ctx: &mut Ctx<'_>) {
        if self.polling.is_some() || self.tasks.len() >= TASKS_MAX || !self.replica.is_ready() {
            return;
        }
        if self.replica.has_lost() {
            return ctx.timer(RETRY, Timer::Poll);
        }
        let dequeue = Dequeue {
            kinds: JobType::ALL.to_vec(),
            max: u16::try_from(TASKS_MAX - self.tasks.len()).unwrap_or(1),
            timeout_ms: u32::try_from(POLL.0 / Nanos::MILLISECOND.0).unwrap_or_default(),
            scheduler_version: SCHEDULER_VERSION,
        };
        self.polling = Some(ctx.request(Subject::Dequeue, Body::Dequeue(dequeue), POLL_TIMEOUT));
    }

    fn start_task(&mut self, delivery: Delivery, ctx: &mut Ctx<'_>) {
        let number = ctx.number();
        let attempts = Attempts::new(delivery.wait_index);
        let next = attempts.attempt();
        self.tasks.insert(number, Task { delivery, attempts, phase: Phase::Submitted });
        ctx.timer(renew_every(delivery), Timer::Renew(number));
        self.next(number, next, ctx);
    }

    fn next(&mut self, number: u64, next: Next, ctx: &mut Ctx<'_>) {
        match next {
            Next::Schedule { at_least, attempts_without_progress } => {
                if let Some(task) = self.tasks.get_mut(&number) {
                    task.phase = Phase::Waiting {
                        at_least,
                        attempts_without_progress,
                        until: ctx.world.now + INDEX_WAIT,
                    };
                    ctx.timer(INDEX_WAIT, Timer::Task(number));
                }
                self.try_schedule(number, ctx);
            }
            Next::End(end) => self.end(number, &end, ctx),
        }
    }

    /// Schedules once the replica has reached the index.
    fn try_schedule(&mut self, number: u64, ctx: &mut Ctx<'_>) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        let Phase::Waiting { at_least, attempts_without_progress, until } = task.phase else { return };
        let Some(state) = self.replica.state().cloned() else { return };
        if state.index() < at_least {
            if ctx.world.now >= until {
                self.end(number, &End::Returned(ReturnReason::Behind(at_least)), ctx);
            }
            return;
        }
        let Some(eval) = state.eval(task.delivery.eval_id).filter(|eval| !eval.status.is_terminal()) else {
            return self.end(number, &End::Finished, ctx);
        };
        let eval: Evaluation = Evaluation::clone(eval);
        let now = self.replica.cluster_now(ctx).max(state.at()).max(eval.wait_until);
        let attempt = Attempt {
            state: &state,
            eval: &eval,
            now,
            attempts_without_progress,
            rollouts: true,
            explain: false,
        };
        task.phase = Phase::Computing(Some(Box::new(schedule(&attempt, &mut || ctx.id()))));
        let delay = ctx.world.between(COMPUTE_TIME);
        ctx.timer(delay, Timer::Task(number));
    }

    fn submit(&mut self, number: u64, ctx: &mut Ctx<'_>) {
        let Some(task) = self.tasks.get_mut(&number) else { return };
        let Phase::Computing(proposal) = &mut task.phase else { return };
        let Some(proposal) = proposal.take() else { return };
        task.phase = Phase::Submitted;
        let Proposal { plan, outcome } = *proposal;
        let submit = SubmitPlan { plan, outcome, scheduler_version: SCHEDULER_VERSION };
        self.commands.send(Command::SubmitPlan(Box::new(submit)), number, PLAN_TIMEOUT, ctx);
    }

    fn end(&mut self, number: u64, end: &End, ctx: &mut Ctx<'_>) {
        let Some(task) = self.tasks.remove(&number) else { return };
        match end {
            End::Finished => {}
            End::Returned(_) => {
                update_lease(task.delivery, EvalLeaseAction::GiveBack, ctx);
            }
            End::Failed(_) => {
                update_lease(task.delivery, EvalLeaseAction::Fail, ctx);
            }
        }
        self.poll(ctx);
    }

    fn handle_update(&mut self, update: &Update, ctx: &mut Ctx<'_>) {
        if matches!(update, Update::Nothing) {
            return;
        }
        let all: Vec<u64> = self.tasks.keys().copied().collect();
        all.into_iter().for_each(|number| self.try_schedule(number, ctx));
        self.poll(ctx);
    }
}

fn update_lease(delivery: Delivery, action: EvalLeaseAction, ctx: &mut Ctx<'_>) -> u64 {
    let request = EvalLeaseRequest { eval_id: delivery.eval_id, token: delivery.token, action };
    ctx.request(Subject::EvalLease, Body::EvalLease(request), BROKER_TIMEOUT)
}

fn renew_every(delivery: Delivery) -> Nanos {
    Nanos(i64::from(delivery.lease_ms) * Nanos::MILLISECOND.0 / 4)
}

impl Process for WorkerProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => self.replica.start(ctx),
            Input::Timer(Timer::Resend(id)) => self.commands.resend(id, ctx),
            Input::Timer(Timer::Poll) => self.poll(ctx),
            Input::Timer(Timer::Task(number)) => {
                self.submit(number, ctx);
                self.try_schedule(number, ctx);
            }
            Input::Timer(Timer::Renew(number)) => {
                if let Some(task) = self.tasks.get(&number) {
                    let delivery = task.delivery;
                    self.renewals.insert(update_lease(delivery, EvalLeaseAction::Renew, ctx), number);
                    ctx.timer(renew_every(delivery), Timer::Renew(number));
                }
            }
            Input::Timer(_) => {}
            Input::Message(message) => {
                let update = self.replica.handle_message(&message.body, ctx);
                self.handle_update(&update, ctx);
            }
            Input::Reply(call, reply) => {
                if self.polling == Some(call) {
                    self.polling = None;
                    if let Reply::Dequeued(deliveries) = reply {
                        deliveries.into_iter().for_each(|delivery| self.start_task(delivery, ctx));
                        self.poll(ctx);
                    } else {
                        ctx.timer(RETRY, Timer::Poll);
                    }
                } else if let Some(number) = self.renewals.remove(&call) {
                    if matches!(reply, Reply::EvalLease(false)) {
                        // A plan that was submitted stays in flight.
                        self.tasks.remove(&number);
                        self.poll(ctx);
                    }
                } else if let Some((number, answer)) = self.commands.handle_reply(call, &reply, ctx)
                    && let Some(task) = self.tasks.get_mut(&number)
                {
                    let next = task.attempts.answered(&answer);
                    self.next(number, next, ctx);
                }
            }
            Input::DbReply(call, reply) => {
                let update = self.replica.handle_db_reply(call, &reply, ctx);
                self.handle_update(&update, ctx);
            }
        }
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }

    fn replica(&self) -> Option<&Arc<State>> {
        self.replica.state()
    }
}
