//! The nodes: their records, the columns that schedulers scan, and which allocations are on which.

mod kind;
mod page;
mod ports;
mod view;

use std::sync::Arc;

use model::alloc::{Demand, PackedAssigned};
use model::change::NodesChanged;
use model::node::{EVENTS_MAX, Node, NodeServerSide};
use model::{Index, NodeId, Text};

pub use page::{NodePage, PAGE, Registered, Usage};
pub use ports::{NodePorts, View};
pub use view::NodeRef;

use crate::btree::BTree;
use crate::chunked::Chunked;
use crate::names::Names;
use crate::slots::SlotSet;
use crate::stamp::Stamp;

/// What an allocation takes of its node, and from whose point of view.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Footprint<'a> {
    pub(crate) demand: Demand,
    pub(crate) held: bool,
    pub(crate) live: bool,
    /// The common resources and its own part of them, if it has ports, devices or cores.
    pub(crate) special: Option<Special<'a>>,
}

/// Resources that are more than amounts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Special<'a> {
    pub(crate) resources: &'a model::alloc::AllocatedResources,
    pub(crate) assigned: &'a PackedAssigned,
}

/// Allocations that a node may soon have: somebody has planned them, and nobody taken the plan yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The node.
    pub node: NodeId,
    /// Its place in [`State::node_pages`](crate::State::node_pages).
    pub slot: u32,
    /// How many there are.
    pub allocs: u32,
    /// What they take together.
    pub demand: Demand,
}

