//! Allocations: task groups placed on nodes.
//!
//! [`AllocCommon`] holds the part that all allocations of one placement share; the rest is small. A complete
//! [`Allocation`] is only for single objects, such as an API response or a test. Lists, plans and change sets hold columns,
//! and the state holds rows.

mod assigned;
mod metric;
mod packed;
mod packed_metric;
mod resources;
mod task_event;
mod task_state;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use assigned::{AllocatedDevice, Assigned, AssignedNetwork, AssignedPort, AssignedTask, PackedAssigned};
pub use metric::{AllocMetric, NodeScore, Reason, Scorer, Shortfall, TaskShortage};
pub use packed::Unreadable;
pub use packed_metric::PackedMetric;
pub use resources::{AllocatedResources, Demand, PortMapping, TaskResources};
pub use task_event::{TaskEvent, TaskEventKind};
pub use task_state::{PackedTaskStates, TaskRunState, TaskState};

use crate::text::string_enum;
use crate::{
    AllocId, DeploymentId, EvalId, Index, JobVersionKey, Map, Nanos, NodeId, Text, Timestamp, TraceContext,
};

string_enum! {
    /// Desired status of an allocation, which the servers set.
    DesiredStatus, "desired status" {
        /// The allocation should run.
        Run => "run",
        /// The allocation should stop.
        Stop => "stop",
        /// The allocation should stop because it was preempted.
        Evict => "evict",
    }
}

impl DesiredStatus {
    /// Whether the allocation should no longer run (`docs/rules/scheduling.md` §0, *server-terminal*).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Stop | Self::Evict)
    }
}

string_enum! {
    /// Client status of an allocation: the known state of its tasks.
    ClientStatus, "client status" {
        /// No task has started.
        Pending => "pending",
        /// At least one task runs.
        Running => "running",
        /// Every task ended successfully.
        Complete => "complete",
        /// A task failed and will not be restarted.
        Failed => "failed",
        /// The node is down, and the allocation with it.
        Lost => "lost",
        /// The node is disconnected; the allocation may still run.
        Unknown => "unknown",
    }
}

impl ClientStatus {
    /// Whether the allocation no longer runs on its node (`docs/rules/scheduling.md` §0, *client-terminal*).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }
}

/// The part that all allocations of one placement share. It is stored and sent once for all of them.
///
/// A plan creates one for each task group, job version and deployment that it places. An in-place update moves allocations
/// to a new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocCommon {
    /// The job version that they run.
    pub job: JobVersionKey,
    /// Name of the task group.
    pub task_group: Text,
    /// Their names without the index in brackets: `<job id>.<group>`, for system jobs `<job name>.<group>`.
    pub name_stem: Text,
    /// The evaluation that placed or last updated them.
    pub eval_id: EvalId,
    /// The deployment that they belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<DeploymentId>,
    /// Resources of each allocation, without the assigned ones, which differ between allocations.
    pub resources: AllocatedResources,
    /// Metrics of the placement pass for the first allocation.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub metrics: PackedMetric,
    /// Trace context of the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// A complete allocation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its id.
    pub id: AllocId,
    /// The part that it shares with the other allocations of its placement.
    pub common: Arc<AllocCommon>,
    /// The name index, which is in brackets at the end of its name. `None` if the name has none.
    pub name_index: Option<u32>,
    /// The node that it is placed on.
    pub node_id: NodeId,
    /// Name of that node.
    pub node_name: Text,
    /// Resources assigned beyond the common ones: ports, devices, cores.
    #[serde(default, skip_serializing_if = "PackedAssigned::is_empty")]
    pub assigned: PackedAssigned,
    /// Its desired status.
    pub desired_status: DesiredStatus,
    /// Human-readable reason for the desired status.
    pub desired_description: Text,
    /// What the scheduler has been asked to do with it.
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    /// Its client status.
    pub client_status: ClientStatus,
    /// Human-readable reason for the client status.
    pub client_description: Text,
    /// States of its tasks.
    #[serde(default)]
    pub task_states: PackedTaskStates,
    /// Its health in its deployment; unset until it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// Parts that few allocations have.
    #[serde(default)]
    pub extra: AllocExtra,
    /// Number of the last accepted report of its agent. Older reports are dropped.
    #[serde(default)]
    pub report: ReportNumber,
    /// Index of the change set that created it.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
    /// Index of the last change by the servers. Reports of its agent do not count (N-6.1).
    pub alloc_modify_index: Index,
    /// When it was created.
    pub create_time: Timestamp,
    /// When it last changed.
    pub modify_time: Timestamp,
}

