//! A naive model of the cluster, with which the real state is compared: plain maps of whole objects, updated in the
//! obvious way.
//!
//! It has no columns, counts, shared parts or indexes. It accepts only valid change sets; `errors` tests the others.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{
    AllocExtra, Allocation, ClientStatus, DesiredStatus, DesiredTransition, Health, ReportNumber,
    RescheduleTracker,
};
use model::change::{
    AllocChange, AllocsChanged, Change, ChangeSet, Concern, DeploymentChange, DeploymentFields, EvalChange,
    EvalsChanged, JobChange, JobSubmissionChange, JobSummary, JobSummaryChange, NodeChange, NodesChanged,
    UnblockedChange,
};
use model::deployment::Deployment;
use model::eval::Evaluation;
use model::job::{Job, JobSubmission};
use model::node::{EVENTS_MAX, Node};
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
    pub(crate) submissions: BTreeMap<JobVersionKey, JobSubmission>,
    pub(crate) summaries: BTreeMap<JobKey, JobSummary>,
    pub(crate) plans: BTreeMap<JobKey, Index>,
    pub(crate) allocs: BTreeMap<AllocId, Allocation>,
    pub(crate) evals: BTreeMap<EvalId, Evaluation>,
    pub(crate) deployments: BTreeMap<DeploymentId, Deployment>,
    pub(crate) unblocked: BTreeMap<UnblockKey, Index>,
    /// The last index at which the servers changed a node's work, for nodes that are registered or have allocations.
    pub(crate) work: BTreeMap<NodeId, Index>,
    /// The last index at which a job's versions, evaluations, allocations or deployments changed, were added or were
    /// deleted.
    marks: BTreeMap<(Table, JobKey), Index>,
}

impl Naive {
    /// The versions of a job, the current one last.
    pub(crate) fn versions(&self, job: &JobKey) -> Vec<&Job> {
        self.jobs.values().filter(|version| version.key() == *job).collect()
    }

    /// The last index at which a job's part of a table changed, or that of the table if nothing is recorded for the
    /// job.
    pub(crate) fn job_index(&self, table: Table, job: &JobKey) -> Index {
        let own = if table == Table::JobSummaries {
            self.summaries.get(job).map(|summary| summary.modify_index)
        } else {
            self.marks.get(&(table, job.clone())).copied()
        };
        own.unwrap_or_else(|| self.tables.get(&table).copied().unwrap_or_default())
    }

    pub(crate) fn allocs_of_node(&self, node: NodeId) -> Vec<&Allocation> {
        self.allocs.values().filter(|alloc| alloc.node_id == node).collect()
    }

