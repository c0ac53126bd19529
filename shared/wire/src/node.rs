//! Between agents and the node-tracker. Agents are told state, not orders (design §6).

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

/// How far a node's work is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkIndex {
    /// The history that the index belongs to. An agent outlives a database that went back, and then remembers indexes that
    /// never were (design §4).
    pub history: HistoryId,
    /// The index.
    pub index: Index,
}

impl WorkIndex {
    /// The index as one of this history; 0 if it is of another, where it says nothing.
    pub fn within(self, history: HistoryId) -> Index {
        if self.history == history { self.index } else { Index::ZERO }
    }

    /// Whether it says that there is more than who knows `other` knows.
    pub fn is_news_to(self, other: Self) -> bool {
        self.history != other.history || self.index > other.index
    }

    /// Takes in what was heard; whether it was news.
    pub fn hear(&mut self, heard: Self) -> bool {
        let is_news = heard.is_news_to(*self);
        if is_news {
            *self = heard;
        }
        is_news
    }
}

/// An agent registers its node, or what has changed of it (N-2). Answered by [`NodeAnswer`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Register {
    /// The node.
    pub id: NodeId,
    /// All that the agent says of it, its secret and boot number included.
    pub spec: Arc<NodeSpec>,
}

/// An agent is there, and asks to be ready (N-3.1). Answered by [`NodeAnswer`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Heartbeat {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: Secret,
    /// The boot that the agent is in.
    pub boot: u32,
}

/// How a node stands after it registered or gave a sign of life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAnswer {
    /// Its status.
    pub status: NodeStatus,
    /// When the next heartbeat is due, in milliseconds.
    pub ttl_ms: u32,
    /// How far its work is; an agent that is behind asks for it.
    pub work_index: WorkIndex,
    /// Set for a node that is not ready yet after it was missing: the agent then reports all its allocations that are
    /// not terminal, with this index, until it is ready (design §6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_all: Option<Index>,
}

/// Asks for what changed of a node's work since an index (N-6). Answered by [`Work`], as soon as the tracker knows as much
/// as the agent: a wake or a heartbeat's answer says when to ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskWork {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: Secret,
    /// How far the agent's work is; index 0 for all.
    pub since: WorkIndex,
    /// The newest that the agent has heard of. A tracker that has just taken over may be behind it, and an older list
    /// would lack what already runs.
    pub seen: WorkIndex,
}

/// A node's work; `J` is as in [`WorkAllocs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Work<J = Job> {
    /// How far this work is.
    pub index: WorkIndex,
    /// Every allocation that the node should know of, with the index at which the servers changed it last. What an
    /// agent has and does not find here is gone.
    pub allocs: Vec<(AllocId, Index)>,
    /// Those of them that changed since the index asked for.
    pub changed: WorkAllocs<J>,
}

/// Asks for allocations of a node that an earlier answer had no room for, or that the agent lost. Answered by
/// [`WorkAllocs`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskAllocs {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: Secret,
    /// Which.
    pub allocs: Vec<AllocId>,
    /// How far the list is that they are on.
    pub seen: WorkIndex,
}

/// Allocations for an agent; what several of them share stands once.
///
/// Filled up to [`WORK_BYTES_MAX`](crate::envelope::WORK_BYTES_MAX), but with one allocation at least, so that asking
/// again always leads on. Who needs only a part of each job reads it as a `J` that has no more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, bound(deserialize = "J: Deserialize<'de>"))]
pub struct WorkAllocs<J = Job> {
    /// Versions of jobs, each once.
    pub jobs: Vec<Arc<J>>,
    /// Shares of them, each once.
    pub commons: Vec<WorkCommon>,
    /// The allocations.
    pub allocs: Vec<WorkAlloc>,
    /// Whether there was no room for all of them: the agent asks for the rest. What is missing otherwise is gone.
    pub more: bool,
}

/// What the allocations of one placement share, and the version of the job that they run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkCommon {
    /// The version's place in [`WorkAllocs::jobs`].
    pub job: u16,
    /// What they share, without its metrics: no agent looks at them.
    pub common: Arc<AllocCommon>,
}

/// What an agent must know of one allocation beside the common share. What only its own reports change is not in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WorkAlloc {
    /// The allocation.
    pub id: AllocId,
    /// The place of what it shares in [`WorkAllocs::commons`].
    pub common: u16,
    /// The number in its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_index: Option<u32>,
    /// What it got of the node beyond the common share.
    #[serde(default, skip_serializing_if = "PackedAssigned::is_empty")]
    pub assigned: PackedAssigned,
    /// Whether it should run.
    pub desired_status: DesiredStatus,
    /// What should happen to it next; its tasks may have to stop without their shutdown delay.
    #[serde(default)]
    pub desired_transition: DesiredTransition,
    /// How it fares as far as the servers know; `unknown` has the agent report it again.
    pub client_status: ClientStatus,
    /// Whether it is a canary that was not promoted yet; its services have other tags.
    #[serde(default)]
    pub canary: bool,
    /// The verdict on its health, if somebody has given one: the agent then looks for none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// The allocation that it replaces, and waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<AllocId>,
    /// Opens that one's disk on the node that has it, where the disk is to move along (N-6.3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrate_token: Option<Secret>,
    /// Allocations of this node that make room for it, and end first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<AllocId>,
    /// The index at which the servers changed it last.
    pub alloc_modify_index: Index,
    /// When it was made; the time that it may run counts from here.
    pub create_time: Timestamp,
}

