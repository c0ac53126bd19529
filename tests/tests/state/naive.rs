//! The cluster as plain maps of whole objects, moved on in the obvious way: what the real state is compared with.
//!
//! No columns, no counts, no shared parts, no indexes. It takes valid change sets only; what does not fit is asked in
//! `errors`.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{
    AllocExtra, Allocation, ClientStatus, DesiredStatus, DesiredTransition, Health, ReportNumber,
};
use model::change::{AllocsChanged, Change, ChangeSet, JobSummary};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::Job;
use model::node::Node;
use model::plan::Placements;
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, JobVersionKey, NodeId, Text, Timestamp};
use state::{Table, UnblockKey};
use tests::build;

#[derive(Debug, Clone, Default)]
pub(crate) struct Naive {
    pub(crate) index: Index,
    pub(crate) at: Timestamp,
    pub(crate) tables: BTreeMap<Table, Index>,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) jobs: BTreeMap<JobVersionKey, Job>,
    pub(crate) summaries: BTreeMap<JobKey, JobSummary>,
    pub(crate) plans: BTreeMap<JobKey, Index>,
    pub(crate) allocs: BTreeMap<AllocId, Allocation>,
    pub(crate) evals: BTreeMap<EvalId, Evaluation>,
    pub(crate) deployments: BTreeMap<DeploymentId, Deployment>,
    pub(crate) unblocked: BTreeMap<UnblockKey, Index>,
}

impl Naive {
    /// The versions of a job, the current one last.
    pub(crate) fn versions(&self, job: &JobKey) -> Vec<&Job> {
        self.jobs.values().filter(|version| version.key() == *job).collect()
    }

    pub(crate) fn allocs_of_node(&self, node: NodeId) -> Vec<&Allocation> {
        self.allocs.values().filter(|alloc| alloc.node_id == node).collect()
    }

    /// One change of `set`, whose other changes may come before and after.
    pub(crate) fn change(&mut self, change: &Change, set: &ChangeSet) {
        (self.index, self.at) = (set.index, set.at);
        let touched = match change {
            Change::Job(job) => {
                self.jobs.insert(job.version_key(), Job::clone(job));
                Table::Jobs
            }
            Change::JobFields(fields) => {
                let job = self.jobs.get_mut(&fields.key).expect("commands speak of what is there");
                job.status = fields.status;
                job.status_description = fields.status_description.clone();
                job.stable = fields.stable;
                job.version_tag = fields.version_tag.clone();
                job.modify_index = set.index;
                Table::Jobs
            }
            Change::JobDeleted(key) => {
                self.jobs.retain(|version, _| version.job != *key);
                self.summaries.remove(key);
                self.plans.remove(key);
                self.tables.insert(Table::JobSummaries, set.index);
                Table::Jobs
            }
            Change::JobVersionsDeleted(keys) => {
                self.jobs.retain(|version, _| !keys.contains(version));
                Table::Jobs
            }
            Change::JobSummary(summary) => {
                self.summaries.insert(summary.job.clone(), JobSummary::clone(summary));
                Table::JobSummaries
            }
            Change::Eval(eval) | Change::EvalOutcome(eval) => {
                self.evals.insert(eval.id, Evaluation::clone(eval));
                Table::Evals
            }
            Change::PlanApplied { job, eval_id } => {
                if !self.versions(job).is_empty() {
                    self.plans.insert(job.clone(), set.index);
                }
                if let Some(eval) = self.evals.get_mut(eval_id) {
                    eval.modify_index = set.index;
                }
                Table::Evals
            }
            Change::EvalsDeleted(ids) => {
                self.evals.retain(|id, _| !ids.contains(id));
                Table::Evals
            }
            Change::Deployment(deployment) => {
                self.deployments.insert(deployment.id, Deployment::clone(deployment));
                Table::Deployments
            }
            Change::DeploymentsDeleted(ids) => {
                self.deployments.retain(|id, _| !ids.contains(id));
                Table::Deployments
            }
            Change::Node(node) => {
                for alloc in self.allocs.values_mut().filter(|alloc| alloc.node_id == node.id) {
                    alloc.node_name = node.spec.name.clone();
                }
                self.nodes.insert(node.id, Node::clone(node));
                Table::Nodes
            }
            Change::NodeServerSide { id, server } => {
                self.nodes.get_mut(id).expect("commands speak of what is there").server = (**server).clone();
                Table::Nodes
            }
            Change::NodesDeleted(ids) => {
                self.nodes.retain(|id, _| !ids.contains(id));
                Table::Nodes
            }
            Change::AllocsPlaced(placements) => {
                self.place(placements, set);
                Table::Allocs
            }
            Change::AllocsChanged(change) => {
                self.change_allocs(change, set);
                Table::Allocs
            }
            Change::Alloc(alloc) => {
                self.allocs.remove(&alloc.id);
                let node_name = self.node_name(alloc.node_id).unwrap_or_else(|| alloc.node_name.clone());
                self.allocs.insert(alloc.id, Allocation { node_name, ..Allocation::clone(alloc) });
                Table::Allocs
            }
            Change::AllocsDeleted(ids) => {
                self.allocs.retain(|id, _| !ids.0.contains(id));
                Table::Allocs
            }
            Change::Unblocked(unblocked) => {
                let classes = unblocked.classes.iter().cloned().map(UnblockKey::Class);
                let quotas = unblocked.quotas.iter().cloned().map(UnblockKey::Quota);
                let resources = unblocked.resources.iter().cloned().map(UnblockKey::Resource);
                self.unblocked.extend(classes.chain(quotas).chain(resources).map(|key| (key, set.index)));
                Table::Unblocked
            }
            Change::UnblockedForgotten(before) => {
                self.unblocked.retain(|_, index| *index >= *before);
                Table::Unblocked
            }
            Change::SchedulerConfig(_)
            | Change::NodePool(_)
            | Change::NodePoolDeleted(_)
            | Change::Namespace(_)
            | Change::NamespaceDeleted(_)
            | Change::HostVolume(_)
            | Change::HostVolumeDeleted(_)
            | Change::CsiVolume(_)
            | Change::CsiVolumeDeleted(_)
            | Change::VolumeClaim(_)
            | Change::VolumeClaimDeleted(_)
            | Change::Lease(_) => unreachable!("no command makes it: these are maps in the real state too"),
        };
        self.tables.insert(touched, set.index);
    }

