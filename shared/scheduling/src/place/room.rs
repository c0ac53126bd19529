//! The cluster as the plan so far leaves it: what is used on each node, and which ports.
//!
//! It begins as the snapshot's *held* usage (`spec/scheduling.md` ): allocations that the servers have
//! stopped count until their node says that they ended. What this plan stops does not.

use std::collections::BTreeMap;

use model::AllocId;
use model::alloc::{Assigned, Demand};
use model::job::NetworkResource;
use state::{AllocRef, NodePage, NodeRef, PAGE, State, Usage, View};

use super::ports::{NoPorts, PortBook, unusable};

/// See the module.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    state: &'a State,
    pub(crate) pages: &'a [&'a NodePage],
    used: Vec<Usage>,
    /// Only of nodes whose ports somebody asked for or gave back.
    ports: BTreeMap<u32, PortBook>,
}

/// What is short on a node, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Short {
    Allocs,
    Cpu,
    Memory,
    Disk,
}

impl Short {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Allocs => "max allocation exceeded",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

impl<'a> Room<'a> {
    pub(crate) fn of(state: &'a State, pages: &'a [&'a NodePage]) -> Self {
        let used = pages.iter().map(|page| page.usage(View::Held).clone()).collect();
        Self { state, pages, used, ports: BTreeMap::new() }
    }

    /// What is used on the nodes of a page.
    pub(crate) fn used(&self, page: usize) -> &Usage {
        &self.used[page]
    }

    /// What keeps the demand from fitting on a node; `None` if it fits.
    #[inline]
    pub(crate) fn short(&self, slot: u32, ask: Demand) -> Option<Short> {
        let (page, place) = locate(slot);
        short_on(self.pages[page], &self.used[page], place, ask)
    }

    /// The places of a page on which the demand fits.
    pub(crate) fn fitting(&self, page: usize, ask: Demand) -> u64 {
        let (page, used) = (self.pages[page], &self.used[page]);
        let fits = |place: usize| {
            let most = page.max_allocs[place];
            (most == 0 || used.allocs[place] < most)
                & has_room(used.cpu_mhz[place], ask.cpu_mhz, page.cpu_mhz[place])
                & has_room(used.memory_mb[place], ask.memory_mb, page.memory_mb[place])
                & has_room(used.disk_mb[place], ask.disk_mb, page.disk_mb[place])
        };
        (0..PAGE).fold(0, |word, place| word | u64::from(fits(place)) << place)
    }

    /// Gives back what an allocation holds; nothing if its node is already done with it.
    pub(crate) fn leave(&mut self, alloc: AllocRef<'_>) {
        self.recount(alloc, false);
    }

    /// Takes that back.
    pub(crate) fn stay(&mut self, alloc: AllocRef<'_>) {
        self.recount(alloc, true);
    }

    /// Puts one allocation more on a node.
    pub(crate) fn take(&mut self, slot: u32, demand: Demand) {
        self.change(slot, demand, true);
    }

    /// Takes it off again.
    pub(crate) fn give(&mut self, slot: u32, demand: Demand) {
        self.change(slot, demand, false);
    }

    /// Addresses and ports that an allocation can have on a node, if it asks for any.
    pub(crate) fn offer(
        &mut self,
        slot: u32,
        ask: Option<&NetworkResource>,
        alloc: AllocId,
    ) -> Result<Assigned, NoPorts> {
        let node = self.node(slot);
        if let Some(why) = unusable(node, self.ports.get(&slot)) {
            return Err(why);
        }
        match ask {
            Some(ask) => self.book(slot).offer(node, ask, alloc),
            None => Ok(Assigned::default()),
        }
    }

    /// Takes an offer.
    pub(crate) fn take_ports(&mut self, slot: u32, ask: &NetworkResource, got: &Assigned) {
        self.book(slot).take(ask, got);
    }

    /// The node in a slot.
    pub(crate) fn node(&self, slot: u32) -> NodeRef<'a> {
        self.state.node_at(slot).expect("only known nodes are looked at")
    }

    fn recount(&mut self, alloc: AllocRef<'_>, stays: bool) {
        if alloc.client_status().is_terminal() {
            return;
        }
        let slot = alloc.node_slot();
        self.change(slot, alloc.demand(), stays);
        // Of a node that is gone the ports do not matter.
        if alloc.common().resources.has_networks() && alloc.node().is_some() {
            self.book(slot).count(alloc, if stays { 1 } else { -1 });
        }
    }

    /// As the columns count: modulo 2³².
    fn change(&mut self, slot: u32, demand: Demand, more: bool) {
        let (page, place) = locate(slot);
        let used = &mut self.used[page];
        let amounts = [
            (&mut used.cpu_mhz, demand.cpu_mhz),
            (&mut used.memory_mb, demand.memory_mb),
            (&mut used.disk_mb, demand.disk_mb),
            (&mut used.allocs, 1),
        ];
        for (column, amount) in amounts {
            let value = &mut column[place];
            *value = if more { value.wrapping_add(amount) } else { value.wrapping_sub(amount) };
        }
    }

    fn book(&mut self, slot: u32) -> &mut PortBook {
        let node = self.node(slot);
        self.ports.entry(slot).or_insert_with(|| PortBook::of(node))
    }
}

fn locate(slot: u32) -> (usize, usize) {
    (slot as usize / PAGE, slot as usize % PAGE)
}

#[inline(always)]
fn has_room(used: u32, ask: u32, has: u32) -> bool {
    u64::from(used) + u64::from(ask) <= u64::from(has)
}

#[inline(always)]
fn short_on(page: &NodePage, used: &Usage, place: usize, ask: Demand) -> Option<Short> {
    let most = page.max_allocs[place];
    if most > 0 && used.allocs[place] >= most {
        Some(Short::Allocs)
    } else if !has_room(used.cpu_mhz[place], ask.cpu_mhz, page.cpu_mhz[place]) {
        Some(Short::Cpu)
    } else if !has_room(used.memory_mb[place], ask.memory_mb, page.memory_mb[place]) {
        Some(Short::Memory)
    } else if !has_room(used.disk_mb[place], ask.disk_mb, page.disk_mb[place]) {
        Some(Short::Disk)
    } else {
        None
    }
}
