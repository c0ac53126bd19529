//! Plans: what a scheduler proposes, for the applier to judge.
//!
//! A plan carries field changes and new placements, never whole objects, so that nothing that changed meanwhile is
//! overwritten with what the scheduler had seen (design §6).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alloc::{AllocCommon, ClientStatus, PackedAssigned, RescheduleOutcome, RescheduleTracker};
use crate::columns::AllocIds;
use crate::deployment::{Deployment, DeploymentUpdate};
use crate::eval::Evaluation;
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
    /// The deployment that the plan begins or goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Box<Deployment>>,
    /// New statuses of deployments that exist.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployment_updates: Vec<DeploymentUpdate>,
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
            deployment: None,
            deployment_updates: Vec::new(),
        }
    }

    /// Whether nothing happens in it.
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
    pub assigned: Vec<PackedAssigned>,
    /// What each row carries of earlier reschedules; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reschedule: Vec<Option<Arc<RescheduleTracker>>>,
    /// Allocations of other jobs that make room for each row; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<Vec<AllocId>>,
}

/// One row of [`Placements`].
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The allocation's id.
    pub id: AllocId,
    /// Its node's place, from [`Placements::add_node`].
    pub node: u32,
    /// The number in its name.
    pub name_index: u32,
    /// The allocation that it replaces.
    pub previous: Option<AllocId>,
    /// What it gets of its node beyond the common share.
    pub assigned: PackedAssigned,
    /// What it carries of earlier reschedules.
    pub reschedule: Option<Arc<RescheduleTracker>>,
    /// Allocations of other jobs that make room for it.
    pub preempted: Vec<AllocId>,
}

/// Adds a value to a column that stays empty for as long as there is nothing in it.
fn fill<T: Clone + PartialEq>(column: &mut Vec<T>, rows: usize, nothing: T, value: T) {
    if column.is_empty() {
        if value == nothing {
            return;
        }
        column.resize(rows, nothing);
    }
    column.push(value);
}

/// Columns that do not fit each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column} has {found} rows instead of {expected}")]
pub struct Uneven {
    /// The column at fault.
    pub column: &'static str,
    /// How many rows it has.
    pub found: usize,
    /// How many it should have: one for each id; of `nodes`, enough for every place that a row names.
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

    /// The place of a node that is not in use yet; rows name their nodes by it.
    ///
    /// # Panics
    /// If there are 2³² nodes.
    pub fn add_node(&mut self, node: NodeId) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("there are fewer than 2³² nodes")
    }

    /// Adds a row. Columns in which no row has anything yet stay empty.
    pub fn push(&mut self, placement: Placement) {
        let rows = self.ids.len();
        let Placement { id, node, name_index, previous, assigned, reschedule, preempted } = placement;
        fill(&mut self.previous.0, rows, AllocIds::NONE, previous.unwrap_or(AllocIds::NONE));
        fill(&mut self.assigned, rows, PackedAssigned::default(), assigned);
        fill(&mut self.reschedule, rows, None, reschedule);
        fill(&mut self.preempted, rows, Vec::new(), preempted);
        self.ids.0.push(id);
        self.node.push(node);
        self.name_index.push(name_index);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::{AllocatedResources, Assigned, AssignedPort, PackedMetric};
    use crate::{Index, JobKey};

    fn placements() -> Placements {
        let job = JobVersionKey { job: JobKey::new("default", "web"), create_index: Index(1), version: 0 };
        Placements::new(Arc::new(AllocCommon {
            job,
            task_group: "app".into(),
            name_stem: "web.app".into(),
            eval_id: EvalId::from_bytes([1; 16]),
            deployment_id: None,
            resources: AllocatedResources::default(),
            metrics: PackedMetric::default(),
            trace: None,
        }))
    }

    fn placement(n: u8, node: u32) -> Placement {
        Placement {
            id: AllocId::from_bytes([n; 16]),
            node,
            name_index: n.into(),
            previous: None,
            assigned: PackedAssigned::default(),
            reschedule: None,
            preempted: Vec::new(),
        }
    }

    #[test]
    fn columns_stay_empty_until_a_row_has_something_and_even_after() {
        let mut placements = placements();
        let node = placements.add_node(NodeId::from_bytes([9; 16]));
        placements.push(placement(1, node));
        assert!(placements.previous.is_empty() && placements.assigned.is_empty());

        let port = AssignedPort { value: 80, ..AssignedPort::default() };
        let assigned = PackedAssigned::pack(&Assigned { ports: vec![port], ..Assigned::default() });
        let previous = Some(AllocId::from_bytes([7; 16]));
        placements.push(Placement { previous, assigned: assigned.clone(), ..placement(2, node) });
        placements.push(placement(3, node));
        assert_eq!(
            (0..3).map(|row| placements.previous.get(row)).collect::<Vec<_>>(),
            [None, previous, None]
        );
        assert_eq!(placements.assigned, [PackedAssigned::default(), assigned, PackedAssigned::default()]);
        assert!(placements.reschedule.is_empty() && placements.preempted.is_empty());
        assert_eq!(placements.check(), Ok(()));
        assert_eq!(placements.node_of(2), NodeId::from_bytes([9; 16]));
    }

    #[test]
    fn a_row_on_a_node_that_is_not_named_is_refused() {
        let mut placements = placements();
        placements.push(placement(1, 0));
        assert_eq!(placements.check(), Err(Uneven { column: "nodes", found: 0, expected: 1 }));
    }
}
