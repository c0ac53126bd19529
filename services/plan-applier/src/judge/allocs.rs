//! Consequences of new or changed allocations: their jobs' summaries and statuses, and their deployments.

use std::sync::Arc;

use model::alloc::{AllocCommon, ClientStatus};
use model::change::{AllocsChanged, Change};
use model::plan::Placements;
use wire::Refusal;

use super::work::Work;

/// The number of allocations of one placement that had the same client status before a change.
struct StatusGroup {
    common: Arc<AllocCommon>,
    before: ClientStatus,
    count: u32,
}

impl Work<'_> {
    /// Adds new allocations.
    pub(super) fn place(&mut self, placements: Placements) -> Result<(), Refusal> {
        let common = Arc::clone(&placements.common);
        let count = u32::try_from(placements.len()).expect("a command has fewer than 2³² rows");
        self.count_starting(&common.job, &common.task_group, count);
        self.count_placed(&common, count, if placements.canary { &placements.ids.0 } else { &[] });
        self.touch_job(&common.job.job);
        self.apply(Change::AllocsPlaced(Box::new(placements)))
    }

    /// Changes existing allocations.
    pub(super) fn change_allocs(&mut self, change: AllocsChanged) -> Result<(), Refusal> {
        for StatusGroup { common, before, count } in self.status_groups(&change) {
            self.touch_job(&common.job.job);
            if let Some((after, _)) = change.client {
                self.count_status_change(&common.job, &common.task_group, [before, after], count);
            }
            if let Some(new) = &change.common
                && new.deployment_id != common.deployment_id
            {
                self.count_placed(new, count, &[]);
            }
        }
        self.count_verdicts(&change);
        self.apply(Change::AllocsChanged(Box::new(change)))
    }

    /// The allocations of a change whose client status, desired status or common part changes. Adjacent allocations with the
    /// same common part and client status are counted together.
    fn status_groups(&self, change: &AllocsChanged) -> Vec<StatusGroup> {
        let mut groups: Vec<StatusGroup> = Vec::new();
        let affects_all = change.desired.is_some() || change.common.is_some();
        let after = change.client.as_ref().map(|(after, _)| *after);
        for alloc in change.ids.0.iter().filter_map(|id| self.state().alloc(*id)) {
            let (common, before) = (alloc.common(), alloc.client_status());
            if !affects_all && after.is_none_or(|after| after == before) {
                continue;
            }
            match groups.last_mut() {
                Some(last) if last.before == before && Arc::ptr_eq(&last.common, common) => last.count += 1,
                Some(_) | None => groups.push(StatusGroup { common: Arc::clone(common), before, count: 1 }),
            }
        }
        groups
    }

    fn count_verdicts(&mut self, change: &AllocsChanged) {
        for (id, verdict) in change.ids.0.iter().zip(&change.verdicts) {
            let Some(verdict) = verdict else { continue };
            let Some(alloc) = self.state().alloc(*id) else { continue };
            let before = alloc.health().and_then(|health| health.healthy);
            let common = Arc::clone(alloc.common());
            self.count_verdict(&common, before, *verdict);
        }
    }
}
