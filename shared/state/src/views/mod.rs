//! Reads of allocations and nodes, which return views of them.

mod refs;
mod small;

use std::ops::RangeBounds;

use model::{AllocId, Index, JobKey, NodeId, Table};

pub use refs::{AllocRef, NodeRef};

use crate::tables::State;

impl State {
    /// An allocation.
    pub fn alloc(&self, id: AllocId) -> Option<AllocRef<'_>> {
        self.assert_in_scope(Table::Allocs);
        self.allocs.slot(id).map(|slot| self.alloc_at(slot))
    }

    /// All allocations, in no defined order.
    pub fn allocs(&self) -> impl DoubleEndedIterator<Item = AllocRef<'_>> {
        self.assert_in_scope(Table::Allocs);
        self.allocs.iter().map(|slot| self.alloc_at(slot))
    }

    /// The allocations with ids in `range`, by id.
    pub fn allocs_in(
        &self,
        range: impl RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = AllocRef<'_>> {
        self.assert_lists_in_scope();
        self.allocs.range(range).map(|slot| self.alloc_at(slot))
    }

    /// Allocations by create index, then id.
    pub fn allocs_by_creation(
        &self,
        range: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = AllocRef<'_>> {
        self.assert_lists_in_scope();
        self.allocs.by_creation(range).map(|slot| self.alloc_at(slot))
    }

    /// A job's allocations of all incarnations, including terminal ones, in no defined order.
    pub fn allocs_of_job<'a>(
        &'a self,
        job: &JobKey,
    ) -> impl ExactSizeIterator<Item = AllocRef<'a>> + use<'a> {
        self.assert_in_scope(Table::Allocs);
        self.allocs.of_job(job).iter().map(|slot| self.alloc_at(*slot))
    }

    /// The allocations on a node, which may have been deleted.
    pub fn allocs_of_node(&self, node: NodeId) -> impl ExactSizeIterator<Item = AllocRef<'_>> {
        self.assert_in_scope(Table::Allocs);
        let slots = self.nodes.slot(node).map_or(&[][..], |slot| self.nodes.allocs(slot));
        slots.iter().map(|slot| self.alloc_at(*slot))
    }

    /// The allocation in a slot.
    pub(crate) fn alloc_at(&self, slot: u32) -> AllocRef<'_> {
        AllocRef::new(self, self.allocs.row(slot))
    }

    /// The allocations on the node in a slot.
    pub(crate) fn allocs_at(&self, node: u32) -> impl ExactSizeIterator<Item = AllocRef<'_>> {
        self.nodes.allocs(node).iter().map(|slot| self.alloc_at(*slot))
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> Option<NodeRef<'_>> {
        self.assert_in_scope(Table::Nodes);
        self.nodes.get(id).map(|(slot, node)| NodeRef::new(self, slot, node))
    }

    /// All nodes by id.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = NodeRef<'_>> {
        self.assert_in_scope(Table::Nodes);
        self.nodes.iter().map(|(slot, node)| NodeRef::new(self, slot, node))
    }

    /// The nodes with ids in `range`, by id.
    pub fn nodes_in(&self, range: impl RangeBounds<NodeId>) -> impl DoubleEndedIterator<Item = NodeRef<'_>> {
        self.assert_in_scope(Table::Nodes);
        self.nodes.range(range).map(|(slot, node)| NodeRef::new(self, slot, node))
    }

    /// The node in a slot.
    pub fn node_at(&self, slot: u32) -> Option<NodeRef<'_>> {
        self.nodes.node(slot).map(|node| NodeRef::new(self, slot, node))
    }
}
