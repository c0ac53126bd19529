//! A small cluster with one job, to which events are applied, with simplified versions of an applier and a deployment
//! watcher.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::alloc::{ClientStatus, DesiredTransition};
use model::change::{AllocsChanged, Change};
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentStatus};
use model::eval::{EvalTrigger, Evaluation};
use model::job::{DisconnectStrategy, Job, JobSpec, JobType, ReschedulePolicy, TaskGroup, UpdateStrategy};
use model::node::{Drain, Eligibility, NodeStatus};
use model::plan::Plan;
use model::{AllocId, EvalId, Index, Nanos, NodeId, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use scheduling::{Attempt, schedule};
use state::{AllocRef, Rollout, State};
use tests::build::{self, Ids, NOW};
use tests::conformance::apply_plan_at;
use tests::conformance::checker::faults;

const NODES: u64 = 5;
/// Rounds within which the job must have settled.
const ROUNDS_MAX: u32 = 60;
/// Plans within which one evaluation must have settled.
const PLANS_MAX: u32 = 2;

/// The properties of the job.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) kind: JobType,
    pub(crate) count: u32,
    /// The number of parallel updates, and of canaries.
    pub(crate) update: Option<(u32, u32)>,
    /// After how many seconds disconnected allocations are lost, and whether they are replaced meanwhile.
    pub(crate) disconnect: Option<(i64, bool)>,
    pub(crate) reschedules: bool,
}

/// An event. Its number chooses a node or an allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// The job gets another count.
    Count(u32),
    /// A version that needs a restart.
    Restart,
    /// A version that is updated in place.
    InPlace,
    Down(u8),
    Disconnect(u8),
    /// A node is ready again, with the allocations that still run on it.
    Recover(u8),
    Drain(u8),
    Fail(u8),
    /// All allocations that were placed start to run.
    Run,
    Healthy(u8),
    Unhealthy(u8),
    Promote,
    /// A number of seconds passes.
    AdvanceTime(i64),
    Nothing,
}

#[derive(Debug)]
pub(crate) struct World {
    shape: Shape,
    state: State,
    job: Job,
    nodes: Vec<NodeId>,
    now: Timestamp,
    ids: Ids,
    /// How often a deployment was found to wait only for health, and to be done.
    pub(crate) rollout_checks: [u32; 2],
}

impl World {
    pub(crate) fn new(shape: Shape) -> Self {
        let mut ids = Ids::default();
        let nodes: Vec<NodeId> = (0..NODES).map(|_| NodeId::from_bytes(ids.bytes())).collect();
        let job = job(&shape);
        let mut world =
            Self { shape, state: State::default(), job, nodes, now: NOW, ids, rollout_checks: [0; 2] };
        let registered = world.nodes.iter().zip(0..).map(|(id, number)| {
            let mut node = build::node(*id, number);
            Arc::make_mut(&mut node.spec).computed_class = "v1:1".into();
            Change::Node(Box::new(node))
        });
        let registered = registered.collect();
        world.apply(registered);
        world.register(|_| {});
        world
    }

    fn apply(&mut self, changes: Vec<Change>) {
        let index = self.state.index().next();
        let set = model::change::ChangeSet { at: self.now, ..build::change_set(index, changes) };
        self.state.apply(&set).expect("the changes fit the state");
    }

    /// Registers a new version.
    fn register(&mut self, edit: impl FnOnce(&mut JobSpec)) {
        let index = self.state.index().next();
        let mut spec = JobSpec::clone(&self.job.spec);
        edit(&mut spec);
        let is_new = self.state.job(&self.job.key()).is_none();
        self.job = Job {
            spec: Arc::new(spec),
            version: if is_new { 0 } else { self.job.version + 1 },
            create_index: if is_new { index } else { self.job.create_index },
            modify_index: index,
            job_modify_index: index,
            ..self.job.clone()
        };
        let change = Change::Job(Arc::new(self.job.clone()));
        self.apply(vec![change]);
    }

