//! A test scene: a state with one job and one deployment, which change sets move on, and a watcher that follows it.

use std::sync::Arc;

use model::alloc::{AllocCommon, AllocatedResources, ClientStatus, PackedMetric};
use model::change::{
    AllocsChanged, Cause, Change, ChangeSet, DeploymentFields, DeploymentProgress, NodesChanged,
};
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentGroup, DeploymentStatus};
use model::eval::{EvalStatus, EvalTrigger, Evaluation};
use model::job::{Job, JobSpec, JobType, ReschedulePolicy, TaskGroup};
use model::node::{Node, NodeStatus};
use model::plan::{Placement, Placements};
use model::{
    AllocId, DeploymentId, Epoch, EvalId, HistoryId, Index, JobKey, JobVersionKey, Nanos, NodeId, RequestId,
    Timestamp,
};
use state::{Snapshot, State, Step};
use wire::command::DeploymentStep;

use crate::core::{Settings, Watcher};

pub(crate) const BATCH_DELAY: Nanos = Nanos::from_secs(1);
pub(crate) const DEPLOYMENT: DeploymentId = DeploymentId::from_bytes([9; 16]);
const NODE: NodeId = NodeId::from_bytes([8; 16]);

pub(crate) struct Scene {
    pub(crate) state: Snapshot,
    pub(crate) watcher: Watcher,
    pub(crate) now: Timestamp,
    evals: u8,
}

pub(crate) fn alloc(number: u8) -> AllocId {
    AllocId::from_bytes([number; 16])
}

fn key() -> JobKey {
    JobKey::new("default", "web")
}

fn version() -> JobVersionKey {
    JobVersionKey { job: key(), create_index: Index(1), version: 0 }
}

impl Scene {
    /// A deployment of five allocations. None is placed yet, and each step has a progress deadline of one minute.
    pub(crate) fn new(policy: ReschedulePolicy) -> Self {
        Self::with_deadline(policy, Nanos::from_mins(1))
    }

    pub(crate) fn with_deadline(policy: ReschedulePolicy, progress_deadline: Nanos) -> Self {
        let now = Timestamp::from_secs(1_800_000_000);
        let settings = Settings { batch_delay: BATCH_DELAY };
        let state = Snapshot::new(State::new(HistoryId::default(), crate::SCOPE));
        let watcher = Watcher::restore(settings, state.clone(), now);
        let mut scene = Self { state, watcher, now, evals: 0 };
        let group = TaskGroup {
            name: "app".into(),
            count: 5,
            reschedule_policy: Some(policy),
            ..TaskGroup::default()
        };
        let JobKey { namespace, id } = key();
        let spec = JobSpec { namespace, id, task_groups: vec![group].into(), ..JobSpec::default() };
        let job = Job { spec: Arc::new(spec), create_index: Index(1), ..Job::default() };
        let node = Node { id: NODE, spec: Arc::default(), server: Default::default() };
        let part = DeploymentGroup { progress_deadline, desired_total: 5, ..DeploymentGroup::default() };
        let deployment = Deployment {
            id: DEPLOYMENT,
            job: version(),
            job_modify_index: Index(1),
            job_spec_modify_index: Index(1),
            is_multiregion: false,
            groups: [("app".into(), part)].into(),
            status: DeploymentStatus::Running,
            status_description: "".into(),
            eval_priority: 0,
            create_index: Index(1),
            modify_index: Index(1),
            create_time: now,
            modify_time: now,
            trace: None,
        };
        scene.apply(vec![
            Change::Job(Arc::new(job)),
            Change::Node(Box::new(node)),
            Change::Deployment(Arc::new(deployment)),
        ]);
        scene
    }

    /// Commits changes at the next index and passes them to the watcher.
    pub(crate) fn apply(&mut self, changes: Vec<Change>) {
        let set = ChangeSet {
            index: self.state.index().next(),
            at: self.now,
            request_id: RequestId::from_bytes([0; 16]),
            cause: Cause::PlanResult,
            trace: None,
            result: Vec::new(),
            changes,
        };
        let mut after = State::clone(&self.state);
        after.apply(&set).expect("the change applies to the state");
        let (before, after) = (Arc::clone(&self.state), Arc::new(after));
        self.state = Arc::clone(&after);
        self.watcher.step(&Step::new(before, vec![Arc::new(set)], after), self.now);
    }

    /// Commits new allocations of the deployment.
    pub(crate) fn place(&mut self, numbers: &[u8]) {
        self.place_as(false, numbers);
    }

    /// Commits new canaries, as many as the deployment desires.
    pub(crate) fn place_canaries(&mut self, auto_promote: bool, numbers: &[u8]) {
        self.place_as(true, numbers);
        let mut deployment = Deployment::clone(self.state.deployment(DEPLOYMENT).expect("it exists"));
        let group = deployment.groups.get_mut("app").expect("it has one group");
        group.auto_promote = auto_promote;
        group.desired_canaries = numbers.len() as u32;
        group.placed_canaries = numbers.iter().copied().map(alloc).collect();
        self.apply(vec![Change::Deployment(Arc::new(deployment))]);
    }

