//! Which ended allocations are removed from the node. Pure.

use std::collections::VecDeque;

use model::AllocId;

/// How many allocations are kept unless the owner says otherwise.
pub(crate) const ALLOCS_MAX: usize = 50;
/// How full the disk may be unless the owner says otherwise, in percent.
pub(crate) const DISK_PERCENT_MAX: f64 = 80.0;
/// How many of its inodes may be used unless the owner says otherwise, in percent.
pub(crate) const INODES_PERCENT_MAX: f64 = 70.0;
/// How many are removed at once.
pub(crate) const REMOVED_AT_ONCE: usize = 2;

/// From when on ended allocations are removed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Limits {
    /// More allocations than this are held.
    pub(crate) allocs_max: usize,
    /// More of the disk is used than this, in percent.
    pub(crate) disk_percent_max: f64,
    /// More of its inodes are used than this, in percent.
    pub(crate) inodes_percent_max: f64,
}

/// How full the disk is that allocations are on.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct DiskUse {
    /// Of its space, in percent.
    pub(crate) percent: f64,
    /// Of its inodes, in percent.
    pub(crate) inodes_percent: f64,
}

/// Ended allocations, in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct Ended(VecDeque<AllocId>);

impl Ended {
    /// One has ended.
    pub(crate) fn push(&mut self, id: AllocId) {
        if !self.0.contains(&id) {
            self.0.push_back(id);
        }
    }

    /// One is gone.
    pub(crate) fn remove(&mut self, id: AllocId) {
        self.0.retain(|ended| *ended != id);
    }

    /// Takes the one that ended first, if there is too much of anything.
    pub(crate) fn take(&mut self, limits: &Limits, held: usize, disk: DiskUse) -> Option<AllocId> {
        let too_much = held > limits.allocs_max
            || disk.percent > limits.disk_percent_max
            || disk.inodes_percent > limits.inodes_percent_max;
        if too_much { self.0.pop_front() } else { None }
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

    fn ended(ids: &[u8]) -> Ended {
        let mut ended = Ended::default();
        ids.iter().for_each(|id| ended.push(alloc_id(*id)));
        ended
    }

    #[test]
    fn one_too_many_makes_the_oldest_go() {
        let mut ended = ended(&[3, 1, 2, 3]);
        assert_eq!(ended.take(&LIMITS, ALLOCS_MAX, DiskUse::default()), None);
        ended.remove(alloc_id(1));
        let mut take = || ended.take(&LIMITS, ALLOCS_MAX + 1, DiskUse::default());
        assert_eq!([take(), take(), take()], [Some(alloc_id(3)), Some(alloc_id(2)), None]);
    }

    #[test]
    fn a_full_disk_makes_them_go_too() {
        let full = DiskUse { percent: 80.5, ..DiskUse::default() };
        let many_files = DiskUse { inodes_percent: 71.0, ..DiskUse::default() };
        assert_eq!(ended(&[1]).take(&LIMITS, 1, full), Some(alloc_id(1)));
        assert_eq!(ended(&[1]).take(&LIMITS, 1, many_files), Some(alloc_id(1)));
    }
}
