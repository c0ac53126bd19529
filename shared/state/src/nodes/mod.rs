//! [`NodeTable`]: the nodes, the columns that schedulers scan, and the allocations and ports of each node.

mod kind;
mod page;
mod ports;

use std::sync::Arc;

use model::alloc::{Demand, PackedAssigned};
use model::change::NodesChanged;
use model::node::{EVENTS_MAX, Node, NodeServerSide};
use model::{Index, NodeId, Text};

pub use page::{NodePage, PAGE, Registered, Usage};
pub use ports::{NodePorts, View};

use crate::btree::BTree;
use crate::chunked::Chunked;
use crate::names::Names;
use crate::slots::SlotSet;
use crate::stamp::Stamp;

/// The resources of an allocation on its node, and in which views they count.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Footprint<'a> {
    pub(crate) demand: Demand,
    /// Whether they count in [`View::Held`].
    pub(crate) held: bool,
    /// Whether they count in [`View::Live`].
    pub(crate) live: bool,
    /// Its common and assigned resources, if it has ports, devices or cores.
    pub(crate) special: Option<Special<'a>>,
}

/// Resources that are not only amounts: ports, devices and cores.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Special<'a> {
    pub(crate) resources: &'a model::alloc::AllocatedResources,
    pub(crate) assigned: &'a PackedAssigned,
}

/// Allocations of submitted plans on a node, which the snapshot does not include yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The node.
    pub node: NodeId,
    /// Its slot in [`State::node_pages`](crate::State::node_pages).
    pub slot: u32,
    /// Number of the allocations.
    pub allocs: u32,
    /// Sum of their resources.
    pub demand: Demand,
}

/// The content of a slot of the table.
#[derive(Debug, Clone)]
enum Slot {
    /// No node. Vacant slots form a linked list; this is the next one.
    Vacant(Option<u32>),
    /// A node that was deleted, or never registered, but still has allocations.
    Deleted { id: NodeId, name: Text },
    /// A registered node.
    Known(Arc<Node>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct NodeTable {
    slots: Chunked<Slot>,
    next_vacant: Option<u32>,
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
            Slot::Vacant(_) | Slot::Deleted { .. } => None,
        }
    }

    /// Id and name of the node in a slot, including a deleted one.
    pub(crate) fn ident(&self, slot: u32) -> (NodeId, &Text) {
        match &self.slots[slot as usize] {
            Slot::Known(node) => (node.id, &node.spec.name),
            Slot::Deleted { id, name } => (*id, name),
            Slot::Vacant(_) => unreachable!("a node keeps its slot as long as it has allocations"),
        }
    }