    /// Makes one change of `set`. Other changes of the set may precede or follow it.
    pub(crate) fn change(&mut self, change: &Change, set: &ChangeSet) {
        (self.index, self.at) = (set.index, set.at);
        let touched = match change.concern() {
            Concern::Jobs(JobChange::Job(job)) => {
                self.jobs.insert(job.version_key(), Job::clone(job));
                self.mark_registered(Table::Jobs, job.key());
                Table::Jobs
            }
            Concern::Jobs(JobChange::JobFields(fields)) => {
                let job = self.jobs.get_mut(&fields.key).expect("commands refer to existing objects");
                job.status = fields.status;
                job.status_description = fields.status_description.clone();
                job.stable = fields.stable;
                job.version_tag = fields.version_tag.clone();
                job.modify_index = set.index;
                self.mark_registered(Table::Jobs, fields.key.job.clone());
                Table::Jobs
            }
            Concern::Jobs(JobChange::JobDeleted(key)) => {
                self.jobs.retain(|version, _| version.job != *key);
                self.submissions.retain(|version, _| version.job != *key);
                self.summaries.remove(key);
                self.plans.remove(key);
                self.marks.remove(&(Table::Jobs, key.clone()));
                self.marks.remove(&(Table::Evals, key.clone()));
                self.marks.remove(&(Table::Deployments, key.clone()));
                self.tables.insert(Table::JobSubmissions, set.index);
                self.tables.insert(Table::JobSummaries, set.index);
                Table::Jobs
            }
            Concern::Jobs(JobChange::JobVersionsDeleted(keys)) => {
                self.jobs.retain(|version, _| !keys.contains(version));
                keys.iter().for_each(|key| self.mark_registered(Table::Jobs, key.job.clone()));
                Table::Jobs
            }
            Concern::JobSubmissions(JobSubmissionChange::JobSubmission(submission)) => {
                self.submissions.insert(submission.version.clone(), JobSubmission::clone(submission));
                Table::JobSubmissions
            }
            Concern::JobSubmissions(JobSubmissionChange::JobSubmissionCopied { from, to }) => {
                if let Some(from) = self.submissions.get(from).cloned() {
                    let (version, job_modify_index) = (to.clone(), set.index);
                    let copy = JobSubmission { version, job_modify_index, is_copy: true, ..from };
                    self.submissions.insert(to.clone(), copy);
                }
                Table::JobSubmissions
            }
            Concern::JobSubmissions(JobSubmissionChange::JobSubmissionsDeleted(keys)) => {
                self.submissions.retain(|version, _| !keys.contains(version));
                Table::JobSubmissions
            }
            Concern::JobSummaries(JobSummaryChange::JobSummary(summary)) => {
                self.summaries.insert(summary.job.clone(), JobSummary::clone(summary));
                Table::JobSummaries
            }
            Concern::Evals(EvalChange::Eval(eval) | EvalChange::EvalOutcome(eval)) => {
                // The evaluation may have belonged to another job.
                self.touch_evals(&[eval.id]);
                self.evals.insert(eval.id, Evaluation::clone(eval));
                self.touch_evals(&[eval.id]);
                Table::Evals
            }
            Concern::Evals(EvalChange::PlanApplied { job, eval_id }) => {
                if !self.versions(job).is_empty() {
                    self.plans.insert(job.clone(), set.index);
                }
                if let Some(eval) = self.evals.get_mut(eval_id) {
                    eval.modify_index = set.index;
                }
                self.touch_evals(&[*eval_id]);
                Table::Evals
            }
            Concern::Evals(EvalChange::EvalsChanged(change)) => {
                self.change_evals(change, set);
                Table::Evals
            }
            Concern::Evals(EvalChange::EvalsDeleted(ids)) => {
                self.touch_evals(ids);
                self.evals.retain(|id, _| !ids.contains(id));
                Table::Evals
            }
            Concern::Deployments(DeploymentChange::Deployment(deployment)) => {
                self.touch_deployments(&[deployment.id]);
                self.deployments.insert(deployment.id, Deployment::clone(deployment));
                self.touch_deployments(&[deployment.id]);
                Table::Deployments
            }
            Concern::Deployments(DeploymentChange::DeploymentFields(fields)) => {
                self.change_deployment(fields, set);
                Table::Deployments
            }
            Concern::Deployments(DeploymentChange::DeploymentsDeleted(ids)) => {
                self.touch_deployments(ids);
                self.deployments.retain(|id, _| !ids.contains(id));
                Table::Deployments
            }
            Concern::Nodes(NodeChange::Node(node)) => {
                if !self.nodes.contains_key(&node.id) {
                    self.work.insert(node.id, set.index);
                }
                for alloc in self.allocs.values_mut().filter(|alloc| alloc.node_id == node.id) {
                    alloc.node_name = node.spec.name.clone();
                }
                self.nodes.insert(node.id, Node::clone(node));
                Table::Nodes
            }
            Concern::Nodes(NodeChange::NodeServerSide { id, server }) => {
                self.nodes.get_mut(id).expect("commands refer to existing objects").server =
                    (**server).clone();
                Table::Nodes
            }
            Concern::Nodes(NodeChange::NodesChanged(change)) => {
                self.change_nodes(change, set);
                Table::Nodes
            }
            Concern::Nodes(NodeChange::NodesDeleted(ids)) => {
                self.nodes.retain(|id, _| !ids.contains(id));
                Table::Nodes
            }
            Concern::Allocs(AllocChange::AllocsPlaced(placements)) => {
                self.place(placements, set);
                Table::Allocs
            }
            Concern::Allocs(AllocChange::AllocsChanged(change)) => {
                self.change_allocs(change, set);
                self.touch_allocs(&change.ids.0, change.by_servers);
                Table::Allocs
            }
            Concern::Allocs(AllocChange::Alloc(alloc)) => {
                // The allocation may have belonged to another job, and been on another node.
                self.touch_allocs(&[alloc.id], true);
                self.allocs.remove(&alloc.id);
                let node_name = self.node_name(alloc.node_id).unwrap_or_else(|| alloc.node_name.clone());
                self.allocs.insert(alloc.id, Allocation { node_name, ..Allocation::clone(alloc) });
                self.touch_allocs(&[alloc.id], true);
                Table::Allocs
            }
            Concern::Allocs(AllocChange::AllocsDeleted(ids)) => {
                self.touch_allocs(&ids.0, true);
                self.allocs.retain(|id, _| !ids.0.contains(id));
                Table::Allocs
            }
            Concern::Unblocked(UnblockedChange::Unblocked(unblocked)) => {
                let classes = unblocked.classes.iter().cloned().map(UnblockKey::Class);
                let quotas = unblocked.quotas.iter().cloned().map(UnblockKey::Quota);
                let resources = unblocked.resources.iter().cloned().map(UnblockKey::Resource);
                self.unblocked.extend(classes.chain(quotas).chain(resources).map(|key| (key, set.index)));
                Table::Unblocked
            }
            Concern::Unblocked(UnblockedChange::UnblockedForgotten(before)) => {
                self.unblocked.retain(|_, index| *index >= *before);
                Table::Unblocked
            }
            Concern::SchedulerConfig(_) | Concern::Leases(_) | Concern::Small(_) => {
                unreachable!(
                    "no command makes this change, because these tables are plain maps in the real state, too"
                )
            }
        };
        self.tables.insert(touched, set.index);
        self.drop_unused_marks();
    }

