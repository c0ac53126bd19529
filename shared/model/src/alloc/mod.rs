//! Allocations: one run of a task group on one node.
//!
//! What the allocations of one placement share stands once, in [`AllocCommon`]; what differs is small. The full
//! [`Allocation`] is for one object at a time (an answer of the API, a test): lists, plans and change sets hold
//! columns, and the state holds rows.

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
    /// What the servers want of an allocation.
    DesiredStatus, "desired status" {
        /// It should run.
        Run => "run",
        /// It should stop.
        Stop => "stop",
        /// It should make room for a more important one.
        Evict => "evict",
    }
}

impl DesiredStatus {
    /// Whether the servers are done with the allocation (`spec/scheduling.md` §0, *server-terminal*).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Stop | Self::Evict)
    }
}

string_enum! {
    /// What is known of how an allocation fares on its node.
    ClientStatus, "client status" {
        /// No task has started.
        Pending => "pending",
        /// Some task runs.
        Running => "running",
        /// Every task ended well.
        Complete => "complete",
        /// Some task failed for good.
        Failed => "failed",
        /// Its node is gone, and it with it.
        Lost => "lost",
        /// Its node is disconnected; it may still run.
        Unknown => "unknown",
    }
}

impl ClientStatus {
    /// Whether the node is done with the allocation (`spec/scheduling.md` §0, *client-terminal*).
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Lost)
    }
}

/// What the allocations of one placement share, stored and sent once for all of them.
///
/// A plan makes one for each task group, job version and deployment that it places; an update in place moves
/// allocations to a new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocCommon {
    /// The version of the job that they run.
    pub job: JobVersionKey,
    /// The task group's name.
    pub task_group: Text,
    /// Their names up to the bracket: `<job id>.<group>`, for system jobs `<job name>.<group>`.
    pub name_stem: Text,
    /// The evaluation that placed them, or updated them last.
    pub eval_id: EvalId,
    /// The deployment that they count for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment_id: Option<DeploymentId>,
    /// What each of them gets of its node, less what differs from one to the next.
    pub resources: AllocatedResources,
    /// How the choice of nodes went, of the pass for the first of them.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub metrics: PackedMetric,
    /// The trace of what had them placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TraceContext>,
}

/// One allocation, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    /// Its id.
    pub id: AllocId,
    /// What it shares with the others of its placement.
    pub common: Arc<AllocCommon>,
    /// The number in its name's brackets. `None`: the name has none, and the stem is all of it.
    pub name_index: Option<u32>,
    /// The node that it is placed on.
    pub node_id: NodeId,
    /// That node's name.
    pub node_name: Text,
    /// What it got of its node beyond the common share: ports, devices, cores.
    #[serde(default, skip_serializing_if = "PackedAssigned::is_empty")]
    pub assigned: PackedAssigned,
    /// What the servers want of it.
    pub desired_status: DesiredStatus,
    /// Why they want that.
    pub desired_description: Text,
    /// What should happen to it next.
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    /// How it fares.
    pub client_status: ClientStatus,
    /// The same in words.
    pub client_description: Text,
    /// How its tasks fare.
    #[serde(default)]
    pub task_states: PackedTaskStates,
    /// Its health in its deployment, once there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<Health>,
    /// The rarer parts.
    #[serde(default)]
    pub extra: AllocExtra,
    /// The last report of its agent that was taken; an older one is dropped.
    #[serde(default)]
    pub report: ReportNumber,
    /// The index that made it.
    pub create_index: Index,
    /// The last index that changed anything of it.
    pub modify_index: Index,
    /// The last index at which the servers changed it; its agent's own reports leave it alone (N-6.1).
    pub alloc_modify_index: Index,
    /// When it was made.
    pub create_time: Timestamp,
    /// When anything of it changed last.
    pub modify_time: Timestamp,
}

impl Allocation {
    /// Its name: `<job id>.<group>[<n>]`.
    pub fn name(&self) -> Text {
        alloc_name(&self.common.name_stem, self.name_index)
    }

    /// What it gets of its node; less what a newer version than this has packed.
    pub fn resources(&self) -> AllocatedResources {
        self.common.resources.with(&self.assigned.unpack().unwrap_or_default())
    }
}

