//! What a job's allocations are and add up to, so that nobody has to walk over them to find out.

use model::{Index, JobVersionKey};

use crate::slots::SlotSet;

/// One job's allocations of all its incarnations.
#[derive(Debug, Clone, Default)]
pub(crate) struct OfJob {
    pub(super) slots: SlotSet,
    /// How many are not terminal.
    pub(super) live: u32,
    /// The last index at which any of them changed, came or went.
    pub(super) index: Index,
    /// How many run each version, by incarnation and version.
    versions: Vec<((Index, u64), u32)>,
}

impl OfJob {
    pub(super) fn count_version(&mut self, version: &JobVersionKey, more: u32) {
        let key = (version.create_index, version.version);
        match self.versions.iter_mut().find(|(counted, _)| *counted == key) {
            Some((_, count)) => *count += more,
            None => self.versions.push((key, more)),
        }
    }

    pub(super) fn uncount_version(&mut self, version: &JobVersionKey) {
        let key = (version.create_index, version.version);
        if let Some((_, count)) = self.versions.iter_mut().find(|(counted, _)| *counted == key) {
            *count -= 1;
        }
        self.versions.retain(|(_, count)| *count > 0);
    }

    pub(super) fn runs(&self, version: &JobVersionKey) -> bool {
        let key = (version.create_index, version.version);
        self.versions.iter().any(|(counted, _)| *counted == key)
    }
}
