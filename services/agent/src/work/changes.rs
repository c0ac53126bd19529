//! Compares the work of this node with the allocations that the agent has: which are new, changed or deleted. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::ClientStatus;
use model::{AllocId, HistoryId, Index};
use wire::node::WorkIndex;

use super::spec::AllocSpec;

/// The allocations that the agent has, each with the index at which the servers last changed it.
pub(crate) type Held = BTreeMap<AllocId, WorkIndex>;

/// The changes that the agent must make to match the servers' state.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// No longer listed: the servers have deleted them.
    pub(crate) removed: Vec<AllocId>,
    /// Changed by the servers.
    pub(crate) updated: Vec<AllocSpec>,
    /// New on this node.
    pub(crate) added: Vec<AllocSpec>,
}

/// The listed allocations, in this history, that the agent still has to request.
pub(crate) fn missing(
    listed: &[(AllocId, Index)],
    history: HistoryId,
    received: &[AllocSpec],
    held: &Held,
) -> Vec<AllocId> {
    let received: BTreeSet<AllocId> = received.iter().map(AllocSpec::id).collect();
    let has = |id, index| held.get(id).is_some_and(|held: &WorkIndex| held.within(history) >= index);
    let wanted = listed.iter().filter(|(id, index)| !has(id, *index));
    wanted.map(|(id, _)| *id).filter(|id| !received.contains(id)).collect()
}

/// Compares a complete listing and the changed allocations with the allocations that the agent has.
pub(crate) fn reconcile(
    listed: &[(AllocId, Index)],
    history: HistoryId,
    received: Vec<AllocSpec>,
    held: &Held,
) -> Changes {
    let listed: BTreeSet<AllocId> = listed.iter().map(|(id, _)| *id).collect();
    let removed: Vec<AllocId> = held.keys().filter(|id| !listed.contains(id)).copied().collect();
    let received = received.into_iter().filter(|spec| listed.contains(&spec.id())).collect();
    reconcile_changes(&removed, history, received, held)
}

/// Compares the changed and the deleted allocations with the allocations that the agent has.
pub(crate) fn reconcile_changes(
    gone: &[AllocId],
    history: HistoryId,
    changed: Vec<AllocSpec>,
    held: &Held,
) -> Changes {
    let removed = gone.iter().filter(|id| held.contains_key(id)).copied().collect();
    let mut changes = Changes { removed, ..Changes::default() };
    for spec in changed {
        match held.get(&spec.id()) {
            None => changes.added.push(spec),
            Some(known) if known.within(history) < spec.index().index => changes.updated.push(spec),
            Some(_) => {}
        }
    }
    changes
}

/// Whether the servers had marked an allocation as unknown and only want a new report of it.
pub(crate) fn is_reconnect(spec: &AllocSpec) -> bool {
    spec.work.client_status == ClientStatus::Unknown && !spec.work.desired_status.is_terminal()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{alloc_id, spec};

    const HISTORY: HistoryId = HistoryId::from_bytes([1; 16]);
    const OTHER: HistoryId = HistoryId::from_bytes([2; 16]);

    fn listed(ids: &[(u8, u64)]) -> Vec<(AllocId, Index)> {
        ids.iter().map(|(id, index)| (alloc_id(*id), Index(*index))).collect()
    }

    fn held(ids: &[(u8, u64)]) -> Held {
        let index = |index| WorkIndex { history: HISTORY, index };
        listed(ids).into_iter().map(|(id, at)| (id, index(at))).collect()
    }

    fn at(id: u8, index: u64) -> AllocSpec {
        let mut spec = spec();
        spec.history = HISTORY;
        spec.work.id = alloc_id(id);
        spec.work.alloc_modify_index = Index(index);
        spec
    }

    #[test]
    fn new_changed_and_removed_allocations_are_distinguished() {
        let held = held(&[(1, 5), (2, 5), (3, 5)]);
        let now = listed(&[(2, 5), (3, 8), (4, 7)]);
        assert_eq!(missing(&now, HISTORY, &[at(4, 7)], &held), [alloc_id(3)]);
        let changes = reconcile(&now, HISTORY, vec![at(4, 7), at(3, 8), at(2, 5)], &held);
        assert_eq!(
            changes,
            Changes { removed: vec![alloc_id(1)], updated: vec![at(3, 8)], added: vec![at(4, 7)] }
        );
    }

    #[test]
    fn the_same_again_changes_nothing() {
        let held = held(&[(1, 5)]);
        let now = listed(&[(1, 5)]);
        assert!(missing(&now, HISTORY, &[], &held).is_empty());
        assert_eq!(reconcile(&now, HISTORY, vec![at(1, 5)], &held), Changes::default());
    }

    #[test]
    fn allocations_of_another_history_are_new_at_any_index() {
        let held = held(&[(1, 5), (2, 5), (3, 9)]);
        let now = listed(&[(1, 5), (3, 4)]);
        assert_eq!(missing(&now, OTHER, &[], &held), [alloc_id(1), alloc_id(3)]);
        let received: Vec<AllocSpec> =
            [at(1, 5), at(3, 4)].map(|spec| AllocSpec { history: OTHER, ..spec }).to_vec();
        let changes = reconcile(&now, OTHER, received.clone(), &held);
        assert_eq!(changes, Changes { removed: vec![alloc_id(2)], updated: received, added: vec![] });
    }

    #[test]
    fn an_allocation_that_is_not_listed_is_not_started() {
        assert_eq!(reconcile(&[], HISTORY, vec![at(1, 5)], &Held::new()), Changes::default());
    }
}
