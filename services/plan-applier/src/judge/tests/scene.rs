//! [`Scene`]: a cluster for tests that judge commands and compare the results. Every verdict is checked: a change set does
//! to a copy of the state what judging did to the overlay; judging again gives the same verdict; a command that is refused,
//! or has nothing to do, leaves the overlay unchanged.

use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocatedResources, Allocation, ClientStatus, PackedAssigned, PackedMetric,
    PackedTaskStates, TaskResources,
};
use model::change::{Cause, Change, ChangeSet, JobSummary};
use model::cluster::{Lease, Singleton};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{DisconnectStrategy, Job, JobSpec, JobStatus, JobType, ReschedulePolicy, Task, TaskGroup};
use model::node::{Node, NodeResources, NodeSpec, NodeStatus, Secret, Topology};
use model::plan::{Outcome, Placement, Placements, Plan};
use model::{AllocId, Epoch, EvalId, Index, JobKey, Nanos, NodeId, ProcessId, RequestId, Timestamp};
use state::State;
use wire::broker::SCHEDULER_VERSION;
use wire::command::{
    Command, Done, NodeLiveness, NodeReport, PlanResult, RegisterJob, RegisterNode, ReportAllocs, SubmitPlan,
    TakeLease, UpdateNodes,
};
use wire::node::AllocReport;
use wire::{Refusal, RefusalKind};

use super::describe::assert_same;
use crate::judge::{Inputs, Settings, Verdict, bootstrap, judge};

/// The epoch of every lease in a scene.
pub(super) const EPOCH: Epoch = Epoch(1);
/// The boot of every agent.
pub(super) const BOOT: u32 = 3;

pub(super) struct Scene {
    pub(super) state: State,
    pub(super) now: Timestamp,
    /// Whether holders of leases are alive.
    pub(super) live: bool,
    pub(super) settings: Settings,
    /// Every change set since the beginning.
    pub(super) log: Vec<ChangeSet>,
    ids: u128,
}

impl Scene {
    /// A cluster with its built-in objects and an active process of each singleton.
    pub(super) fn new() -> Self {
        let mut scene = Self {
            state: State::default(),
            now: Timestamp::from_secs(1_767_225_600),
            live: true,
            settings: Settings::default(),
            log: Vec::new(),
            ids: 0,
        };
        let changes = bootstrap(&scene.state).expect("an empty state lacks all built-in objects");
        scene.commit(Cause::Settings, changes);
        for service in Singleton::ALL {
            scene.done(Command::TakeLease(TakeLease { service: *service, process: process(1), gone: None }));
        }
        scene
    }

