//! Which nodes can take what a plan has for them.
//!
//! Each node is judged by itself, on columns: what is there already, less what the plan takes away, plus what it adds.
//! What is more than an amount is looked at for the few rows that have any, in `special`.

use std::collections::BTreeMap;

use model::alloc::{ClientStatus, Demand, PackedAssigned};
use model::job::VolumeKind;
use model::node::NodeStatus;
use model::plan::{Placements, Plan, Update, Updates};
use model::{AllocId, JobKey, NodeId};
use planted_bugs::{Bug, is_planted};
use state::{AllocRef, NodePage, PAGE, State, Usage};

use super::special;

/// Which nodes can take what is planned for them.
pub(super) struct Verified {
    nodes: Vec<NodeUse>,
    numbers: Numbers,
    /// Of each of the plan's placements, the numbers of its nodes.
    places: Vec<Vec<u32>>,
    /// Those that cannot, in the order in which the plan names them.
    pub(super) rejected: Vec<NodeId>,
}

impl Verified {
    /// Whether a node of one of the plan's placements can, by its place there.
    pub(super) fn takes_place(&self, placements: usize, place: u32) -> bool {
        !self.nodes[self.places[placements][place as usize] as usize].is_rejected
    }

    /// Whether the node in a slot can. Nodes on which allocations only stop always can.
    pub(super) fn takes_slot(&self, slot: u32) -> bool {
        self.numbers.at(slot).is_none_or(|number| !self.nodes[number as usize].is_rejected)
    }
}

/// What a plan has for one node.
struct NodeUse {
    id: NodeId,
    /// Its row; `None` for a node that is not known and has no allocations.
    slot: Option<u32>,
    places: bool,
    updates_in_place: bool,
    reconnects: bool,
    loses_sight: bool,
    /// Loses sight of some that others take the place of meanwhile.
    loses_sight_and_replaces: bool,
    added: Amounts,
    freed: Amounts,
    is_rejected: bool,
}

