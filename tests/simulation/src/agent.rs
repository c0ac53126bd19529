//! A simulated agent: it sends the messages of an agent and keeps tasks that outlive it.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent::simulation::ServiceRegistrar;
use model::alloc::{ClientStatus, DesiredStatus, PackedTaskStates};
use model::job::{JobType, NetworkResource, TaskGroup};
use model::node::{Driver, LegacyCpu, NodeAddress, NodeNetwork, NodeResources, NodeSpec, NodeStatus, Secret};
use model::service::registration_id;
use model::{AllocId, Index, Nanos, NodeId, Text};
use wire::RefusalKind;
use wire::node::{
    AllocReport, GetWork, Heartbeat, NodeResponse, Register, Report, Work, WorkAlloc, WorkIndex,
};
use wire::services::{RegisterServices, ServiceInstance};

use crate::disk::{AgentDisk, Disk, Task};
use crate::jobs::{BATCH_TIME, TASK};
use crate::messages::{Body, Input, Reply, Subject, Timer};
use crate::world::{Ctx, Process};

/// Resources of a node that tasks can use.
pub(crate) const CPU_MHZ: u32 = 700;
const MEMORY_MB: u32 = 10_000;
const DISK_MB: u32 = 100_000;
const REQUEST_TIMEOUT: Nanos = Nanos::from_secs(1);
const SHORT_PAUSE: Nanos = Nanos(300 * Nanos::MILLISECOND.0);
const DATACENTER: &str = "dc1";
/// How long a task runs before it counts as healthy.
const HEALTHY_AFTER: Nanos = Nanos::from_secs(1);
/// How often the sets of services are sent again that the servers did not know.
const UNKNOWN_RETRY: Nanos = Nanos::from_secs(10);

/// The states of allocations in a report: their statuses, and whether they are healthy.
type Reported = Vec<(AllocId, (ClientStatus, bool))>;

/// The agent process.
pub(crate) struct AgentProcess {
    node: NodeId,
    disk: AgentDisk,
    status: Option<NodeStatus>,
    register_call: Option<u64>,
    heartbeat_call: Option<u64>,
    work_call: Option<u64>,
    report_call: Option<(u64, Reported)>,
    /// The request with sets of services, and the sets.
    services_call: Option<(u64, Vec<(AllocId, u64)>)>,
    /// Set until the servers have acknowledged a report of all allocations.
    report_all: Option<Index>,
    work_index: WorkIndex,
    fetched_index: WorkIndex,
    has_work: bool,
    registrar: ServiceRegistrar,
    /// The allocations that the registrar knows.
    known: BTreeSet<AllocId>,
    /// When sets that the servers did not know are sent again.
    retry_at: Nanos,
}

impl AgentProcess {
    pub(crate) fn new(node: NodeId, mut disk: AgentDisk) -> Self {
        disk.boot += 1;
        // An agent ends the processes whose state it cannot read, and starts them again if the servers still want it to.
        for id in std::mem::take(&mut disk.unreadable) {
            disk.allocs.remove(&id);
            if !planted_bugs::is_planted(planted_bugs::Bug::KeepsUnreadableTasks) {
                disk.processes.remove(&id);
            }
        }
        for task in disk.allocs.values_mut() {
            task.count = 0;
        }
        Self {
            node,
            disk,
            status: None,
            register_call: None,
            heartbeat_call: None,
            work_call: None,
            report_call: None,
            services_call: None,
            report_all: None,
            work_index: WorkIndex::default(),
            fetched_index: WorkIndex::default(),
            has_work: false,
            registrar: ServiceRegistrar::default(),
            known: BTreeSet::new(),
            retry_at: Nanos::ZERO,
        }
    }

    fn register(&mut self, ctx: &mut Ctx<'_>) {
        let register = Register { id: self.node, spec: Arc::new(spec(self.node, self.disk.boot)) };
        self.register_call = Some(ctx.request(Subject::Node, Body::Register(register), REQUEST_TIMEOUT));
    }

    fn send_heartbeat(&mut self, ctx: &mut Ctx<'_>) {
        let heartbeat = Heartbeat { id: self.node, secret: secret(), boot: self.disk.boot };
        self.heartbeat_call =
            Some(ctx.request(Subject::Heartbeat, Body::Heartbeat(heartbeat), REQUEST_TIMEOUT));
    }

