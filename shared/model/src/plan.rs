//! Plans, which schedulers propose and the plan applier verifies.
//!
//! A plan contains field changes and new placements, never whole objects, so that it does not overwrite changes that were
//! made after the scheduler's snapshot (`docs/architecture/evaluations.md`).

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::alloc::{AllocCommon, ClientStatus, PackedAssigned, RescheduleOutcome, RescheduleTracker};
use crate::columns::AllocIds;
use crate::deployment::{Deployment, DeploymentUpdate};
use crate::eval::Evaluation;
use crate::{AllocId, EvalId, Index, JobVersionKey, NodeId, RequestId, Text};

/// A scheduler's proposal for one job (`docs/rules/scheduling.md` ).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The evaluation that the plan was computed for.
    pub eval_id: EvalId,
    /// Priority of that evaluation. Plans of a higher priority are verified first.
    pub priority: u16,
    /// The job version that the scheduler used; `None` if the job has been purged.
    pub job: Option<JobVersionKey>,
    /// Index of the snapshot that the plan was computed from.
    pub snapshot_index: Index,
    /// The request of the snapshot's last change set, if it is known. It tells this log from another one, which may have had
    /// the same index before the database went back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_request: Option<RequestId>,
    /// Whether the plan must be accepted as a whole or refused.
    #[serde(default)]
    pub all_at_once: bool,
    /// New allocations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placements: Vec<Placements>,
    /// Allocations of the job to stop.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stops: Vec<Stops>,
    /// Allocations of the job to update.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<Updates>,
    /// The deployment that the plan starts or continues.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deployment: Option<Box<Deployment>>,
    /// New statuses of existing deployments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deployment_updates: Vec<DeploymentUpdate>,
}

impl Plan {
    /// Creates an empty plan.
    pub fn new(eval: &Evaluation, job: Option<JobVersionKey>, snapshot_index: Index) -> Self {
        Self {
            eval_id: eval.id,
            priority: eval.priority,
            job,
            snapshot_index,
            snapshot_request: None,
            all_at_once: false,
            placements: Vec::new(),
            stops: Vec::new(),
            updates: Vec::new(),
            deployment: None,
            deployment_updates: Vec::new(),
        }
    }

    /// Whether the plan changes nothing.
    pub fn is_noop(&self) -> bool {
        self.placements.is_empty()
            && self.stops.is_empty()
            && self.updates.is_empty()
            && self.deployment.is_none()
            && self.deployment_updates.is_empty()
    }
}

/// New allocations that share everything except a few columns. Usually they belong to one task group of one job version.
///
/// A row is one allocation. If an optional column is empty, no row has a value in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Placements {
    /// The part that all rows share.
    pub common: Arc<AllocCommon>,
    /// Whether the allocations are canaries.
    #[serde(default)]
    pub canary: bool,
    /// The nodes that rows refer to, each once.
    pub nodes: Vec<NodeId>,
    /// Column: allocation id.
    pub ids: AllocIds,
    /// Column: position of the node in `nodes`.
    pub node: Vec<u32>,
    /// Column: index in the allocation's name.
    pub name_index: Vec<u32>,
    /// Column: the allocation that is replaced. Optional, and single rows may have none.
    #[serde(default, skip_serializing_if = "AllocIds::is_empty")]
    pub previous: AllocIds,
    /// Column: resources assigned beyond the common ones, such as ports. Optional.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assigned: Vec<PackedAssigned>,
    /// Column: history of earlier reschedules. Optional.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reschedule: Vec<Option<Arc<RescheduleTracker>>>,
    /// Column: allocations of other jobs that are preempted. Optional.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempted: Vec<Vec<AllocId>>,
}

/// One row of [`Placements`].
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The allocation's id.
    pub id: AllocId,
    /// Position of its node, from [`Placements::add_node`].
    pub node: u32,
    /// Index in its name.
    pub name_index: u32,
    /// The allocation that it replaces.
    pub previous: Option<AllocId>,
    /// Resources assigned beyond the common ones, such as ports.
    pub assigned: PackedAssigned,
    /// History of earlier reschedules.
    pub reschedule: Option<Arc<RescheduleTracker>>,
    /// Allocations of other jobs that it preempts.
    pub preempted: Vec<AllocId>,
}

