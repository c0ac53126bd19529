//! [`Agenda`]: the times at which objects are due for a check. Pure.

use std::collections::{BTreeMap, BTreeSet};

use model::Timestamp;

/// A set of objects, such as deployments, each with the time at which it is due for a check.
#[derive(Debug)]
pub(crate) struct Agenda<K> {
    due: BTreeMap<K, Timestamp>,
    by_due: BTreeSet<(Timestamp, K)>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { due: BTreeMap::new(), by_due: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Agenda<K> {
    /// Returns the number of objects.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Returns the earliest due time.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Schedules a check no later than `due`.
    pub(crate) fn add(&mut self, id: K, due: Timestamp) {
        if self.due.get(&id).is_none_or(|planned| due < *planned) {
            self.remove(&id);
            self.due.insert(id.clone(), due);
            self.by_due.insert((due, id));
        }
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, id: &K) {
        if let Some((id, due)) = self.due.remove_entry(id) {
            self.by_due.remove(&(due, id));
        }
    }

    /// Removes and returns the object with the earliest due time, if that time is not after `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<K> {
        let first = self.by_due.first().filter(|(due, _)| *due <= now);
        let id = first.map(|(_, id)| id.clone())?;
        self.remove(&id);
        Some(id)
    }
}

#[cfg(test)]
mod tests {
    use model::DeploymentId;

    use super::*;

    #[test]
    fn the_earliest_moment_counts_and_the_first_comes_first() {
        let [one, two] = [1, 2].map(|number| DeploymentId::from_bytes([number; 16]));
        let at = Timestamp::from_secs;
        let mut agenda = Agenda::default();
        agenda.add(one, at(30));
        agenda.add(two, at(20));
        agenda.add(one, at(10));
        agenda.add(one, at(40));
        assert_eq!((agenda.len(), agenda.first()), (2, Some(at(10))));
        assert_eq!(agenda.pop(at(9)), None);
        assert_eq!([agenda.pop(at(10)), agenda.pop(at(10))], [Some(one), None]);
        agenda.remove(&two);
        assert_eq!((agenda.len(), agenda.first(), agenda.pop(at(99))), (0, None, None));
    }
}
