//! Placement metrics of failed groups (`docs/rules/scheduling.md` §6.8).

use model::alloc::AllocMetric;
use model::job::TaskGroup;

use crate::place::add_exhausted_resources;

/// Counts one more placement that was not attempted because the group has failed already.
pub(crate) fn coalesce(metric: &mut AllocMetric, group: &TaskGroup) {
    metric.coalesced_failures += 1;
    add_exhausted_resources(metric, group);
}
