//! Plans: what a scheduler proposes, for the applier to judge.
//!
//! A plan carries field changes and new placements, never whole objects, so that nothing that changed meanwhile is
//! overwritten with what the scheduler had seen (design §6).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alloc::{AllocCommon, Assigned, ClientStatus, RescheduleOutcome, RescheduleTracker};
use crate::columns::AllocIds;
use crate::deployment::{Deployment, DeploymentUpdate};
use crate::eval::{Evaluation, PlanAnnotations};
use crate::{AllocId, EvalId, Index, JobVersionKey, NodeId, Text};

/// What a scheduler proposes for one job (`spec/scheduling.md` ).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The evaluation that asked for it.
    pub eval_id: EvalId,
    /// That evaluation's priority; plans are judged by it, highest first.
    pub priority: u16,
    /// The job as the scheduler saw it; `None` when it was purged.
    pub job: Option<JobVersionKey>,
    /// The index of the snapshot that it was made from.
    pub snapshot_index: Index,
    /// Whether it is to be taken whole or not at all.
    #[serde(default)]
    pub all_at_once: bool,
    /// New allocations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placements>,
    /// Allocations of the job that should stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Stops>,
    /// Allocations of the job that stay and change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<Updates>,
    /// Allocations of other jobs that should make room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preemptions: Vec<Preemptions>,
    /// The deployment that the plan begins or goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Box<Deployment>>,
    /// New statuses of deployments that exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployment_updates: Vec<DeploymentUpdate>,
    /// What it sets out to do, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<Box<PlanAnnotations>>,
}

impl Plan {
    /// A plan in which nothing happens.
    pub fn new(eval: &Evaluation, job: Option<JobVersionKey>, snapshot_index: Index) -> Self {
        Self {
            eval_id: eval.id,
            priority: eval.priority,
            job,
            snapshot_index,
            all_at_once: false,
            placements: Vec::new(),
            stops: Vec::new(),
            updates: Vec::new(),
            preemptions: Vec::new(),
            deployment: None,
            deployment_updates: Vec::new(),
            annotations: None,
        }
    }

    /// Whether nothing happens in it; preemptions and annotations alone do not count.
    pub fn is_noop(&self) -> bool {
        self.placements.is_empty()
            && self.stops.is_empty()
            && self.updates.is_empty()
            && self.deployment.is_none()
            && self.deployment_updates.is_empty()
    }
}

/// New allocations that share all but a few columns; those of one task group and job version, as a rule.
///
/// A row is one allocation. Columns that may be empty stand for rows that all lack the field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placements {
    /// What all of them share.
    pub common: Arc<AllocCommon>,
    /// Whether they are canaries.
    #[serde(default)]
    pub canary: bool,
    /// The nodes in use, each once.
    pub nodes: Vec<NodeId>,
    /// Each row's id.
    pub ids: AllocIds,
    /// Each row's place in `nodes`.
    pub node: Vec<u32>,
    /// The number in each row's name.
    pub name_index: Vec<u32>,
    /// The allocation that each row replaces; may be empty, as may single rows.
    #[serde(default, skip_serializing_if = "AllocIds::is_empty")]
    pub previous: AllocIds,
    /// What each row got of its node beyond the common share; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<Option<Arc<Assigned>>>,
    /// What each row carries of earlier reschedules; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reschedule: Vec<Option<Arc<RescheduleTracker>>>,
    /// The allocations that made room for each row; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<Vec<AllocId>>,
}

/// Columns that do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column} has {found} rows instead of {expected}")]
pub struct Uneven {
    /// The column at fault.
    pub column: &'static str,
    /// How many rows it has.
    pub found: usize,
    /// How many rows there are ids for.
    pub expected: usize,
}

impl Placements {
    /// Placements without rows.
    pub fn new(common: Arc<AllocCommon>) -> Self {
        Self {
            common,
            canary: false,
            nodes: Vec::new(),
            ids: AllocIds::default(),
            node: Vec::new(),
            name_index: Vec::new(),
            previous: AllocIds::default(),
            assigned: Vec::new(),
            reschedule: Vec::new(),
            preempted: Vec::new(),
        }
    }

    /// How many allocations there are.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The node of `row`.
    ///
    /// # Panics
    /// If there is no such row; call [`Self::check`] on what comes from elsewhere first.
    pub fn node_of(&self, row: usize) -> NodeId {
        self.nodes[self.node[row] as usize]
    }

    /// Refuses columns of different lengths and rows that point outside `nodes`.
    pub fn check(&self) -> Result<(), Uneven> {
        let expected = self.ids.len();
        let full = [("node", self.node.len()), ("name_index", self.name_index.len())];
        let optional = [
            ("previous", self.previous.len()),
            ("assigned", self.assigned.len()),
            ("reschedule", self.reschedule.len()),
            ("preempted", self.preempted.len()),
        ];
        let optional = optional.into_iter().filter(|(_, rows)| *rows != 0);
        for (column, found) in full.into_iter().chain(optional) {
            if found != expected {
                return Err(Uneven { column, found, expected });
            }
        }
        match self.node.iter().find(|place| **place as usize >= self.nodes.len()) {
            Some(place) => {
                Err(Uneven { column: "nodes", found: self.nodes.len(), expected: *place as usize + 1 })
            }
            None => Ok(()),
        }
    }
}

/// Allocations of the plan's job that should stop, all for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stops {
    /// Which.
    pub ids: AllocIds,
    /// Why.
    pub description: Text,
    /// The client status that the servers give them, if they give one: lost or unknown, failed for a failed reconnect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_status: Option<ClientStatus>,
    /// The delayed evaluation that will look at them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followup_eval: Option<EvalId>,
    /// How the attempt to reschedule them ended, if this was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule: Option<RescheduleOutcome>,
}

/// Allocations of the plan's job that stay, all changed alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// Which.
    pub ids: AllocIds,
    /// How.
    pub change: Update,
}

/// How an allocation that stays is changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Update {
    /// It moves to another version of its job without a restart, and to that version's deployment.
    InPlace(Arc<AllocCommon>),
    /// Its node is disconnected; it may still run.
    Unknown {
        /// The evaluation at the end of the time that it may stay away.
        followup_eval: Option<EvalId>,
    },
    /// It was heard of again.
    Reconnect,
    /// It will be rescheduled later.
    RescheduleLater {
        /// The evaluation that will do so.
        followup_eval: EvalId,
    },
    /// It should have been rescheduled, but no node had room.
    RescheduleFailed,
}

/// Allocations of other jobs that make room for one placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemptions {
    /// The allocation that they make room for.
    pub by: AllocId,
    /// Which.
    pub ids: AllocIds,
}

/// What a scheduler says of its evaluation when it is done with an attempt. Travels with the plan, as one command
/// (design §6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The evaluation as it should be after this: status, descriptions, queued counts, failed groups, related ids.
    ///
    /// `blocked` means that it waits for room again with what this attempt learned.
    pub eval: Box<Evaluation>,
    /// Evaluations that come of it: delayed ones, and one that waits for room.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub creates: Vec<Evaluation>,
}