/// Appends a value to an optional column, which stays empty as long as every value equals `none`.
fn push_optional<T: Clone + PartialEq>(column: &mut Vec<T>, rows: usize, none: T, value: T) {
    if column.is_empty() {
        if value == none {
            return;
        }
        column.resize(rows, none);
    }
    column.push(value);
}

/// The columns of a message do not have the expected lengths.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("column {column} has {found} rows instead of {expected}")]
pub struct Uneven {
    /// Name of the invalid column.
    pub column: &'static str,
    /// Number of rows that it has.
    pub found: usize,
    /// Number of rows that it should have: one per id, or for `nodes`, as many as the rows refer to.
    pub expected: usize,
}

impl Placements {
    /// Creates placements without rows.
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

    /// Adds a node that no row refers to yet. Returns its position, by which rows refer to it.
    ///
    /// # Panics
    /// If there are 2³² nodes.
    pub fn add_node(&mut self, node: NodeId) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("there are fewer than 2³² nodes")
    }

    /// Appends a row. Optional columns in which no row has a value stay empty.
    pub fn push(&mut self, placement: Placement) {
        let rows = self.ids.len();
        let Placement { id, node, name_index, previous, assigned, reschedule, preempted } = placement;
        push_optional(&mut self.previous.0, rows, AllocIds::NONE, previous.unwrap_or(AllocIds::NONE));
        push_optional(&mut self.assigned, rows, PackedAssigned::default(), assigned);
        push_optional(&mut self.reschedule, rows, None, reschedule);
        push_optional(&mut self.preempted, rows, Vec::new(), preempted);
        self.ids.0.push(id);
        self.node.push(node);
        self.name_index.push(name_index);
    }

    /// The number of allocations.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether there are no allocations.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// The node of `row`.
    ///
    /// # Panics
    /// If there is no such row. Call [`Self::check`] first on values that come from a message.
    pub fn node_of(&self, row: usize) -> NodeId {
        self.nodes[self.node[row] as usize]
    }

    /// Returns an error if columns have different lengths, or if a row refers to a node outside of `nodes`.
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
        match self.node.iter().find(|position| **position as usize >= self.nodes.len()) {
            Some(position) => {
                Err(Uneven { column: "nodes", found: self.nodes.len(), expected: *position as usize + 1 })
            }
            None => Ok(()),
        }
    }
}

/// Allocations of the plan's job to stop, all for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stops {
    /// The allocations.
    pub ids: AllocIds,
    /// The reason, which becomes the description of the desired status, and of the client status if one is set.
    pub description: Text,
    /// A client status that the servers set: lost, unknown, or failed for a failed reconnect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_status: Option<ClientStatus>,
    /// The delayed evaluation that will reconsider them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub followup_eval: Option<EvalId>,
    /// Outcome of the attempt to reschedule them, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule: Option<RescheduleOutcome>,
}

/// Allocations of the plan's job that keep running, all updated in the same way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Updates {
    /// The allocations.
    pub ids: AllocIds,
    /// The update.
    pub change: Update,
}

/// An update of an allocation that the plan does not stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Update {
    /// The allocation moves to another version of its job, and to that version's deployment, without a restart.
    InPlace(Arc<AllocCommon>),
    /// The allocation's node is disconnected, and the allocation may still run.
    Unknown {
        /// The evaluation that is created for the end of the time that the node may stay disconnected.
        followup_eval: Option<EvalId>,
    },
    /// The allocation's node has reconnected.
    Reconnect,
    /// The allocation will be rescheduled later.
    RescheduleLater {
        /// The evaluation that will reschedule it.
        followup_eval: EvalId,
    },
    /// The allocation should have been rescheduled, but no node had enough capacity.
    RescheduleFailed,
}

/// The scheduler's outcome of one attempt on an evaluation. It is sent in the same command as the plan (`docs/architecture/evaluations.md`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The evaluation after the attempt: status, descriptions, queued counts, failed groups, related ids.
    ///
    /// The status `blocked` means that it waits for capacity again, with the results of this attempt.
    pub eval: Box<Evaluation>,
    /// Evaluations to create: delayed ones, and one that waits for capacity.
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
