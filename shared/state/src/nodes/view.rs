//! [`NodeRef`]: a read-only view of a node, with its columns, ports and allocations.

use std::fmt;
use std::sync::Arc;

use model::alloc::Demand;
use model::node::{Node, NodeServerSide, NodeSpec};
use model::{Index, NodeId};

use super::{NodePage, NodePorts, View};
use crate::State;
use crate::allocs::AllocRef;

/// A view of one node in a snapshot. Copying it is cheap.
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

    /// Its slot in [`State::node_pages`]: page number times 64, plus the bit in the page.
    pub fn slot(self) -> u32 {
        self.slot
    }

    /// The complete node.
    pub fn node(self) -> &'a Arc<Node> {
        self.node
    }

    /// The part that its agent registered.
    pub fn spec(self) -> &'a NodeSpec {
        &self.node.spec
    }

    /// The part that the servers maintain.
    pub fn server(self) -> &'a NodeServerSide {
        &self.node.server
    }

    /// Whether it accepts new allocations.
    pub fn is_ready(self) -> bool {
        let (page, bit) = self.page();
        page.ready >> bit & 1 != 0
    }

    /// Its page, and its bit in the page.
    pub fn page(self) -> (&'a NodePage, usize) {
        self.state.nodes.page(self.slot)
    }

    /// The last index at which the servers added, changed or removed one of its allocations, or at which the node was added
    /// (N-6.2).
    pub fn work_index(self) -> Index {
        let (page, bit) = self.page();
        page.work[bit]
    }

    /// Its resources available to tasks.
    pub fn capacity(self) -> Demand {
        let (page, bit) = self.page();
        page.capacity(bit)
    }

    /// The resources that its allocations use.
    pub fn usage(self, view: View) -> Demand {
        let (page, bit) = self.page();
        page.usage(view).at(bit)
    }

    /// The ports that its allocations use; `None` if there are none.
    pub fn ports(self) -> Option<&'a NodePorts> {
        self.state.nodes.ports(self.slot)
    }

    /// Its allocations, including terminal ones.
    pub fn allocs(self) -> impl ExactSizeIterator<Item = AllocRef<'a>> {
        self.state.allocs_at(self.slot)
    }
}

impl fmt::Debug for NodeRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}