/// The name of an allocation from its stem and number.
pub fn alloc_name(stem: &Text, index: Option<u32>) -> Text {
    match index {
        Some(index) => format!("{stem}[{index}]").into(),
        None => Text::clone(stem),
    }
}

/// The highest number that a name can have; one more stands for none where allocations lie packed.
pub const NAME_INDEX_MAX: u32 = u32::MAX - 1;

/// Splits an allocation's name into the stem and the number in the brackets; a name without a plain number is all
/// stem.
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
    /// The delayed evaluation that will look at this allocation again.
    pub followup_eval: Option<EvalId>,
    /// The allocation that this one had to make room for.
    pub preempted_by: Option<AllocId>,
    /// The allocations that made room for this one.
    pub preempted: Vec<AllocId>,
    /// Changes of client status that reconnection looks back at, oldest first.
    pub states: Vec<AllocState>,
    /// What became of earlier runs.
    pub reschedule: Option<Arc<RescheduleTracker>>,
    /// The address that it has in its own network.
    pub network: Option<Arc<NetworkStatus>>,
}

/// Which report of an agent this is: rises with each, also over a restart of the agent (design §6).
///
/// The upper half is the agent's boot number, the lower one counts that boot's reports of the allocation. 0 is none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ReportNumber(pub u64);

impl ReportNumber {
    /// Report `count` of an agent's boot.
    pub const fn new(boot: u32, count: u32) -> Self {
        Self((boot as u64) << 32 | count as u64)
    }

    /// The boot that it was made in.
    pub const fn boot(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// What should happen to an allocation next. Unset differs from `false` only when two are merged.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredTransition {
    /// It should move to another node.
    pub migrate: Option<bool>,
    /// It may be rescheduled although its deployment is active.
    pub reschedule: Option<bool>,
    /// It must be rescheduled whatever the policy says.
    pub force_reschedule: Option<bool>,
    /// It should stop without its shutdown delay.
    pub no_shutdown_delay: Option<bool>,
    /// Nothing should take its place when it migrates.
    pub migrate_disable_placement: Option<bool>,
}

impl DesiredTransition {
    /// Takes over what `newer` sets and keeps the rest.
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

/// An allocation's part in its deployment.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The verdict, once there is one.
    pub healthy: Option<bool>,
    /// When the verdict fell.
    pub timestamp: Timestamp,
    /// Whether it is a canary that was not promoted yet.
    pub canary: bool,
    /// The index at which a count of the deployment changed with it.
    pub modify_index: Index,
}

/// A client status that the servers gave, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocState {
    /// The status; `None` where the record holds none.
    pub client_status: Option<ClientStatus>,
    /// When it was given.
    pub time: Timestamp,
}

string_enum! {
    /// How the last attempt to reschedule ended.
    RescheduleOutcome, "reschedule outcome" {
        /// A replacement was placed.
        Ok => "ok",
        /// No node had room.
        NoPlacement => "no placement",
    }
}

/// What became of earlier runs of an allocation.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescheduleTracker {
    /// Earlier reschedules, oldest first.
    pub events: Vec<RescheduleEvent>,
    /// How the last attempt ended; `None` before any.
    pub last: Option<RescheduleOutcome>,
}

/// One reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RescheduleEvent {
    /// When it was done.
    pub time: Timestamp,
    /// The allocation that had failed.
    pub previous: AllocId,
    /// The node that it had failed on.
    pub previous_node: NodeId,
    /// How long it was delayed.
    pub delay: Nanos,
}

/// The address that an allocation has in its own network.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NetworkStatus {
    /// The interface inside the network.
    pub interface: Text,
    /// Its IPv4 address.
    pub address: Text,
    /// Its IPv6 address.
    pub address_ipv6: Text,
    /// The name servers that its tasks use.
    pub dns: Option<api_types::DnsConfig>,
}

/// What a job's allocations of one group add up to, kept by the applier (N-25.4).
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupSummary {
    /// Wanted, but not placed yet.
    pub queued: u32,
    /// Ended well; only grows.
    pub complete: u32,
    /// Failed; only grows.
    pub failed: u32,
    /// Running.
    pub running: u32,
    /// Placed, but not running yet.
    pub starting: u32,
    /// Lost with their node.
    pub lost: u32,
    /// On a disconnected node.
    pub unknown: u32,
}

/// The task groups of a job, each with what its allocations add up to.
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
