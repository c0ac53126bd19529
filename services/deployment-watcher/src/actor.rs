//! [`DeploymentWatcher`]: the actor that owns the watcher's core, and the tasks that bring it changes and carry out what it
//! finds.

use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use bus::Bus;
use model::{Epoch, Index, Nanos, Timestamp};
use state::{Followed, Follower};
use telemetry::{attribute, clock, traces};
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};
use wire::command::{Command, DeploymentFinding, DeploymentStep, UpdateDeployments};

use crate::measure;
use crate::watcher::{Settings, Watcher};

/// How long one command is repeated before what is to be written is found anew.
const WRITE_WITHIN: Duration = Duration::from_secs(30);

/// The active watcher.
pub(crate) struct DeploymentWatcher {
    watcher: Watcher,
    settings: Settings,
    epoch: Epoch,
    writes: mpsc::Sender<(UpdateDeployments, Span)>,
    timer: Option<(Timestamp, SpawnHandle)>,
}

/// The state moved on.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct Moved(Followed);

/// What was to be written is committed at this index, or may not be written.
#[derive(Message)]
#[rtype(result = "()")]
struct Written(Option<Index>);

/// This process is not the active one any more.
#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Stops the actor when dropped. Its timer would keep it alive although nobody can reach it.
pub(crate) struct Retire(pub(crate) Addr<DeploymentWatcher>);

impl Drop for Retire {
    fn drop(&mut self) {
        self.0.do_send(Stop);
    }
}

/// Brings the watcher every change. Awaiting the reply is the back-pressure.
pub(crate) async fn follow(mut follower: Follower, watcher: Addr<DeploymentWatcher>) {
    while watcher.send(Moved(follower.next().await)).await.is_ok() {}
}

/// Sends the watcher's commands, one after the other.
pub(crate) async fn write(
    mut writes: mpsc::Receiver<(UpdateDeployments, Span)>,
    bus: Bus,
    watcher: Addr<DeploymentWatcher>,
) {
    while let Some((write, span)) = writes.recv().await {
        span.in_scope(|| write.findings.iter().for_each(tell));
        let told = bus.command(&Command::UpdateDeployments(write), WRITE_WITHIN).instrument(span).await;
        let written = match told {
            Ok(done) => Some(done.index),
            Err(error) => {
                measure::not_written();
                let error = telemetry::chain(&error);
                tracing::warn!(error, "cannot write down what became of deployments");
                None
            }
        };
        if watcher.send(Written(written)).await.is_err() {
            return;
        }
    }
}

/// Tells operators what they may want to know.
fn tell(finding: &DeploymentFinding) {
    let DeploymentFinding { id, step } = finding;
    measure::found(step);
    match step {
        DeploymentStep::FailUnhealthy { allocs } => {
            let unhealthy = allocs.len();
            tracing::info!(deployment.id = %id, unhealthy, "a deployment fails: its allocations are unhealthy");
        }
        DeploymentStep::FailLate { .. } => {
            tracing::info!(deployment.id = %id, "a deployment fails: it makes no progress");
        }
        DeploymentStep::Advance | DeploymentStep::Replace { .. } => {}
    }
}

impl DeploymentWatcher {
    pub(crate) fn new(
        watcher: Watcher,
        settings: Settings,
        epoch: Epoch,
        writes: mpsc::Sender<(UpdateDeployments, Span)>,
    ) -> Self {
        Self { watcher, settings, epoch, writes, timer: None }
    }

    /// After anything has happened: has written what is to be, and sees to the next moment at which something is due.
    fn carry_on(&mut self, ctx: &mut Context<Self>) {
        let now = clock::now();
        measure::watched(self.watcher.watched());
        if let Some(write) = self.watcher.next_write(self.epoch, now) {
            // There is room: the core asks for one at a time.
            let span = self.span(&write);
            if self.writes.try_send((write, span)).is_err() {
                self.watcher.not_written(now);
            }
        }
        let due = self.watcher.poll_timeout();
        if due == self.timer.map(|(due, _)| due) {
            return;
        }
        if let Some((_, timer)) = self.timer.take() {
            ctx.cancel_future(timer);
        }
        self.timer = due.map(|due| {
            let length = Nanos::MILLISECOND.max(due - now);
            let timer = ctx.run_later(Duration::from_nanos(length.0.unsigned_abs()), |watcher, ctx| {
                watcher.timer = None;
                watcher.carry_on(ctx);
            });
            (due, timer)
        });
    }
}

impl DeploymentWatcher {
    /// The span of an update, disabled if none of its deployments is traced. A deployment goes on long after the trace in
    /// which it began, so an update has a trace of its own, which links to those.
    fn span(&self, update: &UpdateDeployments) -> Span {
        if !traces::are_exported() {
            return Span::none();
        }
        let found = update.findings.iter().filter_map(|finding| self.watcher.trace_of(finding.id));
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            return Span::none();
        }
        let only = match &update.findings[..] {
            [only] => Some(only.id.to_string()),
            _ => None,
        };
        let span = tracing::info_span!(
            parent: None,
            "update deployments",
            { attribute::DEPLOYMENTS } = update.findings.len().cast_signed() as i64,
            { attribute::DEPLOYMENT_ID } = only,
        );
        traces::link_all(&span, found);
        span
    }
}

impl Actor for DeploymentWatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.carry_on(ctx);
    }
}

impl Handler<Moved> for DeploymentWatcher {
    type Result = ();

    fn handle(&mut self, Moved(followed): Moved, ctx: &mut Self::Context) {
        let now = clock::now();
        match followed {
            Followed::Reset(state) => self.watcher = Watcher::restore(self.settings, state, now),
            Followed::Step(step) => self.watcher.step(&step, now),
        }
        self.carry_on(ctx);
    }
}

impl Handler<Written> for DeploymentWatcher {
    type Result = ();

    fn handle(&mut self, Written(index): Written, ctx: &mut Self::Context) {
        match index {
            Some(index) => self.watcher.written(index),
            None => self.watcher.not_written(clock::now()),
        }
        self.carry_on(ctx);
    }
}

impl Handler<Stop> for DeploymentWatcher {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