    fn place(&mut self, placements: &Placements, set: &ChangeSet) {
        for (row, id) in placements.ids.0.iter().enumerate() {
            let node_id = placements.node_of(row);
            let alloc = Allocation {
                id: *id,
                common: Arc::clone(&placements.common),
                name_index: Some(placements.name_index[row]),
                node_id,
                node_name: self.node_name(node_id).expect("commands place on known nodes"),
                assigned: placements.assigned.get(row).cloned().flatten(),
                desired_status: DesiredStatus::Run,
                desired_description: Text::default(),
                desired_transition: DesiredTransition::default(),
                client_status: ClientStatus::Pending,
                client_description: Text::default(),
                task_states: Default::default(),
                health: placements.canary.then(|| Health { canary: true, ..Health::default() }),
                extra: AllocExtra {
                    previous: placements.previous.get(row),
                    reschedule: placements.reschedule.get(row).cloned().flatten(),
                    preempted: placements.preempted.get(row).cloned().unwrap_or_default(),
                    ..AllocExtra::default()
                },
                report: ReportNumber::default(),
                create_index: set.index,
                modify_index: set.index,
                alloc_modify_index: set.index,
                create_time: set.at,
                modify_time: set.at,
            };
            self.allocs.insert(*id, alloc);
        }
    }

    fn change_allocs(&mut self, change: &AllocsChanged, set: &ChangeSet) {
        for (row, id) in change.ids.0.iter().enumerate() {
            let alloc = self.allocs.get_mut(id).expect("commands speak of what is there");
            if let Some(common) = &change.common {
                alloc.common = Arc::clone(common);
            }
            if let Some((status, description)) = change.desired.clone() {
                (alloc.desired_status, alloc.desired_description) = (status, description);
            }
            if let Some((status, description)) = change.client.clone() {
                (alloc.client_status, alloc.client_description) = (status, description);
            }
            if let Some(transition) = change.transition {
                alloc.desired_transition = alloc.desired_transition.merge(transition);
            }
            if let Some(state) = change.append_state {
                alloc.extra.states.push(state);
            }
            if let Some(followup) = change.followup_eval {
                alloc.extra.followup_eval = followup;
            }
            if let Some(by) = change.preempted_by {
                alloc.extra.preempted_by = Some(by);
            }
            if let Some(health) = change.health {
                alloc.health = health;
            }
            if let Some(report) = change.reports.get(row) {
                alloc.report = *report;
            }
            if let Some(states) = change.task_states.get(row) {
                alloc.task_states = states.clone();
            }
            if let Some(next) = change.next.get(row) {
                alloc.extra.next = Some(next);
            }
            if let Some(reschedule) = change.reschedule.get(row) {
                alloc.extra.reschedule = Some(Arc::clone(reschedule));
            }
            if let Some(network) = change.network.get(row) {
                alloc.extra.network = network.clone();
            }
            if let Some(assigned) = change.assigned.get(row) {
                alloc.assigned = assigned.clone();
            }
            (alloc.modify_index, alloc.modify_time) = (set.index, set.at);
            if change.by_servers {
                alloc.alloc_modify_index = set.index;
            }
        }
    }

    /// A node's name, also of one that is gone but still has allocations.
    fn node_name(&self, id: NodeId) -> Option<Text> {
        let known = self.nodes.get(&id).map(|node| node.spec.name.clone());
        known.or_else(|| self.allocs_of_node(id).first().map(|alloc| alloc.node_name.clone()))
    }

    /// All of it as a database would hold it, for a state that is built anew. Allocations of purged versions are left
    /// out, and so is what only change sets tell: which attempts were taken, and what gained room.
    pub(crate) fn as_loaded(&self) -> (Self, ChangeSet) {
        let mut loaded = self.clone();
        loaded.plans.clear();
        loaded.unblocked.clear();
        loaded.allocs.retain(|_, alloc| self.jobs.contains_key(&alloc.common.job));
        let jobs = loaded.jobs.values().cloned().map(|job| Change::Job(Box::new(job)));
        let summaries = loaded.summaries.values().cloned();
        let nodes = loaded.nodes.values().cloned().map(|node| Change::Node(Box::new(node)));
        let evals = loaded.evals.values().cloned().map(|eval| Change::Eval(Box::new(eval)));
        let deployments = loaded.deployments.values().cloned();
        let allocs = loaded.allocs.values().cloned().map(|alloc| Change::Alloc(Box::new(alloc)));
        // The newest version first: which one is current must not depend on the order.
        let changes = jobs
            .rev()
            .chain(summaries.map(|summary| Change::JobSummary(Box::new(summary))))
            .chain(evals)
            .chain(deployments.map(|deployment| Change::Deployment(Box::new(deployment))))
            .chain(allocs)
            .chain(nodes)
            .collect();
        (loaded, build::change_set(self.index, changes))
    }
}