/// A row of the table.
#[derive(Debug, Clone)]
enum Slot {
    /// Nothing; the number of the next such row.
    Free(Option<u32>),
    /// A node that is gone, or was never heard of, but still has allocations.
    Gone { id: NodeId, name: Text },
    /// A node.
    Known(Arc<Node>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTable {
    slots: Chunked<Slot>,
    free: Option<u32>,
    known: usize,
    by_id: BTree<NodeId, u32>,
    pages: Chunked<Arc<NodePage>>,
    allocs: Chunked<SlotSet>,
    ports: Chunked<Option<Arc<NodePorts>>>,
    pub(crate) classes: Names,
    pub(crate) datacenters: Names,
    pub(crate) pools: Names,
    pub(crate) kinds: Names,
}

impl NodeTable {
    pub(crate) fn len(&self) -> usize {
        self.known
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<(u32, &Arc<Node>)> {
        let slot = *self.by_id.get(&id)?;
        self.node(slot).map(|node| (slot, node))
    }

    pub(crate) fn slot(&self, id: NodeId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn node(&self, slot: u32) -> Option<&Arc<Node>> {
        match self.slots.get(slot as usize)? {
            Slot::Known(node) => Some(node),
            Slot::Free(_) | Slot::Gone { .. } => None,
        }
    }

    /// Id and name of the node in a row, also when it is gone.
    pub(crate) fn ident(&self, slot: u32) -> (NodeId, &Text) {
        match &self.slots[slot as usize] {
            Slot::Known(node) => (node.id, &node.spec.name),
            Slot::Gone { id, name } => (*id, name),
            Slot::Free(_) => unreachable!("an allocation's node keeps its row"),
        }
    }

    /// The nodes by id.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &Arc<Node>)> {
        self.by_id.values().filter_map(|slot| self.node(*slot).map(|node| (*slot, node)))
    }

    /// The nodes whose ids lie in a range, by id.
    pub(crate) fn range(
        &self,
        range: impl std::ops::RangeBounds<NodeId>,
    ) -> impl DoubleEndedIterator<Item = (u32, &Arc<Node>)> {
        self.by_id.range(range).filter_map(|(_, slot)| self.node(*slot).map(|node| (*slot, node)))
    }

    pub(crate) fn pages(&self) -> impl ExactSizeIterator<Item = &NodePage> {
        self.pages.iter().map(|page| &**page)
    }

    pub(crate) fn page_numbered(&self, number: usize) -> Option<&NodePage> {
        self.pages.get(number).map(|page| &**page)
    }

    pub(crate) fn page(&self, slot: u32) -> (&NodePage, usize) {
        (&self.pages[slot as usize / PAGE], slot as usize % PAGE)
    }

    pub(crate) fn allocs(&self, slot: u32) -> &[u32] {
        self.allocs[slot as usize].as_slice()
    }

    pub(crate) fn ports(&self, slot: u32) -> Option<&NodePorts> {
        self.ports[slot as usize].as_deref()
    }

    pub(crate) fn upsert(&mut self, node: Arc<Node>, stamp: Stamp) {
        let numbers = [
            self.classes.number_for(&node.spec.computed_class),
            self.datacenters.number_for(&node.spec.datacenter),
            self.pools.number_for(&node.spec.node_pool),
            self.kinds.number_for(&kind::kind_of(&node.spec)),
        ];
        let slot = self.slot_for(node.id, &node.spec.name);
        if self.node(slot).is_none() {
            self.known += 1;
            // What work it had when it was last known, nobody remembers: its agent must ask.
            self.touch_work(slot, stamp.index);
        }
        let (page, place) = self.page_mut(slot);
        page.set(place, &node, numbers);
        *self.slot_mut(slot) = Slot::Known(node);
    }

    /// Whether the node is known.
    pub(crate) fn set_server_side(&mut self, id: NodeId, server: &NodeServerSide) -> bool {
        self.edit(id, |current| current.clone_from(server))
    }

    /// Whether the node is known.
    pub(crate) fn change(&mut self, id: NodeId, change: &NodesChanged, stamp: Stamp) -> bool {
        self.edit(id, |server| {
            if let Some(status) = change.status {
                server.status = status;
                server.status_updated_at = stamp.at;
            }
            if let Some(event) = &change.event {
                let surplus = (server.events.len() + 1).saturating_sub(EVENTS_MAX);
                server.events.drain(..surplus);
                server.events.push(event.clone());
            }
            let missed = change.last_missed_heartbeat_index;
            server.last_missed_heartbeat_index = missed.unwrap_or(server.last_missed_heartbeat_index);
            let updated = change.last_alloc_update_index;
            server.last_alloc_update_index = updated.unwrap_or(server.last_alloc_update_index);
            server.modify_index = stamp.index;
        })
    }

    fn edit(&mut self, id: NodeId, edit: impl FnOnce(&mut NodeServerSide)) -> bool {
        let Some(slot) = self.slot(id) else { return false };
        let Slot::Known(node) = self.slot_mut(slot) else { return false };
        edit(&mut Arc::make_mut(node).server);
        let node = Arc::clone(node);
        let (page, place) = self.page_mut(slot);
        page.set_state(place, &node);
        true
    }

    pub(crate) fn delete(&mut self, id: NodeId) {
        let Some((slot, node)) = self.get(id) else { return };
        let gone = Slot::Gone { id, name: Text::clone(&node.spec.name) };
        let (page, place) = self.page_mut(slot);
        page.clear(place);
        *self.slot_mut(slot) = gone;
        self.known -= 1;
        self.free_if_unused(slot);
    }

    /// The row of a node; one that is not known gets a row that only its allocations keep.
    pub(crate) fn slot_for(&mut self, id: NodeId, name: &Text) -> u32 {
        if let Some(slot) = self.slot(id) {
            return slot;
        }
        let gone = Slot::Gone { id, name: Text::clone(name) };
        let slot = match self.free {
            Some(slot) => {
                let Slot::Free(next) = self.slots[slot as usize] else {
                    unreachable!("the list holds free rows")
                };
                self.free = next;
                *self.slot_mut(slot) = gone;
                slot
            }
            None => {
                let slot = self.slots.push(gone);
                self.allocs.push(SlotSet::default());
                self.ports.push(None);
                if slot.is_multiple_of(PAGE) {
                    self.pages.push(Arc::default());
                }
                u32::try_from(slot).expect("`Chunked` has at most u32::MAX rows")
            }
        };
        self.by_id.insert(id, slot);
        slot
    }

    /// The servers changed something of the node's work.
    pub(crate) fn touch_work(&mut self, slot: u32, index: Index) {
        let (page, place) = self.page_mut(slot);
        page.work[place] = page.work[place].max(index);
    }

    /// Counts what a node may soon have as held, unless another node has its place by now.
    pub(crate) fn expect(&mut self, expected: &Expected) {
        let has_place = self.node(expected.slot).is_some_and(|node| node.id == expected.node);
        if has_place {
            let (page, place) = self.page_mut(expected.slot);
            page.held.add_all(place, expected.demand, expected.allocs);
        }
    }

    /// Gives back the row of a node that is gone once it has no allocations.
    fn free_if_unused(&mut self, slot: u32) {
        let Slot::Gone { id, .. } = self.slots[slot as usize] else { return };
        if self.allocs[slot as usize].is_empty() {
            self.by_id.remove(&id);
            let (page, place) = self.page_mut(slot);
            page.work[place] = Index::ZERO;
            let next = self.free.replace(slot);
            *self.slot_mut(slot) = Slot::Free(next);
        }
    }

    /// Puts the allocation in row `alloc` on a node.
    pub(crate) fn attach(&mut self, slot: u32, alloc: u32, footprint: Footprint<'_>) {
        self.allocs.get_mut(slot as usize).expect("the row exists").insert(alloc);
        self.recount(slot, Footprint::default(), footprint);
    }

    /// Takes the allocations in rows `allocs`, ascending and not counted any more, off a node.
    pub(crate) fn detach(&mut self, slot: u32, allocs: &[u32]) {
        self.allocs.get_mut(slot as usize).expect("the row exists").remove_all(allocs);
        self.free_if_unused(slot);
    }

    /// Counts an allocation's resources anew.
    pub(crate) fn recount(&mut self, slot: u32, before: Footprint<'_>, after: Footprint<'_>) {
        let counted = |footprint: &Footprint<'_>| {
            (footprint.held, footprint.live, footprint.demand, footprint.special.is_some())
        };
        if counted(&before) != counted(&after) {
            let (page, place) = self.page_mut(slot);
            for (footprint, sign) in [(&before, false), (&after, true)] {
                let change: fn(&mut Usage, usize, Demand) = if sign { Usage::add } else { Usage::take };
                if footprint.held {
                    change(&mut page.held, place, footprint.demand);
                    if footprint.special.is_some() {
                        page.count_special(place, sign);
                    }
                }
                if footprint.live {
                    change(&mut page.live, place, footprint.demand);
                }
            }
        }
        if before.special.is_some() || after.special.is_some() {
            self.recount_ports(slot, before, after);
        }
    }

    fn recount_ports(&mut self, slot: u32, before: Footprint<'_>, after: Footprint<'_>) {
        let ports = self.ports.get_mut(slot as usize).expect("the row exists");
        let counted = Arc::make_mut(ports.get_or_insert_default());
        for (footprint, sign) in [(before, -1), (after, 1)] {
            let Some(Special { resources, assigned }) = footprint.special else { continue };
            for (address, port) in resources.host_ports(assigned) {
                let (held, live) = (i32::from(footprint.held) * sign, i32::from(footprint.live) * sign);
                counted.count(address, port, held, live);
            }
        }
        if counted.is_empty() {
            *ports = None;
        }
    }

    fn page_mut(&mut self, slot: u32) -> (&mut NodePage, usize) {
        let page = self.pages.get_mut(slot as usize / PAGE).expect("every row has a page");
        (Arc::make_mut(page), slot as usize % PAGE)
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        self.slots.get_mut(slot as usize).expect("the row exists")
    }
}
