//! What follows from changes of templates while their task runs: files are written when their values have settled,
//! and then one action is taken for all that have changed. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::plan::{Mode, Plan};

/// The pause after a text could not be written.
const WRITE_RETRY: Duration = Duration::from_secs(10);

/// A text, by its digest.
pub(super) type Digest = [u8; 32];

/// Changes that are not acted upon yet. Times are since a moment of the caller.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Texts that are not written yet, by the position of their template.
    held: BTreeMap<usize, Held>,
    /// The templates that were written since the last action.
    written: BTreeSet<usize>,
    /// When the action is due.
    due: Option<Duration>,
}

/// A text that is not written yet.
#[derive(Debug)]
struct Held {
    text: String,
    digest: Digest,
    since: Duration,
    due: Duration,
}

/// What is done after templates were written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// The task is restarted, which includes everything else.
    Restart,
    /// The task gets signals, and programs run in it.
    Notify {
        /// The names of the signals.
        signals: BTreeSet<String>,
        /// The positions of the templates whose programs run.
        scripts: Vec<usize>,
    },
}

impl Changes {
    /// A template has a text that differs from that of its file.
    pub(super) fn differs(
        &mut self,
        position: usize,
        plan: &Plan,
        text: String,
        digest: Digest,
        now: Duration,
    ) {
        let earlier = self.held.get(&position);
        if earlier.is_some_and(|held| held.digest == digest) {
            return;
        }
        let since = earlier.map_or(now, |held| held.since);
        let due = now.saturating_add(plan.wait.min).min(since.saturating_add(plan.wait.max));
        self.held.insert(position, Held { text, digest, since, due });
    }

    /// A template has the text of its file, perhaps again.
    pub(super) fn is_same(&mut self, position: usize) {
        self.held.remove(&position);
    }

    /// The texts that are to be written now.
    pub(super) fn due_texts(&mut self, now: Duration) -> Vec<(usize, String, Digest)> {
        let due = self.held.extract_if(.., |_, held| held.due <= now);
        due.map(|(position, held)| (position, held.text, held.digest)).collect()
    }

    /// A text could not be written. It is tried again after a while, unless the template has another one by then.
    pub(super) fn not_written(&mut self, position: usize, text: String, digest: Digest, now: Duration) {
        let due = now.saturating_add(WRITE_RETRY);
        self.held.insert(position, Held { text, digest, since: now, due });
    }

    /// A template was written. `chance`, from 0 to 1, says where in the splay the action is.
    pub(super) fn wrote(&mut self, position: usize, plans: &[Plan], now: Duration, chance: f64) {
        let Some(plan) = plans.get(position).filter(|plan| plan.mode != Mode::Noop) else { return };
        self.written.insert(position);
        if self.due.is_none() {
            self.due = Some(now.saturating_add(plan.splay.mul_f64(chance.clamp(0.0, 1.0))));
        }
    }

    /// When there is next something to do.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.held.values().map(|held| held.due).chain(self.due).min()
    }

    /// The action for everything that was written, if it is due.
    pub(super) fn due_action(&mut self, plans: &[Plan], now: Duration) -> Option<Action> {
        self.due.filter(|due| *due <= now)?;
        self.due = None;
        let (mut signals, mut scripts) = (BTreeSet::new(), Vec::new());
        let mut restarts = false;
        for position in std::mem::take(&mut self.written) {
            match plans.get(position).map(|plan| &plan.mode) {
                Some(Mode::Restart) => restarts = true,
                Some(Mode::Signal(signal)) => {
                    signals.insert(signal.clone());
                }
                Some(Mode::Script(_)) => scripts.push(position),
                Some(Mode::Noop) | None => {}
            }
        }
        Some(if restarts { Action::Restart } else { Action::Notify { signals, scripts } })
    }
}

#[cfg(test)]
mod tests {
    use model::Text;

    use super::super::plan::{Script, Source};
    use super::*;
    use crate::node::templates::Wait;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn plan(mode: Mode) -> Plan {
        Plan {
            source: Source::Inline(Text::default()),
            destination: "web/local/a".into(),
            shown: "local/a".to_owned(),
            delimiters: Default::default(),
            error_on_missing_key: false,
            perms: 0o644,
            uid: None,
            gid: None,
            env: false,
            once: false,
            mode,
            splay: secs(10),
            wait: Wait::default(),
        }
    }