    /// An unused id.
    pub(super) fn id(&mut self) -> [u8; 16] {
        self.ids += 1;
        (self.ids.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)).to_be_bytes()
    }

    pub(super) fn wait(&mut self, length: Nanos) {
        self.now = self.now + length;
    }

    /// Applies a change set that no command made.
    pub(super) fn commit(&mut self, cause: Cause, changes: Vec<Change>) {
        let set = self.change_set(cause, changes, self.state.index().next());
        self.state.apply(&set).expect("the changes fit the state");
        self.log.push(set);
    }

    /// The changes of the last command that changed anything.
    pub(super) fn last(&self) -> &[Change] {
        self.log.last().map_or(&[], |set| &set.changes)
    }

    /// The kind of that command.
    pub(super) fn cause(&self) -> Option<Cause> {
        self.log.last().map(|set| set.cause)
    }

    fn change_set(&self, cause: Cause, changes: Vec<Change>, index: Index) -> ChangeSet {
        let request_id = RequestId::from_bytes([0; 16]);
        ChangeSet { index, at: self.now, request_id, cause, trace: None, result: Vec::new(), changes }
    }

    /// Judges a command, and checks what holds for every verdict.
    pub(super) fn judge(&mut self, command: Command) -> Verdict {
        let (before, request_id, live) = (self.state.clone(), self.id(), self.live);
        let is_live = move |_: &Lease| live;
        let inputs = Inputs {
            index: before.index().next(),
            at: self.now,
            request_id: RequestId::from_bytes(request_id),
            trace: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".parse().ok(),
            is_live: &is_live,
            settings: self.settings,
        };
        let mut again = before.clone();
        let rebuild_overlay = || before.clone();
        let verdict = judge(&mut self.state, command.clone(), &inputs, rebuild_overlay);
        assert_eq!(
            judge(&mut again, command, &inputs, rebuild_overlay),
            verdict,
            "judging again gives the same verdict"
        );
        match &verdict {
            Verdict::Changed { cause, changes, done } => {
                let mut applied = before;
                let set = self.change_set(*cause, changes.clone(), inputs.index);
                applied.apply(&set).expect("a change set fits the state that it was judged on");
                assert_same(&self.state, &applied);
                assert_eq!((done.index, done.written), (inputs.index, true));
                self.log.push(set);
            }
            Verdict::Unchanged(done) => {
                assert_same(&self.state, &before);
                assert_eq!((done.index, done.written), (before.index(), false));
            }
            Verdict::Refused(_) => assert_same(&self.state, &before),
        }
        verdict
    }

    /// Judges a command that must not be refused.
    pub(super) fn done(&mut self, command: Command) -> Done {
        match self.judge(command) {
            Verdict::Changed { done, .. } | Verdict::Unchanged(done) => done,
            Verdict::Refused(refusal) => panic!("refused: {}", refusal.message),
        }
    }

    /// Judges a command that must be refused.
    pub(super) fn refused(&mut self, command: Command) -> (RefusalKind, String) {
        match self.judge(command) {
            Verdict::Refused(Refusal { kind, message }) => (kind, message.to_string()),
            verdict @ (Verdict::Changed { .. } | Verdict::Unchanged(_)) => panic!("carried out: {verdict:?}"),
        }
    }

    /// Registers a job.
    pub(super) fn register(&mut self, spec: JobSpec) -> JobKey {
        let key = spec.key();
        self.done(Command::RegisterJob(Box::new(registration(spec))));
        key
    }

    /// Adds a ready node of 1,000 MHz, 1,000 MB and 1,000 MB of disk.
    pub(super) fn node(&mut self) -> NodeId {
        let id = NodeId::from_bytes(self.id());
        self.register_node(id, node_spec());
        self.heard(&[id]);
        assert_eq!(self.status(id), NodeStatus::Ready);
        id
    }

    pub(super) fn register_node(&mut self, id: NodeId, spec: NodeSpec) -> Done {
        self.done(Command::RegisterNode(Box::new(RegisterNode { epoch: EPOCH, id, spec: Arc::new(spec) })))
    }

    pub(super) fn heard(&mut self, nodes: &[NodeId]) -> Done {
        self.sign(NodeLiveness::Alive, nodes)
    }

    pub(super) fn missed(&mut self, nodes: &[NodeId]) -> Done {
        self.sign(NodeLiveness::Missed, nodes)
    }

    fn sign(&mut self, sign: NodeLiveness, nodes: &[NodeId]) -> Done {
        let update = UpdateNodes { epoch: EPOCH, sign, nodes: nodes.to_vec() };
        self.done(Command::UpdateNodes(update))
    }

    /// Places allocations of a job's first group on nodes, for the job's oldest pending evaluation.
    pub(super) fn place(&mut self, job: &JobKey, nodes: &[NodeId]) -> Vec<AllocId> {
        let plan = self.plan(job);
        let placements = self.placements(&plan, nodes);
        let ids = placements.ids.0.clone();
        let result = self.submit(Plan { placements: vec![placements], ..plan });
        assert_eq!(result.rejected_nodes, [], "the nodes have enough capacity");
        ids
    }

    /// An empty plan for a job's oldest pending evaluation.
    pub(super) fn plan(&self, job: &JobKey) -> Plan {
        let eval = self.pending(job).into_iter().min_by_key(|eval| (eval.create_index, eval.id));
        let eval = eval.expect("an evaluation is pending");
        Plan::new(&eval, self.state.job(job).map(|job| job.version_key()), self.state.index())
    }

    /// New allocations of the first group of a plan's job, one on each node.
    pub(super) fn placements(&mut self, plan: &Plan, nodes: &[NodeId]) -> Placements {
        let job = Arc::clone(self.planned_version(plan));
        self.placements_of(&job, plan.eval_id, nodes)
    }

    fn planned_version(&self, plan: &Plan) -> &Arc<Job> {
        let version = plan.job.as_ref().expect("the plan has a job");
        self.state.job_version(version).expect("the job is registered")
    }

    /// The same for a version that need not exist any more.
    pub(super) fn placements_of(&mut self, job: &Job, eval_id: EvalId, nodes: &[NodeId]) -> Placements {
        let mut placements = Placements::new(Arc::new(common(job, eval_id)));
        for (name_index, node) in (0..).zip(nodes) {
            let index = placements.nodes.iter().position(|known| known == node);
            let node = index.map_or_else(|| placements.add_node(*node), |index| index as u32);
            placements.push(Placement {
                id: AllocId::from_bytes(self.id()),
                node,
                name_index,
                previous: None,
                assigned: PackedAssigned::default(),
                reschedule: None,
                preempted: Vec::new(),
            });
        }
        placements
    }

    /// The common part of allocations of the first group of a plan's job.
    pub(super) fn common(&self, plan: &Plan) -> AllocCommon {
        common(self.planned_version(plan), plan.eval_id)
    }

    /// Submits a plan that completes its evaluation.
    pub(super) fn submit(&mut self, plan: Plan) -> PlanResult {
        let outcome = self.complete(&plan);
        self.submit_with(plan, outcome)
    }

    pub(super) fn submit_with(&mut self, plan: Plan, outcome: Outcome) -> PlanResult {
        self.done(submission(plan, outcome)).plan.expect("the answer contains a plan result")
    }

    /// The outcome that completes a plan's evaluation.
    pub(super) fn complete(&self, plan: &Plan) -> Outcome {
        let eval = Evaluation::clone(self.state.eval(plan.eval_id).expect("the evaluation exists"));
        let eval = Box::new(Evaluation { status: EvalStatus::Complete, ..eval });
        Outcome { eval, creates: Vec::new() }
    }

    /// One node's report of the same status for several allocations.
    pub(super) fn report(&mut self, node: NodeId, allocs: &[AllocId], status: ClientStatus) -> Done {
        let allocs = allocs.iter().map(|id| self.alloc_report(*id, status)).collect();
        let report = NodeReport { node, boot: BOOT, all_since: None, allocs };
        self.done(reports(vec![report]))
    }

    /// The next report on an allocation.
    pub(super) fn alloc_report(&self, id: AllocId, status: ClientStatus) -> AllocReport {
        let last = self.state.alloc(id).map_or(0, |alloc| alloc.report().0 as u32);
        AllocReport {
            id,
            count: last + 1,
            status,
            description: "".into(),
            task_states: PackedTaskStates::default(),
            network: None,
            health: None,
        }
    }

    pub(super) fn status(&self, node: NodeId) -> NodeStatus {
        self.whole_node(node).server.status
    }

    pub(super) fn whole_node(&self, id: NodeId) -> &Node {
        self.state.node(id).expect("the node exists").node()
    }

    pub(super) fn alloc(&self, id: AllocId) -> Allocation {
        self.state.alloc(id).expect("the allocation exists").to_allocation()
    }

    pub(super) fn job(&self, key: &JobKey) -> &Job {
        self.state.job(key).expect("the job is registered")
    }

    pub(super) fn job_status(&self, key: &JobKey) -> JobStatus {
        self.job(key).status
    }

    pub(super) fn summary(&self, key: &JobKey) -> &JobSummary {
        self.state.job_summary(key).expect("every job has a summary")
    }

    pub(super) fn eval(&self, id: EvalId) -> &Evaluation {
        self.state.eval(id).expect("the evaluation exists")
    }

    /// A job's pending evaluations, the oldest first.
    pub(super) fn pending(&self, job: &JobKey) -> Vec<Evaluation> {
        let evals = self.state.live_evals_of_job(job).filter(|eval| eval.status == EvalStatus::Pending);
        let mut evals: Vec<_> = evals.map(|eval| Evaluation::clone(eval)).collect();
        evals.sort_by_key(|eval| (eval.create_index, eval.id));
        evals
    }

    /// The triggers of a job's pending evaluations, the oldest first.
    pub(super) fn triggers(&self, job: &JobKey) -> Vec<EvalTrigger> {
        self.pending(job).into_iter().map(|eval| eval.trigger).collect()
    }

    /// Completes all pending evaluations of a job with empty plans.
    pub(super) fn complete_pending(&mut self, job: &JobKey) {
        for eval in self.pending(job) {
            let version = self.state.job(job).map(|job| job.version_key());
            let plan = Plan::new(&eval, version, self.state.index());
            self.submit(plan);
        }
    }
}

