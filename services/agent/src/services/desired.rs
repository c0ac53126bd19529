//! What the allocations of this node want to have registered in one registry, and which of it the registry has accepted.
//! Pure: time comes from the caller.
//!
//! The set of an allocation is registered as a whole, and has a part of each *owner*: the group and every task. After a
//! restart of the agent, the tasks that ran before are *expected*: until they have said again what they register, or a time
//! has passed, nothing is sent of their allocation, so that a registration does not disappear for a moment.
//!
//! An allocation that is *tracked* stays known, even without registrations, so that an empty set of it can be sent again.

use std::collections::{BTreeMap, BTreeSet};

use model::{AllocId, Nanos, Text, Timestamp};

/// How long the tasks of a restored allocation may take to say what they register.
const EXPECTED_MAX: Nanos = Nanos::from_secs(30);

/// To whom registrations of an allocation belong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The group.
    Group,
    /// A task.
    Task(Text),
}

/// The registrations that the allocations of this node want.
#[derive(Debug)]
pub(crate) struct Desired<R> {
    allocs: BTreeMap<AllocId, Wanted<R>>,
    /// Allocations whose present set the registry has not accepted.
    unsent: BTreeSet<AllocId>,
    /// The number of the last change.
    revision: u64,
}

/// What one allocation wants.
#[derive(Debug)]
struct Wanted<R> {
    parts: BTreeMap<Owner, Vec<R>>,
    /// The owners that have not yet said what they register, and until when they are waited for.
    expected: BTreeMap<Owner, Timestamp>,
    /// The number of its last change.
    revision: u64,
    /// Whether the allocation stays known without registrations.
    is_tracked: bool,
    /// What has become of its present set, once the registry has answered.
    outcome: Outcome,
}

/// What has become of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is registered.
    Accepted,
    /// The registry does not know the allocation. That may change.
    Unknown,
    /// It will never be registered.
    Refused,
}

/// The whole set of an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AllocSet<R> {
    /// The allocation.
    pub(crate) alloc: AllocId,
    /// The change that the set is complete up to.
    pub(crate) revision: u64,
    /// All its registrations. If there are none, those that the registry has of the allocation are to be removed.
    pub(crate) registrations: Vec<R>,
}

impl<R> Default for Desired<R> {
    fn default() -> Self {
        Self { allocs: BTreeMap::new(), unsent: BTreeSet::new(), revision: 0 }
    }
}

impl<R: Clone + PartialEq> Desired<R> {
    /// Waits for what an owner registers, because it ran before the agent was restarted.
    pub(crate) fn expect(&mut self, alloc: AllocId, owner: Owner, now: Timestamp) {
        self.wanted(alloc).expected.insert(owner, now + EXPECTED_MAX);
    }

    /// Keeps an allocation known until [`Self::untrack`].
    pub(crate) fn track(&mut self, alloc: AllocId) {
        self.wanted(alloc).is_tracked = true;
    }

    /// Forgets an allocation as soon as nothing is registered of it.
    pub(crate) fn untrack(&mut self, alloc: AllocId) {
        if let Some(wanted) = self.allocs.get_mut(&alloc) {
            wanted.is_tracked = false;
            self.remove_if_empty(alloc);
        }
    }

    /// Sets what an owner registers, in place of what it registered before. Returns whether something is to be sent.
    pub(crate) fn set(&mut self, alloc: AllocId, owner: Owner, registrations: Vec<R>) -> bool {
        if registrations.is_empty() && !self.allocs.contains_key(&alloc) {
            return false;
        }
        let revision = self.revision.saturating_add(1);
        let wanted = self.wanted(alloc);
        let was_expected = wanted.expected.remove(&owner).is_some();
        let is_same = match wanted.parts.get(&owner) {
            Some(before) => *before == registrations,
            None => registrations.is_empty(),
        };
        if is_same && !was_expected {
            self.remove_if_empty(alloc);
            return false;
        }
        if registrations.is_empty() {
            wanted.parts.remove(&owner);
        } else {
            wanted.parts.insert(owner, registrations);
        }
        (wanted.revision, wanted.outcome) = (revision, Outcome::Accepted);
        self.revision = revision;
        self.unsent.insert(alloc);
        true
    }

