//! Data that templates wait for, and the event that says so. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

/// How long data is missing before an event says so.
const EVENT_DELAY: Duration = Duration::from_secs(3);
/// How much of what is missing an event names.
const SHOWN_MAX: usize = 3;

/// The data that templates wait for. Times are since a moment of the caller.
#[derive(Debug, Default)]
pub(super) struct Missing {
    now: BTreeSet<String>,
    shown: BTreeSet<String>,
    since: Duration,
}

impl Missing {
    /// Sets what is missing.
    pub(super) fn set(&mut self, missing: BTreeSet<String>, now: Duration) {
        if self.now.is_empty() {
            self.since = now;
        }
        self.now = missing;
        if self.now.is_empty() {
            self.shown.clear();
        }
    }

    /// When [`Self::event`] next has something to say.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        (!self.now.is_empty() && self.now != self.shown).then(|| self.since.saturating_add(EVENT_DELAY))
    }

    /// The text of an event, if there is something to say that was not said yet.
    pub(super) fn event(&mut self, now: Duration) -> Option<String> {
        self.poll_timeout().filter(|due| *due <= now)?;
        self.shown.clone_from(&self.now);
        let named: Vec<&str> = self.now.iter().take(SHOWN_MAX).map(String::as_str).collect();
        let mut text = format!("Missing: {}", named.join(", "));
        let more = self.now.len().saturating_sub(named.len());
        if more > 0 {
            text += &format!(", and {more} more");
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    //
    #[test]
    fn an_event_says_what_is_missing_after_a_while_and_when_it_changes() {
        let mut missing = Missing::default();
        let secs = Duration::from_secs;
        assert_eq!(missing.poll_timeout(), None);
        missing.set(names(&["a"]), secs(1));
        assert_eq!(missing.poll_timeout(), Some(secs(4)));
        assert_eq!(missing.event(secs(3)), None);
        assert_eq!(missing.event(secs(4)).unwrap(), "Missing: a");
        assert_eq!(missing.poll_timeout(), None);
        missing.set(names(&["a"]), secs(5));
        assert_eq!(missing.event(secs(60)), None);
        missing.set(names(&["a", "b", "c", "d", "e"]), secs(61));
        assert_eq!(missing.event(secs(61)).unwrap(), "Missing: a, b, c, and 2 more");
        missing.set(names(&[]), secs(62));
        missing.set(names(&["a"]), secs(70));
        assert_eq!(missing.poll_timeout(), Some(secs(73)));
    }
}
