//! A process of the deployment watcher: its three cores, for deployments, drains and launches, with messages around them,
//! as in `deployment_watcher::run` and `singleton`.

use std::sync::Arc;

use deployment_watcher::{Deployments, Drains, Launches, Settings};
use model::cluster::Singleton;
use model::{Epoch, Index, Nanos, ProcessId, Timestamp};
use singleton::Core;
use state::{State, Step};
use wire::command::{CommandError, Done};

use crate::commands::Commands;
use crate::disk::Disk;
use crate::lease::{Lease, LeaseAction};
use crate::messages::{Input, Timer};
use crate::replica::{Replica, Update};
use crate::world::{Ctx, Process};

/// How long changes are batched, as by default.
const BATCH_DELAY: Nanos = Nanos(250 * Nanos::MILLISECOND.0);
const COMMAND_TIMEOUT: Nanos = Nanos::from_secs(5);
const POLL: Nanos = Nanos(100 * Nanos::MILLISECOND.0);

/// The watcher process.
pub(crate) struct WatcherProcess {
    replica: Replica,
    lease: Lease,
    commands: Commands<Purpose>,
    /// The index of the grant, until the replica has reached it and the cores begin.
    granted: Option<Index>,
    active: Option<Active>,
}

/// The purpose of a command.
enum Purpose {
    TakeLease,
    /// A write of a core, of the activation with this number.
    Write(u64, CoreKind),
}

/// One of the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CoreKind {
    Deployments,
    Drains,
    Launches,
}

/// The cores of an active watcher.
struct Active {
    number: u64,
    deployments: Deployments,
    drains: Drains,
    launches: Launches,
}

impl Active {
    fn new(state: &Arc<State>, number: u64, now: Timestamp) -> Self {
        let settings = Settings { batch_delay: BATCH_DELAY };
        Self {
            number,
            deployments: Deployments::new(settings, Arc::clone(state), now),
            drains: Drains::new(BATCH_DELAY, Arc::clone(state), now),
            launches: Launches::new(Arc::clone(state)),
        }
    }

    fn restore(&mut self, state: &Arc<State>, now: Timestamp) {
        self.deployments.restore(Arc::clone(state), now);
        self.drains.restore(Arc::clone(state), now);
        self.launches.restore(Arc::clone(state), now);
    }

    fn step(&mut self, step: &Step, now: Timestamp) {
        self.deployments.step(step, now);
        self.drains.step(step, now);
        self.launches.step(step, now);
    }

    /// Passes the outcome of a command to the core that sent it.
    fn answered(&mut self, kind: CoreKind, result: &Result<Done, CommandError>, now: Timestamp) {
        match kind {
            CoreKind::Deployments => answered(&mut self.deployments, result, now),
            CoreKind::Drains => answered(&mut self.drains, result, now),
            CoreKind::Launches => answered(&mut self.launches, result, now),
        }
    }
}

fn answered(core: &mut impl Core, result: &Result<Done, CommandError>, now: Timestamp) {
    match result {
        Ok(done) => core.written(done, now),
        Err(_) => core.not_written(now),
    }
}

/// Lets a core act on its timer, and sends its next command.
fn advance(
    core: &mut impl Core,
    purpose: Purpose,
    (epoch, now): (Epoch, Timestamp),
    commands: &mut Commands<Purpose>,
    ctx: &mut Ctx<'_>,
) {
    if core.poll_timeout().is_some_and(|due| due <= now) {
        core.handle_timeout(now);
    }
    if let Some(write) = core.next_write(epoch, now) {
        commands.send(write.command, purpose, COMMAND_TIMEOUT, ctx);
    }
}

impl WatcherProcess {
    pub(crate) fn new(id: ProcessId) -> Self {
        Self {
            replica: Replica::new(true),
            lease: Lease::new(Singleton::DeploymentWatcher, id),
            commands: Commands::new(),
            granted: None,
            active: None,
        }
    }

    fn handle_update(&mut self, update: Update, ctx: &mut Ctx<'_>) {
        let now = self.replica.cluster_now(ctx);
        match update {
            Update::Nothing => {}
            Update::Loaded => ctx.timer(Nanos::ZERO, Timer::Lease),
            Update::Step(step) => {
                if let Some(active) = &mut self.active {
                    active.step(&step, now);
                }
            }
            Update::Reset => {
                if let (Some(active), Some(state)) = (&mut self.active, self.replica.state()) {
                    active.restore(state, now);
                }
            }
        }
        self.activate(ctx);
    }

    /// Begins once the replica contains the grant, and so everything that the watcher before has committed.
    fn activate(&mut self, ctx: &mut Ctx<'_>) {
        let Some(state) = self.replica.state().cloned() else { return };
        if self.granted.take_if(|index| *index <= state.index()).is_some() {
            let now = self.replica.cluster_now(ctx);
            self.active = Some(Active::new(&state, ctx.number(), now));
        }
    }

    fn act_on_lease(&mut self, action: LeaseAction, ctx: &mut Ctx<'_>) {
        match action {
            LeaseAction::Nothing => {}
            LeaseAction::Take(command) => {
                self.commands.send(command, Purpose::TakeLease, COMMAND_TIMEOUT, ctx);
            }
            LeaseAction::Lost => (self.granted, self.active) = (None, None),
        }
    }

    fn handle_outcome(&mut self, purpose: Purpose, result: &Result<Done, CommandError>, ctx: &mut Ctx<'_>) {
        match purpose {
            Purpose::TakeLease => {
                let done = result.as_ref().ok();
                if self.lease.granted(done, ctx) {
                    self.granted = done.map(|done| done.index);
                    self.activate(ctx);
                }
            }
            Purpose::Write(number, kind) => {
                let now = self.replica.cluster_now(ctx);
                if let Some(active) = self.active.as_mut().filter(|active| active.number == number) {
                    active.answered(kind, result, now);
                }
            }
        }
    }

    fn advance(&mut self, ctx: &mut Ctx<'_>) {
        let now = self.replica.cluster_now(ctx);
        let (Some(active), Some(epoch)) = (&mut self.active, self.lease.epoch()) else { return };
        let Active { number, deployments, drains, launches } = active;
        let (purpose, at, commands) =
            (|kind| Purpose::Write(*number, kind), (epoch, now), &mut self.commands);
        advance(deployments, purpose(CoreKind::Deployments), at, commands, ctx);
        advance(drains, purpose(CoreKind::Drains), at, commands, ctx);
        advance(launches, purpose(CoreKind::Launches), at, commands, ctx);
    }
}

impl Process for WatcherProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => {
                self.replica.start(ctx);
                ctx.timer(Nanos::ZERO, Timer::Poll);
            }
            Input::Timer(Timer::Poll) => ctx.timer(POLL, Timer::Poll),
            Input::Timer(Timer::Lease) => {
                let action = self.lease.poll(self.replica.has_lost(), ctx);
                self.act_on_lease(action, ctx);
            }
            Input::Timer(Timer::Resend(id)) => self.commands.resend(id, ctx),
            Input::Timer(_) => {}
            Input::Message(message) => {
                let update = self.replica.handle_message(&message.body, ctx);
                self.handle_update(update, ctx);
            }
            Input::Reply(call, reply) => {
                let action = self.lease.handle_reply(call, &reply, ctx);
                self.act_on_lease(action, ctx);
                if let Some((purpose, result)) = self.commands.handle_reply(call, &reply, ctx) {
                    self.handle_outcome(purpose, &result, ctx);
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