    fn group(&self) -> &TaskGroup {
        &self.job.spec.task_groups[0]
    }

    fn node(&self, number: u8) -> NodeId {
        self.nodes[usize::from(number) % self.nodes.len()]
    }

    fn allocs(&self, which: impl Fn(AllocRef<'_>) -> bool) -> Vec<AllocId> {
        let allocs = self.state.allocs_of_job(&self.job.key());
        let mut ids: Vec<AllocId> = allocs.filter(|alloc| which(*alloc)).map(AllocRef::id).collect();
        ids.sort_unstable();
        ids
    }

    pub(crate) fn apply_event(&mut self, event: Event) {
        match event {
            Event::Nothing => {}
            Event::Count(count) => self.register(|spec| spec.task_groups[0].count = count),
            Event::Restart => self.register(|spec| {
                let version = spec.meta.len();
                spec.meta.insert(format!("version-{version}").into(), "x".into());
            }),
            Event::InPlace => self.register(|spec| spec.priority = spec.priority % 50 + 1),
            Event::Down(number) => {
                let id = self.node(number);
                self.server_side(id, |server| server.status = NodeStatus::Down);
            }
            Event::Disconnect(number) => {
                let id = self.node(number);
                self.server_side(id, |server| {
                    if server.status == NodeStatus::Ready {
                        server.status = NodeStatus::Disconnected;
                    }
                });
            }
            Event::Recover(number) => self.recover(self.node(number)),
            Event::Drain(number) => self.drain(self.node(number)),
            Event::Fail(number) => {
                self.report(Some(number), ClientStatus::Failed, |alloc| {
                    alloc.client_status() == ClientStatus::Running
                });
            }
            Event::Run => self.run(),
            Event::Healthy(number) => self.set_health(Some(number), true),
            Event::Unhealthy(number) => self.set_health(Some(number), false),
            Event::Promote => self.promote(),
            Event::AdvanceTime(seconds) => self.now = self.now + Nanos::from_secs(seconds),
        }
        self.update_deployment();
    }

    fn server_side(&mut self, id: NodeId, edit: impl FnOnce(&mut model::node::NodeServerSide)) {
        let node = self.state.node(id).expect("the node is registered");
        let mut server = node.server().clone();
        edit(&mut server);
        self.apply(vec![Change::NodeServerSide { id, server: Box::new(server) }]);
    }

    /// Unknown allocations run again, and stopped ones have completed.
    fn recover(&mut self, id: NodeId) {
        self.server_side(id, |server| {
            server.status = NodeStatus::Ready;
            server.drain = None;
            server.eligibility = Eligibility::Eligible;
        });
        let here = |alloc: AllocRef<'_>| alloc.node_id() == id;
        self.report(None, ClientStatus::Running, |alloc| {
            here(alloc) && alloc.client_status() == ClientStatus::Unknown
        });
        self.report(None, ClientStatus::Complete, |alloc| {
            here(alloc) && alloc.desired_status().is_terminal() && !alloc.client_status().is_terminal()
        });
    }

    fn drain(&mut self, id: NodeId) {
        self.server_side(id, |server| {
            server.drain = Some(Drain::default());
            server.eligibility = Eligibility::Ineligible;
        });
        let ids = self.allocs(|alloc| alloc.node_id() == id && !alloc.is_terminal());
        let transition = DesiredTransition { migrate: Some(true), ..DesiredTransition::default() };
        self.change(ids, AllocsChanged { transition: Some(transition), ..AllocsChanged::default() });
    }

    fn run(&mut self) {
        let is_ready = |alloc: AllocRef<'_>| alloc.node().is_some_and(|node| node.is_ready());
        self.report(None, ClientStatus::Running, |alloc| {
            alloc.client_status() == ClientStatus::Pending && !alloc.is_terminal() && is_ready(alloc)
        });
        self.report(None, ClientStatus::Complete, |alloc| {
            alloc.desired_status().is_terminal() && !alloc.client_status().is_terminal() && is_ready(alloc)
        });
    }

    fn report(&mut self, number: Option<u8>, status: ClientStatus, which: impl Fn(AllocRef<'_>) -> bool) {
        let ids = one_of(self.allocs(which), number);
        let change = AllocsChanged { client: Some((status, "".into())), ..AllocsChanged::default() };
        self.change(ids, change);
    }

    fn set_health(&mut self, number: Option<u8>, healthy: bool) {
        let open = |alloc: AllocRef<'_>| {
            alloc.client_status() == ClientStatus::Running
                && alloc.deployment_id().is_some()
                && alloc.health().and_then(|health| health.healthy).is_none()
                && !alloc.is_terminal()
        };
        let ids = one_of(self.allocs(open), number);
        let verdicts = ids.iter().map(|_| Some((healthy, self.now))).collect();
        self.change(ids, AllocsChanged { verdicts, ..AllocsChanged::default() });
    }

    fn change(&mut self, ids: Vec<AllocId>, change: AllocsChanged) {
        if !ids.is_empty() {
            let change = AllocsChanged { ids: AllocIds(ids), ..change };
            self.apply(vec![Change::AllocsChanged(Box::new(change))]);
        }
    }

    fn current_deployment(&self) -> Option<Deployment> {
        let latest = self.state.latest_deployment(&self.job.key())?;
        (!latest.status.is_terminal()).then(|| Deployment::clone(latest))
    }

    /// Promotes the deployment if enough canaries are healthy.
    fn promote(&mut self) {
        let Some(mut deployment) = self.current_deployment() else { return };
        let mut canaries = Vec::new();
        for (_, part) in deployment.groups.iter_mut() {
            let healthy = |id: &&AllocId| {
                self.state.alloc(**id).is_some_and(|alloc| {
                    !alloc.is_terminal() && alloc.health().is_some_and(|health| health.healthy == Some(true))
                })
            };
            let healthy: Vec<AllocId> = part.placed_canaries.iter().filter(healthy).copied().collect();
            if part.desired_canaries > 0 && healthy.len() >= part.desired_canaries as usize {
                part.promoted = true;
                canaries.extend(healthy);
            }
        }
        self.apply(vec![Change::Deployment(Arc::new(deployment))]);
        for id in canaries {
            let health = self.state.alloc(id).and_then(AllocRef::health).unwrap_or_default();
            let health = Some(Some(model::alloc::Health { canary: false, ..health }));
            self.change(vec![id], AllocsChanged { health, ..AllocsChanged::default() });
        }
    }

    /// Updates the deployment's counts as the applier does, and fails it as the watcher does.
    fn update_deployment(&mut self) {
        let Some(mut deployment) = self.current_deployment() else { return };
        for (name, part) in deployment.groups.iter_mut() {
            let of_part = |alloc: &AllocRef<'_>| {
                alloc.deployment_id() == Some(deployment.id) && alloc.group_name() == name
            };
            let verdict = |alloc: &AllocRef<'_>| alloc.health().and_then(|health| health.healthy);
            let allocs: Vec<AllocRef<'_>> =
                self.state.allocs_of_job(&deployment.job.job).filter(of_part).collect();
            part.placed_allocs = allocs.len() as u32;
            part.healthy_allocs = allocs.iter().filter(|alloc| verdict(alloc) == Some(true)).count() as u32;
            part.unhealthy_allocs =
                allocs.iter().filter(|alloc| verdict(alloc) == Some(false)).count() as u32;
            for alloc in allocs {
                let is_canary = alloc.health().is_some_and(|health| health.canary);
                if is_canary && !part.placed_canaries.contains(&alloc.id()) {
                    part.placed_canaries.push(alloc.id());
                }
            }
            if part.unhealthy_allocs > 0 {
                deployment.status = DeploymentStatus::Failed;
            }
        }
        if self.state.deployment(deployment.id).is_some_and(|known| **known != deployment) {
            self.apply(vec![Change::Deployment(Arc::new(deployment))]);
        }
    }