    /// Whether the registry has accepted the present set of an allocation.
    pub(crate) fn is_accepted(&self, alloc: AllocId) -> bool {
        !self.unsent.contains(&alloc)
    }

    /// Whether the set of an allocation is not complete yet, because an owner is waited for.
    pub(crate) fn is_incomplete(&self, alloc: AllocId, now: Timestamp) -> bool {
        self.allocs.get(&alloc).is_some_and(|wanted| wanted.is_incomplete(now))
    }

    /// The sets that are to be sent: at most `allocs_max` allocations, and registrations of a total size of `size_max`
    /// unless the first allocation has more.
    pub(crate) fn batch(
        &self,
        allocs_max: usize,
        size_max: usize,
        size_of: impl Fn(&R) -> usize,
        now: Timestamp,
    ) -> Vec<AllocSet<R>> {
        let mut batch = Vec::new();
        let mut size = 0_usize;
        for alloc in &self.unsent {
            let wanted = self.allocs.get(alloc).filter(|wanted| !wanted.is_incomplete(now));
            let Some(wanted) = wanted else { continue };
            let own = wanted.parts.values().flatten().map(&size_of);
            size = own.fold(size, usize::saturating_add);
            let is_full = batch.len() >= allocs_max || size > size_max;
            if is_full && !batch.is_empty() {
                break;
            }
            batch.push(wanted.set(*alloc));
        }
        batch
    }

    /// The registry has answered for this set of an allocation. A set that it does not accept is not sent again until it
    /// changes, or everything is. A newer set is still to be sent.
    pub(crate) fn settled(&mut self, alloc: AllocId, revision: u64, outcome: Outcome) {
        let wanted = self.allocs.get_mut(&alloc).filter(|wanted| wanted.revision <= revision);
        if let Some(wanted) = wanted {
            if wanted.outcome != Outcome::Refused {
                wanted.outcome = outcome;
            }
            self.unsent.remove(&alloc);
            self.remove_if_empty(alloc);
        }
    }

    /// This set of an allocation can never be registered. It is replaced by an empty set.
    pub(crate) fn refused(&mut self, alloc: AllocId, revision: u64) {
        let wanted = self.allocs.get_mut(&alloc).filter(|wanted| wanted.revision <= revision);
        if let Some(wanted) = wanted {
            wanted.outcome = Outcome::Refused;
        }
    }

    /// Sends the sets of allocations again that the registry did not know.
    pub(crate) fn retry_unknown(&mut self) {
        let unknown = self.allocs.iter().filter(|(_, wanted)| wanted.outcome == Outcome::Unknown);
        self.unsent.extend(unknown.map(|(alloc, _)| *alloc));
    }

    /// Sends all sets again, because the registry may have lost some.
    pub(crate) fn resend(&mut self) {
        self.unsent.extend(self.allocs.keys());
    }

    /// Whether the registry has answered for all sets, and all are complete.
    pub(crate) fn is_settled(&self, now: Timestamp) -> bool {
        self.unsent.is_empty() && !self.allocs.values().any(|wanted| wanted.is_incomplete(now))
    }

    /// The sets that the registry has accepted, if it [is settled](Self::is_settled).
    pub(crate) fn accepted(&self) -> impl Iterator<Item = (AllocId, &R)> {
        let accepted = self.allocs.iter().filter(|(_, wanted)| wanted.outcome == Outcome::Accepted);
        accepted.flat_map(|(alloc, wanted)| wanted.parts.values().flatten().map(|own| (*alloc, own)))
    }

    /// The sets of all allocations, by allocation.
    pub(crate) fn all(&self) -> impl Iterator<Item = AllocSet<R>> + '_ {
        self.allocs.iter().map(|(alloc, wanted)| wanted.set(*alloc))
    }

    /// The number of allocations whose set the registry has not accepted.
    pub(crate) fn pending(&self) -> usize {
        self.unsent.len()
    }

    /// When there is something to send; `None` if there is nothing.
    pub(crate) fn poll_timeout(&self, now: Timestamp) -> Option<Timestamp> {
        let due = self.unsent.iter().filter_map(|alloc| self.allocs.get(alloc));
        due.map(|wanted| wanted.expected.values().copied().max().map_or(now, |until| until.max(now))).min()
    }

    fn wanted(&mut self, alloc: AllocId) -> &mut Wanted<R> {
        self.allocs.entry(alloc).or_insert_with(|| Wanted {
            parts: BTreeMap::new(),
            expected: BTreeMap::new(),
            revision: 0,
            is_tracked: false,
            outcome: Outcome::Accepted,
        })
    }

    fn remove_if_empty(&mut self, alloc: AllocId) {
        let is_empty =
            |wanted: &Wanted<R>| !wanted.is_tracked && wanted.parts.is_empty() && wanted.expected.is_empty();
        if !self.unsent.contains(&alloc) && self.allocs.get(&alloc).is_some_and(is_empty) {
            self.allocs.remove(&alloc);
        }
    }
}

