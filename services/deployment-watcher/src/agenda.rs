//! [`Agenda`]: the times at which deployments are due for a check.

use std::collections::{BTreeMap, BTreeSet};

use model::{DeploymentId, Timestamp};

/// A set of deployments, each with the time at which it is due for a check.
#[derive(Debug, Default)]
pub(crate) struct Agenda {
    due: BTreeMap<DeploymentId, Timestamp>,
    by_due: BTreeSet<(Timestamp, DeploymentId)>,
}

impl Agenda {
    /// Returns the number of deployments.
    pub(crate) fn len(&self) -> usize {
        self.due.len()
    }

    /// Returns the earliest due time.
    pub(crate) fn first(&self) -> Option<Timestamp> {
        self.by_due.first().map(|(due, _)| *due)
    }

    /// Schedules a check no later than `due`.
    pub(crate) fn add(&mut self, id: DeploymentId, due: Timestamp) {
        if self.due.get(&id).is_none_or(|planned| due < *planned) {
            self.remove(id);
            self.due.insert(id, due);
            self.by_due.insert((due, id));
        }
    }

    /// Removes a deployment.
    pub(crate) fn remove(&mut self, id: DeploymentId) {
        if let Some(due) = self.due.remove(&id) {
            self.by_due.remove(&(due, id));
        }
    }

    /// Removes and returns the deployment with the earliest due time, if that time is not after `now`.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<DeploymentId> {
        let (due, id) = self.by_due.first().copied()?;
        (due <= now).then(|| {
            self.remove(id);
            id
        })
    }
}

#[cfg(test)]
mod tests {
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
        agenda.remove(two);
        assert_eq!((agenda.len(), agenda.first(), agenda.pop(at(99))), (0, None, None));
    }
}
