//! Test scenes: a few nodes, one job with one group and its allocations, and the scheduler's proposal as text.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use model::alloc::{AllocCommon, Allocation, ClientStatus, DesiredStatus, PackedMetric};
use model::change::{Cause, Change, ChangeSet};
use model::cluster::{NodePool, NodePoolScheduler, SchedulerAlgorithm, SchedulerConfig};
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{
    EphemeralDisk, Job, JobSpec, JobType, NetworkResource, ReschedulePolicy, Resources, Task, TaskGroup,
};
use model::node::{
    Driver, LegacyCpu, Node, NodeAddress, NodeNetwork, NodeResources, NodeServerSide, NodeSpec, NodeStatus,
};
use model::plan::Update;
use model::{
    AllocId, DeploymentId, EvalId, Index, JobKey, JobVersionKey, Nanos, NodeId, RequestId, Text, Timestamp,
};
use state::State;

use crate::place::common_share;
use crate::{Attempt, Proposal, schedule};

/// The time of every scene.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_000_000);

/// The id of a scene's deployment.
pub(crate) const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([0xd; 16]);

/// A cluster with one job, `job` with the group `web` of one task of 500 MHz and 256 MB.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    nodes: Vec<Node>,
    versions: Vec<JobSpec>,
    purged: bool,
    allocs: Vec<Allocation>,
    deployment: Option<Deployment>,
    config: Option<SchedulerConfig>,
    pool: Option<NodePool>,
    eval: Evaluation,
    attempts_without_progress: u8,
    rollouts: bool,
}

impl Default for Scene {
    fn default() -> Self {
        let task = Task {
            name: "main".into(),
            driver: "exec".into(),
            resources: Resources { cpu_mhz: 500, memory_mb: 256, ..Resources::default() },
            ..Task::default()
        };
        let group = TaskGroup {
            name: "web".into(),
            count: 1,
            tasks: vec![task],
            ephemeral_disk: EphemeralDisk { size_mb: 100, ..EphemeralDisk::default() },
            ..TaskGroup::default()
        };
        let spec = JobSpec {
            namespace: "default".into(),
            id: "job".into(),
            name: "job".into(),
            datacenters: vec!["dc*".into()],
            node_pool: "default".into(),
            priority: 50,
            task_groups: vec![group].into(),
            ..JobSpec::default()
        };
        let (id, job) = (EvalId::from_bytes([0xe; 16]), JobKey::new("default", "job"));
        Self {
            nodes: Vec::new(),
            versions: vec![spec],
            purged: false,
            allocs: Vec::new(),
            deployment: None,
            config: None,
            pool: None,
            eval: Evaluation::new(id, job, JobType::Service, 50, EvalTrigger::JobRegister),
            attempts_without_progress: 0,
            rollouts: true,
        }
    }
}

/// The id of the node with a number.
pub(crate) fn node_id(number: u8) -> NodeId {
    NodeId::from_bytes([number; 16])
}

impl Scene {
    /// Adds a ready node with this CPU and memory, and 10 GB of disk.
    pub(crate) fn node(self, number: u8, cpu_mhz: u32, memory_mb: u32) -> Self {
        self.node_with(number, |spec| {
            spec.resources.cpu.cpu_mhz = cpu_mhz;
            spec.resources.memory_mb = memory_mb;
        })
    }

    /// Adds a ready node of 4,000 MHz and 8,000 MB, changed by `edit`.
    pub(crate) fn node_with(mut self, number: u8, edit: impl FnOnce(&mut NodeSpec)) -> Self {
        let driver = Driver { detected: true, healthy: true, ..Driver::default() };
        let address = NodeAddress {
            alias: "default".into(),
            address: format!("10.0.0.{number}").into(),
            ..NodeAddress::default()
        };
        let network = NodeNetwork { mode: "host".into(), addresses: vec![address], ..NodeNetwork::default() };
        let older = NetworkResource { mode: "host".into(), ..NetworkResource::default() };
        let mut spec = NodeSpec {
            name: format!("node-{number}").into(),
            datacenter: "dc1".into(),
            node_pool: "default".into(),
            computed_class: "v1:1".into(),
            resources: NodeResources {
                cpu: LegacyCpu { cpu_mhz: 4_000, ..LegacyCpu::default() },
                memory_mb: 8_000,
                disk_mb: 10_000,
                node_networks: vec![network],
                networks: vec![older],
                ..NodeResources::default()
            },
            drivers: [("exec".into(), driver)].into(),
            ..NodeSpec::default()
        };
        edit(&mut spec);
        let server = NodeServerSide { status: NodeStatus::Ready, ..NodeServerSide::default() };
        self.nodes.push(Node { id: node_id(number), spec: Arc::new(spec), server });
        self
    }

    /// Edits the server side of a node.
    pub(crate) fn server_side(mut self, number: u8, edit: impl FnOnce(&mut NodeServerSide)) -> Self {
        let node = self.nodes.iter_mut().find(|node| node.id == node_id(number)).unwrap();
        edit(&mut node.server);
        self
    }