impl Allocation {
    /// Its name: `<job id>.<group>[<name index>]`.
    pub fn name(&self) -> Text {
        alloc_name(&self.common.name_stem, self.name_index)
    }

    /// Its resources. Assigned resources are missing if a newer version of Drover has packed them.
    pub fn resources(&self) -> AllocatedResources {
        self.common.resources.with(&self.assigned.unpack().unwrap_or_default())
    }
}

/// The name of an allocation, from its stem and name index.
pub fn alloc_name(stem: &Text, index: Option<u32>) -> Text {
    match index {
        Some(index) => format!("{stem}[{index}]").into(),
        None => Text::clone(stem),
    }
}

/// The highest name index. The next number means "no index" in the rows of the state.
pub const NAME_INDEX_MAX: u32 = u32::MAX - 1;

/// Splits the name of an allocation into the stem and the index in brackets. A name without a plain number in brackets
/// consists of the stem only.
pub fn split_alloc_name(name: &str) -> (&str, Option<u32>) {
    let parts = name.strip_suffix(']').and_then(|rest| rest.rsplit_once('['));
    let Some((stem, number)) = parts else { return (name, None) };
    match number.parse::<u32>() {
        Ok(index) if index <= NAME_INDEX_MAX && index.to_string() == number => (stem, Some(index)),
        Ok(_) | Err(_) => (name, None),
    }
}

/// The parts that few allocations have.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AllocExtra {
    /// The allocation that this one replaces.
    pub previous: Option<AllocId>,
    /// The allocation that replaces this one.
    pub next: Option<AllocId>,
    /// The delayed evaluation that will reconsider this allocation.
    pub followup_eval: Option<EvalId>,
    /// The allocation that preempted this one.
    pub preempted_by: Option<AllocId>,
    /// The allocations that this one preempted.
    pub preempted: Vec<AllocId>,
    /// History of client statuses, oldest first, which is needed when a node reconnects.
    pub states: Vec<AllocState>,
    /// History of reschedules.
    pub reschedule: Option<Arc<RescheduleTracker>>,
    /// Its network status, if it has a network namespace.
    pub network: Option<Arc<NetworkStatus>>,
}

/// The number of an agent's report. It rises with each report, also across restarts of the agent (`docs/architecture/agents.md`).
///
/// The upper half is the boot number of the agent. The lower half counts the reports of the allocation during that boot.
/// 0 means no report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReportNumber(pub u64);

impl ReportNumber {
    /// The number of report `count` during boot `boot` of an agent.
    pub const fn new(boot: u32, count: u32) -> Self {
        Self((boot as u64) << 32 | count as u64)
    }

