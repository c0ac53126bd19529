//! The allocations: rows of 144 bytes, found by id, by job, by node, and in the order of their creation.

mod index;
mod of_job;
mod phrase;
mod row;
mod view;

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;

use model::alloc::{AllocCommon, Allocation};
use model::change::AllocsChanged;
use model::job::Job;
use model::plan::Placements;
use model::{AllocId, Index, JobKey, JobVersionKey};

pub(crate) use row::{AllocRow, Shared};
pub use view::AllocRef;

use crate::btree::BTree;
use crate::error::Inconsistent;
use crate::nodes::{Footprint, NodeTable, Special};
use crate::places::Places;
use crate::stamp::Stamp;

use index::AllocIndex;
use of_job::OfJob;

#[derive(Debug, Clone, Default)]
pub(crate) struct AllocTable {
    slots: Places<AllocRow>,
    index: AllocIndex,
    by_job: BTree<JobKey, OfJob>,
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
    /// An empty table.
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
        &self.slots[slot]
    }

    /// Rows of a job's allocations, in no order that means anything.
    pub(crate) fn of_job(&self, job: &JobKey) -> &[u32] {
        self.by_job.get(job).map_or(&[], |of_job| of_job.slots.as_slice())
    }

    /// How many of a job's allocations are not terminal.
    pub(crate) fn live_of_job(&self, job: &JobKey) -> usize {
        self.by_job.get(job).map_or(0, |of_job| of_job.live as usize)
    }

    /// The last index at which a job's allocations changed; `None` where it has none.
    pub(crate) fn index_of_job(&self, job: &JobKey) -> Option<Index> {
        self.by_job.get(job).map(|of_job| of_job.index)
    }

    /// Whether some allocation runs a version of a job.
    pub(crate) fn run_version(&self, version: &JobVersionKey) -> bool {
        self.by_job.get(&version.job).is_some_and(|of_job| of_job.runs(version))
    }

    /// All rows, in no order that means anything.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = u32> {
        self.index.iter()
    }

    /// Rows of the allocations whose ids lie in a range, by id.
    pub(crate) fn range(&self, range: impl RangeBounds<AllocId>) -> impl DoubleEndedIterator<Item = u32> {
        self.index.range(range)
    }

    /// Rows in the order of their creation, and by id where that is the same.
    pub(crate) fn by_creation(
        &self,
        range: impl RangeBounds<(Index, AllocId)>,
    ) -> impl DoubleEndedIterator<Item = u32> {
        self.index.by_creation(range)
    }

    /// New allocations; `node_slots` holds the row of each of the placement's nodes.
    pub(crate) fn place(
        &mut self,
        placements: &Placements,
        job: Arc<Job>,
        node_slots: &[u32],
        nodes: &mut NodeTable,
        stamp: Stamp,
    ) -> Result<(), Inconsistent> {
        let shared = Arc::new(Shared::new(Arc::clone(&placements.common), job));
        let (mut slots, mut rows) = (Vec::new(), Vec::new());
        for row in 0..placements.len() {
            let node = node_slots[placements.node[row] as usize];
            let placed = AllocRow::placed(placements, row, node, &shared, stamp);
            let slot = self.insert(placed, nodes);
            slots.push(slot);
            rows.push((placements.ids.0[row], slot));
        }
        self.enlist(stamp.index, rows)?;
        for (row, id) in placements.ids.0.iter().enumerate() {
            if let Some(previous) = placements.previous.get(row) {
                self.succeed(previous, *id, stamp);
            }
        }
        for slot in node_slots {
            nodes.touch_work(*slot, stamp.index);
        }
        self.join_job(&shared, slots, placements.len() as u32, stamp);
        Ok(())
    }

    /// An allocation that is known whole, new or not.
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
        let row = AllocRow::whole(alloc, node, Arc::clone(&shared));
        let live = u32::from(row.is_live());
        let slot = self.insert(row, nodes);
        self.enlist(alloc.create_index, vec![(alloc.id, slot)])?;
        nodes.touch_work(node, stamp.index);
        self.join_job(&shared, vec![slot], live, stamp);
        Ok(())
    }

    /// Allocations that exist changed alike; `job` is the version that an update in place moves them to.
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
        for (place, id) in change.ids.0.iter().enumerate() {
            let slot = self.slot(*id).ok_or(Inconsistent::NoAlloc(*id))?;
            let row = self.slots.get_mut(slot);
            if let Some(shared) = &shared
                && shared.common.job.job != row.shared.common.job.job
            {
                return Err(Inconsistent::AnotherJob(*id));
            }
            // Most changes leave the resources alone; then nothing needs to be looked at twice.
            let moves_resources = shared.is_some() || place < change.assigned.len();
            let before = moves_resources.then(|| row.clone());
            let (was_held, was_live) = (row.is_held(), row.is_live());
            let version = Arc::clone(&row.shared);
            row.change(change, place, shared.as_ref(), stamp);
            tally.count(&mut self.by_job, &version, &row.shared, was_live, row.is_live(), stamp);
            let after = row.footprint();
            let before = match &before {
                Some(before) => before.footprint(),
                None => Footprint { held: was_held, live: was_live, ..after },
            };
            if moves_resources || (before.held, before.live) != (after.held, after.live) {
                nodes.recount(row.node, before, after);
            }
            if change.by_servers {
                nodes.touch_work(row.node, stamp.index);
            }
        }
        tally.settle(&mut self.by_job, stamp);
        Ok(())
    }

    /// Forgets allocations; those that are not there are passed over.
    ///
    /// Set by set instead of one by one: what lies together in an index is taken out together.
    pub(crate) fn delete(&mut self, ids: &[AllocId], nodes: &mut NodeTable, stamp: Stamp) {
        let mut ids = ids.to_vec();
        ids.sort_unstable_by_key(|id| id.plan_order());
        let mut slots: Vec<u32> = ids.iter().filter_map(|id| self.index.remove(*id)).collect();
        slots.sort_unstable();
        let mut created = Vec::with_capacity(slots.len());
        let mut by_job: BTreeMap<JobKey, Vec<(u32, AllocRow)>> = BTreeMap::new();
        let mut by_node: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for slot in slots {
            let row = self.slots.take(slot);
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
            self.leave_job(&job, &rows, stamp);
        }
        for (node, slots) in by_node {
            nodes.touch_work(node, stamp.index);
            nodes.detach(node, &slots);
        }
    }

    /// What the table has on the heap, in bytes, less what its rows share and the lists that rare parts hold.
    pub(crate) fn heap_bytes(&self) -> usize {
        let rows = self.slots.iter().map(AllocRow::heap_bytes);
        let by_job: usize = self.by_job.values().map(|of_job| of_job.slots.heap_bytes()).sum();
        self.slots.heap_bytes()
            + rows.sum::<usize>()
            + self.index.heap_bytes()
            + self.by_job.heap_bytes()
            + by_job
    }

    /// Puts a row on its node; how it is found is [`Self::enlist`]'s business.
    fn insert(&mut self, row: AllocRow, nodes: &mut NodeTable) -> u32 {
        let slot = self.slots.insert(row);
        let row = &self.slots[slot];
        nodes.attach(row.node, slot, row.footprint());
        slot
    }

    /// Makes rows of one create index findable. In the order of their ids: neighbours share what they touch of the
    /// indexes, and what only grows at its end stays densely packed.
    fn enlist(&mut self, created: Index, mut rows: Vec<(AllocId, u32)>) -> Result<(), Inconsistent> {
        rows.sort_unstable();
        for (id, slot) in rows {
            if self.index.insert(id, created, slot).is_some() {
                return Err(Inconsistent::AllocExists(id));
            }
        }
        Ok(())
    }

    fn succeed(&mut self, previous: AllocId, next: AllocId, stamp: Stamp) {
        let Some(slot) = self.slot(previous) else { return };
        self.slots.get_mut(slot).succeed(next, stamp);
    }

    fn join_job(&mut self, shared: &Shared, slots: Vec<u32>, live: u32, stamp: Stamp) {
        // A placement without rows leaves no trace: a job without allocations has no entry.
        if slots.is_empty() {
            return;
        }
        let version = &shared.common.job;
        if self.by_job.get(&version.job).is_none() {
            self.by_job.insert(version.job.clone(), OfJob::default());
        }
        let of_job = self.by_job.get_mut(&version.job).expect("it is there now");
        of_job.count_version(version, slots.len() as u32);
        of_job.live += live;
        of_job.index = of_job.index.max(stamp.index);
        of_job.slots.extend(slots);
    }

    fn leave_job(&mut self, job: &JobKey, rows: &[(u32, AllocRow)], stamp: Stamp) {
        let Some(of_job) = self.by_job.get_mut(job) else { return };
        let slots: Vec<u32> = rows.iter().map(|(slot, _)| *slot).collect();
        of_job.slots.remove_all(&slots);
        of_job.index = of_job.index.max(stamp.index);
        for (_, row) in rows {
            of_job.live -= u32::from(row.is_live());
            of_job.uncount_version(&row.shared.common.job);
        }
        if of_job.slots.is_empty() {
            self.by_job.remove(job);
        }
    }

    /// The common part of an allocation that comes alone: that of the job's newest allocation if it is equal.
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

