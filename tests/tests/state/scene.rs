//! A small cluster for tests of single changes. It has two halves that are independent of each other, with one object
//! of each kind.

use std::sync::Arc;

use model::alloc::{AllocCommon, Allocation};
use model::change::{AllocsChanged, Change, ChangeSet, JobSummary};
use model::deployment::Deployment;
use model::eval::{EvalTrigger, Evaluation};
use model::job::{Job, JobType};
use model::node::{Eligibility, Node, NodeServerSide};
use model::plan::Placements;
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId};
use state::{Replica, State};
use tests::build::{self, Ids};

pub(crate) struct Scene {
    pub(crate) replica: Replica,
    pub(crate) halves: [Half; 2],
    ids: Ids,
}

/// A node, a job, and one of each object that belongs to a job. The allocation is on the node.
#[derive(Debug, Clone)]
pub(crate) struct Half {
    pub(crate) node: Node,
    pub(crate) job: Job,
    pub(crate) eval: Evaluation,
    pub(crate) deployment: Deployment,
    pub(crate) alloc: AllocId,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let mut ids = Ids::default();
        let mut changes = Vec::new();
        let halves = [1, 2].map(|number| {
            let (half, placed) = Half::new(number, &mut ids);
            changes.extend([
                Change::Node(Box::new(half.node.clone())),
                Change::Job(Arc::new(half.job.clone())),
                half.summary(),
                Change::Eval(Arc::new(half.eval.clone())),
                Change::Deployment(Arc::new(half.deployment.clone())),
                placed,
            ]);
            half
        });
        let scene = Self { replica: Replica::new(State::default()), halves, ids };
        scene.replica.apply(build::shared([scene.next(changes)])).expect("the initial changes are valid");
        scene
    }

    /// The next change set.
    pub(crate) fn next(&self, changes: Vec<Change>) -> ChangeSet {
        build::change_set(self.replica.snapshot().index().next(), changes)
    }

    pub(crate) fn apply(&self, changes: Vec<Change>) {
        self.replica.apply(build::shared([self.next(changes)])).expect("the change is valid");
    }

    /// An unused id.
    pub(crate) fn unused_id(&mut self) -> [u8; 16] {
        self.ids.bytes()
    }

    /// A placement of one more allocation with a common part.
    pub(crate) fn placed(&mut self, common: AllocCommon, on: NodeId) -> Change {
        Change::AllocsPlaced(Box::new(build::placements(common, [on], &mut self.ids)))
    }

    /// The same as a replacement of `previous`.
    pub(crate) fn replaced(&mut self, common: AllocCommon, on: NodeId, previous: AllocId) -> Change {
        let placed = build::placements(common, [on], &mut self.ids);
        let previous = [previous].into_iter().collect();
        Change::AllocsPlaced(Box::new(Placements { previous, ..placed }))
    }

    /// A whole allocation.
    pub(crate) fn whole(&self, id: AllocId) -> Allocation {
        self.replica.snapshot().alloc(id).expect("the allocation exists").to_allocation()
    }
}

impl Half {
    fn new(number: u64, ids: &mut Ids) -> (Self, Change) {
        let node = build::node(NodeId::from_bytes(ids.bytes()), number);
        let job = Job { create_index: Index(1), ..build::job(number, 1) };
        let eval_id = EvalId::from_bytes(ids.bytes());
        let eval = Evaluation::new(eval_id, job.key(), JobType::Service, 50, EvalTrigger::JobRegister);
        let deployment_id = DeploymentId::from_bytes(ids.bytes());
        let deployment = build::deployment(deployment_id, job.version_key(), Index(1));
        let placements = build::placements(build::common(&job, eval_id), [node.id], ids);
        let alloc = placements.ids.0[0];
        (Self { node, job, eval, deployment, alloc }, Change::AllocsPlaced(Box::new(placements)))
    }

    pub(crate) fn job_key(&self) -> JobKey {
        self.job.key()
    }

    /// The job's next version.
    pub(crate) fn next_version(&self) -> Job {
        Job { version: self.job.version + 1, ..self.job.clone() }
    }

    /// The common part of the half's allocations.
    pub(crate) fn common(&self) -> AllocCommon {
        build::common(&self.job, self.eval.id)
    }

    pub(crate) fn summary(&self) -> Change {
        let summary = JobSummary {
            job: self.job_key(),
            groups: Default::default(),
            children: None,
            scaling_events: None,
            create_index: Index(1),
            modify_index: Index(1),
        };
        Change::JobSummary(Arc::new(summary))
    }

    /// Makes the node ineligible for new work.
    pub(crate) fn node_ineligible(&self) -> Change {
        let server = NodeServerSide { eligibility: Eligibility::Ineligible, ..self.node.server.clone() };
        Change::NodeServerSide { id: self.node.id, server: Box::new(server) }
    }

    /// Reports the allocation running.
    pub(crate) fn running(&self) -> Change {
        Change::AllocsChanged(Box::new(build::running(&[self.alloc])))
    }

    /// Updates the allocation in place to another common part.
    pub(crate) fn updated_to(&self, common: AllocCommon) -> Change {
        let ids = [self.alloc].into_iter().collect();
        Change::AllocsChanged(Box::new(AllocsChanged {
            ids,
            by_servers: true,
            common: Some(Arc::new(common)),
            ..AllocsChanged::default()
        }))
    }
}