    /// The boot number of the agent.
    pub const fn boot(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What the scheduler has been asked to do with an allocation. Unset differs from `false` only in [`Self::merge`].
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredTransition {
    /// Migrate it to another node.
    pub migrate: Option<bool>,
    /// Allow rescheduling although its deployment is active.
    pub reschedule: Option<bool>,
    /// Reschedule it regardless of its policy.
    pub force_reschedule: Option<bool>,
    /// Stop it without its shutdown delay.
    pub no_shutdown_delay: Option<bool>,
    /// Do not place a replacement when it migrates.
    pub migrate_disable_placement: Option<bool>,
}

impl DesiredTransition {
    /// Replaces the fields that `newer` sets and keeps the others.
    #[must_use]
    pub fn merge(self, newer: Self) -> Self {
        Self {
            migrate: newer.migrate.or(self.migrate),
            reschedule: newer.reschedule.or(self.reschedule),
            force_reschedule: newer.force_reschedule.or(self.force_reschedule),
            no_shutdown_delay: newer.no_shutdown_delay.or(self.no_shutdown_delay),
            migrate_disable_placement: newer.migrate_disable_placement.or(self.migrate_disable_placement),
        }
    }
}

/// The health of an allocation in its deployment.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Whether it is healthy; unset until that is decided.
    pub healthy: Option<bool>,
    /// When that was decided.
    pub timestamp: Timestamp,
    /// Whether it is a canary that has not been promoted.
    pub canary: bool,
    /// The index at which it changed a counter of the deployment.
    pub modify_index: Index,
}

/// A client status that the servers set, with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocState {
    /// The status; `None` if the record has none.
    pub client_status: Option<ClientStatus>,
    /// When it was set.
    pub time: Timestamp,
}

string_enum! {
    /// Outcome of the last attempt to reschedule an allocation.
    RescheduleOutcome, "reschedule outcome" {
        /// A replacement was placed.
        Ok => "ok",
        /// No node had enough capacity.
        NoPlacement => "no placement",
    }
}

/// The history of an allocation's reschedules.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescheduleTracker {
    /// Earlier reschedules, oldest first.
    pub events: Vec<RescheduleEvent>,
    /// Outcome of the last attempt; `None` if there was none.
    pub last: Option<RescheduleOutcome>,
}

/// One reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescheduleEvent {
    /// When the allocation was rescheduled.
    pub time: Timestamp,
    /// The allocation that failed.
    pub previous: AllocId,
    /// The node that it failed on.
    pub previous_node: NodeId,
    /// The delay before the reschedule.
    pub delay: Nanos,
}

/// The network of an allocation with a network namespace.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// The interface inside the network namespace.
    pub interface: Text,
    /// Its IPv4 address.
    pub address: Text,
    /// Its IPv6 address.
    pub address_ipv6: Text,
    /// The name servers that its tasks use.
    pub dns: Option<api_types::DnsConfig>,
}

/// Number of a job's allocations of one group, by client status. The applier maintains it (N-25.4).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Not placed yet.
    pub queued: u32,
    /// Ended successfully; never decreases.
    pub complete: u32,
    /// Failed; never decreases.
    pub failed: u32,
    /// Running.
    pub running: u32,
    /// Placed, but not running yet.
    pub starting: u32,
    /// On a node that is down.
    pub lost: u32,
    /// On a disconnected node.
    pub unknown: u32,
}

/// The summaries of a job's task groups, by name.
pub type GroupSummaries = Map<Text, GroupSummary>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_where_its_number_begins() {
        assert_eq!(split_alloc_name("web.app[12]"), ("web.app", Some(12)));
        assert_eq!(split_alloc_name("a[1].b[0]"), ("a[1].b", Some(0)));
    }

    #[test]
    fn a_name_without_a_plain_number_is_all_stem() {
        for name in [
            "",
            "web.app",
            "web.app[]",
            "web.app[x]",
            "web.app[007]",
            "web.app[+1]",
            "w[99999999999]",
            "w[4294967295]",
        ] {
            assert_eq!(split_alloc_name(name), (name, None));
        }
    }

    #[test]
    fn the_newer_transition_wins_where_it_says_something() {
        let older = DesiredTransition { migrate: Some(true), reschedule: Some(true), ..Default::default() };
        let newer = DesiredTransition { reschedule: Some(false), ..Default::default() };
        let merged = older.merge(newer);
        assert_eq!((merged.migrate, merged.reschedule), (Some(true), Some(false)));
    }
}