    fn plan(&mut self) -> Plan {
        let id = EvalId::from_bytes(self.ids.bytes());
        let (kind, priority) = (self.shape.kind, self.job.spec.priority);
        let eval = Evaluation::new(id, self.job.key(), kind, priority, EvalTrigger::JobRegister);
        let attempt = Attempt {
            state: &self.state,
            eval: &eval,
            now: self.now,
            attempts_without_progress: 0,
            rollouts: true,
            explain: false,
        };
        schedule(&attempt, &mut || self.ids.bytes()).plan
    }

    /// A system job whose deployment failed continues with every evaluation, with a few allocations at a time.
    fn plans_max(&self) -> u32 {
        match self.shape.kind {
            JobType::System => PLANS_MAX + NODES as u32 * self.group().count,
            JobType::Service | JobType::Batch | JobType::SysBatch => PLANS_MAX,
        }
    }

    /// Solves and applies plans until there is nothing more to do.
    pub(crate) fn solve(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..self.plans_max() {
            let plan = self.plan();
            self.check_rollout(&plan)?;
            if plan.is_noop() {
                return Ok(());
            }
            let found = faults(&self.state, &plan);
            prop_assert!(found.is_empty(), "{found:#?}\n{}", self.describe(&plan));
            let deployments = plan.deployment_updates.clone();
            self.state = apply_plan_at(&self.state, &plan, self.now);
            for update in deployments {
                let Some(known) = self.state.deployment(update.id) else { continue };
                let deployment = Deployment { status: update.status, ..Deployment::clone(known) };
                self.apply(vec![Change::Deployment(Arc::new(deployment))]);
            }
            self.update_deployment();
        }
        let plan = self.plan();
        prop_assert!(plan.is_noop(), "solving again changes something: {}", self.describe(&plan));
        Ok(())
    }