    /// Edits the job's current version.
    pub(crate) fn job_with(mut self, edit: impl FnOnce(&mut JobSpec)) -> Self {
        edit(self.versions.last_mut().unwrap());
        self
    }

    pub(crate) fn count(self, count: u32) -> Self {
        self.job_with(|spec| spec.task_groups[0].count = count)
    }

    pub(crate) fn batch(mut self) -> Self {
        self.eval.kind = JobType::Batch;
        self.job_with(|spec| spec.kind = JobType::Batch)
    }

    pub(crate) fn rescheduling(self, delay: Nanos) -> Self {
        let policy = ReschedulePolicy { delay, unlimited: true, ..ReschedulePolicy::default() };
        self.job_with(|spec| spec.task_groups[0].reschedule_policy = Some(policy))
    }

    /// Adds a version of the job.
    pub(crate) fn updated(mut self, edit: impl FnOnce(&mut JobSpec)) -> Self {
        self.versions.push(self.job_spec());
        self.job_with(edit)
    }

    pub(crate) fn purged(mut self) -> Self {
        self.purged = true;
        self
    }

    /// Adds a running allocation of the job's current version.
    pub(crate) fn running(self, name_index: u32, node: u8) -> Self {
        self.alloc_with(name_index, node, |_| {})
    }

    /// Adds a running allocation, changed by `edit`. Its id ends with the number of allocations before it and the index
    /// in its name.
    pub(crate) fn alloc_with(mut self, name: u32, node: u8, edit: impl FnOnce(&mut Allocation)) -> Self {
        let version = self.versions.len() as u64 - 1;
        let spec = self.job_spec();
        let group = &spec.task_groups[0];
        let common = AllocCommon {
            job: JobVersionKey { job: spec.key(), create_index: Index(10), version },
            task_group: Text::clone(&group.name),
            name_stem: format!("job.{}", group.name).into(),
            eval_id: EvalId::from_bytes([1; 16]),
            deployment_id: None,
            resources: common_share(&State::default(), &spec, group),
            metrics: PackedMetric::default(),
            trace: None,
        };
        let mut id = [0xa; 16];
        id[14] = self.allocs.len() as u8;
        id[15] = name as u8;
        let mut alloc = Allocation {
            id: AllocId::from_bytes(id),
            common: Arc::new(common),
            name_index: Some(name),
            node_id: node_id(node),
            node_name: format!("node-{node}").into(),
            assigned: Default::default(),
            desired_status: DesiredStatus::Run,
            desired_description: Text::default(),
            desired_transition: Default::default(),
            client_status: ClientStatus::Running,
            client_description: Text::default(),
            task_states: Default::default(),
            health: None,
            extra: Default::default(),
            report: Default::default(),
            create_index: Index(20),
            modify_index: Index(20),
            alloc_modify_index: Index(20),
            create_time: NOW,
            modify_time: NOW,
        };
        edit(&mut alloc);
        self.allocs.push(alloc);
        self
    }

    /// Adds a deployment of the job's current version, [`DEPLOYMENT`].
    pub(crate) fn deployment(mut self, status: DeploymentStatus, group: DeploymentGroup) -> Self {
        let spec = self.job_spec();
        let version = self.versions.len() as u64 - 1;
        self.deployment = Some(Deployment {
            id: DEPLOYMENT,
            job: JobVersionKey { job: spec.key(), create_index: Index(10), version },
            job_modify_index: Index(10 + version),
            job_spec_modify_index: Index(10 + version),
            is_multiregion: false,
            groups: [(Text::clone(&spec.task_groups[0].name), group)].into(),
            status,
            status_description: Text::default(),
            eval_priority: 50,
            create_index: Index(30),
            modify_index: Index(30),
            create_time: NOW,
            modify_time: NOW,
            trace: None,
        });
        self
    }

    /// Sets the algorithm of the pool that all nodes are in.
    pub(crate) fn algorithm_of_pool(mut self, algorithm: SchedulerAlgorithm) -> Self {
        let scheduler = NodePoolScheduler { algorithm: Some(algorithm), ..NodePoolScheduler::default() };
        self.pool =
            Some(NodePool { name: "default".into(), scheduler: Some(scheduler), ..NodePool::default() });
        self
    }

    pub(crate) fn config(mut self, config: SchedulerConfig) -> Self {
        self.config = Some(config);
        self
    }

    pub(crate) fn eval_with(mut self, edit: impl FnOnce(&mut Evaluation)) -> Self {
        edit(&mut self.eval);
        self
    }

    pub(crate) fn attempts_without_progress(mut self, attempts: u8) -> Self {
        self.attempts_without_progress = attempts;
        self
    }

    /// The specification of the job's current version.
    pub(crate) fn job_spec(&self) -> JobSpec {
        self.versions.last().unwrap().clone()
    }

