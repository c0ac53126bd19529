//! [`JobAllocs`]: the allocations of one job, with counts that are maintained so that readers need not iterate.

use model::{Index, JobVersionKey};

use crate::slots::SlotSet;

/// The allocations of all incarnations of one job.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobAllocs {
    pub(super) slots: SlotSet,
    /// Number of allocations that are not terminal.
    pub(super) live: u32,
    /// The last index at which any of them was added, changed or removed.
    pub(super) index: Index,
    /// Number of allocations of each version, by incarnation and version.
    versions: Vec<((Index, u64), u32)>,
}

impl JobAllocs {
    pub(super) fn add_to_version(&mut self, version: &JobVersionKey, count: u32) {
        let key = (version.create_index, version.version);
        match self.versions.iter_mut().find(|(counted, _)| *counted == key) {
            Some((_, total)) => *total += count,
            None => self.versions.push((key, count)),
        }
    }

    pub(super) fn remove_from_version(&mut self, version: &JobVersionKey) {
        let key = (version.create_index, version.version);
        if let Some((_, count)) = self.versions.iter_mut().find(|(counted, _)| *counted == key) {
            *count -= 1;
        }
        self.versions.retain(|(_, count)| *count > 0);
    }

    /// Whether any allocation runs the version.
    pub(super) fn has_version(&self, version: &JobVersionKey) -> bool {
        let key = (version.create_index, version.version);
        self.versions.iter().any(|(counted, _)| *counted == key)
    }
}
