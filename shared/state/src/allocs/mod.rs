//! [`AllocTable`]: the allocations, as rows of 144 bytes, with indexes by id, by job, by node and by creation.

mod description;
mod index;
mod job_allocs;
mod row;

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use model::alloc::{AllocCommon, Allocation};
use model::change::AllocsChanged;
use model::job::Job;
use model::plan::Placements;
use model::{AllocId, Index, JobKey, JobVersionKey};

pub(crate) use row::{AllocRow, Shared};

use crate::btree::BTree;
use crate::error::Inconsistent;
use crate::nodes::{Footprint, NodeTable, Special};
use crate::slab::Slab;
use crate::stamp::Stamp;

use index::AllocIndex;
use job_allocs::JobAllocs;

#[derive(Debug, Clone, Default)]
pub(crate) struct AllocTable {
    rows: Slab<AllocRow>,
    index: AllocIndex,
    by_job: BTree<JobKey, JobAllocs>,
}

impl AllocRow {
    fn footprint(&self) -> Footprint<'_> {
        let resources = &self.shared.common.resources;
        let special = !self.assigned.is_empty() || resources.has_networks();
        Footprint {
            demand: self.demand(),
            held: self.is_held(),
            live: self.is_live(),
            special: special.then_some(Special { resources, assigned: &self.assigned }),
        }
    }
}

