//! A user of the cluster: registers, changes and stops jobs, one after another, and asks for the head as a default read
//! does.

use std::sync::Arc;

use model::job::{
    DisconnectStrategy, EphemeralDisk, JobSpec, JobType, ReschedulePolicy, Resources, Task, TaskGroup,
};
use model::{JobKey, Nanos};
use plan_applier::Reply as ApplierReply;
use rand::RngExt as _;
use wire::command::{Command, DeregisterJob, EvaluateJob, RegisterJob};

use crate::commands::Commands;
use crate::disk::Disk;
use crate::messages::{Body, Input, Reply, Subject, Timer};
use crate::world::{Ctx, Process};

/// Number of jobs, and the highest count of a job. Together they fit on two of the three nodes.
const JOBS: u64 = 4;
const COPIES_MAX: u32 = 3;
/// How long allocations of jobs that tolerate a disconnect may be disconnected.
const LOST_AFTER: Nanos = Nanos::from_secs(4);
/// CPU of one allocation.
const COPY_MHZ: u32 = 100;
const PAUSE: (i64, i64) = (1_000_000, 700_000_000);
const WITHIN: Nanos = Nanos::from_secs(8);

/// The client process.
pub(crate) struct ClientProcess {
    commands: Commands<()>,
    head: Option<u64>,
    /// The client starts nothing new after this moment.
    until: Nanos,
}

impl ClientProcess {
    pub(crate) fn new(until: Nanos) -> Self {
        Self { commands: Commands::new(), head: None, until }
    }

    fn act(&mut self, ctx: &mut Ctx<'_>) {
        if ctx.world.now >= self.until {
            return;
        }
        let id = format!("job-{}", ctx.world.rng.random_range(0..JOBS));
        let job = JobKey::new("default", id.as_str());
        let command = match ctx.world.rng.random_range(0..10) {
            0..5 => {
                let copies = ctx.world.rng.random_range(1..=COPIES_MAX);
                let version = ctx.world.rng.random_range(0..3);
                Command::RegisterJob(Box::new(registration(&id, copies, version)))
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
}

/// A service job. Its tasks and its handling of disconnected nodes differ from version to version.
fn registration(id: &str, copies: u32, version: u32) -> RegisterJob {
    let task = Task {
        name: "task".into(),
        driver: "exec".into(),
        env: [("VERSION".to_owned().into(), version.to_string().into())].into(),
        resources: Resources { cpu_mhz: COPY_MHZ, memory_mb: 10, ..Resources::default() },
        ..Task::default()
    };
    let group = TaskGroup {
        name: "group".into(),
        count: copies,
        tasks: vec![task],
        ephemeral_disk: EphemeralDisk { size_mb: 10, ..EphemeralDisk::default() },
        reschedule_policy: Some(ReschedulePolicy { unlimited: true, ..ReschedulePolicy::default() }),
        disconnect: (!version.is_multiple_of(3)).then(|| DisconnectStrategy {
            lost_after: LOST_AFTER,
            replace: Some(version % 3 == 1),
            ..DisconnectStrategy::default()
        }),
        ..TaskGroup::default()
    };
    let spec = JobSpec {
        namespace: "default".into(),
        id: id.into(),
        name: id.into(),
        kind: JobType::Service,
        priority: 50,
        datacenters: vec!["*".into()],
        node_pool: "default".into(),
        task_groups: vec![group].into(),
        ..JobSpec::default()
    };
    RegisterJob {
        spec: Arc::new(spec),
        source: None,
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        preserve_resources: false,
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