    fn touch_evals(&mut self, ids: &[EvalId]) {
        for id in ids {
            if let Some(job) = self.evals.get(id).map(|eval| eval.job.clone()) {
                self.mark_registered(Table::Evals, job);
            }
        }
    }

    fn touch_deployments(&mut self, ids: &[DeploymentId]) {
        for id in ids {
            if let Some(job) = self.deployments.get(id).map(|deployment| deployment.job.job.clone()) {
                self.mark_registered(Table::Deployments, job);
            }
        }
    }

    /// Records the index of a job, unless the job is not registered.
    fn mark_registered(&mut self, table: Table, job: JobKey) {
        if !self.versions(&job).is_empty() {
            self.marks.insert((table, job), self.index);
        }
    }

    fn touch_allocs(&mut self, ids: &[AllocId], by_servers: bool) {
        for alloc in ids.iter().filter_map(|id| self.allocs.get(id)) {
            self.marks.insert((Table::Allocs, alloc.common.job.job.clone()), self.index);
            if by_servers {
                self.work.insert(alloc.node_id, self.index);
            }
        }
    }

    /// Drops the index of nodes that are deleted and have no allocations, and of jobs without allocations.
    fn drop_unused_marks(&mut self) {
        let allocs = &self.allocs;
        self.work
            .retain(|id, _| self.nodes.contains_key(id) || allocs.values().any(|alloc| alloc.node_id == *id));
        self.marks.retain(|(table, job), _| {
            *table != Table::Allocs || allocs.values().any(|alloc| alloc.common.job.job == *job)
        });
    }

    fn change_evals(&mut self, change: &EvalsChanged, set: &ChangeSet) {
        for id in &change.ids {
            let Some(eval) = self.evals.get_mut(id) else { continue };
            if let Some((status, description)) = change.status.clone() {
                (eval.status, eval.status_description) = (status, description);
            }
            if let Some(next) = change.next_eval {
                eval.next_eval = Some(next);
            }
            (eval.modify_index, eval.modify_time) = (set.index, set.at);
        }
        self.touch_evals(&change.ids);
    }

    fn change_deployment(&mut self, fields: &DeploymentFields, set: &ChangeSet) {
        let Some(deployment) = self.deployments.get_mut(&fields.id) else { return };
        if let Some((status, description)) = fields.status.clone() {
            (deployment.status, deployment.status_description) = (status, description);
        }
        for progress in &fields.groups {
            let mut group = deployment.groups.remove(&progress.group).unwrap_or_default();
            group.placed_allocs = progress.placed_allocs;
            group.healthy_allocs = progress.healthy_allocs;
            group.unhealthy_allocs = progress.unhealthy_allocs;
            group.require_progress_by = progress.require_progress_by;
            group.placed_canaries = [&group.placed_canaries[..], &progress.new_canaries].concat();
            deployment.groups.insert(progress.group.clone(), group);
        }
        (deployment.modify_index, deployment.modify_time) = (set.index, set.at);
        self.touch_deployments(&[fields.id]);
    }

