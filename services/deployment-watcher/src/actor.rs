//! [`DeploymentWatcher`]: the actor that owns the core [`Watcher`], and the tasks that bring it state changes and send its
//! commands.

use std::time::Duration;

use actix::{Actor, ActorContext, Addr, AsyncContext, Context, Handler, Message, SpawnHandle};
use bus::{Bus, Contact};
use model::{Epoch, Index, Nanos, Timestamp};
use state::{FollowEvent, Follower};
use telemetry::repeats::{Outage, Repeats};
use telemetry::{attribute, clock, traces};
use tokio::sync::mpsc;
use tracing::{Instrument as _, Span};
use wire::command::{Command, DeploymentFinding, DeploymentStep, UpdateDeployments};

use crate::core::{Settings, Watcher};
use crate::metrics;

/// How long one command is retried. After that the watcher computes its findings anew.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The active deployment watcher.
pub(crate) struct DeploymentWatcher {
    watcher: Watcher,
    settings: Settings,
    epoch: Epoch,
    /// Has the cluster's time, by which deadlines pass. The clock of this host takes no part.
    contact: Contact,
    writes: mpsc::Sender<(UpdateDeployments, Span)>,
    timer: Option<(Timestamp, SpawnHandle)>,
}

/// The replica's state has changed.
#[derive(Message)]
#[rtype(result = "()")]
pub(crate) struct StateChanged(FollowEvent);

/// The outcome of a command: the index at which it was committed, or `None` if it failed or its outcome is unknown.
#[derive(Message)]
#[rtype(result = "()")]
struct Written(Option<Index>);

/// This process is no longer the active watcher.
#[derive(Message)]
#[rtype(result = "()")]
struct Stop;

/// Stops the actor when dropped. The actor's timer would otherwise keep it alive after its last address is gone.
pub(crate) struct StopOnDrop(pub(crate) Addr<DeploymentWatcher>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.do_send(Stop);
    }
}

/// Sends every state change to the watcher. Awaiting each reply is the back-pressure.
pub(crate) async fn follow(mut follower: Follower, watcher: Addr<DeploymentWatcher>) {
    while watcher.send(StateChanged(follower.next().await)).await.is_ok() {}
}

/// Sends the watcher's commands, one at a time.
pub(crate) async fn write(
    mut writes: mpsc::Receiver<(UpdateDeployments, Span)>,
    bus: Bus,
    watcher: Addr<DeploymentWatcher>,
) {
    let outage = Outage::default();
    while let Some((write, span)) = writes.recv().await {
        span.in_scope(|| write.findings.iter().for_each(log_finding));
        let result = bus.command(&Command::UpdateDeployments(write), WRITE_TIMEOUT).instrument(span).await;
        let written = match result {
            Ok(done) => {
                if let Some(Repeats { attempts, lasting_secs, .. }) = outage.succeeded(clock::monotonic()) {
                    tracing::info!(attempts, lasting_secs, "deployment updates are committed again");
                }
                Some(done.index)
            }
            Err(error) => {
                metrics::not_written();
                let error = telemetry::chain(&error);
                if let Some(Repeats { attempts, lasting_secs, .. }) =
                    outage.failed(&error, clock::monotonic())
                {
                    tracing::warn!(error, attempts, lasting_secs, "cannot commit deployment updates");
                }
                None
            }
        };
        if watcher.send(Written(written)).await.is_err() {
            return;
        }
    }
}

/// Counts a finding and logs the ones that operators care about.
fn log_finding(finding: &DeploymentFinding) {
    let DeploymentFinding { id, step } = finding;
    metrics::found(step);
    match step {
        DeploymentStep::FailUnhealthy { allocs } => {
            let unhealthy = allocs.len();
            tracing::info!(deployment.id = %id, unhealthy, "failing a deployment: its allocations are unhealthy");
        }
        DeploymentStep::FailLate { .. } => {
            tracing::info!(deployment.id = %id, "failing a deployment: it missed its progress deadline");
        }
        DeploymentStep::Promote => {
            tracing::info!(deployment.id = %id, "promoting the canaries of a deployment");
        }
        DeploymentStep::Advance | DeploymentStep::Replace { .. } => {}
    }
}

impl DeploymentWatcher {
    pub(crate) fn new(
        watcher: Watcher,
        settings: Settings,
        epoch: Epoch,
        contact: Contact,
        writes: mpsc::Sender<(UpdateDeployments, Span)>,
    ) -> Self {
        Self { watcher, settings, epoch, contact, writes, timer: None }
    }

    /// Called after each event: sends the next command if there is one, and sets the timer for the next deadline.
    fn advance(&mut self, ctx: &mut Context<Self>) {
        let now = self.contact.cluster_now();
        metrics::watched(self.watcher.active_count());
        if let Some(write) = self.watcher.next_write(self.epoch, now) {
            // The channel has room: the core emits one command at a time.
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
            let delay = Nanos::MILLISECOND.max(due - now);
            let timer = ctx.run_later(Duration::from_nanos(delay.0.unsigned_abs()), |watcher, ctx| {
                watcher.timer = None;
                watcher.advance(ctx);
            });
            (due, timer)
        });
    }
}

impl DeploymentWatcher {
    /// The span of an update. It is disabled if no deployment in the update has a trace. A deployment outlives the trace in
    /// which it began, so an update gets its own trace, which links to the traces of its deployments.
    fn span(&self, update: &UpdateDeployments) -> Span {
        if !traces::are_exported() {
            return Span::none();
        }
        let traces = update.findings.iter().filter_map(|finding| self.watcher.trace_of(finding.id));
        let traces: Vec<_> = traces.collect();
        if traces.is_empty() {
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
        traces::link_all(&span, traces);
        span
    }
}

impl Actor for DeploymentWatcher {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        self.advance(ctx);
    }
}

impl Handler<StateChanged> for DeploymentWatcher {
    type Result = ();

    fn handle(&mut self, StateChanged(followed): StateChanged, ctx: &mut Self::Context) {
        let now = self.contact.cluster_now();
        match followed {
            FollowEvent::Reset(state) => self.watcher = Watcher::restore(self.settings, state, now),
            FollowEvent::Step(step) => self.watcher.step(&step, now),
        }
        self.advance(ctx);
    }
}

impl Handler<Written> for DeploymentWatcher {
    type Result = ();

    fn handle(&mut self, Written(index): Written, ctx: &mut Self::Context) {
        match index {
            Some(index) => self.watcher.written(index),
            None => self.watcher.not_written(self.contact.cluster_now()),
        }
        self.advance(ctx);
    }
}

impl Handler<Stop> for DeploymentWatcher {
    type Result = ();

    fn handle(&mut self, _: Stop, ctx: &mut Self::Context) {
        ctx.stop();
    }
}
