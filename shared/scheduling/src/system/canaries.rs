//! Updates of a system job that are withheld while canaries are tried (`docs/rules/scheduling.md` ).

use std::collections::BTreeSet;

use model::AllocId;

use super::counts::Counts;
use super::intents::Intent;
use super::placing::PlacingResult;

/// Allocations whose replacement is withheld for now: all replaceable ones except those that canaries replace. A canary
/// that runs, or that failed and is replaced now, counts as one.
pub(super) fn withheld(
    intents: &[Intent<'_>],
    placed: &PlacingResult<'_>,
    counts: &Counts,
) -> BTreeSet<AllocId> {
    let mut withheld = BTreeSet::new();
    for (group, count) in counts.groups.iter().enumerate().filter(|(_, count)| count.desired_canaries > 0) {
        let existing = count.canaries + placed.renewed_canaries(group);
        let mut open = u64::from(count.desired_canaries).saturating_sub(existing);
        for intent in intents.iter().filter(|intent| intent.group == group && intent.is_canary) {
            let Some(alloc) = intent.previous.filter(|alloc| placed.has_replaced(alloc.id())) else {
                continue;
            };
            if open > 0 {
                open -= 1;
            } else {
                withheld.insert(alloc.id());
            }
        }
    }
    withheld
}
