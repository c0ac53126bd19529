//! The subjects that NATS refuses to a process for lack of permission, if the process's work depends on them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use wire::Subject;

/// Maximum number of refusals that are remembered.
const REFUSALS_MAX: usize = 64;

/// A use of a subject for which a process needs permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Action {
    Publish,
    Subscribe,
}

impl Action {
    /// Name of the action in logs and metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
        }
    }
}

/// The refusals of a process. Its connections share them. Permissions belong to a connection, so a refusal lasts until
/// the connection is made anew.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    connections: AtomicU32,
    refused: Mutex<BTreeSet<Refused>>,
}

/// One refusal: number of the connection, action and subject.
type Refused = (u32, Action, String);

impl Refusals {
    /// Returns the number of a new connection.
    pub(crate) fn new_connection(&self) -> u32 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    /// Records a refusal on a connection.
    pub(crate) fn record(&self, connection: u32, action: Action, subject: &str) {
        let mut refused = self.refused();
        if refused.len() < REFUSALS_MAX && Subject::is_essential(subject, action == Action::Publish) {
            refused.insert((connection, action, subject.to_owned()));
        }
    }

    /// Forgets the refusals on a connection, because it was made anew or has ended.
    pub(crate) fn forget(&self, connection: u32) {
        self.refused().retain(|(of, _, _)| *of != connection);
    }

    /// Describes the refusals; `None` if there are none.
    pub(crate) fn describe(&self) -> Option<String> {
        let refused = self.refused();
        let (_, action, subject) = refused.first()?;
        let further = match refused.len() - 1 {
            0 => String::new(),
            further => format!(" and {further} more"),
        };
        let verb = match action {
            Action::Publish => "publish on",
            Action::Subscribe => "subscribe to",
        };
        Some(format!(
            "NATS does not permit to {verb} {subject}{further}: the credentials are of another role, or older than this \
             program"
        ))
    }

    fn refused(&self) -> MutexGuard<'_, BTreeSet<Refused>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_lasts_as_long_as_its_connection() {
        let refusals = Refusals::default();
        let [first, second] = [refusals.new_connection(), refusals.new_connection()];
        assert_eq!(refusals.describe(), None);
        refusals.record(first, Action::Subscribe, "inbox.api.x");
        refusals.record(second, Action::Publish, "applier.head");
        refusals.record(second, Action::Publish, "applier.head");
        let text = refusals.describe().unwrap();
        assert!(text.contains("to subscribe to inbox.api.x and 1 more: the credentials"), "{text}");
        refusals.forget(first);
        let text = refusals.describe().unwrap();
        assert!(text.contains("to publish on applier.head: the credentials"), "{text}");
        refusals.forget(second);
        assert_eq!(refusals.describe(), None);
    }

    #[test]
    fn refusals_of_inessential_subjects_are_left_out() {
        let refusals = Refusals::default();
        refusals.record(0, Action::Publish, "metrics.api.0");
        refusals.record(0, Action::Publish, "inbox.scheduler.x");
        assert_eq!(refusals.describe(), None);
        for number in 0..2 * REFUSALS_MAX {
            refusals.record(0, Action::Subscribe, &format!("applier.{number}"));
        }
        assert_eq!(refusals.refused().len(), REFUSALS_MAX);
    }
}