    fn change_nodes(&mut self, change: &NodesChanged, set: &ChangeSet) {
        for id in &change.ids {
            let server = &mut self.nodes.get_mut(id).expect("commands refer to existing objects").server;
            if let Some(status) = change.status {
                (server.status, server.status_updated_at) = (status, set.at);
            }
            server.events.extend(change.event.clone());
            // Only a new event removes the oldest.
            while change.event.is_some() && server.events.len() > EVENTS_MAX {
                server.events.remove(0);
            }
            if let Some(index) = change.last_missed_heartbeat_index {
                server.last_missed_heartbeat_index = index;
            }
            if let Some(index) = change.last_alloc_update_index {
                server.last_alloc_update_index = index;
            }
            server.modify_index = set.index;
        }
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
                assigned: placements.assigned.get(row).cloned().unwrap_or_default(),
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
        for (row, id) in placements.ids.0.iter().enumerate() {
            let replaced = placements.previous.get(row).and_then(|previous| self.allocs.get_mut(&previous));
            if let Some(replaced) = replaced {
                replaced.extra.next = Some(*id);
                (replaced.modify_index, replaced.modify_time) = (set.index, set.at);
            }
        }
        self.touch_allocs(&placements.ids.0, true);
    }

    fn change_allocs(&mut self, change: &AllocsChanged, set: &ChangeSet) {
        for (row, id) in change.ids.0.iter().enumerate() {
            let alloc = self.allocs.get_mut(id).expect("commands refer to existing objects");
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
            if let Some((healthy, timestamp)) = change.verdicts.get(row).copied().flatten() {
                let canary = alloc.health.is_some_and(|health| health.canary);
                alloc.health =
                    Some(Health { healthy: Some(healthy), timestamp, canary, modify_index: set.index });
            }
            if let Some(report) = change.reports.get(row) {
                alloc.report = *report;
            }
            if let Some(states) = change.task_states.get(row) {
                alloc.task_states = states.clone();
            }
            if let Some(outcome) = change.reschedule {
                let events = alloc.extra.reschedule.as_ref().map(|tracker| tracker.events.clone());
                let events = events.unwrap_or_default();
                alloc.extra.reschedule = Some(Arc::new(RescheduleTracker { events, last: Some(outcome) }));
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

    /// A node's name, even if the node is deleted but still has allocations.
    fn node_name(&self, id: NodeId) -> Option<Text> {
        let known = self.nodes.get(&id).map(|node| node.spec.name.clone());
        known.or_else(|| self.allocs_of_node(id).first().map(|alloc| alloc.node_name.clone()))
    }

    /// The content as a database would hold it, for a state that is loaded. Allocations of purged versions are left
    /// out, and so is what only change sets contain: the indexes of accepted plans, unblock records, and the last
    /// indexes of tables, jobs and nodes, which are then the index of the load.
    pub(crate) fn as_loaded(&self) -> (Self, ChangeSet) {
        let mut loaded = self.clone();
        loaded.plans.clear();
        loaded.unblocked.clear();
        loaded.marks.clear();
        loaded.tables = Table::ALL.into_iter().map(|table| (table, self.index)).collect();
        loaded.allocs.retain(|_, alloc| self.jobs.contains_key(&alloc.common.job));
        let with_work = loaded.allocs.values().map(|alloc| alloc.node_id).chain(loaded.nodes.keys().copied());
        loaded.work = with_work.map(|node| (node, self.index)).collect();
        let jobs = loaded.jobs.values().cloned().map(|job| Change::Job(Arc::new(job)));
        let submissions = loaded.submissions.values().cloned();
        let summaries = loaded.summaries.values().cloned();
        let nodes = loaded.nodes.values().cloned().map(|node| Change::Node(Box::new(node)));
        let evals = loaded.evals.values().cloned().map(|eval| Change::Eval(Arc::new(eval)));
        let deployments = loaded.deployments.values().cloned();
        let allocs = loaded.allocs.values().cloned().map(|alloc| Change::Alloc(Box::new(alloc)));
        // The newest version comes first: the current version must not depend on the order.
        let changes = jobs
            .rev()
            .chain(submissions.map(|submission| Change::JobSubmission(Box::new(submission))))
            .chain(summaries.map(|summary| Change::JobSummary(Arc::new(summary))))
            .chain(evals)
            .chain(deployments.map(|deployment| Change::Deployment(Arc::new(deployment))))
            .chain(allocs)
            .chain(nodes)
            .collect();
        (loaded, build::change_set(self.index, changes))
    }
}
