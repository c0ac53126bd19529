//! [`SystemPlacer`]: the room on the nodes of a system job, where allocations are updated in place and placed.

use std::collections::BTreeSet;

use model::alloc::{AllocMetric, Reason};
use model::{AllocId, Text};
use state::AllocRef;

use super::Target;
use super::nodes::{Diff, OfGroup};
use crate::place::{Chosen, PlacementRequest, Placer, Version};

/// Places allocations of one job version. The plan's stops are already taken into account.
pub(super) struct SystemPlacer<'a> {
    inner: Placer<'a>,
    version: Version,
}

impl<'a> SystemPlacer<'a> {
    pub(super) fn of(target: Target<'a>, diff: &Diff<'a>) -> Self {
        let mut placer = Placer::of(target.attempt.state, target.context.pages, target.attempt.eval);
        let version = placer.version(target.job);
        diff.stops.iter().for_each(|stop| placer.stop(stop.alloc));
        Self { inner: placer, version }
    }

    /// Whether a group fits in place of an existing allocation; if it does, the allocation is updated in place.
    pub(super) fn fits(&mut self, update: OfGroup<'a>) -> bool {
        self.inner.update_in_place(self.version, update.group, update.alloc)
    }

    /// Repeats the in-place update of an allocation that fitted before.
    pub(super) fn stays(&mut self, update: OfGroup<'a>) {
        let fits = self.fits(update);
        debug_assert!(fits, "an in-place update that fitted before must fit again");
    }

    /// Accounts for a stop: the allocation no longer uses resources.
    pub(super) fn stop(&mut self, alloc: AllocRef<'a>) {
        self.inner.stop(alloc);
    }

    /// Places a new allocation of a group on the node in `slot`; the error holds the metrics of the failure.
    pub(super) fn place(
        &mut self,
        group: usize,
        slot: u32,
        (id, name_index): (AllocId, u32),
        explain: bool,
    ) -> Result<Chosen, Box<AllocMetric>> {
        let request = PlacementRequest {
            version: self.version,
            group,
            id,
            name_index,
            previous: None,
            replaces: false,
            explain,
        };
        let mut chosen = self.inner.place_on(&request, slot)?;
        if let Some(metric) = &mut chosen.metric {
            // The pool's name is reported for failures only.
            metric.node_pool = Text::default();
        }
        Ok(chosen)
    }

    /// Whether a class does not determine feasibility for all of its nodes.
    pub(super) fn escapes_class(&self) -> bool {
        self.inner.escapes_class()
    }

    /// Every reason for which an allocation of a group cannot be placed on the nodes in `slots`.
    pub(super) fn reasons_of(&mut self, group: usize, slots: &BTreeSet<u32>) -> Vec<Reason> {
        self.inner.reasons_of(self.version, group, slots)
    }
}