    fn handle_answer(&mut self, answer: &NodeResponse, ctx: &mut Ctx<'_>) {
        self.status = Some(answer.status);
        self.report_all = answer.report_all;
        self.work_index.advance_to(answer.work_index);
        let is_sending = self.services_call.is_some();
        self.registrar.contacted(answer.services, is_sending, DATACENTER, ctx.steady());
        ctx.timer(Nanos(i64::from(answer.ttl_ms) * Nanos::MILLISECOND.0), Timer::Heartbeat);
    }

    fn ask_work(&mut self, ctx: &mut Ctx<'_>) {
        if self.work_call.is_some() || (self.has_work && !self.work_index.is_newer_than(self.fetched_index)) {
            return;
        }
        let mut seen = self.work_index;
        for task in self.disk.allocs.values() {
            seen.advance_to(task.index);
        }
        let since = if self.has_work { self.fetched_index } else { WorkIndex::default() };
        let ask = GetWork { id: self.node, secret: secret(), since, seen };
        self.work_call = Some(ctx.request(Subject::Node, Body::GetWork(ask), REQUEST_TIMEOUT));
    }

    fn apply_work(&mut self, work: &Work, ctx: &mut Ctx<'_>) {
        self.has_work = true;
        self.fetched_index.advance_to(work.index);
        self.work_index.advance_to(work.index);
        let is_listed = |id: &AllocId| work.allocs.iter().any(|(listed, _)| listed == id);
        let processes = &mut self.disk.processes;
        self.disk.allocs.retain(|id, _| {
            let stays = is_listed(id);
            if !stays {
                processes.remove(id);
            }
            stays
        });
        for alloc in &work.changed.allocs {
            let runs = alloc.desired_status == DesiredStatus::Run;
            match self.disk.allocs.get_mut(&alloc.id) {
                Some(task) => {
                    task.service = service_of(work, alloc);
                    if task.index.history != work.index.history {
                        // The servers may have lost any of the earlier reports.
                        task.acknowledged = None;
                    }
                    task.index = WorkIndex { index: alloc.alloc_modify_index, ..work.index };
                    if !runs && !task.status.is_terminal() {
                        task.status = ClientStatus::Complete;
                        self.disk.processes.remove(&alloc.id);
                    }
                    if alloc.client_status == ClientStatus::Unknown {
                        task.acknowledged = None;
                    }
                }
                None if alloc.client_status.is_terminal() => {}
                None => {
                    let status = if runs { ClientStatus::Pending } else { ClientStatus::Complete };
                    let index = WorkIndex { index: alloc.alloc_modify_index, ..work.index };
                    let task =
                        Task { status, index, service: service_of(work, alloc), ..new_task(work, alloc) };
                    self.disk.allocs.insert(alloc.id, task);
                    ctx.timer(SHORT_PAUSE, Timer::Poll);
                }
            }
        }
    }

    /// Marks pending tasks as running.
    fn run_pending(&mut self, now: Nanos) {
        for (id, task) in &mut self.disk.allocs {
            if task.status == ClientStatus::Pending {
                (task.status, task.started_at) = (ClientStatus::Running, Some(now));
                *self.disk.processes.entry(*id).or_default() += 1;
            }
        }
    }

    /// Ends the tasks of batch jobs whose time is over, and decides on the health of others.
    fn watch_running(&mut self, ctx: &Ctx<'_>) {
        let now = ctx.world.now;
        for (id, task) in &mut self.disk.allocs {
            let Some(started_at) = task.started_at.filter(|_| task.status == ClientStatus::Running) else {
                continue;
            };
            let ran = now.0 - started_at.0;
            if task.is_batch && ran >= BATCH_TIME.0 {
                task.status = ClientStatus::Complete;
                self.disk.processes.remove(id);
            } else if task.is_judged && task.healthy_at.is_none() && ran >= HEALTHY_AFTER.0 {
                task.healthy_at = Some(ctx.steady());
            }
        }
    }

