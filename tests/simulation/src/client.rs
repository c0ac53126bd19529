//! A user of the cluster: registers, changes and stops jobs, one after another, does what the history's [`Workload`] asks
//! for, and asks for the head as a default read does.

use std::sync::Arc;

use model::{JobKey, Nanos, NodeId};
use plan_applier::Reply as ApplierReply;
use rand::RngExt as _;
use wire::command::{Command, DeregisterJob, EvaluateJob};

use crate::commands::Commands;
use crate::disk::Disk;
use crate::jobs;
use crate::messages::{Body, Input, Reply, Subject, Timer};
use crate::workload::{Workload, tidying};
use crate::world::{Ctx, Process};

/// Number of ordinary services, alone and beside other work, and the highest count of one. Together they fit on two of the
/// three nodes.
const JOBS: u64 = 4;
const JOBS_BESIDE: u64 = 3;
const COPIES_MAX: u32 = 3;
/// The names under which an ordinary service is registered.
const NAMES: [Option<&str>; 3] = [None, Some("one"), Some("two")];
/// The share of the user's actions that the rest of the workload has.
const WORKLOAD_SHARE: f64 = 0.5;
/// How often the user looks, in the end, what there is to tidy up.
const TIDY_INTERVAL: Nanos = Nanos::SECOND;
const PAUSE: (i64, i64) = (1_000_000, 700_000_000);
const WITHIN: Nanos = Nanos::from_secs(8);

/// The client process.
pub(crate) struct ClientProcess {
    commands: Commands<()>,
    head: Option<u64>,
    /// The client starts nothing new after this moment.
    until: Nanos,
    workload: Workload,
    /// The nodes that can be drained.
    nodes: Vec<NodeId>,
}

impl ClientProcess {
    pub(crate) fn new(until: Nanos, workload: Workload, nodes: Vec<NodeId>) -> Self {
        Self { commands: Commands::new(), head: None, until, workload, nodes }
    }

    fn act(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.world.now >= self.until {
            return;
        }
        let is_plain = self.workload.is_plain();
        if !is_plain
            && ctx.world.chance(WORKLOAD_SHARE)
            && let Some(command) = self.workload.command(&self.nodes, ctx.world)
        {
            self.commands.send(command, (), WITHIN, ctx);
            return;
        }
        let jobs = if is_plain { JOBS } else { JOBS_BESIDE };
        let id = format!("job-{}", ctx.world.rng.random_range(0..jobs));
        let job = JobKey::new("default", id.as_str());
        let command = match ctx.world.rng.random_range(0..10) {
            0..5 => {
                let copies = ctx.world.rng.random_range(1..=COPIES_MAX);
                let version = ctx.world.rng.random_range(0..3);
                let is_named = self.workload.has_services;
                let name = if is_named { NAMES[ctx.world.rng.random_range(0..NAMES.len())] } else { None };
                jobs::register(jobs::service(&id, copies, version, name))
            }
            5..7 => {
                let purge = ctx.world.chance(0.4);
                Command::DeregisterJob(DeregisterJob {
                    job,
                    purge,
                    eval_priority: None,
                    no_shutdown_delay: false,
                })
            }
            7 => Command::EvaluateJob(EvaluateJob { job, force_reschedule: false }),
            _ => {
                let call = ctx.request(Subject::ReadHead, Body::ReadHead, Nanos::from_secs(5));
                let acknowledged = ctx.world.checks.acknowledged_index();
                ctx.world.checks.read_started(call, acknowledged);
                self.head = Some(call);
                return;
            }
        };
        self.commands.send(command, (), WITHIN, ctx);
    }

    /// Brings the workload to rest after the last action. What is in flight may still change something.
    fn tidy(&mut self, ctx: &mut Ctx<'_>) {
        if !self.commands.is_empty() {
            return;
        }
        let database = &ctx.world.database;
        let state = Arc::clone(database.state(database.index()));
        for command in tidying(&state, ctx.world.wall()) {
            self.commands.send(command, (), WITHIN, ctx);
        }
    }
}

impl Process for ClientProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start | Input::Timer(Timer::Poll) => {
                self.act(ctx);
                let pause = ctx.world.between(PAUSE);
                if ctx.world.now < self.until {
                    ctx.timer(pause, Timer::Poll);
                } else if !self.workload.is_plain() {
                    self.tidy(ctx);
                    ctx.timer(TIDY_INTERVAL, Timer::Poll);
                }
            }
            Input::Timer(Timer::Resend(id)) => self.commands.resend(id, ctx),
            Input::Timer(_) | Input::Message(_) | Input::DbReply(..) => {}
            Input::Reply(call, reply) => {
                if self.head == Some(call) {
                    self.head = None;
                    if let Reply::Applier(ApplierReply::Head(head)) = reply {
                        ctx.world.checks.read_answered(call, head.index);
                    }
                } else {
                    self.commands.handle_reply(call, &reply, ctx);
                }
            }
        }
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk::default()
    }
}