/// 100 MHz, 100 MB, 10 MB of disk.
fn common(job: &Job, eval_id: EvalId) -> AllocCommon {
    let group = job.spec.task_groups[0].name.clone();
    let task = TaskResources { name: "web".into(), cpu_mhz: 100, memory_mb: 100, ..TaskResources::default() };
    AllocCommon {
        name_stem: format!("{}.{group}", job.spec.id).into(),
        job: job.version_key(),
        task_group: group,
        eval_id,
        deployment_id: None,
        resources: AllocatedResources { tasks: vec![task], disk_mb: 10, ..AllocatedResources::default() },
        metrics: PackedMetric::default(),
        trace: None,
    }
}

pub(super) fn process(number: u8) -> ProcessId {
    ProcessId::from_bytes([number; 16])
}

pub(super) fn registration(spec: JobSpec) -> RegisterJob {
    RegisterJob {
        spec: Arc::new(spec),
        source: None,
        enforce_index: None,
        eval_priority: None,
        preserve_counts: false,
        preserve_resources: false,
    }
}

pub(super) fn submission(plan: Plan, outcome: Outcome) -> Command {
    Command::SubmitPlan(Box::new(SubmitPlan { plan, outcome, scheduler_version: SCHEDULER_VERSION }))
}

pub(super) fn reports(reports: Vec<NodeReport>) -> Command {
    Command::ReportAllocs(ReportAllocs { epoch: EPOCH, reports })
}

