//! Garbage collection: decides which ended allocations are removed from the node. Pure.

use std::collections::VecDeque;

use model::AllocId;

use super::usage::DiskUse;

/// The default maximum number of allocations.
pub(crate) const ALLOCS_MAX: usize = 50;
/// The default maximum disk usage, in percent.
pub(crate) const DISK_PERCENT_MAX: f64 = 80.0;
/// The default maximum inode usage, in percent.
pub(crate) const INODES_PERCENT_MAX: f64 = 70.0;
/// The default interval of garbage collection, in milliseconds.
pub(crate) const INTERVAL_MS: u32 = 60_000;
/// The default of the maximum number of concurrent removals.
pub(crate) const CONCURRENT_REMOVALS_MAX: u32 = 2;

/// The limits above which ended allocations are removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// The maximum number of allocations.
    pub(crate) allocs_max: usize,
    /// The maximum disk usage, in percent.
    pub(crate) disk_percent_max: f64,
    /// The maximum inode usage, in percent.
    pub(crate) inodes_percent_max: f64,
}

/// Ended allocations, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct EndedQueue(VecDeque<AllocId>);

impl EndedQueue {
    /// Adds an allocation.
    pub(crate) fn push(&mut self, id: AllocId) {
        if !self.0.contains(&id) {
            self.0.push_back(id);
        }
    }

    /// Removes all allocations, and returns them in their order.
    pub(crate) fn take_all(&mut self) -> Vec<AllocId> {
        self.0.drain(..).collect()
    }

    /// Removes an allocation.
    pub(crate) fn remove(&mut self, id: AllocId) {
        self.0.retain(|ended| *ended != id);
    }

    /// Removes and returns the allocation that ended first, if a limit is exceeded.
    pub(crate) fn pop_if_exceeded(&mut self, limits: &Limits, held: usize, disk: DiskUse) -> Option<AllocId> {
        let is_exceeded = held > limits.allocs_max
            || disk.percent > limits.disk_percent_max
            || disk.inodes_percent > limits.inodes_percent_max;
        if is_exceeded { self.0.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::alloc_id;

    const LIMITS: Limits = Limits {
        allocs_max: ALLOCS_MAX,
        disk_percent_max: DISK_PERCENT_MAX,
        inodes_percent_max: INODES_PERCENT_MAX,
    };

    fn ended(ids: &[u8]) -> EndedQueue {
        let mut ended = EndedQueue::default();
        ids.iter().for_each(|id| ended.push(alloc_id(*id)));
        ended
    }

    #[test]
    fn the_oldest_allocations_are_removed_above_the_limit() {
        let mut ended = ended(&[3, 1, 2, 3]);
        assert_eq!(ended.pop_if_exceeded(&LIMITS, ALLOCS_MAX, DiskUse::default()), None);
        ended.remove(alloc_id(1));
        let mut pop_if_exceeded = || ended.pop_if_exceeded(&LIMITS, ALLOCS_MAX + 1, DiskUse::default());
        assert_eq!(
            [pop_if_exceeded(), pop_if_exceeded(), pop_if_exceeded()],
            [Some(alloc_id(3)), Some(alloc_id(2)), None]
        );
    }

    #[test]
    fn all_are_taken_in_their_order() {
        let mut ended = ended(&[3, 1]);
        assert_eq!(ended.take_all(), [alloc_id(3), alloc_id(1)]);
        assert!(ended.take_all().is_empty());
    }

    #[test]
    fn allocations_are_removed_when_the_disk_is_full() {
        let full = DiskUse { percent: 80.5, ..DiskUse::default() };
        let many_files = DiskUse { inodes_percent: 71.0, ..DiskUse::default() };
        assert_eq!(ended(&[1]).pop_if_exceeded(&LIMITS, 1, full), Some(alloc_id(1)));
        assert_eq!(ended(&[1]).pop_if_exceeded(&LIMITS, 1, many_files), Some(alloc_id(1)));
    }
}