    /// Tells the registrar which services run, and sends its next request.
    fn register_services(&mut self, ctx: &mut Ctx<'_>) {
        let now = ctx.steady();
        for (id, task) in &self.disk.allocs {
            if self.known.insert(*id) {
                self.registrar.track(*id);
            }
            let name = task.service.as_ref().filter(|_| task.status == ClientStatus::Running);
            self.registrar.set(*id, TASK, name.map(|name| instance(*id, name)).into_iter().collect());
        }
        let (here, gone): (BTreeSet<AllocId>, BTreeSet<AllocId>) =
            std::mem::take(&mut self.known).into_iter().partition(|id| self.disk.allocs.contains_key(id));
        self.known = here;
        for id in gone {
            self.registrar.set(id, TASK, Vec::new());
            self.registrar.untrack(id);
        }
        if ctx.world.now >= self.retry_at {
            self.retry_at = ctx.world.now + UNKNOWN_RETRY;
            self.registrar.retry_unknown();
        }
        if self.status.is_none() || self.register_call.is_some() || self.services_call.is_some() {
            return;
        }
        if let Some((sets, allocs)) = self.registrar.next_request(now) {
            let request = RegisterServices { id: self.node, secret: secret(), boot: self.disk.boot, allocs };
            let call = ctx.request(Subject::Node, Body::Services(request), REQUEST_TIMEOUT);
            self.services_call = Some((call, sets));
        }
    }

    /// Enters the answer to a request with sets of services.
    fn services_answered(&mut self, sets: &[(AllocId, u64)], reply: Reply, ctx: &Ctx<'_>) {
        match reply {
            Reply::Services(Ok(answer)) => self.registrar.answered(answer.index, sets, answer.rejected),
            Reply::Services(Err(_)) => self.registrar.failed(true, ctx.steady()),
            _ => self.registrar.failed(false, ctx.steady()),
        }
    }

    fn report(&mut self, ctx: &mut Ctx<'_>) {
        if self.report_call.is_some() || !self.has_work {
            return;
        }
        let all_since = self.report_all;
        let mut allocs = Vec::new();
        let mut states = Vec::new();
        for (id, task) in &mut self.disk.allocs {
            let is_due = task.acknowledged != Some(task.reported());
            if is_due || (all_since.is_some() && !task.status.is_terminal()) {
                task.count += 1;
                states.push((*id, task.reported()));
                allocs.push(AllocReport {
                    id: *id,
                    count: task.count,
                    status: task.status,
                    description: "".into(),
                    task_states: PackedTaskStates::default(),
                    network: None,
                    health: task.healthy_at.map(|at| (true, at)),
                });
            }
        }
        if allocs.is_empty() && all_since.is_none() {
            return;
        }
        let report = Report { id: self.node, secret: secret(), boot: self.disk.boot, all_since, allocs };
        self.report_call = Some((ctx.request(Subject::Node, Body::Report(report), REQUEST_TIMEOUT), states));
    }
}

impl Process for AgentProcess {
    fn handle(&mut self, input: Input, ctx: &mut Ctx<'_>) {
        match input {
            Input::Start => {
                ctx.subscribe(Subject::Wake(self.node));
                let is_running = |task: &Task| task.status == ClientStatus::Running && task.service.is_some();
                let running = self.disk.allocs.iter().filter(|(_, task)| is_running(task));
                running.for_each(|(id, _)| self.registrar.expect(*id, TASK, ctx.steady()));
                self.register(ctx);
                ctx.timer(SHORT_PAUSE, Timer::Poll);
                ctx.timer(SHORT_PAUSE, Timer::Task(0));
            }
            Input::Timer(Timer::Heartbeat) => {
                if self.heartbeat_call.is_none() && self.register_call.is_none() {
                    self.send_heartbeat(ctx);
                }
            }
            Input::Timer(Timer::Lease) => {
                if self.register_call.is_none() {
                    self.register(ctx);
                }
            }
            Input::Timer(Timer::Poll) => self.run_pending(ctx.world.now),
            Input::Timer(Timer::Task(_)) => ctx.timer(SHORT_PAUSE, Timer::Task(0)),
            Input::Timer(_) | Input::DbReply(..) => {}
            Input::Message(message) => {
                if let Body::Wake(index) = message.body {
                    self.work_index.advance_to(index);
                }
            }
            Input::Reply(call, reply) => {
                if self.register_call == Some(call) {
                    self.register_call = None;
                    match reply {
                        Reply::Node(Ok(answer)) => {
                            self.has_work = false;
                            self.handle_answer(&answer, ctx);
                        }
                        _ => ctx.timer(SHORT_PAUSE, Timer::Lease),
                    }
                } else if self.heartbeat_call == Some(call) {
                    self.heartbeat_call = None;
                    match reply {
                        Reply::Node(Ok(answer)) => self.handle_answer(&answer, ctx),
                        Reply::Node(Err(refusal)) if refusal.kind == RefusalKind::NotFound => {
                            self.register(ctx);
                        }
                        _ => ctx.timer(SHORT_PAUSE, Timer::Heartbeat),
                    }
                } else if self.work_call == Some(call) {
                    self.work_call = None;
                    if let Reply::Work(Ok(work)) = reply {
                        self.apply_work(&work, ctx);
                    }
                } else if self.report_call.as_ref().is_some_and(|(known, _)| *known == call) {
                    let (_, states) = self.report_call.take().expect("the call was compared above");
                    if matches!(reply, Reply::ReportAccepted(Ok(()))) {
                        for (id, reported) in states {
                            if let Some(task) = self.disk.allocs.get_mut(&id) {
                                task.acknowledged = Some(reported);
                            }
                        }
                    }
                } else if let Some((_, sets)) = self.services_call.take_if(|(known, _)| *known == call) {
                    self.services_answered(&sets, reply, ctx);
                }
            }
        }
        self.watch_running(ctx);
        self.register_services(ctx);
        if self.status.is_some() && self.register_call.is_none() {
            self.ask_work(ctx);
        }
        // A refused report is not repeated at once: the next timer sends it again.
        if self.status.is_some() {
            self.report(ctx);
        }
        ctx.world.checks.set_running(self.node, &self.disk.processes);
    }

