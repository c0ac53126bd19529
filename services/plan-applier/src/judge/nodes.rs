//! What follows when something happens to nodes: one evaluation for each job that it concerns (N-5).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use model::change::{Change, EvalsChanged};
use model::eval::{EvalStatus, EvalTrigger};
use model::job::{Job, JobType};
use model::node::NodeEvent;
use model::{EvalId, JobKey, NodeId, Text};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, State};
use wire::Refusal;

use super::work::Work;

/// The part of the system that an event of a node comes from: its registration, its absence, and its return.
pub(super) const CLUSTER: &str = "Cluster";

/// Why a job is to be looked at: the first node that it was found through, and as what.
pub(super) struct Concern {
    kind: JobType,
    priority: u16,
    node: NodeId,
}

/// The jobs that a change of these nodes concerns, each once (N-5.2).
pub(super) fn jobs_concerned(state: &State, nodes: &[NodeId]) -> BTreeMap<JobKey, Concern> {
    let mut concerned = BTreeMap::new();
    // Most allocations share what they are with others; looking at a pointer spares looking up the job.
    let mut seen = HashSet::new();
    for node in nodes {
        for alloc in state.allocs_of_node(*node).filter(|alloc| is_concerned(*alloc)) {
            if seen.insert(Arc::as_ptr(alloc.common())) {
                concern(&mut concerned, alloc.job(), *node);
            }
        }
    }
    let mut kinds_of_nodes = BTreeSet::new();
    for node in nodes.iter().filter_map(|id| state.node(*id)) {
        let spec = node.spec();
        if kinds_of_nodes.insert((&spec.datacenter, &spec.node_pool)) {
            let here = |job: &&Arc<Job>| job.spec.has_nodes_of(&spec.datacenter, &spec.node_pool);
            state.system_jobs().filter(here).for_each(|job| concern(&mut concerned, job, node.id()));
        }
    }
    concerned
}

/// Whether the job of an allocation must know that something happened to its node. System jobs are found through the
/// node itself, sysbatch jobs wait for room.
fn is_concerned(alloc: AllocRef<'_>) -> bool {
    match alloc.job().spec.kind {
        JobType::Service => !(alloc.desired_status().is_terminal() && alloc.client_status().is_terminal()),
        JobType::Batch => !alloc.client_status().is_terminal(),
        JobType::System | JobType::SysBatch => false,
    }
}

fn concern(concerned: &mut BTreeMap<JobKey, Concern>, job: &Job, node: NodeId) {
    let concern = Concern { kind: job.spec.kind, priority: job.spec.priority, node };
    concerned.entry(job.key()).or_insert(concern);
}

impl Work<'_> {
    /// Has jobs looked at because of nodes. Where an evaluation that was made for the same reason still waits, it is
    /// brought up to this index instead of making another (design §10).
    pub(super) fn evaluate_concerned(&mut self, concerned: BTreeMap<JobKey, Concern>) -> Result<(), Refusal> {
        let mut waiting = Vec::new();
        for (job, Concern { kind, priority, node }) in concerned {
            if is_planted(Bug::EvaluatesNobody) {
                continue;
            }
            if let Some(eval) = self.waiting_node_eval(&job) {
                waiting.push(eval);
                continue;
            }
            let index = self.index();
            self.make_eval(&job, kind, priority, EvalTrigger::NodeUpdate, |eval| {
                (eval.node_id, eval.node_modify_index) = (Some(node), index);
            })?;
        }
        if waiting.is_empty() || is_planted(Bug::ForgetsTheSecondFailure) {
            return Ok(());
        }
        self.apply(Change::EvalsChanged(EvalsChanged { ids: waiting, ..EvalsChanged::default() }))
    }

    fn waiting_node_eval(&self, job: &JobKey) -> Option<EvalId> {
        let mut evals = self.state().live_evals_of_job(job);
        let waiting =
            evals.find(|eval| eval.status == EvalStatus::Pending && eval.trigger == EvalTrigger::NodeUpdate);
        waiting.map(|eval| eval.id)
    }

    /// An event of a node, at this index.
    pub(super) fn node_event(&self, subsystem: &str, message: &str) -> NodeEvent {
        NodeEvent {
            message: Text::from(message),
            subsystem: Text::from(subsystem),
            details: BTreeMap::new(),
            timestamp: self.at(),
            create_index: self.index(),
        }
    }
}
