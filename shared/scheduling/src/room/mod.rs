//! Resources in use on each node after the plan's changes so far: amounts, ports, cores and devices, and the
//! allocations that hold them.
//!
//! The initial state is the snapshot's *held* usage (`docs/rules/scheduling.md` ): allocations that the servers
//! have stopped count until their node reports that they ended. Allocations that this plan stops or preempts do not
//! count.

mod cores;
mod devices;
mod offer;
mod ports;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use model::alloc::{AllocatedResources, Assigned, Demand, PackedAssigned};
use model::job::{Job, TaskGroup};
use model::{AllocId, JobKey, Text};
use state::{AllocRef, NodePage, NodeRef, PAGE, State, Usage, View};

use crate::columns::{locate, pack_bits};

use cores::CoreUsage;
use devices::DeviceUsage;
pub(crate) use devices::held as held_devices;
pub(crate) use offer::{Ask, Dimension, Draft, Exhausted, Offer};
use ports::PortUsage;

/// Resources in use on all nodes after the plan's changes so far.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    state: &'a State,
    pub(crate) pages: &'a [&'a NodePage],
    /// Usage by page; `None` until the plan changes it.
    changed: Vec<Option<Box<Usage>>>,
    /// Only of nodes on which the plan takes or frees discrete resources.
    discrete: HashMap<u32, DiscreteUsage>,
    /// Allocations of the snapshot that the plan stops or preempts.
    removed: HashSet<AllocId>,
    /// Allocations that the plan places, of groups with volumes; other groups do not need them.
    planned: HashMap<u32, Vec<PlannedAlloc<'a>>>,
}

/// Ports, cores and devices in use on one node.
#[derive(Debug, Clone)]
pub(crate) struct DiscreteUsage {
    pub(crate) ports: PortUsage,
    pub(crate) cores: CoreUsage,
    pub(crate) devices: DeviceUsage,
}

#[derive(Debug, Clone, Copy)]
struct PlannedAlloc<'a> {
    job: &'a Job,
    group: &'a TaskGroup,
    name_index: u32,
}

/// An allocation on a node: one of the snapshot, or one that the plan places.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeAlloc<'t> {
    pub(crate) job: &'t Job,
    /// `None` if its job does not have the group.
    pub(crate) group: Option<&'t TaskGroup>,
    pub(crate) name_index: u32,
    /// `None` if the plan places it.
    pub(crate) alloc: Option<AllocRef<'t>>,
}

impl NodeAlloc<'_> {
    /// Whether it belongs to a job's group.
    pub(crate) fn is_of(&self, job: &JobKey, group: &Text) -> bool {
        let spec = &self.job.spec;
        spec.id == job.id
            && spec.namespace == job.namespace
            && self.group.is_some_and(|own| own.name == *group)
    }
}

impl DiscreteUsage {
    /// The usage of a node in the snapshot.
    fn of(node: NodeRef<'_>) -> Self {
        let mut discrete =
            Self { ports: PortUsage::of(node), cores: CoreUsage::default(), devices: DeviceUsage::default() };
        for alloc in node.allocs().filter(|alloc| !alloc.client_status().is_terminal()) {
            discrete.ports.count_mbits(&alloc.common().resources, alloc.assigned(), true);
            discrete.count_tasks(alloc, true);
        }
        discrete
    }

    fn count(&mut self, alloc: AllocRef<'_>, more: bool) {
        self.ports.count(&alloc.common().resources, alloc.assigned(), more);
        self.count_tasks(alloc, more);
    }

    fn count_tasks(&mut self, alloc: AllocRef<'_>, more: bool) {
        self.cores.count(cores::held(alloc), more);
        devices::held(alloc).iter().for_each(|device| self.devices.count(device, more));
    }
}

