//! The allocations: rows of 128 bytes, found by id, by job and by node.

mod phrase;
mod row;
mod view;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{AllocCommon, Allocation};
use model::change::{AllocsChanged, ChangeSet};
use model::job::Job;
use model::plan::Placements;
use model::{AllocId, JobKey};

pub(crate) use row::{AllocRow, Shared};
pub use view::AllocRef;

use crate::btree::BTree;
use crate::chunked::Chunked;
use crate::error::Inconsistent;
use crate::nodes::{Footprint, NodeTable, Special};
use crate::slots::SlotSet;

/// A row of the table.
#[derive(Debug, Clone)]
enum Slot {
    Used(AllocRow),
    /// Nothing; the number of the next such row.
    Free(Option<u32>),
}

#[derive(Debug, Clone, Default)]
pub(crate) struct AllocTable {
    slots: Chunked<Slot>,
    free: Option<u32>,
    by_id: BTree<AllocId, u32>,
    by_job: BTree<JobKey, SlotSet>,
}

/// Rows by what they have in common, ascending in each group if they come so.
#[derive(Debug)]
struct Groups<K>(BTreeMap<K, Vec<u32>>);

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Clone> Groups<K> {
    fn add(&mut self, key: &K, slot: u32) {
        match self.0.get_mut(key) {
            Some(slots) => slots.push(slot),
            None => {
                self.0.insert(key.clone(), vec![slot]);
            }
        }
    }
}

impl AllocRow {
    fn footprint(&self) -> Footprint<'_> {
        let resources = &self.shared.common.resources;
        let special = self.assigned.is_some() || resources.has_networks();
        Footprint {
            demand: self.demand(),
            held: self.is_held(),
            live: self.is_live(),
            special: special.then_some(Special { resources, assigned: self.assigned.as_deref() }),
        }
    }
}

impl AllocTable {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn slot(&self, id: AllocId) -> Option<u32> {
        self.by_id.get(&id).copied()
    }

    pub(crate) fn row(&self, slot: u32) -> &AllocRow {
        match &self.slots[slot as usize] {
            Slot::Used(row) => row,
            Slot::Free(_) => unreachable!("an index leads to a row in use"),
        }
    }

    /// Rows of a job's allocations, in no order that means anything.
    pub(crate) fn of_job(&self, job: &JobKey) -> &[u32] {
        self.by_job.get(job).map_or(&[], SlotSet::as_slice)
    }

    /// Rows of the allocations whose ids lie in a range, by id.
    pub(crate) fn range(
        &self,
        range: impl std::ops::RangeBounds<AllocId>,
    ) -> impl DoubleEndedIterator<Item = u32> {
        self.by_id.range(range).map(|(_, slot)| *slot)
    }

    /// New allocations; `nodes` holds the row of each of the placement's nodes.
    pub(crate) fn place(
        &mut self,
        placements: &Placements,
        job: Arc<Job>,
        node_slots: &[u32],
        nodes: &mut NodeTable,
        set: &ChangeSet,
    ) -> Result<(), Inconsistent> {
        let shared = Arc::new(Shared::new(Arc::clone(&placements.common), job));
        let mut slots = Vec::with_capacity(placements.len());
        for row in 0..placements.len() {
            let node = node_slots[placements.node[row] as usize];
            let placed = AllocRow::placed(placements, row, node, &shared, set);
            slots.push(self.insert(placed, nodes)?);
        }
        self.join_job(&shared.common, slots);
        Ok(())
    }

    /// An allocation that is known whole, new or not.
    pub(crate) fn upsert(
        &mut self,
        alloc: &Allocation,
        job: Arc<Job>,
        nodes: &mut NodeTable,
    ) -> Result<(), Inconsistent> {
        let shared = match self.slot(alloc.id) {
            Some(slot) if Arc::ptr_eq(&self.row(slot).shared.common, &alloc.common) => {
                Arc::clone(&self.row(slot).shared)
            }
            Some(_) | None => self.shared_with_sibling(&alloc.common, job),
        };
        self.delete(std::slice::from_ref(&alloc.id), nodes);
        let node = nodes.slot_for(alloc.node_id, &alloc.node_name);
        let common = Arc::clone(&shared.common);
        let slot = self.insert(AllocRow::whole(alloc, node, shared), nodes)?;
        self.join_job(&common, vec![slot]);
        Ok(())
    }

