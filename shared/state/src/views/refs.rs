//! [`AllocRef`] and [`NodeRef`]: read-only views of an allocation and of a node, which copy nothing. Each leads to the other,
//! so they are defined together.

use std::fmt;
use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocExtra, AllocatedResources, Allocation, ClientStatus, Demand, DesiredStatus,
    DesiredTransition, Health, PackedAssigned, PackedMetric, PackedTaskStates, ReportNumber, alloc_name,
};
use model::job::{Job, TaskGroup};
use model::node::{Node, NodeServerSide, NodeSpec};
use model::{AllocId, DeploymentId, EvalId, Index, JobKey, NodeId, Text, Timestamp};

use crate::allocs::AllocRow;
use crate::nodes::{NodePage, NodePorts, View};
use crate::tables::State;

/// A view of one allocation in a snapshot. Copying it is cheap.
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

    /// The part that it shares with the other allocations of its placement.
    pub fn common(self) -> &'a Arc<AllocCommon> {
        &self.row.shared.common
    }

    /// The job that it belongs to.
    pub fn job_key(self) -> &'a JobKey {
        &self.common().job.job
    }

    /// The job version that it runs, as registered. Fields of the version that change later (its status, whether it is
    /// stable) may be stale.
    pub fn job(self) -> &'a Arc<Job> {
        &self.row.shared.job
    }

    /// Name of its task group.
    pub fn group_name(self) -> &'a Text {
        &self.common().task_group
    }

    /// Its task group, from the job version that it runs.
    pub fn group(self) -> Option<&'a TaskGroup> {
        self.job().spec.group(self.group_name()).map(|(_, group)| group)
    }

    /// Its name: `<job id>.<group>[<name index>]`.
    pub fn name(self) -> Text {
        alloc_name(&self.common().name_stem, self.name_index())
    }

    /// The name index.
    pub fn name_index(self) -> Option<u32> {
        self.row.name_index()
    }

    /// The evaluation that placed or last updated it.
    pub fn eval_id(self) -> EvalId {
        self.common().eval_id
    }

    /// The deployment that it belongs to.
    pub fn deployment_id(self) -> Option<DeploymentId> {
        self.common().deployment_id
    }

    /// The node that it is placed on.
    pub fn node_id(self) -> NodeId {
        self.state.nodes.ident(self.row.node).0
    }

    /// Name of that node.
    pub fn node_name(self) -> &'a Text {
        self.state.nodes.ident(self.row.node).1
    }

    /// That node; `None` if it was deleted.
    pub fn node(self) -> Option<NodeRef<'a>> {
        self.state.node_at(self.row.node)
    }

    /// The slot of its node in [`State::node_pages`]: page number times 64, plus the bit in the page.
    pub fn node_slot(self) -> u32 {
        self.row.node
    }

    /// Its desired status.
    pub fn desired_status(self) -> DesiredStatus {
        self.row.desired
    }

    /// Human-readable reason for the desired status.
    pub fn desired_description(self) -> &'a str {
        self.row.desired_description()
    }

    /// What the scheduler has been asked to do with it.
    pub fn transition(self) -> DesiredTransition {
        self.row.transition()
    }

    /// Its client status.
    pub fn client_status(self) -> ClientStatus {
        self.row.client
    }

    /// Human-readable reason for the client status.
    pub fn client_description(self) -> &'a str {
        self.row.client_description()
    }

    /// Whether its desired status or its client status is terminal.
    pub fn is_terminal(self) -> bool {
        !self.row.is_live()
    }

    /// Whether it should run and, according to its record, runs or will run: it is pending or running, no transition is
    /// desired, and it was never unknown.
    pub fn is_steady(self) -> bool {
        self.row.is_steady()
    }

    /// Its health in its deployment; `None` until it is known.
    pub fn health(self) -> Option<Health> {
        self.row.health()
    }

    /// States of its tasks.
    pub fn task_states(self) -> &'a PackedTaskStates {
        &self.row.task_states
    }

    /// Number of the last accepted report of its agent.
    pub fn report(self) -> ReportNumber {
        self.row.report
    }

    /// Parts that few allocations have: predecessor and successor, follow-up evaluation, preemption, reschedules.
    pub fn extra(self) -> &'a AllocExtra {
        self.row.extra()
    }

    /// Metrics of its placement.
    pub fn metrics(self) -> &'a PackedMetric {
        &self.common().metrics
    }

    /// The part of its node's capacity that it uses.
    pub fn demand(self) -> Demand {
        self.row.demand()
    }

    /// Resources assigned beyond the common ones: ports, devices, cores.
    pub fn assigned(self) -> &'a PackedAssigned {
        &self.row.assigned
    }

    /// Its complete resources.
    pub fn resources(self) -> AllocatedResources {
        self.common().resources.with(&self.assigned().unpack().unwrap_or_default())
    }

    /// Index of the change set that created it.
    pub fn create_index(self) -> Index {
        self.row.create_index
    }

    /// Index of the change set that last changed it.
    pub fn modify_index(self) -> Index {
        self.row.modify_index
    }

    /// Index of the last change by the servers (N-6.1).
    pub fn alloc_modify_index(self) -> Index {
        self.row.alloc_modify_index
    }

    /// When it was created.
    pub fn create_time(self) -> Timestamp {
        self.row.create_time
    }

    /// When it last changed.
    pub fn modify_time(self) -> Timestamp {
        self.row.modify_time
    }

    /// A copy of the complete allocation. Use it for single objects only.
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

/// A view of one node in a snapshot. Copying it is cheap.
#[derive(Clone, Copy)]
pub struct NodeRef<'a> {
    state: &'a State,
    slot: u32,
    node: &'a Arc<Node>,
}

impl<'a> NodeRef<'a> {
    pub(crate) fn new(state: &'a State, slot: u32, node: &'a Arc<Node>) -> Self {
        Self { state, slot, node }
    }

    /// Its id.
    pub fn id(self) -> NodeId {
        self.node.id
    }

    /// Its slot in [`State::node_pages`]: page number times 64, plus the bit in the page.
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// The complete node.
    pub fn node(self) -> &'a Arc<Node> {
        self.node
    }

    /// The part that its agent registered.
    pub fn spec(self) -> &'a NodeSpec {
        &self.node.spec
    }

    /// The part that the servers maintain.
    pub fn server(self) -> &'a NodeServerSide {
        &self.node.server
    }

    /// Whether it accepts new allocations.
    pub fn is_ready(self) -> bool {
        let (page, bit) = self.page();
        page.ready >> bit & 1 != 0
    }

    /// Its page, and its bit in the page.
    pub fn page(self) -> (&'a NodePage, usize) {
        self.state.nodes.page(self.slot)
    }

    /// The last index at which the servers added, changed or removed one of its allocations, or at which the node was added
    /// (N-6.2).
    pub fn work_index(self) -> Index {
        let (page, bit) = self.page();
        page.work[bit]
    }

    /// Its resources available to tasks.
    pub fn capacity(self) -> Demand {
        let (page, bit) = self.page();
        page.capacity(bit)
    }

    /// The resources that its allocations use.
    pub fn usage(self, view: View) -> Demand {
        let (page, bit) = self.page();
        page.usage(view).at(bit)
    }

    /// The ports that its allocations use; `None` if there are none.
    pub fn ports(self) -> Option<&'a NodePorts> {
        self.state.nodes.ports(self.slot)
    }

    /// Its allocations, including terminal ones.
    pub fn allocs(self) -> impl ExactSizeIterator<Item = AllocRef<'a>> {
        self.state.allocs_at(self.slot)
    }
}

impl fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}
