//! Messages between agents and the node-tracker. Agents receive desired state, not instructions (`docs/architecture/agents.md`).

use std::sync::Arc;

use model::alloc::{
    AllocCommon, ClientStatus, DesiredStatus, DesiredTransition, NetworkStatus, PackedAssigned,
    PackedTaskStates,
};
use model::columns::AllocIds;
use model::job::Job;
use model::node::{NodeSpec, NodeStatus, Secret};
use model::{AllocId, HistoryId, Index, NodeId, Text, Timestamp};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
use crate::service_instances::ServicesDigest;

/// The index up to which a node's work is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkIndex {
    /// The history that the index belongs to. An agent may have seen indexes of a database that was since restored to
    /// an earlier state; these indexes are not valid in the new history (`docs/architecture/log.md`).
    pub history: HistoryId,
    /// The index.
    pub index: Index,
}

impl WorkIndex {
    /// Returns the index if it belongs to `history`; otherwise 0, because indexes of different histories cannot be
    /// compared.
    pub fn within(self, history: HistoryId) -> Index {
        if self.history == history { self.index } else { Index::ZERO }
    }

    /// Whether it is newer than `other`, or of another history.
    pub fn is_newer_than(self, other: Self) -> bool {
        self.history != other.history || self.index > other.index
    }

    /// Replaces itself with `other` if that is newer or of another history, and returns whether it did.
    pub fn advance_to(&mut self, other: Self) -> bool {
        let is_news = other.is_newer_than(*self);
        if is_news {
            *self = other;
        }
        is_news
    }
}

/// Registers a node, or updates its registration (N-2). The response is [`NodeResponse`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Register {
    /// The node.
    pub id: NodeId,
    /// The node's registration, with its secret and the boot number.
    pub spec: Arc<NodeSpec>,
}

/// Reports that the node is alive, and requests that it becomes ready (N-3.1). The response is [`NodeResponse`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The node.
    pub id: NodeId,
    /// Proves that the sender is the node that registered.
    pub secret: Secret,
    /// Boot number of the agent.
    pub boot: u32,
}

/// State of a node after a registration or a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeResponse {
    /// Status of the node.
    pub status: NodeStatus,
    /// Time until the next heartbeat is due, in milliseconds.
    pub ttl_ms: u32,
    /// Index of the node's work. An agent whose work is older requests it.
    pub work_index: WorkIndex,
    /// Set for a node that is not ready yet after it was missing. Until it is ready, the agent reports all its
    /// non-terminal allocations, with this index (`docs/architecture/agents.md`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_all: Option<Index>,
    /// What is registered of the services of the node's allocations. Trackers of older versions leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<RegisteredServices>,
}

/// What is registered of a node's allocations, in the response to a heartbeat or a registration.
///
/// An agent compares the digest with that of what it wants to be registered. If they differ, it sends the sets of all its
/// allocations again, empty sets too. It does not compare while a request is in flight, nor if [`Self::at`] is of the same
/// history as the index of the last answer to such a request, and lower.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredServices {
    /// The index of the state that the digest was computed of.
    pub at: WorkIndex,
    /// The digest.
    pub digest: ServicesDigest,
}

/// Requests the changes of a node's work since an index (N-6). The response is [`Work`]. The tracker responds as soon
/// as its state has reached [`Self::seen`]. Agents send this request after a wake or a heartbeat's response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetWork {
    /// The node.
    pub id: NodeId,
    /// Proves that the sender is the node that registered.
    pub secret: Secret,
    /// Index of the agent's work; index 0 requests all of it.
    pub since: WorkIndex,
    /// The newest index that the agent has received. A tracker that has just taken over may be behind it, and its older
    /// list would lack allocations that already run.
    pub seen: WorkIndex,
}

/// A node's work; `J` is described at [`WorkAllocs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work<J = Job> {
    /// Index of this work.
    pub index: WorkIndex,
    /// All allocations of the node, each with the index at which the servers last changed it. The agent removes
    /// allocations that are not in this list.
    pub allocs: Vec<(AllocId, Index)>,
    /// The allocations that changed since the requested index.
    pub changed: WorkAllocs<J>,
}