/// What a run of changes does to a job's counts; written when the next job's turn comes, for a plan's allocations and
/// an agent's reports come grouped.
#[derive(Default)]
struct Tally {
    of: Option<Arc<Shared>>,
    live: i64,
}

impl Tally {
    fn count(
        &mut self,
        by_job: &mut BTree<JobKey, OfJob>,
        before: &Arc<Shared>,
        after: &Arc<Shared>,
        was_live: bool,
        is_live: bool,
        stamp: Stamp,
    ) {
        let is_same =
            |of: &Arc<Shared>| Arc::ptr_eq(of, before) || of.common.job.job == before.common.job.job;
        let same = self.of.as_ref().is_some_and(is_same);
        if !same {
            self.settle(by_job, stamp);
            self.of = Some(Arc::clone(before));
        }
        self.live += i64::from(is_live) - i64::from(was_live);
        if before.common.job != after.common.job
            && let Some(of_job) = by_job.get_mut(&after.common.job.job)
        {
            of_job.uncount_version(&before.common.job);
            of_job.count_version(&after.common.job, 1);
        }
    }

    fn settle(&mut self, by_job: &mut BTree<JobKey, OfJob>, stamp: Stamp) {
        let Some(of) = self.of.take() else { return };
        if let Some(of_job) = by_job.get_mut(&of.common.job.job) {
            let live = i64::from(of_job.live) + std::mem::take(&mut self.live);
            of_job.live = u32::try_from(live).expect("no more can end than there were");
            of_job.index = of_job.index.max(stamp.index);
        }
    }
}
