//! [`NodePage`]: 64 nodes in columns, which schedulers scan.

use std::ops::Deref;
use std::sync::Arc;

use model::alloc::Demand;
use model::node::{Node, NodeStatus, PortRanges};
use model::{Index, NodeId};

use super::View;

/// Number of nodes per page. It is the number of bits of a `u64`, so that a set of nodes in a page is one integer.
pub const PAGE: usize = u64::BITS as usize;

/// The resources that the allocations of each node use, one column per resource.
#[derive(Debug, Clone)]
pub struct Usage {
    /// Processor capacity in MHz.
    pub cpu_mhz: [u32; PAGE],
    /// Memory in MB.
    pub memory_mb: [u32; PAGE],
    /// Disk space in MB.
    pub disk_mb: [u32; PAGE],
    /// Number of allocations.
    pub allocs: [u32; PAGE],
    /// Number of allocations on all nodes of the page.
    total: u32,
}

/// The columns of 64 nodes. The slot of a node is its page number times 64, plus its bit in the page.
///
/// A bit without a node is not set in [`NodePage::known`], and its values are zero. A deleted node that still has
/// allocations is not known either, but its allocations stay counted ([`NodePage::held`], [`NodePage::live`],
/// [`NodePage::special`], [`NodePage::work`]).
///
/// Amounts are added and subtracted modulo 2³², which is exact as long as the allocations on a node use less than four
/// million GHz and four million GB.
#[derive(Debug, Clone)]
pub struct NodePage {
    /// Set of bits that have a node.
    pub known: u64,
    /// Nodes that accept new allocations: ready, not draining, eligible (N-1.3).
    pub ready: u64,
    /// Nodes that are down.
    pub down: u64,
    /// Nodes that are disconnected.
    pub disconnected: u64,
    /// Nodes that are draining.
    pub draining: u64,
    /// Nodes that have allocations with ports, devices or cores.
    pub special: u64,
    /// Nodes with an invalid list of reserved ports.
    pub invalid_ports: u64,
    /// Resources of allocations that are not client-terminal, which schedulers count.
    pub held: Usage,
    /// Resources of allocations that are neither client-terminal nor server-terminal, which the applier counts.
    pub live: Usage,
    /// Work index: the last index at which the servers added, changed or removed an allocation of the node, or at which the
    /// node was added. A deleted node keeps it as long as it has allocations.
    pub work: [Index; PAGE],
    /// Number of allocations with ports, devices or cores.
    pub(super) specials: [u32; PAGE],
    /// Stored separately, because the page is copied whenever an allocation is added or removed, and this is half of it.
    registered: Arc<Registered>,
}

/// The columns of a page that come from the registrations of the nodes. [`NodePage`] dereferences to them.
#[derive(Debug, Clone)]
pub struct Registered {
    /// Node ids.
    pub ids: [NodeId; PAGE],
    /// Processor capacity available to tasks, in MHz.
    pub cpu_mhz: [u32; PAGE],
    /// Memory available to tasks, in MB.
    pub memory_mb: [u32; PAGE],
    /// Disk space available to tasks, in MB.
    pub disk_mb: [u32; PAGE],
    /// Largest number of allocations; 0 is unlimited.
    pub max_allocs: [u32; PAGE],
    /// Numbers of the computed classes, see `State::classes`.
    pub class: [u32; PAGE],
    /// Numbers of the datacenters, see `State::datacenters`.
    pub datacenter: [u32; PAGE],
    /// Numbers of the node pools, see `State::pools_in_use`.
    pub pool: [u32; PAGE],
    /// Numbers of the kinds, less than `State::node_kinds`. Nodes of one kind have the same class, datacenter, pool and
    /// networks and the same health of drivers. They differ only in what is unique to a node.
    pub kind: [u32; PAGE],
    is_even: bool,
}

impl Deref for NodePage {
    type Target = Registered;

    fn deref(&self) -> &Registered {
        &self.registered
    }
}

impl Default for Usage {
    fn default() -> Self {
        Self { cpu_mhz: [0; PAGE], memory_mb: [0; PAGE], disk_mb: [0; PAGE], allocs: [0; PAGE], total: 0 }
    }
}

impl Default for NodePage {
    fn default() -> Self {
        Self {
            known: 0,
            ready: 0,
            down: 0,
            disconnected: 0,
            draining: 0,
            special: 0,
            invalid_ports: 0,
            held: Usage::default(),
            live: Usage::default(),
            work: [Index::ZERO; PAGE],
            specials: [0; PAGE],
            registered: Arc::default(),
        }
    }
}

impl Default for Registered {
    fn default() -> Self {
        Self {
            ids: [NodeId::from_bytes([0; 16]); PAGE],
            cpu_mhz: [0; PAGE],
            memory_mb: [0; PAGE],
            disk_mb: [0; PAGE],
            max_allocs: [0; PAGE],
            class: [0; PAGE],
            datacenter: [0; PAGE],
            pool: [0; PAGE],
            kind: [0; PAGE],
            is_even: true,
        }
    }
}