    /// Checks that the shortcut for the rollout agrees with the plan of the reconciler.
    fn check_rollout(&mut self, plan: &Plan) -> Result<(), TestCaseError> {
        let Some(deployment) = self.current_deployment() else { return Ok(()) };
        let rollout = self.state.rollout(&deployment);
        match rollout {
            Rollout::Open => return Ok(()),
            Rollout::Waiting => {
                self.rollout_checks[0] += 1;
                prop_assert!(plan.is_noop(), "{rollout:?}: {}", self.describe(plan));
            }
            Rollout::Done => {
                self.rollout_checks[1] += 1;
                let [update] = &plan.deployment_updates[..] else {
                    return Err(TestCaseError::fail(format!("{rollout:?}: {}", self.describe(plan))));
                };
                prop_assert_eq!((update.id, update.status), (deployment.id, DeploymentStatus::Successful));
                let rest = Plan { deployment_updates: Vec::new(), ..plan.clone() };
                prop_assert!(rest.is_noop(), "{rollout:?}: {}", self.describe(plan));
            }
        }
        Ok(())
    }

    /// The live allocations, and the changes of a plan, for messages.
    fn describe(&self, plan: &Plan) -> String {
        let mut lines: Vec<String> = Vec::new();
        let name = |id: AllocId| self.state.alloc(id).map_or(String::new(), |alloc| alloc.name().to_string());
        for alloc in self.state.allocs_of_job(&self.job.key()).filter(|alloc| !alloc.is_terminal()) {
            let health = alloc.health().map(|health| (health.healthy, health.canary));
            let (id, version, status) = (alloc.name(), alloc.common().job.version, alloc.client_status());
            lines.push(format!("is {id} version {version} {status} {health:?} on {}", alloc.node_id()));
        }
        for placements in &plan.placements {
            for (row, number) in placements.name_index.iter().enumerate() {
                let previous = placements.previous.get(row).map(name);
                let (version, canary) = (placements.common.job.version, placements.canary);
                lines.push(format!("place [{number}] version {version} canary {canary} for {previous:?}"));
            }
        }
        for stops in &plan.stops {
            let stopped = stops.ids.0.iter().map(|id| format!("stop {}: {}", name(*id), stops.description));
            lines.extend(stopped);
        }
        for updates in &plan.updates {
            let names: Vec<String> = updates.ids.0.iter().map(|id| name(*id)).collect();
            lines.push(format!("update {names:?}"));
        }
        let deployment = plan.deployment.iter().map(|deployment| format!("{:?}", deployment.groups));
        lines.extend(deployment);
        lines.extend(plan.deployment_updates.iter().map(|update| format!("{update:?}")));
        lines.join("\n")
    }