    /// Allocations that exist changed alike; `job` is the version that an update in place moves them to.
    pub(crate) fn change(
        &mut self,
        change: &AllocsChanged,
        job: Option<Arc<Job>>,
        nodes: &mut NodeTable,
        set: &ChangeSet,
    ) -> Result<(), Inconsistent> {
        let shared = change.common.as_ref().zip(job);
        let shared = shared.map(|(common, job)| Arc::new(Shared::new(Arc::clone(common), job)));
        for (place, id) in change.ids.0.iter().enumerate() {
            let slot = self.slot(*id).ok_or(Inconsistent::NoAlloc(*id))?;
            let Some(Slot::Used(row)) = self.slots.get_mut(slot as usize) else {
                unreachable!("an index leads to a row in use")
            };
            if let Some(shared) = &shared
                && shared.common.job.job != row.shared.common.job.job
            {
                return Err(Inconsistent::AnotherJob(*id));
            }
            // Most changes leave the resources alone; then nothing needs to be looked at twice.
            let moves_resources = shared.is_some() || place < change.assigned.len();
            let before = moves_resources.then(|| row.clone());
            let (was_held, was_live) = (row.is_held(), row.is_live());
            row.change(change, place, shared.as_ref(), set);
            let after = row.footprint();
            let before = match &before {
                Some(before) => before.footprint(),
                None => Footprint { held: was_held, live: was_live, ..after },
            };
            if moves_resources || (before.held, before.live) != (after.held, after.live) {
                nodes.recount(row.node, before, after);
            }
        }
        Ok(())
    }

    /// Forgets allocations; those that are not there are passed over.
    ///
    /// Set by set instead of one by one: what lies together in an index is taken out together.
    pub(crate) fn delete(&mut self, ids: &[AllocId], nodes: &mut NodeTable) {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        let mut slots: Vec<u32> = ids.iter().filter_map(|id| self.by_id.remove(id)).collect();
        slots.sort_unstable();
        let (mut by_job, mut by_node) = (Groups::default(), Groups::default());
        for slot in slots {
            let freed = Slot::Free(self.free.replace(slot));
            let place = self.slots.get_mut(slot as usize).expect("an index leads to a row");
            let Slot::Used(row) = std::mem::replace(place, freed) else {
                unreachable!("an index leads to a row in use")
            };
            nodes.recount(row.node, row.footprint(), Footprint::default());
            by_job.add(&row.shared.common.job.job, slot);
            by_node.add(&row.node, slot);
        }
        for (job, slots) in by_job.0 {
            let Some(of_job) = self.by_job.get_mut(&job) else { continue };
            of_job.remove_all(&slots);
            if of_job.is_empty() {
                self.by_job.remove(&job);
            }
        }
        for (node, slots) in by_node.0 {
            nodes.detach(node, &slots);
        }
    }

    /// What the table has on the heap, in bytes, shares of the common parts included.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rows = self.slots.iter().map(|slot| match slot {
            Slot::Used(row) => row.heap_bytes(),
            Slot::Free(_) => 0,
        });
        let by_job: usize = self.by_job.values().map(SlotSet::heap_bytes).sum();
        self.slots.heap_bytes()
            + rows.sum::<usize>()
            + self.by_id.heap_bytes()
            + self.by_job.heap_bytes()
            + by_job
    }

    fn insert(&mut self, row: AllocRow, nodes: &mut NodeTable) -> Result<u32, Inconsistent> {
        let id = row.id;
        let slot = self.free.unwrap_or_else(|| self.slots.len() as u32);
        if let Some(other) = self.by_id.insert(id, slot) {
            self.by_id.insert(id, other);
            return Err(Inconsistent::AllocExists(id));
        }
        nodes.attach(row.node, slot, row.footprint());
        match self.free {
            Some(_) => {
                let place = self.slots.get_mut(slot as usize).expect("the list holds rows");
                let Slot::Free(next) = std::mem::replace(place, Slot::Used(row)) else {
                    unreachable!("the list holds free rows")
                };
                self.free = next;
            }
            None => {
                self.slots.push(Slot::Used(row));
            }
        }
        Ok(slot)
    }

    fn join_job(&mut self, common: &AllocCommon, slots: Vec<u32>) {
        match self.by_job.get_mut(&common.job.job) {
            Some(of_job) => of_job.extend(slots),
            None => {
                let mut of_job = SlotSet::default();
                of_job.extend(slots);
                self.by_job.insert(common.job.job.clone(), of_job);
            }
        }
    }

    /// The common part of an allocation that comes alone: that of the job's newest allocation if it is equal.
    fn shared_with_sibling(&self, common: &Arc<AllocCommon>, job: Arc<Job>) -> Arc<Shared> {
        let sibling = self.of_job(&common.job.job).last().map(|slot| &self.row(*slot).shared);
        match sibling {
            Some(sibling) if sibling.common == *common => Arc::clone(sibling),
            Some(_) | None => Arc::new(Shared::new(Arc::clone(common), job)),
        }
    }
}
