//! Decides which nodes can take what a plan has for them.
//!
//! Each node is verified separately, on columns: what it has, minus what the plan frees, plus what the plan adds. Resources
//! other than amounts are checked by `special`, for the few rows that have any.

use std::collections::BTreeMap;

use model::alloc::{ClientStatus, Demand, PackedAssigned};
use model::job::VolumeKind;
use model::node::NodeStatus;
use model::plan::{Placements, Plan, Update, Updates};
use model::{AllocId, JobKey, NodeId};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, NodePage, PAGE, State, Usage};

use super::special;

/// The verification result of every node in a plan.
pub(super) struct Verified {
    nodes: Vec<NodeUse>,
    numbers: NodeNumbers,
    /// For each of the plan's placements, the numbers of its nodes.
    placement_nodes: Vec<Vec<u32>>,
    /// The nodes that cannot take what is planned for them, in the order in which the plan names them.
    pub(super) rejected: Vec<NodeId>,
}

impl Verified {
    /// Whether a node of one of the plan's placements accepts them. `node` is the node's position in the placements.
    pub(super) fn accepts_node(&self, placements: usize, node: u32) -> bool {
        !self.nodes[self.placement_nodes[placements][node as usize] as usize].is_rejected
    }

    /// Whether the node in a slot accepts the plan. Nodes on which allocations only stop always do.
    pub(super) fn accepts_slot(&self, slot: u32) -> bool {
        self.numbers.at(slot).is_none_or(|number| !self.nodes[number as usize].is_rejected)
    }
}

/// What a plan does on one node.
struct NodeUse {
    id: NodeId,
    /// The node's slot; `None` for a node that is unknown and has no allocations.
    slot: Option<u32>,
    gets_placements: bool,
    updates_in_place: bool,
    reconnects: bool,
    marks_unknown: bool,
    /// Whether it marks allocations as unknown that are replaced while they are unknown.
    marks_unknown_and_replaces: bool,
    added: Amounts,
    freed: Amounts,
    is_rejected: bool,
}

impl NodeUse {
    fn new(id: NodeId, slot: Option<u32>) -> Self {
        Self {
            id,
            slot,
            gets_placements: false,
            updates_in_place: false,
            reconnects: false,
            marks_unknown: false,
            marks_unknown_and_replaces: false,
            added: Amounts::default(),
            freed: Amounts::default(),
            is_rejected: false,
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Amounts {
    cpu_mhz: u64,
    memory_mb: u64,
    disk_mb: u64,
    allocs: u64,
}

impl Amounts {
    fn add(&mut self, demand: Demand) {
        self.cpu_mhz += u64::from(demand.cpu_mhz);
        self.memory_mb += u64::from(demand.memory_mb);
        self.disk_mb += u64::from(demand.disk_mb);
        self.allocs += 1;
    }
}

/// The number that the node in each slot has in this plan.
struct NodeNumbers(Vec<u32>);

impl NodeNumbers {
    const NONE: u32 = u32::MAX;

    fn at(&self, slot: u32) -> Option<u32> {
        self.0.get(slot as usize).copied().filter(|number| *number != Self::NONE)
    }
}

/// Verifies every node on which the plan places or updates allocations.
pub(super) fn verify(state: &State, job: &JobKey, plan: &Plan) -> Verified {
    let mut verifier = Verifier {
        state,
        job,
        nodes: Vec::new(),
        numbers: NodeNumbers(vec![NodeNumbers::NONE; state.node_pages().len() * PAGE]),
        unknown_nodes: BTreeMap::new(),
        special_rows: Vec::new(),
        freed: Vec::new(),
    };
    let placements = plan.placements.iter().enumerate();
    let placement_nodes =
        placements.map(|(number, placements)| verifier.add_placements(number, placements)).collect();
    plan.updates.iter().for_each(|updates| verifier.add_updates(updates));
    for stops in &plan.stops {
        stops.ids.0.iter().for_each(|id| verifier.add_freed(*id, |alloc| alloc.job_key() == job));
    }
    verifier.count_freed();
    verifier.check_all(plan);
    let Verifier { nodes, numbers, .. } = verifier;
    let rejected = nodes.iter().filter(|node| node.is_rejected).map(|node| node.id).collect();
    Verified { nodes, numbers, placement_nodes, rejected }
}

/// An allocation that frees resources on a node of the plan.
struct Freed {
    /// The node's number.
    node: u32,
    id: AllocId,
    /// Whether the allocation is only updated: it keeps its special resources.
    is_update: bool,
    demand: Demand,
}

struct Verifier<'a> {
    state: &'a State,
    job: &'a JobKey,
    nodes: Vec<NodeUse>,
    numbers: NodeNumbers,
    /// The numbers of nodes that have no slot.
    unknown_nodes: BTreeMap<NodeId, u32>,
    /// Rows with special resources: the node's number, the position of the placements, and the row.
    special_rows: Vec<(u32, u32, u32)>,
    freed: Vec<Freed>,
}

impl Verifier<'_> {
    fn number_of_slot(&mut self, slot: u32, id: NodeId) -> u32 {
        self.numbers.at(slot).unwrap_or_else(|| {
            let number = self.push(NodeUse::new(id, Some(slot)));
            self.numbers.0[slot as usize] = number;
            number
        })
    }

    fn number_of(&mut self, id: NodeId) -> u32 {
        if let Some(node) = self.state.node(id) {
            return self.number_of_slot(node.slot(), id);
        }
        if let Some(number) = self.unknown_nodes.get(&id) {
            return *number;
        }
        let number = self.push(NodeUse::new(id, None));
        self.unknown_nodes.insert(id, number);
        number
    }

    fn push(&mut self, node: NodeUse) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a plan names fewer than 2³² nodes")
    }

