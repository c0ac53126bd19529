//! An allocation as readers see it: a view into its row, so that looking at a million of them copies nothing.

use std::fmt;
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocExtra, AllocatedResources, Allocation, ClientStatus, Demand, DesiredStatus,
    DesiredTransition, Health, PackedAssigned, PackedMetric, PackedTaskStates, ReportNumber, alloc_name,
};
use model::job::{Job, TaskGroup};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Text, Timestamp};

use super::row::AllocRow;
use crate::State;
use crate::nodes::NodeRef;

/// A view of one allocation. Copying it is free; it lives as long as the snapshot that it looks into.
#[derive(Clone, Copy)]
pub struct AllocRef<'a> {
    state: &'a State,
    row: &'a AllocRow,
}

impl<'a> AllocRef<'a> {
    pub(crate) fn new(state: &'a State, row: &'a AllocRow) -> Self {
        Self { state, row }
    }

    /// Its id.
    pub fn id(self) -> AllocId {
        self.row.id
    }

    /// What it shares with the others of its placement.
    pub fn common(self) -> &'a Arc<AllocCommon> {
        &self.row.shared.common
    }

    /// The job that it belongs to.
    pub fn job_key(self) -> &'a JobKey {
        &self.common().job.job
    }

    /// The version of the job that it runs, as it was registered: what changes of a version later (its status,
    /// whether it is stable) may be out of date here.
    pub fn job(self) -> &'a Arc<Job> {
        &self.row.shared.job
    }

    /// Its task group's name.
    pub fn group_name(self) -> &'a Text {
        &self.common().task_group
    }

    /// Its task group, as its own version of the job has it.
    pub fn group(self) -> Option<&'a TaskGroup> {
        self.job().spec.group(self.group_name()).map(|(_, group)| group)
    }

    /// Its name: `<job id>.<group>[<n>]`.
    pub fn name(self) -> Text {
        alloc_name(&self.common().name_stem, self.name_index())
    }

    /// The number in its name's brackets.
    pub fn name_index(self) -> Option<u32> {
        self.row.name_index()
    }

    /// The evaluation that placed it, or updated it last.
    pub fn eval_id(self) -> EvalId {
        self.common().eval_id
    }

    /// The deployment that it counts for.
    pub fn deployment_id(self) -> Option<DeploymentId> {
        self.common().deployment_id
    }

    /// The node that it is placed on.
    pub fn node_id(self) -> NodeId {
        self.state.nodes.ident(self.row.node).0
    }

    /// That node's name.
    pub fn node_name(self) -> &'a Text {
        self.state.nodes.ident(self.row.node).1
    }

    /// That node; `None` when it is gone.
    pub fn node(self) -> Option<NodeRef<'a>> {
        self.state.node_at(self.row.node)
    }

    /// The number of its node's place in [`State::node_pages`]: page times 64, plus the place.
    pub fn node_slot(self) -> u32 {
        self.row.node
    }

    /// What the servers want of it.
    pub fn desired_status(self) -> DesiredStatus {
        self.row.desired
    }

    /// Why they want that.
    pub fn desired_description(self) -> &'a str {
        self.row.desired_description()
    }

    /// What should happen to it next.
    pub fn transition(self) -> DesiredTransition {
        self.row.transition()
    }

    /// How it fares.
    pub fn client_status(self) -> ClientStatus {
        self.row.client
    }

    /// The same in words.
    pub fn client_description(self) -> &'a str {
        self.row.client_description()
    }

    /// Whether the servers or its node are done with it.
    pub fn is_terminal(self) -> bool {
        !self.row.is_live()
    }

    /// Whether it should run and, as far as its own record goes, does or will: nothing was asked of it, and it was never
    /// out of sight.
    pub fn is_undisturbed(self) -> bool {
        self.row.is_undisturbed()
    }

    /// Its health in its deployment, once there is something to say.
    pub fn health(self) -> Option<Health> {
        self.row.health()
    }

    /// How its tasks fare.
    pub fn task_states(self) -> &'a PackedTaskStates {
        &self.row.task_states
    }

    /// The last report of its agent that was taken.
    pub fn report(self) -> ReportNumber {
        self.row.report
    }

    /// The rarer parts: predecessor and successor, follow-up evaluation, preemption, reschedules.
    pub fn extra(self) -> &'a AllocExtra {
        self.row.extra()
    }

    /// How the choice of its node went.
    pub fn metrics(self) -> &'a PackedMetric {
        &self.common().metrics
    }

    /// What it takes away from its node's capacity.
    pub fn demand(self) -> Demand {
        self.row.demand()
    }

    /// What it got of its node beyond the common share: ports, devices, cores.
    pub fn assigned(self) -> &'a PackedAssigned {
        &self.row.assigned
    }

    /// All that it gets of its node.
    pub fn resources(self) -> AllocatedResources {
        self.common().resources.with(&self.assigned().unpack().unwrap_or_default())
    }

    /// The index that made it.
    pub fn create_index(self) -> Index {
        self.row.create_index
    }

    /// The last index that changed anything of it.
    pub fn modify_index(self) -> Index {
        self.row.modify_index
    }

    /// The last index at which the servers changed it (N-6.1).
    pub fn alloc_modify_index(self) -> Index {
        self.row.alloc_modify_index
    }

    /// When it was made.
    pub fn create_time(self) -> Timestamp {
        self.row.create_time
    }

    /// When anything of it changed last.
    pub fn modify_time(self) -> Timestamp {
        self.row.modify_time
    }

    /// The whole of it, for one answer at a time.
    pub fn to_allocation(self) -> Allocation {
        Allocation {
            id: self.id(),
            common: Arc::clone(self.common()),
            name_index: self.name_index(),
            node_id: self.node_id(),
            node_name: Text::clone(self.node_name()),
            assigned: self.assigned().clone(),
            desired_status: self.desired_status(),
            desired_description: self.desired_description().into(),
            desired_transition: self.transition(),
            client_status: self.client_status(),
            client_description: self.client_description().into(),
            task_states: self.task_states().clone(),
            health: self.health(),
            extra: self.extra().clone(),
            report: self.report(),
            create_index: self.create_index(),
            modify_index: self.modify_index(),
            alloc_modify_index: self.alloc_modify_index(),
            create_time: self.create_time(),
            modify_time: self.modify_time(),
        }
    }
}

impl fmt::Debug for AllocRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_allocation().fmt(f)
    }
}