/// Requests allocations of a node that an earlier response had no room for, or that the agent lost. The response is
/// [`WorkAllocs`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllocs {
    /// The node.
    pub id: NodeId,
    /// Proves that the sender is the node that registered.
    pub secret: Secret,
    /// The allocations.
    pub allocs: Vec<AllocId>,
    /// Index of the list that names them.
    pub seen: WorkIndex,
}

/// Allocations for an agent. Data that several allocations share is included once.
///
/// Filled up to [`WORK_BYTES_MAX`](crate::envelope::WORK_BYTES_MAX), but with at least one allocation, so that each
/// further request makes progress. `J` is the type that jobs are decoded into: readers that need only some fields of a
/// job use a smaller type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "J: Deserialize<'de>"))]
pub struct WorkAllocs<J = Job> {
    /// Job versions, each once.
    pub jobs: Vec<Arc<J>>,
    /// Data that several allocations share, each once.
    pub commons: Vec<WorkCommon>,
    /// The allocations.
    pub allocs: Vec<WorkAlloc>,
    /// Whether some allocations did not fit; the agent requests the rest. If `false`, requested allocations that are
    /// missing here do not exist any more.
    pub more: bool,
}

/// Data that the allocations of one placement share, and the job version that they run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkCommon {
    /// Index of the job version in [`WorkAllocs::jobs`].
    pub job: u16,
    /// The shared data, without its metrics, which agents do not use.
    pub common: Arc<AllocCommon>,
}

/// One allocation for an agent, without the shared data. Fields that only the agent's own reports change are left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkAlloc {
    /// The allocation.
    pub id: AllocId,
    /// Index of the shared data in [`WorkAllocs::commons`].
    pub common: u16,
    /// The number in its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_index: Option<u32>,
    /// Resources of the node that were assigned to it beyond the shared data.
    #[serde(default, skip_serializing_if = "PackedAssigned::is_empty")]
    pub assigned: PackedAssigned,
    /// Whether the allocation should run.
    pub desired_status: DesiredStatus,
    /// The requested transition, for instance to stop without the tasks' shutdown delay.
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    /// Client status as the servers know it. If it is `unknown`, the agent reports the allocation again.
    pub client_status: ClientStatus,
    /// Whether it is a canary that is not promoted yet. The services of canaries have other tags.
    #[serde(default)]
    pub canary: bool,
    /// The health verdict, if there is one. The agent then does not determine the health itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// The allocation that it replaces. The agent waits until that allocation has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<AllocId>,
    /// Token that permits reading the previous allocation's disk from its node, if the disk is to be migrated (N-6.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate_token: Option<Secret>,
    /// Preempted allocations of this node. The agent waits until they have ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<AllocId>,
    /// The index at which the servers last changed it.
    pub alloc_modify_index: Index,
    /// Time of its creation. The maximum run duration counts from here.
    pub create_time: Timestamp,
}

impl<J> Default for WorkAllocs<J> {
    fn default() -> Self {
        Self { jobs: Vec::new(), commons: Vec::new(), allocs: Vec::new(), more: false }
    }
}

impl<J> WorkAllocs<J> {
    /// Returns the shared data of `alloc` and its job; `None` if an index is out of range.
    pub fn shared(&self, alloc: &WorkAlloc) -> Option<(&Arc<AllocCommon>, &Arc<J>)> {
        let WorkCommon { job, common } = self.commons.get(usize::from(alloc.common))?;
        Some((common, self.jobs.get(usize::from(*job))?))
    }
}

/// Reports the status of a node's allocations (N-7). The response is [`ReportAccepted`]. Refused while the node must send a
/// heartbeat first (N-7.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The node.
    pub id: NodeId,
    /// Proves that the sender is the node that registered.
    pub secret: Secret,
    /// Boot number of the agent. Reports with another boot number are dropped.
    pub boot: u32,
    /// Set if the report covers all non-terminal allocations of the node, as requested by [`NodeResponse::report_all`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_since: Option<Index>,
    /// Reports of the allocations.
    pub allocs: Vec<AllocReport>,
}