    fn place_as(&mut self, canary: bool, numbers: &[u8]) {
        let common = AllocCommon {
            job: version(),
            task_group: "app".into(),
            name_stem: "web.app".into(),
            eval_id: EvalId::from_bytes([7; 16]),
            deployment_id: Some(DEPLOYMENT),
            resources: AllocatedResources::default(),
            metrics: PackedMetric::default(),
            trace: None,
        };
        let mut placements = Placements { canary, ..Placements::new(Arc::new(common)) };
        let node = placements.add_node(NODE);
        for number in numbers {
            placements.push(Placement {
                id: alloc(*number),
                node,
                name_index: (*number).into(),
                previous: None,
                assigned: Default::default(),
                reschedule: None,
                preempted: Vec::new(),
            });
        }
        self.apply(vec![Change::AllocsPlaced(Box::new(placements))]);
    }

    /// Commits health verdicts. The applier's counters and progress deadlines are committed separately.
    pub(crate) fn verdict(&mut self, numbers: &[u8], healthy: bool) {
        let ids: AllocIds = numbers.iter().copied().map(alloc).collect();
        let verdicts = vec![Some((healthy, self.now)); numbers.len()];
        self.apply(vec![Change::AllocsChanged(Box::new(AllocsChanged {
            ids,
            verdicts,
            ..AllocsChanged::default()
        }))]);
    }

    pub(crate) fn end(&mut self, number: u8) {
        self.report(number, ClientStatus::Failed);
    }

    /// Commits an allocation's client status.
    pub(crate) fn report(&mut self, number: u8, status: ClientStatus) {
        let client = Some((status, "".into()));
        let ids = AllocIds(vec![alloc(number)]);
        self.apply(vec![Change::AllocsChanged(Box::new(AllocsChanged {
            ids,
            client,
            ..AllocsChanged::default()
        }))]);
    }

    pub(crate) fn node_is_ready(&mut self) {
        let status = Some(NodeStatus::Ready);
        self.apply(vec![Change::NodesChanged(Box::new(NodesChanged {
            ids: vec![NODE],
            status,
            ..NodesChanged::default()
        }))]);
    }

    /// Commits the number of healthy allocations, which the applier would count.
    pub(crate) fn count_healthy(&mut self, count: u32) {
        self.progress(DeploymentProgress { healthy_allocs: count, ..DeploymentProgress::default() });
    }

    /// Commits the group's progress deadline.
    pub(crate) fn must_progress_in(&mut self, delay: Nanos) {
        let require_progress_by = self.now + delay;
        self.progress(DeploymentProgress { require_progress_by, ..DeploymentProgress::default() });
    }

    fn progress(&mut self, progress: DeploymentProgress) {
        let progress = DeploymentProgress { group: "app".into(), ..progress };
        self.change(DeploymentFields { id: DEPLOYMENT, status: None, groups: vec![progress] });
    }

    pub(crate) fn set_status(&mut self, status: DeploymentStatus) {
        self.change(DeploymentFields {
            id: DEPLOYMENT,
            status: Some((status, "".into())),
            groups: Vec::new(),
        });
    }

    fn change(&mut self, fields: DeploymentFields) {
        self.apply(vec![Change::DeploymentFields(Box::new(fields))]);
    }

    /// Commits a pending evaluation of the job.
    pub(crate) fn evaluate(&mut self) -> Evaluation {
        self.evals += 1;
        let id = EvalId::from_bytes([self.evals; 16]);
        let index = self.state.index().next();
        let eval = Evaluation {
            create_index: index,
            modify_index: index,
            ..Evaluation::new(id, key(), JobType::Service, 50, EvalTrigger::DeploymentWatcher)
        };
        self.apply(vec![Change::Eval(Arc::new(eval.clone()))]);
        eval
    }

    /// Commits the outcome of an evaluation that was made from a snapshot at `snapshot_index`.
    pub(crate) fn finish(&mut self, eval: Evaluation, status: EvalStatus, snapshot_index: Index) {
        let outcome = Evaluation { status, snapshot_index, modify_index: self.state.index().next(), ..eval };
        self.apply(vec![Change::EvalOutcome(Arc::new(outcome))]);
    }

    pub(crate) fn marked(&mut self, number: u8) {
        let transition = model::alloc::DesiredTransition { reschedule: Some(true), ..Default::default() };
        let ids = AllocIds(vec![alloc(number)]);
        self.apply(vec![Change::AllocsChanged(Box::new(AllocsChanged {
            ids,
            transition: Some(transition),
            ..AllocsChanged::default()
        }))]);
    }

    /// Advances the clock by the batch delay and returns the step that the watcher finds. The watcher takes its command for
    /// committed, but the state does not change.
    pub(crate) fn check(&mut self) -> Option<DeploymentStep> {
        self.now = self.now + BATCH_DELAY;
        self.next_step()
    }

    /// Advances the clock to the watcher's next timeout. Returns how long that took and the step that the watcher finds.
    pub(crate) fn pass_to_timeout(&mut self) -> (Nanos, Option<DeploymentStep>) {
        let due = self.watcher.poll_timeout().expect("the watcher has a timeout");
        let delay = due - self.now;
        self.now = due;
        (delay, self.next_step())
    }

    fn next_step(&mut self) -> Option<DeploymentStep> {
        let write = self.watcher.next_write(Epoch(1), self.now)?;
        self.watcher.written(self.state.index());
        assert_eq!(write.findings.len(), 1, "the scene has one deployment");
        write.findings.into_iter().next().map(|finding| finding.step)
    }
}

/// A policy that never reschedules.
pub(crate) fn never() -> ReschedulePolicy {
    ReschedulePolicy::default()
}

/// A policy that reschedules without a limit.
pub(crate) fn unlimited() -> ReschedulePolicy {
    ReschedulePolicy { unlimited: true, ..ReschedulePolicy::default() }
}