impl<'a> Room<'a> {
    pub(crate) fn of(state: &'a State, pages: &'a [&'a NodePage]) -> Self {
        let changed = vec![None; pages.len()];
        Self {
            state,
            pages,
            changed,
            discrete: HashMap::new(),
            removed: HashSet::new(),
            planned: HashMap::new(),
        }
    }

    /// Amounts in use on the nodes of a page.
    pub(crate) fn used(&self, page: usize) -> &Usage {
        self.changed[page].as_deref().unwrap_or_else(|| self.pages[page].usage(View::Held))
    }

    /// Amounts in use on a node.
    pub(crate) fn used_on(&self, slot: u32) -> Demand {
        let (page, bit) = locate(slot);
        self.used(page).at(bit)
    }

    /// Whether the amounts would fit on a node if nothing else used it.
    pub(crate) fn is_big_enough(&self, slot: u32, ask: Demand) -> bool {
        let (page, bit) = locate(slot);
        let page = self.pages[page];
        ask.cpu_mhz <= page.cpu_mhz[bit]
            && ask.memory_mb <= page.memory_mb[bit]
            && ask.disk_mb <= page.disk_mb[bit]
    }

    /// The first amount of which a node has too little; `None` if all amounts fit.
    #[inline]
    pub(crate) fn shortage(&self, slot: u32, ask: Demand) -> Option<Dimension> {
        let (page, bit) = locate(slot);
        shortage_on(self.pages[page], self.used(page), bit, ask)
    }

    /// All amounts of which a node has too little, each with how much is missing.
    pub(crate) fn shortfalls(&self, slot: u32, ask: Demand) -> impl Iterator<Item = (Dimension, u32)> {
        let (page, bit) = locate(slot);
        let (page, used) = (self.pages[page], self.used(page));
        let most = page.max_allocs[bit];
        let amounts = [
            (
                Dimension::Allocs,
                used.allocs[bit],
                u32::from(most > 0),
                if most > 0 { most } else { u32::MAX },
            ),
            (Dimension::Cpu, used.cpu_mhz[bit], ask.cpu_mhz, page.cpu_mhz[bit]),
            (Dimension::Memory, used.memory_mb[bit], ask.memory_mb, page.memory_mb[bit]),
            (Dimension::Disk, used.disk_mb[bit], ask.disk_mb, page.disk_mb[bit]),
        ];
        amounts.into_iter().filter_map(|(dimension, used, ask, has)| {
            let missing = (u64::from(used) + u64::from(ask)).saturating_sub(u64::from(has));
            (missing > 0).then(|| (dimension, u32::try_from(missing).unwrap_or(u32::MAX)))
        })
    }

    /// The set of nodes of a page on which the amounts fit. With `is_alike`, which says that all nodes of the page are
    /// equal, only one is checked.
    pub(crate) fn fitting(&self, page: usize, ask: Demand, is_alike: bool) -> u64 {
        let (page, used) = (self.pages[page], self.used(page));
        if is_alike {
            return if shortage_on(page, used, 0, ask).is_none() { u64::MAX } else { 0 };
        }
        // One byte for each node at first, so that the comparisons are vectorized.
        let mut fits = [0u8; PAGE];
        for (bit, fits) in fits.iter_mut().enumerate() {
            let most = page.max_allocs[bit];
            let has_slot = (most == 0) | (used.allocs[bit] < most);
            let has_room = has_slot
                & has_room(used.cpu_mhz[bit], ask.cpu_mhz, page.cpu_mhz[bit])
                & has_room(used.memory_mb[bit], ask.memory_mb, page.memory_mb[bit])
                & has_room(used.disk_mb[bit], ask.disk_mb, page.disk_mb[bit]);
            *fits = u8::from(has_room);
        }
        pack_bits(&fits)
    }

    /// Frees what an allocation holds; nothing if the allocation is client-terminal.
    pub(crate) fn release(&mut self, alloc: AllocRef<'_>) {
        if self.removed.insert(alloc.id()) {
            self.recount(alloc, false);
        }
    }

    /// Reverts [`Self::release`].
    pub(crate) fn restore(&mut self, alloc: AllocRef<'_>) {
        if self.removed.remove(&alloc.id()) {
            self.recount(alloc, true);
        }
    }

    /// Whether the plan stops or preempts an allocation.
    pub(crate) fn is_removed(&self, alloc: AllocId) -> bool {
        self.removed.contains(&alloc)
    }

    /// Adds an allocation's amounts to a node.
    pub(crate) fn allocate(&mut self, slot: u32, demand: Demand) {
        self.change(slot, demand, true);
    }

    /// Adds an allocation's assigned ports, cores and devices to a node. `share` is the common share of its group.
    pub(crate) fn allocate_assigned(&mut self, slot: u32, share: &AllocatedResources, got: &Assigned) {
        if got.is_empty() {
            return;
        }
        let packed = PackedAssigned::pack(got);
        let discrete = self.discrete_mut(slot);
        discrete.ports.count(share, &packed, true);
        for task in &got.tasks {
            discrete.cores.count(task.cores.iter().copied(), true);
            task.devices.iter().for_each(|device| discrete.devices.count(device, true));
        }
    }

    /// Records an allocation that the plan places on a node.
    pub(crate) fn add_planned(&mut self, slot: u32, job: &'a Job, group: &'a TaskGroup, name_index: u32) {
        self.planned.entry(slot).or_default().push(PlannedAlloc { job, group, name_index });
    }

    /// The offer of a node for an allocation, or the resource that is exhausted.
    pub(crate) fn offer(&self, slot: u32, ask: &Ask<'_>, id: AllocId) -> Result<Offer, Exhausted> {
        if ask.is_plain() && self.is_decided_by_amounts(slot) {
            // The common case. It does not read the node's registration, which is probably not in the cache.
            return match self.shortage(slot, ask.demand) {
                Some(dimension) => Err(Exhausted(dimension.as_str().into())),
                None => Ok(Offer { assigned: Assigned::default(), demand: ask.demand, devices: None }),
            };
        }
        self.draft(slot, id).make(ask)
    }

    /// Whether amounts alone decide if a node has room for an allocation that asks for nothing else.
    pub(crate) fn is_decided_by_amounts(&self, slot: u32) -> bool {
        let (page, bit) = locate(slot);
        let is_simple = (self.pages[page].invalid_ports | self.pages[page].special) >> bit & 1 == 0;
        !self.discrete.contains_key(&slot) && (is_simple || self.is_in_order(slot))
    }

    /// Whether a node with special resources or port lists can be checked by amounts alone, because nothing there is
    /// held twice.
    fn is_in_order(&self, slot: u32) -> bool {
        let node = self.node(slot);
        let collides = node.ports().is_some_and(|ports| ports.collisions(View::Held).next().is_some());
        !collides
            && ports::has_readable_lists(node)
            && node.allocs().all(|alloc| !alloc.assigned().has_tasks())
    }

    /// An offer of a node that is being built.
    pub(crate) fn draft(&self, slot: u32, id: AllocId) -> Draft<'_> {
        let node = self.node(slot);
        let (page, bit) = locate(slot);
        let used = (self.used(page).at(bit), self.used(page).allocs[bit]);
        let discrete =
            self.discrete.get(&slot).map_or_else(|| Cow::Owned(DiscreteUsage::of(node)), Cow::Borrowed);
        Draft::new(node, discrete, used, id)
    }