    pub(crate) fn state(&self) -> State {
        let mut changes: Vec<Change> = self.nodes.iter().cloned().map(Box::new).map(Change::Node).collect();
        for (version, spec) in (0u64..).zip(&self.versions) {
            let job = Job {
                spec: Arc::new(spec.clone()),
                version,
                create_index: Index(10),
                modify_index: Index(10 + version),
                job_modify_index: Index(10 + version),
                ..Job::default()
            };
            changes.push(Change::Job(Arc::new(job)));
        }
        changes.extend(self.allocs.iter().cloned().map(Box::new).map(Change::Alloc));
        changes.extend(self.deployment.clone().map(|deployment| Change::Deployment(deployment.into())));
        changes.extend(self.config.map(Change::SchedulerConfig));
        changes.extend(self.pool.clone().map(Box::new).map(Change::NodePool));
        if self.purged {
            changes.push(Change::JobDeleted(self.eval.job.clone()));
        }
        let set = ChangeSet {
            index: Index(100),
            at: NOW,
            request_id: RequestId::from_bytes([1; 16]),
            cause: Cause::Settings,
            trace: None,
            result: Vec::new(),
            changes,
        };
        let mut state = State::default();
        state.load(&set).unwrap();
        state
    }

    /// The scheduler's proposal, checked against invariants of every proposal.
    pub(crate) fn propose(&self) -> (State, Proposal) {
        let state = self.state();
        let propose = || {
            let mut number = 0u128;
            let mut new_id = || {
                number += 1;
                (0xf << 124 | number).to_be_bytes()
            };
            let attempt = Attempt {
                state: &state,
                eval: &self.eval,
                now: NOW,
                attempts_without_progress: self.attempts_without_progress,
                rollouts: self.rollouts,
                explain: false,
            };
            schedule(&attempt, &mut new_id)
        };
        let proposal = propose();
        assert_eq!(proposal, propose(), "the same attempt has the same proposal");
        for placements in &proposal.plan.placements {
            placements.check().unwrap();
        }
        (state, proposal)
    }

    /// The proposal as text, one line for each item.
    pub(crate) fn describe(&self) -> String {
        let (state, Proposal { plan, outcome }) = self.propose();
        let name = |id: AllocId| {
            let alloc = state.alloc(id).unwrap();
            format!("{} on {}", alloc.name(), alloc.node_name())
        };
        let mut lines = Vec::new();
        for stops in &plan.stops {
            for id in &stops.ids.0 {
                let mut line = format!("stop {}: {}", name(*id), stops.description);
                if let Some(client) = stops.client_status {
                    write!(line, ", {client}").unwrap();
                }
                if stops.followup_eval.is_some() {
                    line += ", reconsidered later";
                }
                lines.push(line);
            }
        }
        for placements in &plan.placements {
            for row in 0..placements.len() {
                let node = state.node(placements.node_of(row)).unwrap();
                let index = placements.name_index[row];
                let mut line =
                    format!("place {}[{index}] on {}", placements.common.name_stem, node.spec().name);
                if let Some(previous) = placements.previous.get(row) {
                    write!(line, " for {}", name(previous)).unwrap();
                }
                if let Some(Some(tracker)) = placements.reschedule.get(row) {
                    write!(line, ", rescheduled {} times", tracker.events.len()).unwrap();
                }
                lines.push(line);
            }
        }
        for updates in &plan.updates {
            let how = match &updates.change {
                Update::InPlace(common) => format!("runs version {}", common.job.version),
                Update::Unknown { .. } => "is unknown".to_owned(),
                Update::Reconnect => "reconnects".to_owned(),
                Update::RescheduleLater { .. } => "is rescheduled later".to_owned(),
                Update::RescheduleFailed => "cannot be rescheduled".to_owned(),
            };
            lines.extend(updates.ids.0.iter().map(|id| format!("{} {how}", name(*id))));
        }
        lines.sort();
        lines.extend(describe_eval("evaluation", &outcome.eval));
        outcome.creates.iter().for_each(|eval| lines.extend(describe_eval("create", eval)));
        lines.join("\n")
    }
}

fn describe_eval(what: &str, eval: &Evaluation) -> Vec<String> {
    let mut line = format!("{what}: {}", eval.status);
    if what == "create" {
        write!(line, ", {}", eval.trigger).unwrap();
    }
    if !eval.status_description.is_empty() {
        write!(line, ", {}", eval.status_description).unwrap();
    }
    if eval.wait_until.is_set() {
        write!(line, ", in {}", eval.wait_until - NOW).unwrap();
    }
    if eval.status == EvalStatus::Blocked {
        let classes: BTreeMap<_, _> = eval.class_eligibility.iter().collect();
        write!(line, ", classes {classes:?}, escaped {}", eval.escaped_class).unwrap();
    }
    let queued = eval.queued.iter().filter(|(_, queued)| **queued > 0);
    let mut lines = vec![line];
    lines.extend(queued.map(|(group, queued)| format!("  {group}: {queued} queued")));
    if what == "evaluation" {
        lines.extend(eval.failed_groups.iter().map(|(group, metric)| {
            format!(
                "  {group}: of {} nodes {} filtered {:?}, {} exhausted {:?}, {} more not tried",
                metric.nodes_evaluated,
                metric.nodes_filtered,
                metric.constraint_filtered,
                metric.nodes_exhausted,
                metric.dimension_exhausted,
                metric.coalesced_failures
            )
        }));
    }
    lines
}