impl<R: Clone> Wanted<R> {
    fn is_incomplete(&self, now: Timestamp) -> bool {
        self.expected.values().any(|until| *until > now)
    }

    fn set(&self, alloc: AllocId) -> AllocSet<R> {
        let registrations = self.parts.values().flatten().cloned().collect();
        AllocSet { alloc, revision: self.revision, registrations }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{NOW, alloc_id};

    fn task(name: &str) -> Owner {
        Owner::Task(name.into())
    }

    /// The registrations of a batch of everything, by the first byte of the allocation's id.
    fn sent(desired: &Desired<&'static str>, now: Timestamp) -> Vec<(AllocId, Vec<&'static str>)> {
        let batch = desired.batch(100, 100, |_| 1, now).into_iter();
        batch.map(|set| (set.alloc, set.registrations)).collect()
    }

    /// The registry accepts everything that is to be sent.
    fn accept(desired: &mut Desired<&'static str>) {
        for set in desired.batch(100, 100, |_| 1, NOW) {
            desired.settled(set.alloc, set.revision, Outcome::Accepted);
        }
    }

    #[test]
    fn the_set_of_an_allocation_has_the_parts_of_its_owners() {
        let (mut desired, one) = (Desired::default(), alloc_id(1));
        assert_eq!(desired.poll_timeout(NOW), None);
        assert!(desired.set(one, task("web"), vec!["a", "b"]));
        assert!(desired.set(one, Owner::Group, vec!["g"]));
        assert_eq!(desired.poll_timeout(NOW), Some(NOW));
        assert_eq!(sent(&desired, NOW), [(one, vec!["g", "a", "b"])]);
        accept(&mut desired);
        assert!(desired.is_accepted(one) && desired.poll_timeout(NOW).is_none());
        assert!(!desired.set(one, Owner::Group, vec!["g"]), "nothing has changed");
        assert!(desired.set(one, task("web"), Vec::new()));
        assert_eq!(sent(&desired, NOW), [(one, vec!["g"])]);
    }

    #[test]
    fn an_allocation_without_registrations_is_forgotten_once_the_registry_knows() {
        let (mut desired, one) = (Desired::default(), alloc_id(1));
        assert!(!desired.set(one, Owner::Group, Vec::new()), "there was nothing before");
        desired.set(one, Owner::Group, vec!["g"]);
        accept(&mut desired);
        desired.set(one, Owner::Group, Vec::new());
        assert_eq!(sent(&desired, NOW), [(one, vec![])]);
        assert_eq!(desired.all().count(), 1);
        accept(&mut desired);
        assert_eq!((desired.all().count(), desired.pending()), (0, 0));
    }

    #[test]
    fn a_change_while_a_set_is_on_its_way_is_sent_afterwards() {
        let (mut desired, one) = (Desired::default(), alloc_id(1));
        desired.set(one, Owner::Group, vec!["old"]);
        let [on_its_way] = &desired.batch(100, 100, |_| 1, NOW)[..] else { panic!("there is one set") };
        let revision = on_its_way.revision;
        desired.set(one, Owner::Group, vec!["new"]);
        desired.settled(one, revision, Outcome::Accepted);
        assert!(!desired.is_accepted(one));
        assert_eq!(sent(&desired, NOW), [(one, vec!["new"])]);
    }

    #[test]
    fn nothing_is_sent_of_a_restored_allocation_until_its_tasks_have_spoken() {
        let (mut desired, one) = (Desired::default(), alloc_id(1));
        desired.expect(one, task("web"), NOW);
        desired.expect(one, task("db"), NOW);
        desired.set(one, Owner::Group, vec!["g"]);
        desired.set(one, task("web"), vec!["w"]);
        assert!(desired.is_incomplete(one, NOW));
        assert_eq!(sent(&desired, NOW), []);
        let at = desired.poll_timeout(NOW).unwrap();
        assert_eq!(at, NOW + EXPECTED_MAX);
        assert_eq!(sent(&desired, at), [(one, vec!["g", "w"])], "a task that says nothing is not waited for");
        // The task has ended meanwhile, which must be said to the registry.
        assert!(desired.set(one, task("db"), Vec::new()));
        assert_eq!(sent(&desired, NOW), [(one, vec!["g", "w"])]);
        assert!(!desired.is_incomplete(one, NOW));
    }

    #[test]
    fn an_expected_task_that_has_ended_is_withdrawn() {
        let (mut desired, one) = (Desired::<&str>::default(), alloc_id(1));
        desired.expect(one, task("web"), NOW);
        assert!(desired.set(one, task("web"), Vec::new()), "an earlier run of the agent has registered it");
        assert_eq!(sent(&desired, NOW), [(one, vec![])]);
        accept(&mut desired);
        assert_eq!(desired.all().count(), 0);
    }

    #[test]
    fn batches_are_limited_by_allocations_and_by_size() {
        let mut desired = Desired::default();
        for number in 1..=4 {
            desired.set(alloc_id(number), Owner::Group, vec!["a", "b"]);
        }
        assert_eq!(desired.batch(3, 100, |_| 1, NOW).len(), 3);
        assert_eq!(desired.batch(100, 5, |_| 1, NOW).len(), 2);
        assert_eq!(desired.batch(100, 1, |_| 1, NOW).len(), 1, "an allocation is never cut");
        assert_eq!(desired.pending(), 4);
    }

    #[test]
    fn everything_is_sent_again_when_the_registry_has_lost_something() {
        let mut desired = Desired::default();
        desired.set(alloc_id(1), Owner::Group, vec!["a"]);
        desired.set(alloc_id(2), Owner::Group, vec!["b"]);
        accept(&mut desired);
        assert_eq!(sent(&desired, NOW), []);
        desired.resend();
        assert_eq!(sent(&desired, NOW), [(alloc_id(1), vec!["a"]), (alloc_id(2), vec!["b"])]);
    }

    #[test]
    fn a_tracked_allocation_stays_known_without_registrations() {
        let (mut desired, one) = (Desired::<&str>::default(), alloc_id(1));
        desired.track(one);
        assert!(!desired.set(one, Owner::Group, Vec::new()));
        assert_eq!((desired.all().count(), desired.pending()), (1, 0));
        desired.resend();
        assert_eq!(sent(&desired, NOW), [(one, vec![])]);
        desired.untrack(one);
        accept(&mut desired);
        assert_eq!(desired.all().count(), 0);
    }

    #[test]
    fn the_set_of_an_unknown_allocation_is_sent_again() {
        let (mut desired, one) = (Desired::default(), alloc_id(1));
        desired.set(one, Owner::Group, vec!["a"]);
        for set in desired.batch(100, 100, |_| 1, NOW) {
            desired.settled(set.alloc, set.revision, Outcome::Unknown);
        }
        assert_eq!((desired.accepted().count(), desired.pending()), (0, 0));
        desired.retry_unknown();
        assert_eq!(desired.pending(), 1);
        accept(&mut desired);
        assert_eq!(desired.accepted().count(), 1);
    }

    #[test]
    fn a_refused_set_is_sent_again_only_if_it_changes() {
        let (mut desired, one) = (Desired::default(), alloc_id(1));
        desired.set(one, Owner::Group, vec!["a"]);
        for set in desired.batch(100, 100, |_| 1, NOW) {
            desired.settled(set.alloc, set.revision, Outcome::Refused);
        }
        assert!(desired.is_settled(NOW));
        assert_eq!(desired.accepted().count(), 0);
        desired.retry_unknown();
        assert!(desired.is_settled(NOW));
        desired.set(one, Owner::Group, vec!["b"]);
        accept(&mut desired);
        assert_eq!(desired.accepted().collect::<Vec<_>>(), [(one, &"b")]);
    }
}