impl NodePage {
    /// The resources that the allocations of each node use.
    pub fn usage(&self, view: View) -> &Usage {
        match view {
            View::Held => &self.held,
            View::Live => &self.live,
        }
    }

    /// The resources of one node that are available to tasks.
    pub fn capacity(&self, bit: usize) -> Demand {
        Demand { cpu_mhz: self.cpu_mhz[bit], memory_mb: self.memory_mb[bit], disk_mb: self.disk_mb[bit] }
    }

    pub(super) fn set(&mut self, bit: usize, node: &Node, [class, datacenter, pool, kind]: [u32; 4]) {
        let capacity = node.spec.capacity();
        self.known |= 1 << bit;
        self.set_state(bit, node);
        let mut lists = node.spec.reserved_port_lists();
        set_bit(&mut self.invalid_ports, bit, lists.any(|list| PortRanges::read(list).is_none()));
        let registered = Arc::make_mut(&mut self.registered);
        registered.max_allocs[bit] = node.spec.max_allocs;
        registered.ids[bit] = node.id;
        registered.cpu_mhz[bit] = capacity.cpu_mhz;
        registered.memory_mb[bit] = capacity.memory_mb;
        registered.disk_mb[bit] = capacity.disk_mb;
        registered.class[bit] = class;
        registered.datacenter[bit] = datacenter;
        registered.pool[bit] = pool;
        registered.kind[bit] = kind;
        registered.update_is_even();
    }

    /// Updates the sets that depend on the server side of a node.
    pub(super) fn set_state(&mut self, bit: usize, node: &Node) {
        let status = node.server.status;
        for (set, value) in [
            (&mut self.ready, node.is_ready()),
            (&mut self.down, status == NodeStatus::Down),
            (&mut self.disconnected, status == NodeStatus::Disconnected),
            (&mut self.draining, node.server.drain.is_some()),
        ] {
            set_bit(set, bit, value);
        }
    }

    /// Removes a node. Its allocations stay counted, because the node may register again.
    pub(super) fn clear(&mut self, bit: usize) {
        for set in [
            &mut self.known,
            &mut self.ready,
            &mut self.down,
            &mut self.disconnected,
            &mut self.draining,
            &mut self.invalid_ports,
        ] {
            set_bit(set, bit, false);
        }
        Arc::make_mut(&mut self.registered).clear(bit);
    }

    pub(super) fn count_special(&mut self, bit: usize, add: bool) {
        let specials = &mut self.specials[bit];
        *specials = if add { *specials + 1 } else { *specials - 1 };
        let any = *specials > 0;
        set_bit(&mut self.special, bit, any);
    }
}

impl Registered {
    /// Whether all 64 bits, including those without a node, have the same resources and the same limit of allocations.
    pub fn is_even(&self) -> bool {
        self.is_even
    }

    fn update_is_even(&mut self) {
        let is_even = |column: &[u32; PAGE]| column.iter().all(|value| *value == column[0]);
        self.is_even =
            [&self.cpu_mhz, &self.memory_mb, &self.disk_mb, &self.max_allocs].into_iter().all(is_even);
    }

    fn clear(&mut self, bit: usize) {
        self.ids[bit] = NodeId::from_bytes([0; 16]);
        for column in [
            &mut self.cpu_mhz,
            &mut self.memory_mb,
            &mut self.disk_mb,
            &mut self.class,
            &mut self.datacenter,
            &mut self.pool,
            &mut self.kind,
            &mut self.max_allocs,
        ] {
            column[bit] = 0;
        }
        self.update_is_even();
    }
}

fn set_bit(set: &mut u64, bit: usize, value: bool) {
    *set = *set & !(1 << bit) | u64::from(value) << bit;
}

impl Usage {
    /// The resources that the allocations of one node use.
    pub fn at(&self, bit: usize) -> Demand {
        Demand { cpu_mhz: self.cpu_mhz[bit], memory_mb: self.memory_mb[bit], disk_mb: self.disk_mb[bit] }
    }

    /// Whether no node of the page has allocations.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Adds one allocation.
    pub fn add(&mut self, bit: usize, demand: Demand) {
        self.add_all(bit, demand, 1);
    }

    /// Adds several allocations, with the sum of their resources.
    pub(super) fn add_all(&mut self, bit: usize, demand: Demand, allocs: u32) {
        self.cpu_mhz[bit] = self.cpu_mhz[bit].wrapping_add(demand.cpu_mhz);
        self.memory_mb[bit] = self.memory_mb[bit].wrapping_add(demand.memory_mb);
        self.disk_mb[bit] = self.disk_mb[bit].wrapping_add(demand.disk_mb);
        self.allocs[bit] += allocs;
        self.total += allocs;
    }

    /// Removes one allocation, which was added before.
    pub fn take(&mut self, bit: usize, demand: Demand) {
        self.cpu_mhz[bit] = self.cpu_mhz[bit].wrapping_sub(demand.cpu_mhz);
        self.memory_mb[bit] = self.memory_mb[bit].wrapping_sub(demand.memory_mb);
        self.disk_mb[bit] = self.disk_mb[bit].wrapping_sub(demand.disk_mb);
        self.allocs[bit] -= 1;
        self.total -= 1;
    }
}