/// A job with one group `app` of one task `web`, with unlimited rescheduling.
pub(super) fn job_spec(id: &str, kind: JobType) -> JobSpec {
    let group = TaskGroup {
        name: "app".into(),
        count: 1,
        tasks: vec![Task { name: "web".into(), driver: "exec".into(), ..Task::default() }],
        reschedule_policy: Some(ReschedulePolicy { unlimited: true, ..ReschedulePolicy::default() }),
        ..TaskGroup::default()
    };
    JobSpec {
        namespace: "default".into(),
        name: id.into(),
        id: id.into(),
        kind,
        priority: 60,
        datacenters: vec!["dc*".into()],
        node_pool: "default".into(),
        task_groups: vec![group].into(),
        ..JobSpec::default()
    }
}

pub(super) fn service(id: &str) -> JobSpec {
    job_spec(id, JobType::Service)
}

/// A service whose allocations may stay disconnected for a minute.
pub(super) fn patient_service(id: &str) -> JobSpec {
    let mut spec = service(id);
    let lost_after = Nanos::from_mins(1);
    spec.task_groups[0].disconnect = Some(DisconnectStrategy { lost_after, ..DisconnectStrategy::default() });
    spec
}

pub(super) fn node_spec() -> NodeSpec {
    NodeSpec {
        secret_id: Secret("secret".into()),
        boot: BOOT,
        name: "node".into(),
        datacenter: "dc1".into(),
        node_pool: "default".into(),
        attributes: [("kernel.name".into(), "linux".into())].into(),
        resources: NodeResources {
            processors: Topology { override_total_mhz: 1_000, ..Topology::default() },
            memory_mb: 1_000,
            disk_mb: 1_000,
            ..NodeResources::default()
        },
        ..NodeSpec::default()
    }
}