    fn script() -> Mode {
        Mode::Script(Script {
            command: vec!["x".to_owned()],
            timeout: secs(1),
            fail_on_error: false,
            on_first_render: false,
        })
    }

    fn signal(name: &str) -> Mode {
        Mode::Signal(name.to_owned())
    }

    /// The action after all of these templates have changed.
    fn after(modes: &[Mode]) -> Option<Action> {
        let plans: Vec<Plan> = modes.iter().cloned().map(plan).collect();
        let mut changes = Changes::default();
        for position in 0..plans.len() {
            changes.wrote(position, &plans, secs(0), 0.0);
        }
        changes.due_action(&plans, secs(0))
    }

    //
    #[test]
    fn a_restart_includes_everything_else() {
        assert_eq!(after(&[signal("SIGHUP"), Mode::Restart, script()]), Some(Action::Restart));
        let signals = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let both = Action::Notify { signals: signals(&["SIGHUP", "SIGUSR1"]), scripts: vec![2] };
        assert_eq!(after(&[signal("SIGUSR1"), signal("SIGHUP"), script(), signal("SIGHUP")]), Some(both));
        assert_eq!(after(&[Mode::Noop]), None);
    }

    //
    #[test]
    fn changes_within_the_splay_are_one_action() {
        let plans = [plan(Mode::Restart), plan(Mode::Restart)];
        let mut changes = Changes::default();
        changes.wrote(0, &plans, secs(0), 0.5);
        assert_eq!(changes.poll_timeout(), Some(secs(5)));
        changes.wrote(1, &plans, secs(4), 0.9);
        assert_eq!(changes.due_action(&plans, secs(4)), None);
        assert_eq!(changes.due_action(&plans, secs(5)), Some(Action::Restart));
        assert_eq!((changes.due_action(&plans, secs(60)), changes.poll_timeout()), (None, None));
    }

    #[test]
    fn a_text_is_written_when_it_has_settled_or_waited_long_enough() {
        let plan = Plan { wait: Wait { min: secs(2), max: secs(3) }, ..plan(Mode::Noop) };
        let mut changes = Changes::default();
        let digest = |number| [number; 32];
        changes.differs(0, &plan, "a".to_owned(), digest(1), secs(10));
        assert_eq!(changes.poll_timeout(), Some(secs(12)));
        changes.differs(0, &plan, "b".to_owned(), digest(2), secs(11));
        assert_eq!(changes.poll_timeout(), Some(secs(13)));
        changes.differs(0, &plan, "b".to_owned(), digest(2), secs(12));
        changes.differs(0, &plan, "c".to_owned(), digest(3), secs(12));
        assert!(changes.due_texts(secs(12)).is_empty());
        assert_eq!(changes.due_texts(secs(13)), [(0, "c".to_owned(), digest(3))]);
        changes.differs(0, &plan, "d".to_owned(), digest(4), secs(20));
        changes.is_same(0);
        assert_eq!(changes.poll_timeout(), None);
    }

    #[test]
    fn a_text_that_could_not_be_written_is_tried_again() {
        let mut changes = Changes::default();
        changes.not_written(0, "a".to_owned(), [1; 32], secs(7));
        assert_eq!(changes.poll_timeout(), Some(secs(17)));
        changes.differs(0, &plan(Mode::Noop), "a".to_owned(), [1; 32], secs(8));
        assert!(changes.due_texts(secs(16)).is_empty(), "the same text waits");
        assert_eq!(changes.due_texts(secs(17)), [(0, "a".to_owned(), [1; 32])]);
    }

    #[test]
    fn without_a_wait_a_text_is_written_at_once() {
        let mut changes = Changes::default();
        changes.differs(0, &plan(Mode::Noop), "a".to_owned(), [0; 32], secs(7));
        assert_eq!(changes.due_texts(secs(7)).len(), 1);
    }
}
