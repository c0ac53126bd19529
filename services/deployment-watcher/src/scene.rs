//! A job and its deployment for tests: a state that change sets move along, and a watcher that follows it.

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

use crate::watcher::{Settings, Watcher};

pub(crate) const GATHER: Nanos = Nanos::from_secs(1);
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
    /// A deployment of five allocations of which none is placed yet, with a minute for each step.
    pub(crate) fn new(policy: ReschedulePolicy) -> Self {
        Self::with_deadline(policy, Nanos::from_mins(1))
    }

    pub(crate) fn with_deadline(policy: ReschedulePolicy, progress_deadline: Nanos) -> Self {
        let now = Timestamp::from_secs(1_800_000_000);
        let settings = Settings { gather: GATHER };
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

    /// Commits changes under the next index; the watcher follows.
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
        after.apply(&set).expect("the change fits");
        let (before, after) = (Arc::clone(&self.state), Arc::new(after));
        self.state = Arc::clone(&after);
        self.watcher.step(&Step::new(before, vec![Arc::new(set)], after), self.now);
    }

    /// Commits new allocations of the deployment.
    pub(crate) fn place(&mut self, numbers: &[u8]) {
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
        let mut placements = Placements::new(Arc::new(common));
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

    /// Commits verdicts on health, with the moment by which the next one must come, as the applier counts them.
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

    /// Commits how an allocation fares.
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

    /// Commits how many are healthy, as the applier counts them.
    pub(crate) fn count_healthy(&mut self, count: u32) {
        self.progress(DeploymentProgress { healthy_allocs: count, ..DeploymentProgress::default() });
    }

    /// Commits by when the group must make progress.
    pub(crate) fn must_progress_in(&mut self, length: Nanos) {
        let require_progress_by = self.now + length;
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

    /// Commits an evaluation of the job that nobody has looked at yet.
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

    /// Commits what a scheduler made of it, from a snapshot at an index.
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

    /// Time passes until what happened is looked at: what is to come of the deployment. The command is lost, as far as
    /// the watcher knows.
    pub(crate) fn look(&mut self) -> Option<DeploymentStep> {
        self.now = self.now + GATHER;
        self.found()
    }

    /// Time passes until the watcher has something to do: how long that was, and what it found.
    pub(crate) fn pass_to_timeout(&mut self) -> (Nanos, Option<DeploymentStep>) {
        let due = self.watcher.poll_timeout().expect("the watcher waits for something");
        let length = due - self.now;
        self.now = due;
        (length, self.found())
    }

    fn found(&mut self) -> Option<DeploymentStep> {
        let write = self.watcher.next_write(Epoch(1), self.now)?;
        self.watcher.written(self.state.index());
        assert_eq!(write.findings.len(), 1, "there is one deployment");
        write.findings.into_iter().next().map(|finding| finding.step)
    }
}

/// Never tried elsewhere.
pub(crate) fn never() -> ReschedulePolicy {
    ReschedulePolicy::default()
}

/// Tried elsewhere for ever.
pub(crate) fn unlimited() -> ReschedulePolicy {
    ReschedulePolicy { unlimited: true, ..ReschedulePolicy::default() }
}