    /// All nodes by id.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u32, &Arc<Node>)> {
        self.by_id.values().filter_map(|slot| self.node(*slot).map(|node| (*slot, node)))
    }

    /// The nodes whose ids are in `range`, by id.
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
            self.classes.intern(&node.spec.computed_class),
            self.datacenters.intern(&node.spec.datacenter),
            self.pools.intern(&node.spec.node_pool),
            self.kinds.intern(&kind::kind_of(&node.spec)),
        ];
        let slot = self.slot_for(node.id, &node.spec.name);
        if self.node(slot).is_none() {
            self.known += 1;
            // The work index of an earlier registration is unknown, so the agent must request its work again.
            self.touch_work(slot, stamp.index);
        }
        let (page, bit) = self.page_mut(slot);
        page.set(bit, &node, numbers);
        *self.slot_mut(slot) = Slot::Known(node);
    }

    /// Replaces the server side of a node. Returns false if there is no such node.
    pub(crate) fn set_server_side(&mut self, id: NodeId, server: &NodeServerSide) -> bool {
        self.edit(id, |current| current.clone_from(server))
    }

    /// Applies a change to a node. Returns false if there is no such node.
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
        let (page, bit) = self.page_mut(slot);
        page.set_state(bit, &node);
        true
    }

    pub(crate) fn delete(&mut self, id: NodeId) {
        let Some((slot, node)) = self.get(id) else { return };
        let deleted = Slot::Deleted { id, name: Text::clone(&node.spec.name) };
        let (page, bit) = self.page_mut(slot);
        page.clear(bit);
        *self.slot_mut(slot) = deleted;
        self.known -= 1;
        self.release_if_unused(slot);
    }

    /// The slot of a node. A node that is not registered gets a slot, which it keeps as long as it has allocations.
    pub(crate) fn slot_for(&mut self, id: NodeId, name: &Text) -> u32 {
        if let Some(slot) = self.slot(id) {
            return slot;
        }
        let deleted = Slot::Deleted { id, name: Text::clone(name) };
        let slot = match self.next_vacant {
            Some(slot) => {
                let Slot::Vacant(next) = self.slots[slot as usize] else {
                    unreachable!("the list contains only vacant slots")
                };
                self.next_vacant = next;
                *self.slot_mut(slot) = deleted;
                slot
            }
            None => {
                let slot = self.slots.push(deleted);
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

    /// Sets the work index of a node, because the servers changed its allocations.
    pub(crate) fn touch_work(&mut self, slot: u32, index: Index) {
        let (page, bit) = self.page_mut(slot);
        page.work[bit] = page.work[bit].max(index);
    }

    /// Counts expected allocations in [`View::Held`], unless the slot now belongs to another node.
    pub(crate) fn add_expected(&mut self, expected: &Expected) {
        let is_same_node = self.node(expected.slot).is_some_and(|node| node.id == expected.node);
        if is_same_node {
            let (page, bit) = self.page_mut(expected.slot);
            page.held.add_all(bit, expected.demand, expected.allocs);
        }
    }

    /// Releases the slot of a deleted node if it has no allocations.
    fn release_if_unused(&mut self, slot: u32) {
        let Slot::Deleted { id, .. } = self.slots[slot as usize] else { return };
        if self.allocs[slot as usize].is_empty() {
            self.by_id.remove(&id);
            let (page, bit) = self.page_mut(slot);
            page.work[bit] = Index::ZERO;
            let next = self.next_vacant.replace(slot);
            *self.slot_mut(slot) = Slot::Vacant(next);
        }
    }

    /// Adds the allocation in slot `alloc` to a node, and counts its resources.
    pub(crate) fn attach(&mut self, slot: u32, alloc: u32, footprint: Footprint<'_>) {
        self.allocs.get_mut(slot as usize).expect("every node slot has a set").insert(alloc);
        self.recount(slot, Footprint::default(), footprint);
    }

    /// Removes the allocations in slots `allocs` from a node. The slots are ascending, and their resources are no longer
    /// counted.
    pub(crate) fn detach(&mut self, slot: u32, allocs: &[u32]) {
        self.allocs.get_mut(slot as usize).expect("every node slot has a set").remove_all(allocs);
        self.release_if_unused(slot);
    }

    /// Replaces the counted resources of an allocation.
    pub(crate) fn recount(&mut self, slot: u32, before: Footprint<'_>, after: Footprint<'_>) {
        let counted = |footprint: &Footprint<'_>| {
            (footprint.held, footprint.live, footprint.demand, footprint.special.is_some())
        };
        if counted(&before) != counted(&after) {
            let (page, bit) = self.page_mut(slot);
            for (footprint, add) in [(&before, false), (&after, true)] {
                let change: fn(&mut Usage, usize, Demand) = if add { Usage::add } else { Usage::take };
                if footprint.held {
                    change(&mut page.held, bit, footprint.demand);
                    if footprint.special.is_some() {
                        page.count_special(bit, add);
                    }
                }
                if footprint.live {
                    change(&mut page.live, bit, footprint.demand);
                }
            }
        }
        if before.special.is_some() || after.special.is_some() {
            self.recount_ports(slot, before, after);
        }
    }

    fn recount_ports(&mut self, slot: u32, before: Footprint<'_>, after: Footprint<'_>) {
        let ports = self.ports.get_mut(slot as usize).expect("every node slot has an entry for ports");
        let node_ports = Arc::make_mut(ports.get_or_insert_default());
        for (footprint, sign) in [(before, -1), (after, 1)] {
            let Some(Special { resources, assigned }) = footprint.special else { continue };
            for (address, port) in resources.host_ports(assigned) {
                let (held, live) = (i32::from(footprint.held) * sign, i32::from(footprint.live) * sign);
                node_ports.count(address, port, held, live);
            }
        }
        if node_ports.is_empty() {
            *ports = None;
        }
    }

    fn page_mut(&mut self, slot: u32) -> (&mut NodePage, usize) {
        let page = self.pages.get_mut(slot as usize / PAGE).expect("every node slot has a page");
        (Arc::make_mut(page), slot as usize % PAGE)
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        self.slots.get_mut(slot as usize).expect("the slot exists")
    }
}
