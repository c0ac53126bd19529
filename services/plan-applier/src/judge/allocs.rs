//! What follows when allocations come or change: for their jobs' summaries and statuses, and their deployments.

use std::sync::Arc;

use model::alloc::{AllocCommon, ClientStatus};
use model::change::{AllocsChanged, Change};
use model::plan::Placements;
use wire::Refusal;

use super::work::Work;

/// How many allocations of one placement fared in one way before a change.
struct Moved {
    common: Arc<AllocCommon>,
    before: ClientStatus,
    count: u32,
}

impl Work<'_> {
    /// Adds new allocations.
    pub(super) fn place(&mut self, placements: Placements) -> Result<(), Refusal> {
        let common = Arc::clone(&placements.common);
        let count = u32::try_from(placements.len()).expect("a command is far smaller than 2³² rows");
        self.count_starting(&common.job, &common.task_group, count);
        self.count_placed(&common, count, if placements.canary { &placements.ids.0 } else { &[] });
        self.touch_job(&common.job.job);
        self.apply(Change::AllocsPlaced(Box::new(placements)))
    }

    /// Changes allocations that there are.
    pub(super) fn change_allocs(&mut self, change: AllocsChanged) -> Result<(), Refusal> {
        for Moved { common, before, count } in self.moved(&change) {
            self.touch_job(&common.job.job);
            if let Some((after, _)) = change.client {
                self.count_moved(&common.job, &common.task_group, [before, after], count);
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

    /// Those allocations of a change that fare otherwise after it, or are wanted otherwise; those that stand together and are
    /// alike counted together.
    fn moved(&self, change: &AllocsChanged) -> Vec<Moved> {
        let mut moved: Vec<Moved> = Vec::new();
        let are_all = change.desired.is_some() || change.common.is_some();
        let after = change.client.as_ref().map(|(after, _)| *after);
        for alloc in change.ids.0.iter().filter_map(|id| self.state().alloc(*id)) {
            let (common, before) = (alloc.common(), alloc.client_status());
            if !are_all && after.is_none_or(|after| after == before) {
                continue;
            }
            match moved.last_mut() {
                Some(last) if last.before == before && Arc::ptr_eq(&last.common, common) => last.count += 1,
                Some(_) | None => moved.push(Moved { common: Arc::clone(common), before, count: 1 }),
            }
        }
        moved
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