    /// Adds new allocations. Returns the numbers of their nodes.
    fn add_placements(&mut self, number: usize, placements: &Placements) -> Vec<u32> {
        let number = u32::try_from(number).expect("a plan has fewer than 2³² placements");
        let node_numbers: Vec<u32> = placements.nodes.iter().map(|id| self.number_of(*id)).collect();
        let resources = &placements.common.resources;
        let (shared, has_networks) = (resources.demand(), resources.has_networks());
        let has_volumes = self.has_host_volumes(placements);
        for (row, node) in (0..).zip(&placements.node) {
            let node = node_numbers[*node as usize];
            let assigned = placements.assigned.get(row as usize).filter(|assigned| !assigned.is_empty());
            let cores_mhz = assigned.map_or(0, |assigned| assigned.own_cores_mhz());
            let used = &mut self.nodes[node as usize];
            used.gets_placements = true;
            used.added.add(Demand { cpu_mhz: shared.cpu_mhz.saturating_add(cores_mhz), ..shared });
            if assigned.is_some() || has_networks || has_volumes {
                self.special_rows.push((node, number, row));
            }
        }
        for (row, victims) in placements.preempted.iter().enumerate() {
            let slot = self.nodes[node_numbers[placements.node[row] as usize] as usize].slot;
            let job = self.job;
            for id in victims {
                let is_here = |victim: AllocRef<'_>| Some(victim.node_slot()) == slot;
                self.add_freed(*id, |victim| is_here(victim) && victim.job_key() != job);
            }
        }
        node_numbers
    }

    fn has_host_volumes(&self, placements: &Placements) -> bool {
        let version = self.state.job_version(&placements.common.job);
        let group = version.and_then(|version| version.spec.group(&placements.common.task_group));
        group.is_some_and(|(_, group)| group.volumes.values().any(|volume| volume.kind == VolumeKind::Host))
    }

    /// Adds updates that need their node, for allocations to which they still apply.
    fn add_updates(&mut self, updates: &Updates) {
        let (state, job) = (self.state, self.job);
        let allocs = updates.ids.0.iter().filter_map(|id| state.alloc(*id));
        for alloc in allocs.filter(|alloc| alloc.job_key() == job) {
            match &updates.change {
                Update::InPlace(common) if !alloc.is_terminal() => {
                    let (shared, cores_mhz) = (common.resources.demand(), alloc.assigned().own_cores_mhz());
                    let (number, node) = self.node_of(alloc);
                    // The agent learns of an update of an unknown allocation when its node is back.
                    node.updates_in_place |= alloc.client_status() != ClientStatus::Unknown;
                    node.added.add(Demand { cpu_mhz: shared.cpu_mhz.saturating_add(cores_mhz), ..shared });
                    let (id, demand) = (alloc.id(), alloc.demand());
                    self.freed.push(Freed { node: number, id, is_update: true, demand });
                }
                Update::Unknown { .. } if !alloc.is_terminal() => {
                    let (_, node) = self.node_of(alloc);
                    node.marks_unknown = true;
                    node.marks_unknown_and_replaces |= is_replaced_while_unknown(alloc);
                }
                Update::Reconnect if !alloc.desired_status().is_terminal() => {
                    self.node_of(alloc).1.reconnects = true;
                }
                // Updates that only record something about the allocation need no node.
                Update::RescheduleLater { .. } | Update::RescheduleFailed => {}
                Update::InPlace(_) | Update::Unknown { .. } | Update::Reconnect => {}
            }
        }
    }

    fn node_of(&mut self, alloc: AllocRef<'_>) -> (u32, &mut NodeUse) {
        let number = self.number_of_slot(alloc.node_slot(), alloc.node_id());
        (number, &mut self.nodes[number as usize])
    }