    /// The allocations that count on a node.
    pub(crate) fn node_allocs(&self, slot: u32) -> impl Iterator<Item = NodeAlloc<'_>> {
        let stored_allocs = self.stored_allocs(slot).map(|alloc| NodeAlloc {
            job: alloc.job(),
            group: alloc.group(),
            name_index: alloc.name_index().unwrap_or(0),
            alloc: Some(alloc),
        });
        let new = self.planned.get(&slot).into_iter().flatten().map(|alloc| NodeAlloc {
            job: alloc.job,
            group: Some(alloc.group),
            name_index: alloc.name_index,
            alloc: None,
        });
        stored_allocs.chain(new)
    }

    /// The snapshot's allocations that count on a node.
    pub(crate) fn stored_allocs(&self, slot: u32) -> impl Iterator<Item = AllocRef<'a>> {
        let allocs = self.state.node_at(slot).into_iter().flat_map(NodeRef::allocs);
        // Removing an allocation changes its page, unless the allocation is terminal.
        let may_be_removed = self.changed[locate(slot).0].is_some();
        allocs.filter(move |alloc| {
            let is_removed = || may_be_removed && self.is_removed(alloc.id());
            !alloc.client_status().is_terminal() && !is_removed()
        })
    }

    /// The node in a slot.
    pub(crate) fn node(&self, slot: u32) -> NodeRef<'a> {
        self.state.node_at(slot).expect("callers pass slots of existing nodes only")
    }

    fn recount(&mut self, alloc: AllocRef<'_>, stays: bool) {
        if alloc.client_status().is_terminal() {
            return;
        }
        let slot = alloc.node_slot();
        self.change(slot, alloc.demand(), stays);
        let is_special = alloc.common().resources.has_networks() || alloc.assigned().has_tasks();
        // Discrete resources of a deleted node do not matter.
        if is_special && alloc.node().is_some() {
            self.discrete_mut(slot).count(alloc, stays);
        }
    }

    fn change(&mut self, slot: u32, demand: Demand, more: bool) {
        let (page, bit) = locate(slot);
        let snapshot = self.pages[page].usage(View::Held);
        let used = self.changed[page].get_or_insert_with(|| Box::new(snapshot.clone()));
        if more { used.add(bit, demand) } else { used.take(bit, demand) }
    }

    fn discrete_mut(&mut self, slot: u32) -> &mut DiscreteUsage {
        let node = self.node(slot);
        self.discrete.entry(slot).or_insert_with(|| DiscreteUsage::of(node))
    }
}

#[inline(always)]
fn has_room(used: u32, ask: u32, has: u32) -> bool {
    (used <= has) & (ask <= has.wrapping_sub(used))
}

#[inline(always)]
fn shortage_on(page: &NodePage, used: &Usage, bit: usize, ask: Demand) -> Option<Dimension> {
    let most = page.max_allocs[bit];
    if most > 0 && used.allocs[bit] >= most {
        Some(Dimension::Allocs)
    } else if !has_room(used.cpu_mhz[bit], ask.cpu_mhz, page.cpu_mhz[bit]) {
        Some(Dimension::Cpu)
    } else if !has_room(used.memory_mb[bit], ask.memory_mb, page.memory_mb[bit]) {
        Some(Dimension::Memory)
    } else if !has_room(used.disk_mb[bit], ask.disk_mb, page.disk_mb[bit]) {
        Some(Dimension::Disk)
    } else {
        None
    }
}
