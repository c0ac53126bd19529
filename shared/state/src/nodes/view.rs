//! A node as readers see it: its record together with its place in the columns.

use std::fmt;
use std::sync::Arc;

use model::alloc::Demand;
use model::node::{Node, NodeServerSide, NodeSpec};
use model::{Index, NodeId};

use super::{NodePage, NodePorts, View};
use crate::State;
use crate::allocs::AllocRef;

/// A view of one node. Copying it is free; it lives as long as the snapshot that it looks into.
#[derive(Clone, Copy)]
pub struct NodeRef<'a> {
    state: &'a State,
    slot: u32,
    node: &'a Arc<Node>,
}

impl<'a> NodeRef<'a> {
    pub(crate) fn new(state: &'a State, slot: u32, node: &'a Arc<Node>) -> Self {
        Self { state, slot, node }
    }

    /// Its id.
    pub fn id(self) -> NodeId {
        self.node.id
    }

    /// The number of its place in [`State::node_pages`]: page times 64, plus the place.
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// All of it.
    pub fn node(self) -> &'a Arc<Node> {
        self.node
    }

    /// What its agent registered.
    pub fn spec(self) -> &'a NodeSpec {
        &self.node.spec
    }

    /// What the servers know of it.
    pub fn server(self) -> &'a NodeServerSide {
        &self.node.server
    }

    /// Whether it may get new work.
    pub fn is_ready(self) -> bool {
        let (page, place) = self.page();
        page.ready >> place & 1 != 0
    }

    /// Its place in the columns: the page, and the place in it.
    pub fn page(self) -> (&'a NodePage, usize) {
        self.state.nodes.page(self.slot)
    }

    /// The last index at which the servers added, changed or took away one of its allocations, or at which it became
    /// known (N-6.2).
    pub fn work_index(self) -> Index {
        let (page, place) = self.page();
        page.work[place]
    }

    /// What tasks can have of it.
    pub fn capacity(self) -> Demand {
        let (page, place) = self.page();
        page.capacity(place)
    }

    /// What its allocations take.
    pub fn usage(self, view: View) -> Demand {
        let (page, place) = self.page();
        page.usage(view).at(place)
    }

    /// The ports that its allocations hold; `None` when there are none.
    pub fn ports(self) -> Option<&'a NodePorts> {
        self.state.nodes.ports(self.slot)
    }

    /// Its allocations, the finished ones too.
    pub fn allocs(self) -> impl ExactSizeIterator<Item = AllocRef<'a>> {
        self.state.allocs_at(self.slot)
    }
}

impl fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}