impl<J> Default for WorkAllocs<J> {
    fn default() -> Self {
        Self { jobs: Vec::new(), commons: Vec::new(), allocs: Vec::new(), more: false }
    }
}

impl<J> WorkAllocs<J> {
    /// What an allocation shares with others, and its job; `None` if it points at what is not there.
    pub fn shared(&self, alloc: &WorkAlloc) -> Option<(&Arc<AllocCommon>, &Arc<J>)> {
        let WorkCommon { job, common } = self.commons.get(usize::from(alloc.common))?;
        Some((common, self.jobs.get(usize::from(*job))?))
    }
}

/// How a node's allocations fare (N-7). Answered by [`Reported`]; refused while the node must be heard of first (N-7.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The node.
    pub id: NodeId,
    /// Proves that it is the one that registered.
    pub secret: Secret,
    /// The boot that the agent is in; reports of another are dropped.
    pub boot: u32,
    /// Set when these are all its allocations that are not terminal, as asked for by [`NodeAnswer::report_all`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all_since: Option<Index>,
    /// The allocations.
    pub allocs: Vec<AllocReport>,
}

/// How one allocation fares. Only what the agent knows best is in it (N-7.7).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllocReport {
    /// The allocation.
    pub id: AllocId,
    /// Counts this boot's reports of the allocation; with the boot it makes the `ReportNumber`. One that is not newer
    /// than the last taken is dropped.
    pub count: u32,
    /// How it fares.
    pub status: ClientStatus,
    /// The same in words.
    pub description: Text,
    /// How its tasks fare.
    pub task_states: PackedTaskStates,
    /// The address in a network of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Arc<NetworkStatus>>,
    /// The verdict on its health, once there is one, and when it fell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<(bool, Timestamp)>,
}

/// A report was taken, less what was out of date in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The index at which it was.
    pub index: Index,
}

/// Tells an agent how far its work is; `J` is as in [`WorkAllocs`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(bound(deserialize = "J: Deserialize<'de>"))]
pub struct Wake<J = Job> {
    /// How far its work is.
    pub work_index: WorkIndex,
    /// What changed, where that is little: most agents need not ask then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub news: Option<Box<News<J>>>,
}

/// What changed of a node's work, for an agent that knows it up to an index; one that knows less asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct News<J = Job> {
    /// What changed after this index is told.
    pub since: Index,
    /// The allocations that the servers have forgotten.
    #[serde(default, skip_serializing_if = "AllocIds::is_empty")]
    pub gone: AllocIds,
    /// All those that changed.
    pub changed: WorkAllocs<J>,
}

impl<J> Wake<J> {
    /// What brings who knows the work up to `have` to this wake's index, with nothing missing in between.
    pub fn news_after(self, have: WorkIndex) -> Option<News<J>> {
        let Self { work_index, news } = self;
        let is_further = work_index.history == have.history && work_index.index > have.index;
        news.map(|news| *news).filter(|news| is_further && news.since <= have.index && !news.changed.more)
    }
}

kinds! {
    Register => "node.register",
    Heartbeat => "node.heartbeat",
    NodeAnswer => "node.answer",
    AskWork => "node.ask-work",
    Work<J> => "node.work",
    AskAllocs => "node.ask-allocs",
    WorkAllocs<J> => "node.work-allocs",
    Report => "node.report",
    Reported => "node.reported",
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
        let news = News { since: Index(5), gone: AllocIds::default(), changed };
        let wake = Wake { work_index: at(1, 9), news: Some(Box::new(news.clone())) };
        let after = |have| wake.clone().news_after(have);
        assert_eq!([5, 8].map(|have| after(at(1, have))), [Some(news.clone()), Some(news.clone())]);
        assert_eq!(after(at(1, 4)), None, "something was missed");
        assert_eq!(after(at(1, 9)), None, "it is known");
        assert_eq!(after(at(2, 5)), None, "another history says nothing");
        let changed = WorkAllocs { more: true, ..WorkAllocs::default() };
        let in_part = Wake { news: Some(Box::new(News { changed, ..news })), ..wake };
        assert_eq!(in_part.news_after(at(1, 5)), None, "it is not all");
    }

    #[test]
    fn indexes_of_another_history_are_news_however_low() {
        let mut known = at(1, 5);
        assert!(!known.hear(at(1, 5)) && !known.hear(at(1, 4)));
        assert_eq!(known, at(1, 5));
        assert!(known.hear(at(1, 6)) && known.hear(at(2, 3)));
        assert_eq!(known, at(2, 3));
        assert_eq!((known.within(at(2, 0).history), known.within(at(1, 0).history)), (Index(3), Index::ZERO));
    }
}