    fn into_disk(self: Box<Self>) -> Disk {
        Disk(Some(self.disk))
    }
}

/// The name under which an allocation is registered, from its job's version.
fn service_of(work: &Work, alloc: &WorkAlloc) -> Option<Text> {
    let (_, group) = group_of(work, alloc)?;
    group.services.first().map(|service| service.name.clone())
}

/// A new task that the agent knows nothing of yet.
fn new_task(work: &Work, alloc: &WorkAlloc) -> Task {
    let group = group_of(work, alloc);
    Task {
        status: ClientStatus::Pending,
        index: WorkIndex::default(),
        acknowledged: None,
        count: 0,
        service: None,
        is_batch: group.is_some_and(|(kind, _)| kind == JobType::Batch),
        is_judged: group.is_some_and(|(_, group)| group.migrate.is_some() || group.update.is_some()),
        started_at: None,
        healthy_at: None,
    }
}

/// The type of an allocation's job, and its group.
fn group_of<'w>(work: &'w Work, alloc: &WorkAlloc) -> Option<(JobType, &'w TaskGroup)> {
    let common = work.changed.commons.get(usize::from(alloc.common))?;
    let job = work.changed.jobs.get(usize::from(common.job))?;
    let (_, group) = job.spec.group(&common.common.task_group)?;
    Some((job.spec.kind, group))
}

/// The registration of a task.
fn instance(alloc: AllocId, name: &Text) -> ServiceInstance {
    ServiceInstance {
        id: registration_id(alloc, TASK, name, "").into(),
        name: name.clone(),
        address: "10.0.0.1".into(),
        port: 8080,
        ..ServiceInstance::default()
    }
}

fn secret() -> Secret {
    Secret("secret".into())
}

fn spec(id: NodeId, boot: u32) -> NodeSpec {
    let driver = Driver { detected: true, healthy: true, ..Driver::default() };
    let address =
        NodeAddress { alias: "default".into(), address: "10.0.0.1".into(), ..NodeAddress::default() };
    let network = NodeNetwork { mode: "host".into(), addresses: vec![address], ..NodeNetwork::default() };
    let older = NetworkResource { mode: "host".into(), device: "eth0".into(), ..NetworkResource::default() };
    NodeSpec {
        secret_id: secret(),
        boot,
        name: id.to_string().into(),
        datacenter: DATACENTER.into(),
        node_pool: "default".into(),
        attributes: [("kernel.name".into(), "linux".into())].into(),
        resources: NodeResources {
            cpu: LegacyCpu { cpu_mhz: CPU_MHZ, ..LegacyCpu::default() },
            memory_mb: MEMORY_MB,
            disk_mb: DISK_MB,
            networks: vec![older],
            node_networks: vec![network],
            ..NodeResources::default()
        },
        drivers: [("exec".into(), driver)].into(),
        ..NodeSpec::default()
    }
}