impl NodeUse {
    fn new(id: NodeId, slot: Option<u32>) -> Self {
        Self {
            id,
            slot,
            places: false,
            updates_in_place: false,
            reconnects: false,
            loses_sight: false,
            loses_sight_and_replaces: false,
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
struct Numbers(Vec<u32>);

impl Numbers {
    const NONE: u32 = u32::MAX;

    fn at(&self, slot: u32) -> Option<u32> {
        self.0.get(slot as usize).copied().filter(|number| *number != Self::NONE)
    }
}

/// Judges every node that the plan of a job adds something to, or updates something on.
pub(super) fn verify(state: &State, job: &JobKey, plan: &Plan) -> Verified {
    let mut verifier = Verifier {
        state,
        job,
        nodes: Vec::new(),
        numbers: Numbers(vec![Numbers::NONE; state.node_pages().len() * PAGE]),
        unheard_of: BTreeMap::new(),
        special_rows: Vec::new(),
        freed: Vec::new(),
    };
    let places = plan.placements.iter().enumerate();
    let places = places.map(|(number, placements)| verifier.note_placements(number, placements)).collect();
    plan.updates.iter().for_each(|updates| verifier.note_updates(updates));
    for stops in &plan.stops {
        stops.ids.0.iter().for_each(|id| verifier.note_freed(*id, |alloc| alloc.job_key() == job));
    }
    verifier.count_freed();
    verifier.check_all(plan);
    let Verifier { nodes, numbers, .. } = verifier;
    let rejected = nodes.iter().filter(|node| node.is_rejected).map(|node| node.id).collect();
    Verified { nodes, numbers, places, rejected }
}

/// An allocation that makes room on a node that is looked at.
struct Freed {
    /// The node's number.
    node: u32,
    id: AllocId,
    /// Whether it is only updated: what is more than an amount it keeps.
    stays: bool,
    demand: Demand,
}

struct Verifier<'a> {
    state: &'a State,
    job: &'a JobKey,
    nodes: Vec<NodeUse>,
    numbers: Numbers,
    /// Numbers of nodes that have no slot.
    unheard_of: BTreeMap<NodeId, u32>,
    /// Rows with more than amounts: the node's number, the placements', and the row.
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
        if let Some(number) = self.unheard_of.get(&id) {
            return *number;
        }
        let number = self.push(NodeUse::new(id, None));
        self.unheard_of.insert(id, number);
        number
    }

    fn push(&mut self, node: NodeUse) -> u32 {
        self.nodes.push(node);
        u32::try_from(self.nodes.len() - 1).expect("a command names fewer than 2³² nodes")
    }

    /// Adds up new allocations. Answers with the numbers of their nodes.
    fn note_placements(&mut self, number: usize, placements: &Placements) -> Vec<u32> {
        let number = u32::try_from(number).expect("a plan has fewer than 2³² placements");
        let places: Vec<u32> = placements.nodes.iter().map(|id| self.number_of(*id)).collect();
        let resources = &placements.common.resources;
        let (shared, has_networks) = (resources.demand(), resources.has_networks());
        let has_volumes = self.has_host_volumes(placements);
        for (row, place) in (0..).zip(&placements.node) {
            let node = places[*place as usize];
            let assigned = placements.assigned.get(row as usize).filter(|assigned| !assigned.is_empty());
            let cores_mhz = assigned.map_or(0, |assigned| assigned.own_cores_mhz());
            let used = &mut self.nodes[node as usize];
            used.places = true;
            used.added.add(Demand { cpu_mhz: shared.cpu_mhz.saturating_add(cores_mhz), ..shared });
            if assigned.is_some() || has_networks || has_volumes {
                self.special_rows.push((node, number, row));
            }
        }
        for (row, victims) in placements.preempted.iter().enumerate() {
            let slot = self.nodes[places[placements.node[row] as usize] as usize].slot;
            let job = self.job;
            for id in victims {
                let is_here = |victim: AllocRef<'_>| Some(victim.node_slot()) == slot;
                self.note_freed(*id, |victim| is_here(victim) && victim.job_key() != job);
            }
        }
        places
    }

    fn has_host_volumes(&self, placements: &Placements) -> bool {
        let version = self.state.job_version(&placements.common.job);
        let group = version.and_then(|version| version.spec.group(&placements.common.task_group));
        group.is_some_and(|(_, group)| group.volumes.values().any(|volume| volume.kind == VolumeKind::Host))
    }

    /// Takes note of updates that need their node, of allocations that they still apply to.
    fn note_updates(&mut self, updates: &Updates) {
        let (state, job) = (self.state, self.job);
        let allocs = updates.ids.0.iter().filter_map(|id| state.alloc(*id));
        for alloc in allocs.filter(|alloc| alloc.job_key() == job) {
            match &updates.change {
                Update::InPlace(common) if !alloc.is_terminal() => {
                    let (shared, cores_mhz) = (common.resources.demand(), alloc.assigned().own_cores_mhz());
                    let (number, node) = self.node_of(alloc);
                    // What is out of sight is told when it is back.
                    node.updates_in_place |= alloc.client_status() != ClientStatus::Unknown;
                    node.added.add(Demand { cpu_mhz: shared.cpu_mhz.saturating_add(cores_mhz), ..shared });
                    let (id, demand) = (alloc.id(), alloc.demand());
                    self.freed.push(Freed { node: number, id, stays: true, demand });
                }
                Update::Unknown { .. } if !alloc.is_terminal() => {
                    let (_, node) = self.node_of(alloc);
                    node.loses_sight = true;
                    node.loses_sight_and_replaces |= is_replaced_meanwhile(alloc);
                }
                Update::Reconnect if !alloc.desired_status().is_terminal() => {
                    self.node_of(alloc).1.reconnects = true;
                }
                // What is only remembered of an allocation needs no node.
                Update::RescheduleLater { .. } | Update::RescheduleFailed => {}
                Update::InPlace(_) | Update::Unknown { .. } | Update::Reconnect => {}
            }
        }
    }

    fn node_of(&mut self, alloc: AllocRef<'_>) -> (u32, &mut NodeUse) {
        let number = self.number_of_slot(alloc.node_slot(), alloc.node_id());
        (number, &mut self.nodes[number as usize])
    }

    /// Takes note of an allocation that makes room, if it still takes any on a node that is looked at.
    fn note_freed(&mut self, id: AllocId, counts: impl Fn(AllocRef<'_>) -> bool) {
        let Some(alloc) = self.state.alloc(id).filter(|alloc| !alloc.is_terminal() && counts(*alloc)) else {
            return;
        };
        if let Some(node) = self.numbers.at(alloc.node_slot()) {
            self.freed.push(Freed { node, id, stays: false, demand: alloc.demand() });
        }
    }

    fn count_freed(&mut self) {
        self.freed.sort_unstable_by_key(|freed| (freed.node, freed.id, freed.stays));
        self.freed.dedup_by_key(|freed| (freed.node, freed.id));
        for freed in &self.freed {
            self.nodes[freed.node as usize].freed.add(freed.demand);
        }
    }

    fn check_all(&mut self, plan: &Plan) {
        for number in 0..self.nodes.len() {
            self.nodes[number].is_rejected = !self.can_take(&self.nodes[number]);
        }
        self.special_rows.sort_unstable();
        let nothing = PackedAssigned::default();
        let mut freed = &self.freed[..];
        for rows in self.special_rows.chunk_by(|a, b| a.0 == b.0) {
            let number = rows[0].0;
            freed = &freed[freed.partition_point(|freed| freed.node < number)..];
            let of_node = &freed[..freed.partition_point(|freed| freed.node == number)];
            let node = &mut self.nodes[number as usize];
            let Some(known) = node.slot.and_then(|slot| self.state.node_at(slot)) else { continue };
            if !node.is_rejected {
                let gone = of_node.iter().filter(|freed| !freed.stays).map(|freed| freed.id);
                let gone: Vec<AllocId> = gone.collect();
                let planned = |(_, placements, row): &(u32, u32, u32)| {
                    let placements = &plan.placements[*placements as usize];
                    special::Row::planned(self.state, placements, *row as usize, &nothing)
                };
                let rows: Vec<_> = rows.iter().map(planned).collect();
                node.is_rejected = !special::fits(self.state, known, &rows, &gone);
            }
        }
    }

    /// Whether the node is in a state to take it, and has room.
    fn can_take(&self, node: &NodeUse) -> bool {
        let page = node.slot.and_then(|slot| self.state.node_page(slot as usize / PAGE).zip(Some(slot)));
        let Some((page, slot)) = page else { return false };
        let place = slot as usize % PAGE;
        if page.ready >> place & 1 != 0 {
            return !node.loses_sight && has_room(page, place, node);
        }
        let Some(known) = self.state.node_at(slot) else { return false };
        let status = known.server().status;
        let needs_ready = node.places || node.updates_in_place;
        let is_right = match status {
            // Not eligible, or draining: what is there may stay as it is.
            NodeStatus::Ready => !node.loses_sight && !node.places,
            // It was heard of since; whether its allocations are lost sight of must be looked at anew.
            NodeStatus::Initializing => !needs_ready && !node.loses_sight,
            NodeStatus::Disconnected => !needs_ready && !node.reconnects,
            NodeStatus::Down => !needs_ready && !node.reconnects && !node.loses_sight_and_replaces,
        };
        is_right && has_room(page, place, node)
    }
}

/// Whether others take the place of an allocation that is out of sight.
fn is_replaced_meanwhile(alloc: AllocRef<'_>) -> bool {
    let disconnect = alloc.group().and_then(|group| group.disconnect.as_ref());
    disconnect.is_none_or(|disconnect| disconnect.replace != Some(false))
}

/// Whether the amounts fit. Of what is there already and does not grow nothing is asked.
fn has_room(page: &NodePage, place: usize, node: &NodeUse) -> bool {
    if is_planted(Bug::OverfillsNodes) {
        return true;
    }
    let (added, freed, used): (_, _, &Usage) = (node.added, node.freed, &page.live);
    let fits = |used: u32, [added, freed]: [u64; 2], capacity: u32| {
        (!node.places && added <= freed) || u64::from(used) + added <= u64::from(capacity) + freed
    };
    let max_allocs = match page.max_allocs[place] {
        0 => u32::MAX,
        max => max,
    };
    fits(used.cpu_mhz[place], [added.cpu_mhz, freed.cpu_mhz], page.cpu_mhz[place])
        && fits(used.memory_mb[place], [added.memory_mb, freed.memory_mb], page.memory_mb[place])
        && fits(used.disk_mb[place], [added.disk_mb, freed.disk_mb], page.disk_mb[place])
        && fits(used.allocs[place], [added.allocs, freed.allocs], max_allocs)
}