    /// Ends all failures. From then on every desired allocation must come to run, all of the newest version.
    pub(crate) fn settle(&mut self) -> Result<(), TestCaseError> {
        for number in 0..NODES as u8 {
            self.apply_event(Event::Recover(number));
        }
        self.apply_event(Event::Restart);
        let mut found = Err(TestCaseError::fail("no round was played"));
        for _ in 0..ROUNDS_MAX {
            self.solve()?;
            found = self.is_settled();
            if found.is_ok() {
                return Ok(());
            }
            self.apply_event(Event::Run);
            self.set_health(None, true);
            self.update_deployment();
            self.apply_event(Event::Promote);
            self.apply_event(Event::AdvanceTime(600));
        }
        found
    }

    /// Whether as many allocations run as desired, all of the newest version, each with its own name.
    fn is_settled(&self) -> Result<(), TestCaseError> {
        let is_per_node = self.shape.kind == JobType::System;
        let version = self.job.version_key();
        let live = self.allocs(|alloc| !alloc.is_terminal());
        let runs: Vec<AllocRef<'_>> = live.iter().filter_map(|id| self.state.alloc(*id)).collect();
        let expected = self.group().count as usize * if is_per_node { self.nodes.len() } else { 1 };
        prop_assert_eq!(runs.len(), expected, "as many as the count");
        let is_current = |alloc: &AllocRef<'_>| alloc.common().job == version;
        prop_assert!(runs.iter().all(is_current), "all of the newest version");
        let name = |alloc: &AllocRef<'_>| (alloc.name(), is_per_node.then(|| alloc.node_id()));
        let names: BTreeSet<_> = runs.iter().map(name).collect();
        prop_assert_eq!(names.len(), expected, "each with a name of its own");
        prop_assert!(self.current_deployment().is_none(), "the deployment is done");
        Ok(())
    }
}

/// All ids, or the one that the number chooses.
fn one_of(ids: Vec<AllocId>, number: Option<u8>) -> Vec<AllocId> {
    match number {
        Some(_) if ids.is_empty() => ids,
        Some(number) => vec![ids[usize::from(number) % ids.len()]],
        None => ids,
    }
}

fn job(shape: &Shape) -> Job {
    let job = build::job(1, shape.count);
    let mut spec = JobSpec::clone(&job.spec);
    spec.kind = shape.kind;
    let group = &mut spec.task_groups[0];
    let paces = shape.kind != JobType::Batch;
    group.update = shape.update.filter(|_| paces).map(|(max_parallel, canary)| UpdateStrategy {
        max_parallel,
        canary: if shape.kind == JobType::System { canary * 25 } else { canary },
        ..UpdateStrategy::default()
    });
    group.disconnect = shape.disconnect.map(|(lost_after, replace)| DisconnectStrategy {
        lost_after: Nanos::from_secs(lost_after),
        replace: Some(replace),
        ..DisconnectStrategy::default()
    });
    let reschedules = shape.reschedules && shape.kind != JobType::System;
    group.reschedule_policy = reschedules.then(|| ReschedulePolicy {
        delay: Nanos::from_secs(30),
        unlimited: true,
        ..ReschedulePolicy::default()
    });
    Job { spec: Arc::new(spec), create_index: Index::ZERO, ..job }
}
