//! What the servers want of this node against what it has: which allocations are new, changed or gone. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::ClientStatus;
use model::{AllocId, HistoryId, Index};
use wire::node::WorkIndex;

use crate::alloc::spec::AllocSpec;

/// The allocations that the agent has, with when the servers changed each last.
pub(crate) type Held = BTreeMap<AllocId, WorkIndex>;

/// What the agent has to do to have what the servers want.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// No longer listed: the servers have forgotten them.
    pub(crate) removed: Vec<AllocId>,
    /// Changed by the servers.
    pub(crate) updated: Vec<AllocSpec>,
    /// New here.
    pub(crate) added: Vec<AllocSpec>,
}

/// Which of the allocations listed, in this history, the agent still has to ask for.
pub(crate) fn missing(
    listed: &[(AllocId, Index)],
    history: HistoryId,
    got: &[AllocSpec],
    held: &Held,
) -> Vec<AllocId> {
    let got: BTreeSet<AllocId> = got.iter().map(AllocSpec::id).collect();
    let has = |id, index| held.get(id).is_some_and(|held: &WorkIndex| held.within(history) >= index);
    let wanted = listed.iter().filter(|(id, index)| !has(id, *index));
    wanted.map(|(id, _)| *id).filter(|id| !got.contains(id)).collect()
}

/// Compares a whole listing, and the allocations that changed, with what is held.
pub(crate) fn reconcile(
    listed: &[(AllocId, Index)],
    history: HistoryId,
    got: Vec<AllocSpec>,
    held: &Held,
) -> Changes {
    let listed: BTreeSet<AllocId> = listed.iter().map(|(id, _)| *id).collect();
    let removed: Vec<AllocId> = held.keys().filter(|id| !listed.contains(id)).copied().collect();
    let got = got.into_iter().filter(|spec| listed.contains(&spec.id())).collect();
    follow_on(&removed, history, got, held)
}

/// Compares the allocations that changed, and those that are gone, with what is held.
pub(crate) fn follow_on(
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

/// Whether the servers lost sight of an allocation and only want to hear of it again.
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
    fn what_is_new_changed_or_gone_is_told_apart() {
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
    fn what_another_history_says_is_new_whatever_its_index() {
        let held = held(&[(1, 5), (2, 5), (3, 9)]);
        let now = listed(&[(1, 5), (3, 4)]);
        assert_eq!(missing(&now, OTHER, &[], &held), [alloc_id(1), alloc_id(3)]);
        let got: Vec<AllocSpec> =
            [at(1, 5), at(3, 4)].map(|spec| AllocSpec { history: OTHER, ..spec }).to_vec();
        let changes = reconcile(&now, OTHER, got.clone(), &held);
        assert_eq!(changes, Changes { removed: vec![alloc_id(2)], updated: got, added: vec![] });
    }

    #[test]
    fn what_was_sent_but_is_not_listed_is_not_begun_with() {
        assert_eq!(reconcile(&[], HISTORY, vec![at(1, 5)], &Held::new()), Changes::default());
    }
}
