//! Nodes in columns, 64 to a page: what a scheduler scans.

use std::ops::Deref;
use std::sync::Arc;

use model::alloc::Demand;
use model::node::{Node, NodeStatus, PortRanges};
use model::{Index, NodeId};

use super::View;

/// How many nodes stand in one page: as many as an integer has bits, so that a set of them is one.
pub const PAGE: usize = u64::BITS as usize;

/// Amounts that the allocations of each node take, a column each.
#[derive(Debug, Clone)]
pub struct Usage {
    /// In MHz.
    pub cpu_mhz: [u32; PAGE],
    /// In MB.
    pub memory_mb: [u32; PAGE],
    /// In MB.
    pub disk_mb: [u32; PAGE],
    /// How many allocations there are.
    pub allocs: [u32; PAGE],
    /// The same of all nodes together.
    total: u32,
}

/// Sixty-four nodes side by side. A place without a node has no bit in [`NodePage::known`], and zeros; only what a node
/// that is gone still has in allocations stays counted ([`NodePage::held`], [`NodePage::live`], [`NodePage::special`],
/// [`NodePage::work`]).
///
/// Amounts are added and taken away modulo 2³², which is exact as long as what is on a node at one time stays below
/// four million GHz and four million GB.
#[derive(Debug, Clone)]
pub struct NodePage {
    /// Which places hold a node.
    pub known: u64,
    /// Which of them may get new work: ready, not draining, eligible (N-1.3).
    pub ready: u64,
    /// Which of them are gone, so that their allocations are lost.
    pub down: u64,
    /// Which of them are not heard of.
    pub disconnected: u64,
    /// Which of them are being emptied.
    pub draining: u64,
    /// Which of them have allocations with ports, devices or cores of their own.
    pub special: u64,
    /// Which of them keep ports for themselves in a list that nobody can read.
    pub garbled_ports: u64,
    /// What allocations hold that are not client-terminal; what schedulers count.
    pub held: Usage,
    /// What those of them take that are not server-terminal either; what the applier counts.
    pub live: Usage,
    /// The last index at which the servers added, changed or took away one of its allocations, or at which it became
    /// known; stays while the node is away.
    pub work: [Index; PAGE],
    pub(super) specials: [u32; PAGE],
    /// Apart, because a page is copied whenever an allocation comes or goes, and this is half of it.
    registered: Arc<Registered>,
}

/// What a page knows of its nodes from their registrations. Reads as part of [`NodePage`].
#[derive(Debug, Clone)]
pub struct Registered {
    /// Their ids.
    pub ids: [NodeId; PAGE],
    /// Compute for tasks, in MHz.
    pub cpu_mhz: [u32; PAGE],
    /// Memory for tasks, in MB.
    pub memory_mb: [u32; PAGE],
    /// Disk for tasks, in MB.
    pub disk_mb: [u32; PAGE],
    /// How many allocations each takes; 0 is any number.
    pub max_allocs: [u32; PAGE],
    /// Numbers of their computed classes, see `State::classes`.
    pub class: [u32; PAGE],
    /// Numbers of their datacenters, see `State::datacenters`.
    pub datacenter: [u32; PAGE],
    /// Numbers of their node pools, see `State::pools_in_use`.
    pub pool: [u32; PAGE],
    /// Numbers of their kinds: nodes of one kind can be told apart only by what is unique to them (class, datacenter, pool,
    /// networks and the health of drivers are the same). Below `State::node_kinds`.
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
            garbled_ports: 0,
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
    /// What the allocations on a place take.
    pub fn usage(&self, view: View) -> &Usage {
        match view {
            View::Held => &self.held,
            View::Live => &self.live,
        }
    }

    /// What tasks can have of the node on a place.
    pub fn capacity(&self, place: usize) -> Demand {
        Demand {
            cpu_mhz: self.cpu_mhz[place],
            memory_mb: self.memory_mb[place],
            disk_mb: self.disk_mb[place],
        }
    }

