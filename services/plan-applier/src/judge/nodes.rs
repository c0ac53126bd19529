//! Consequences of a change of nodes: one evaluation for each affected job (N-5).

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

/// The subsystem of node events about registration, missed heartbeats and reconnection.
pub(super) const CLUSTER: &str = "Cluster";

/// The reason for evaluating a job: the first node through which it was found, with the type and priority of the job.
pub(super) struct AffectedJob {
    kind: JobType,
    priority: u16,
    node: NodeId,
}

/// The jobs that a change of these nodes affects, each once (N-5.2).
pub(super) fn affected_jobs(state: &State, nodes: &[NodeId]) -> BTreeMap<JobKey, AffectedJob> {
    let mut affected = BTreeMap::new();
    // Most allocations share their common part with others. Comparing pointers avoids looking up the job.
    let mut seen = HashSet::new();
    for node in nodes {
        for alloc in state.allocs_of_node(*node).filter(|alloc| is_affected(*alloc)) {
            if seen.insert(Arc::as_ptr(alloc.common())) {
                add_affected(&mut affected, alloc.job(), *node);
            }
        }
    }
    let mut checked = BTreeSet::new();
    for node in nodes.iter().filter_map(|id| state.node(*id)) {
        let spec = node.spec();
        if checked.insert((&spec.datacenter, &spec.node_pool)) {
            let matches_node = |job: &&Arc<Job>| job.spec.has_nodes_of(&spec.datacenter, &spec.node_pool);
            state
                .system_jobs()
                .filter(matches_node)
                .for_each(|job| add_affected(&mut affected, job, node.id()));
        }
    }
    affected
}

/// Whether the job of an allocation is affected by a change of the allocation's node. System jobs are found through the
/// node itself; sysbatch jobs are evaluated when capacity is freed.
fn is_affected(alloc: AllocRef<'_>) -> bool {
    match alloc.job().spec.kind {
        JobType::Service => !(alloc.desired_status().is_terminal() && alloc.client_status().is_terminal()),
        JobType::Batch => !alloc.client_status().is_terminal(),
        JobType::System | JobType::SysBatch => false,
    }
}

fn add_affected(affected: &mut BTreeMap<JobKey, AffectedJob>, job: &Job, node: NodeId) {
    let entry = AffectedJob { kind: job.spec.kind, priority: job.spec.priority, node };
    affected.entry(job.key()).or_insert(entry);
}

impl Work<'_> {
    /// Creates evaluations of affected jobs. A pending evaluation with the same trigger is raised to this index instead of
    /// creating another one (`docs/architecture/agents.md`).
    pub(super) fn evaluate_affected(
        &mut self,
        affected: BTreeMap<JobKey, AffectedJob>,
    ) -> Result<(), Refusal> {
        let mut waiting = Vec::new();
        for (job, AffectedJob { kind, priority, node }) in affected {
            if is_planted(Bug::SkipsNodeFailureEvals) {
                continue;
            }
            if let Some(eval) = self.waiting_node_eval(&job) {
                waiting.push(eval);
                continue;
            }
            let index = self.index();
            self.create_eval(&job, kind, priority, EvalTrigger::NodeUpdate, |eval| {
                (eval.node_id, eval.node_modify_index) = (Some(node), index);
            })?;
        }
        if waiting.is_empty() || is_planted(Bug::IgnoresSecondNodeFailure) {
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

    /// A node event at this index.
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