    /// Adds an allocation that frees resources, if it still uses any on a node of the plan.
    fn add_freed(&mut self, id: AllocId, counts: impl Fn(AllocRef<'_>) -> bool) {
        let Some(alloc) = self.state.alloc(id).filter(|alloc| !alloc.is_terminal() && counts(*alloc)) else {
            return;
        };
        if let Some(node) = self.numbers.at(alloc.node_slot()) {
            self.freed.push(Freed { node, id, is_update: false, demand: alloc.demand() });
        }
    }

    fn count_freed(&mut self) {
        self.freed.sort_unstable_by_key(|freed| (freed.node, freed.id, freed.is_update));
        self.freed.dedup_by_key(|freed| (freed.node, freed.id));
        for freed in &self.freed {
            self.nodes[freed.node as usize].freed.add(freed.demand);
        }
    }

    fn check_all(&mut self, plan: &Plan) {
        for number in 0..self.nodes.len() {
            self.nodes[number].is_rejected = !self.accepts(&self.nodes[number]);
        }
        self.special_rows.sort_unstable();
        let unassigned = PackedAssigned::default();
        let mut freed = &self.freed[..];
        for rows in self.special_rows.chunk_by(|a, b| a.0 == b.0) {
            let number = rows[0].0;
            freed = &freed[freed.partition_point(|freed| freed.node < number)..];
            let of_node = &freed[..freed.partition_point(|freed| freed.node == number)];
            let node = &mut self.nodes[number as usize];
            let Some(known) = node.slot.and_then(|slot| self.state.node_at(slot)) else { continue };
            if !node.is_rejected {
                let stopped = of_node.iter().filter(|freed| !freed.is_update).map(|freed| freed.id);
                let stopped: Vec<AllocId> = stopped.collect();
                let planned = |(_, placements, row): &(u32, u32, u32)| {
                    let placements = &plan.placements[*placements as usize];
                    special::Row::planned(self.state, placements, *row as usize, &unassigned)
                };
                let rows: Vec<_> = rows.iter().map(planned).collect();
                node.is_rejected = !special::fits(self.state, known, &rows, &stopped);
            }
        }
    }

    /// Whether the node's state permits the plan, and the node has enough resources.
    fn accepts(&self, node: &NodeUse) -> bool {
        let page = node.slot.and_then(|slot| self.state.node_page(slot as usize / PAGE).zip(Some(slot)));
        let Some((page, slot)) = page else { return false };
        let offset = slot as usize % PAGE;
        if page.ready >> offset & 1 != 0 {
            return !node.marks_unknown && has_capacity(page, offset, node);
        }
        let Some(known) = self.state.node_at(slot) else { return false };
        let status = known.server().status;
        let needs_ready = node.gets_placements || node.updates_in_place;
        let permits = match status {
            // Not eligible, or draining: existing allocations may stay.
            NodeStatus::Ready => !node.marks_unknown && !node.gets_placements,
            // Its agent has sent a heartbeat since, so whether its allocations are unknown has to be decided again.
            NodeStatus::Initializing => !needs_ready && !node.marks_unknown,
            NodeStatus::Disconnected => !needs_ready && !node.reconnects,
            NodeStatus::Down => !needs_ready && !node.reconnects && !node.marks_unknown_and_replaces,
        };
        permits && has_capacity(page, offset, node)
    }
}

/// Whether an allocation is replaced while it is unknown.
fn is_replaced_while_unknown(alloc: AllocRef<'_>) -> bool {
    let disconnect = alloc.group().and_then(|group| group.disconnect.as_ref());
    disconnect.is_none_or(|disconnect| disconnect.replace != Some(false))
}

/// Whether the amounts fit. If no allocations are added and a resource's usage does not grow, its capacity is not
/// checked.
fn has_capacity(page: &NodePage, offset: usize, node: &NodeUse) -> bool {
    if is_planted(Bug::OverfillsNodes) {
        return true;
    }
    let (added, freed, used): (_, _, &Usage) = (node.added, node.freed, &page.live);
    let fits = |used: u32, [added, freed]: [u64; 2], capacity: u32| {
        (!node.gets_placements && added <= freed) || u64::from(used) + added <= u64::from(capacity) + freed
    };
    let max_allocs = match page.max_allocs[offset] {
        0 => u32::MAX,
        max => max,
    };
    fits(used.cpu_mhz[offset], [added.cpu_mhz, freed.cpu_mhz], page.cpu_mhz[offset])
        && fits(used.memory_mb[offset], [added.memory_mb, freed.memory_mb], page.memory_mb[offset])
        && fits(used.disk_mb[offset], [added.disk_mb, freed.disk_mb], page.disk_mb[offset])
        && fits(used.allocs[offset], [added.allocs, freed.allocs], max_allocs)
}