impl AllocTable {
    /// Creates an empty table.
    pub(crate) fn new(with_lists: bool) -> Self {
        Self { index: AllocIndex::new(with_lists), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn slot(&self, id: AllocId) -> Option<u32> {
        self.index.get(id)
    }

    pub(crate) fn row(&self, slot: u32) -> &AllocRow {
        &self.rows[slot]
    }

    /// The slots of a job's allocations, in no defined order.
    pub(crate) fn of_job(&self, job: &JobKey) -> &[u32] {
        self.by_job.get(job).map_or(&[], |allocs| allocs.slots.as_slice())
    }

    /// The number of a job's allocations that are not terminal.
    pub(crate) fn live_of_job(&self, job: &JobKey) -> usize {
        self.by_job.get(job).map_or(0, |allocs| allocs.live as usize)
    }

    /// The last index at which a job's allocations changed; `None` if it has none.
    pub(crate) fn index_of_job(&self, job: &JobKey) -> Option<Index> {
        self.by_job.get(job).map(|allocs| allocs.index)
    }

    /// Whether any allocation runs a job version.
    pub(crate) fn has_version(&self, version: &JobVersionKey) -> bool {
        self.by_job.get(&version.job).is_some_and(|allocs| allocs.has_version(version))
    }

    /// All slots, in no defined order.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.index.iter()
    }

    /// The slots of allocations whose ids are in `range`, by id.
    pub(crate) fn range(&self, range: impl RangeBounds<AllocId>) -> impl DoubleEndedIterator<Item = u32> {
        self.index.range(range)
    }

    /// The slots by create index, then id.
    pub(crate) fn by_creation(
        &self,
        range: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = u32> {
        self.index.by_creation(range)
    }

    /// Adds new allocations. `node_slots` contains the slot of each node of the placements.
    pub(crate) fn place(
        &mut self,
        placements: &Placements,
        job: Arc<Job>,
        node_slots: &[u32],
        nodes: &mut NodeTable,
        stamp: Stamp,
    ) -> Result<(), Inconsistent> {
        let shared = Arc::new(Shared::new(Arc::clone(&placements.common), job));
        let (mut slots, mut index_entries) = (Vec::new(), Vec::new());
        for row in 0..placements.len() {
            let node = node_slots[placements.node[row] as usize];
            let placed = AllocRow::placed(placements, row, node, &shared, stamp);
            let slot = self.insert(placed, nodes);
            slots.push(slot);
            index_entries.push((placements.ids.0[row], slot));
        }
        self.add_to_index(stamp.index, index_entries)?;
        for (row, id) in placements.ids.0.iter().enumerate() {
            if let Some(previous) = placements.previous.get(row) {
                self.set_successor(previous, *id, stamp);
            }
        }
        for slot in node_slots {
            nodes.touch_work(*slot, stamp.index);
        }
        self.add_to_job(&shared, slots, placements.len() as u32, stamp);
        Ok(())
    }

    /// Adds or replaces a complete allocation.
    pub(crate) fn upsert(
        &mut self,
        alloc: &Allocation,
        job: Arc<Job>,
        nodes: &mut NodeTable,
        stamp: Stamp,
    ) -> Result<(), Inconsistent> {
        let shared = match self.slot(alloc.id) {
            Some(slot) if Arc::ptr_eq(&self.row(slot).shared.common, &alloc.common) => {
                Arc::clone(&self.row(slot).shared)
            }
            Some(_) | None => self.shared_with_sibling(&alloc.common, job),
        };
        self.delete(std::slice::from_ref(&alloc.id), nodes, stamp);
        let node = nodes.slot_for(alloc.node_id, &alloc.node_name);
        let row = AllocRow::from_allocation(alloc, node, Arc::clone(&shared));
        let live = u32::from(row.is_live());
        let slot = self.insert(row, nodes);
        self.add_to_index(alloc.create_index, vec![(alloc.id, slot)])?;
        nodes.touch_work(node, stamp.index);
        self.add_to_job(&shared, vec![slot], live, stamp);
        Ok(())
    }

    /// Applies a change to existing allocations. `job` is the version that an in-place update moves them to.
    pub(crate) fn change(
        &mut self,
        change: &AllocsChanged,
        job: Option<Arc<Job>>,
        nodes: &mut NodeTable,
        stamp: Stamp,
    ) -> Result<(), Inconsistent> {
        let shared = change.common.as_ref().zip(job);
        let shared = shared.map(|(common, job)| Arc::new(Shared::new(Arc::clone(common), job)));
        let mut tally = Tally::default();
        for (position, id) in change.ids.0.iter().enumerate() {
            let slot = self.slot(*id).ok_or(Inconsistent::NoAlloc(*id))?;
            let row = self.rows.get_mut(slot);
            if let Some(shared) = &shared
                && shared.common.job.job != row.shared.common.job.job
            {
                return Err(Inconsistent::AnotherJob(*id));
            }
            // Most changes do not affect the resources, so that the old row need not be copied.
            let changes_resources = shared.is_some() || position < change.assigned.len();
            let before = changes_resources.then(|| row.clone());
            let (was_held, was_live) = (row.is_held(), row.is_live());
            let old_shared = Arc::clone(&row.shared);
            row.change(change, position, shared.as_ref(), stamp);
            tally.count(&mut self.by_job, &old_shared, &row.shared, was_live, row.is_live(), stamp);
            let after = row.footprint();
            let before = match &before {
                Some(before) => before.footprint(),
                None => Footprint { held: was_held, live: was_live, ..after },
            };
            if changes_resources || (before.held, before.live) != (after.held, after.live) {
                nodes.recount(row.node, before, after);
            }
            if change.by_servers {
                nodes.touch_work(row.node, stamp.index);
            }
        }
        tally.flush(&mut self.by_job, stamp);
        Ok(())
    }

    /// Deletes allocations. Ids that do not exist are skipped.
    ///
    /// Each index is updated for all allocations at once, in its own order, so that neighbouring entries are removed
    /// together.
    pub(crate) fn delete(&mut self, ids: &[AllocId], nodes: &mut NodeTable, stamp: Stamp) {
        let mut ids = ids.to_vec();
        ids.sort_unstable_by_key(|id| id.plan_order());
        let mut slots: Vec<u32> = ids.iter().filter_map(|id| self.index.remove(*id)).collect();
        slots.sort_unstable();
        let mut created = Vec::with_capacity(slots.len());
        let mut by_job: BTreeMap<JobKey, Vec<(u32, AllocRow)>> = BTreeMap::new();
        let mut by_node: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for slot in slots {
            let row = self.rows.remove(slot);
            nodes.recount(row.node, row.footprint(), Footprint::default());
            created.push((row.create_index, row.id));
            by_node.entry(row.node).or_default().push(slot);
            match by_job.get_mut(&row.shared.common.job.job) {
                Some(rows) => rows.push((slot, row)),
                None => {
                    by_job.insert(row.shared.common.job.job.clone(), vec![(slot, row)]);
                }
            }
        }
        self.index.unlist(created);
        for (job, rows) in by_job {
            self.remove_from_job(&job, &rows, stamp);
        }
        for (node, slots) in by_node {
            nodes.touch_work(node, stamp.index);
            nodes.detach(node, &slots);
        }
    }

    /// Heap memory of the table in bytes, without the parts that rows share and the lists in rare parts.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rows = self.rows.iter().map(AllocRow::heap_bytes);
        let by_job: usize = self.by_job.values().map(|allocs| allocs.slots.heap_bytes()).sum();
        self.rows.heap_bytes()
            + rows.sum::<usize>()
            + self.index.heap_bytes()
            + self.by_job.heap_bytes()
            + by_job
    }

    /// Inserts a row and adds it to its node. The caller adds it to the index with [`Self::add_to_index`].
    fn insert(&mut self, row: AllocRow, nodes: &mut NodeTable) -> u32 {
        let slot = self.rows.insert(row);
        let row = &self.rows[slot];
        nodes.attach(row.node, slot, row.footprint());
        slot
    }

    /// Adds rows with the same create index to the index. They are added in the order of their ids, so that neighbouring
    /// entries share nodes of the trees, and trees that grow only at the end stay densely packed.
    fn add_to_index(&mut self, created: Index, mut entries: Vec<(AllocId, u32)>) -> Result<(), Inconsistent> {
        entries.sort_unstable();
        for (id, slot) in entries {
            if self.index.insert(id, created, slot).is_some() {
                return Err(Inconsistent::AllocExists(id));
            }
        }
        Ok(())
    }

    fn set_successor(&mut self, previous: AllocId, next: AllocId, stamp: Stamp) {
        let Some(slot) = self.slot(previous) else { return };
        self.rows.get_mut(slot).set_successor(next, stamp);
    }

    fn add_to_job(&mut self, shared: &Shared, slots: Vec<u32>, live: u32, stamp: Stamp) {
        // A job without allocations must not have an entry.
        if slots.is_empty() {
            return;
        }
        let version = &shared.common.job;
        if self.by_job.get(&version.job).is_none() {
            self.by_job.insert(version.job.clone(), JobAllocs::default());
        }
        let allocs = self.by_job.get_mut(&version.job).expect("the entry was inserted above");
        allocs.add_to_version(version, slots.len() as u32);
        allocs.live += live;
        allocs.index = allocs.index.max(stamp.index);
        allocs.slots.extend(slots);
    }

    fn remove_from_job(&mut self, job: &JobKey, rows: &[(u32, AllocRow)], stamp: Stamp) {
        let Some(allocs) = self.by_job.get_mut(job) else { return };
        let slots: Vec<u32> = rows.iter().map(|(slot, _)| *slot).collect();
        allocs.slots.remove_all(&slots);
        allocs.index = allocs.index.max(stamp.index);
        for (_, row) in rows {
            allocs.live -= u32::from(row.is_live());
            allocs.remove_from_version(&row.shared.common.job);
        }
        if allocs.slots.is_empty() {
            self.by_job.remove(job);
        }
    }

    /// The shared part of a single allocation. It is that of the job's newest allocation if the two are equal.
    fn shared_with_sibling(&self, common: &Arc<AllocCommon>, job: Arc<Job>) -> Arc<Shared> {
        let sibling = self.of_job(&common.job.job).last().map(|slot| &self.row(*slot).shared);
        match sibling {
            Some(sibling) if Arc::ptr_eq(&sibling.common, common) || sibling.common == *common => {
                Arc::clone(sibling)
            }
            Some(_) | None => Arc::new(Shared::new(Arc::clone(common), job)),
        }
    }
}

/// Accumulates the changes of a job's counts. They are written when an allocation of another job follows. The allocations
/// of a plan, and those of an agent's report, are grouped by job.
#[derive(Default)]
struct Tally {
    /// The shared part of an allocation of the current job.
    job: Option<Arc<Shared>>,
    live: i64,
}

impl Tally {
    fn count(
        &mut self,
        by_job: &mut BTree<JobKey, JobAllocs>,
        before: &Arc<Shared>,
        after: &Arc<Shared>,
        was_live: bool,
        is_live: bool,
        stamp: Stamp,
    ) {
        let is_same =
            |job: &Arc<Shared>| Arc::ptr_eq(job, before) || job.common.job.job == before.common.job.job;
        let same = self.job.as_ref().is_some_and(is_same);
        if !same {
            self.flush(by_job, stamp);
            self.job = Some(Arc::clone(before));
        }
        self.live += i64::from(is_live) - i64::from(was_live);
        if before.common.job != after.common.job
            && let Some(allocs) = by_job.get_mut(&after.common.job.job)
        {
            allocs.remove_from_version(&before.common.job);
            allocs.add_to_version(&after.common.job, 1);
        }
    }

    fn flush(&mut self, by_job: &mut BTree<JobKey, JobAllocs>, stamp: Stamp) {
        let Some(job) = self.job.take() else { return };
        if let Some(allocs) = by_job.get_mut(&job.common.job.job) {
            let live = i64::from(allocs.live) + std::mem::take(&mut self.live);
            allocs.live = u32::try_from(live).expect("the number of live allocations is not negative");
            allocs.index = allocs.index.max(stamp.index);
        }
    }
}