/// Report of one allocation. It contains only fields for which the agent is authoritative (N-7.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocReport {
    /// The allocation.
    pub id: AllocId,
    /// Number of this report among the allocation's reports in this boot; with the boot number it makes the
    /// `ReportNumber`. A report that is not newer than the last accepted one is dropped.
    pub count: u32,
    /// Client status of the allocation.
    pub status: ClientStatus,
    /// Description of the status.
    pub description: Text,
    /// States of its tasks.
    pub task_states: PackedTaskStates,
    /// Address in the allocation's own network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Arc<NetworkStatus>>,
    /// The health verdict and its time, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<(bool, Timestamp)>,
}

/// The report was accepted, except for outdated parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportAccepted {
    /// The index at which it was committed.
    pub index: Index,
}

/// Tells an agent the index of its work; `J` is described at [`WorkAllocs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
pub struct Wake<J = Job> {
    /// Index of the node's work.
    pub work_index: WorkIndex,
    /// The changes, if they are small. Most agents then need not send a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub news: Option<Box<WorkChanges<J>>>,
}

/// Changes of a node's work since an index. An agent whose work is older than that index has to request its work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkChanges<J = Job> {
    /// The changes after this index are included.
    pub since: Index,
    /// Allocations that the servers have deleted.
    #[serde(default, skip_serializing_if = "AllocIds::is_empty")]
    pub gone: AllocIds,
    /// All allocations that changed.
    pub changed: WorkAllocs<J>,
}

impl<J> Wake<J> {
    /// Returns the changes if they bring work of the index `have` up to this wake's index without a gap.
    pub fn changes_after(self, have: WorkIndex) -> Option<WorkChanges<J>> {
        let Self { work_index, news } = self;
        let is_newer = work_index.history == have.history && work_index.index > have.index;
        news.map(|news| *news).filter(|news| is_newer && news.since <= have.index && !news.changed.more)
    }
}

kinds! {
    Register => "node.register",
    Heartbeat => "node.heartbeat",
    NodeResponse => "node.answer",
    GetWork => "node.ask-work",
    Work<J> => "node.work",
    GetAllocs => "node.ask-allocs",
    WorkAllocs<J> => "node.work-allocs",
    Report => "node.report",
    ReportAccepted => "node.reported",
    Wake<J> => "agent.wake",
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(history: u8, index: u64) -> WorkIndex {
        WorkIndex { history: HistoryId::from_bytes([history; 16]), index: Index(index) }
    }

    #[test]
    fn news_follow_on_what_is_known() {
        let changed = WorkAllocs::<Job>::default();
        let news = WorkChanges { since: Index(5), gone: AllocIds::default(), changed };
        let wake = Wake { work_index: at(1, 9), news: Some(Box::new(news.clone())) };
        let after = |have| wake.clone().changes_after(have);
        assert_eq!([5, 8].map(|have| after(at(1, have))), [Some(news.clone()), Some(news.clone())]);
        assert_eq!(after(at(1, 4)), None, "something was missed");
        assert_eq!(after(at(1, 9)), None, "it is known");
        assert_eq!(after(at(2, 5)), None, "another history says nothing");
        let changed = WorkAllocs { more: true, ..WorkAllocs::default() };
        let in_part = Wake { news: Some(Box::new(WorkChanges { changed, ..news })), ..wake };
        assert_eq!(in_part.changes_after(at(1, 5)), None, "it is not all");
    }

    #[test]
    fn indexes_of_another_history_are_news_however_low() {
        let mut known = at(1, 5);
        assert!(!known.advance_to(at(1, 5)) && !known.advance_to(at(1, 4)));
        assert_eq!(known, at(1, 5));
        assert!(known.advance_to(at(1, 6)) && known.advance_to(at(2, 3)));
        assert_eq!(known, at(2, 3));
        assert_eq!((known.within(at(2, 0).history), known.within(at(1, 0).history)), (Index(3), Index::ZERO));
    }
}