    pub(super) fn set(&mut self, place: usize, node: &Node, [class, datacenter, pool, kind]: [u32; 4]) {
        let capacity = node.spec.capacity();
        self.known |= 1 << place;
        self.set_state(place, node);
        let mut lists = node.spec.reserved_port_lists();
        set_bit(&mut self.garbled_ports, place, lists.any(|list| PortRanges::read(list).is_none()));
        let registered = Arc::make_mut(&mut self.registered);
        registered.max_allocs[place] = node.spec.max_allocs;
        registered.ids[place] = node.id;
        registered.cpu_mhz[place] = capacity.cpu_mhz;
        registered.memory_mb[place] = capacity.memory_mb;
        registered.disk_mb[place] = capacity.disk_mb;
        registered.class[place] = class;
        registered.datacenter[place] = datacenter;
        registered.pool[place] = pool;
        registered.kind[place] = kind;
        registered.compare();
    }

    /// Takes over what the servers know of the node.
    pub(super) fn set_state(&mut self, place: usize, node: &Node) {
        let status = node.server.status;
        for (set, is) in [
            (&mut self.ready, node.is_ready()),
            (&mut self.down, status == NodeStatus::Down),
            (&mut self.disconnected, status == NodeStatus::Disconnected),
            (&mut self.draining, node.server.drain.is_some()),
        ] {
            set_bit(set, place, is);
        }
    }

    /// Forgets the node. What is still allocated on it stays counted, for it may come back.
    pub(super) fn clear(&mut self, place: usize) {
        for set in [
            &mut self.known,
            &mut self.ready,
            &mut self.down,
            &mut self.disconnected,
            &mut self.draining,
            &mut self.garbled_ports,
        ] {
            set_bit(set, place, false);
        }
        Arc::make_mut(&mut self.registered).clear(place);
    }

    pub(super) fn count_special(&mut self, place: usize, more: bool) {
        let specials = &mut self.specials[place];
        *specials = if more { *specials + 1 } else { *specials - 1 };
        let any = *specials > 0;
        set_bit(&mut self.special, place, any);
    }
}

impl Registered {
    /// Whether all places take the same amounts, and as many allocations.
    pub fn is_even(&self) -> bool {
        self.is_even
    }

    fn compare(&mut self) {
        let is_even = |column: &[u32; PAGE]| column.iter().all(|value| *value == column[0]);
        self.is_even =
            [&self.cpu_mhz, &self.memory_mb, &self.disk_mb, &self.max_allocs].into_iter().all(is_even);
    }

    fn clear(&mut self, place: usize) {
        self.ids[place] = NodeId::from_bytes([0; 16]);
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
            column[place] = 0;
        }
        self.compare();
    }
}

fn set_bit(set: &mut u64, place: usize, is: bool) {
    *set = *set & !(1 << place) | u64::from(is) << place;
}

impl Usage {
    /// What one node's allocations take.
    pub fn at(&self, place: usize) -> Demand {
        Demand {
            cpu_mhz: self.cpu_mhz[place],
            memory_mb: self.memory_mb[place],
            disk_mb: self.disk_mb[place],
        }
    }

    /// Whether nothing is in use on any of the nodes.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// Counts one allocation more.
    pub fn add(&mut self, place: usize, demand: Demand) {
        self.add_all(place, demand, 1);
    }

    /// Counts several allocations more, with what they take together.
    pub(super) fn add_all(&mut self, place: usize, demand: Demand, allocs: u32) {
        self.cpu_mhz[place] = self.cpu_mhz[place].wrapping_add(demand.cpu_mhz);
        self.memory_mb[place] = self.memory_mb[place].wrapping_add(demand.memory_mb);
        self.disk_mb[place] = self.disk_mb[place].wrapping_add(demand.disk_mb);
        self.allocs[place] += allocs;
        self.total += allocs;
    }

    /// Counts one less, which was counted.
    pub fn take(&mut self, place: usize, demand: Demand) {
        self.cpu_mhz[place] = self.cpu_mhz[place].wrapping_sub(demand.cpu_mhz);
        self.memory_mb[place] = self.memory_mb[place].wrapping_sub(demand.memory_mb);
        self.disk_mb[place] = self.disk_mb[place].wrapping_sub(demand.disk_mb);
        self.allocs[place] -= 1;
        self.total -= 1;
    }
}
