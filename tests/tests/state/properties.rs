//! After any history, a state agrees with plain maps of the same objects, whichever way it was built.

use model::HistoryId;
use model::change::{Change, ChangeSet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use state::{Scope, Stamp, State, Table};
use tests::build::Log;

use crate::commands::{self, Command};
use crate::compare::{assert_same, assert_scoped};
use crate::effects;
use crate::naive::Naive;

/// One change set: its commands, and whether the state after it is kept as a snapshot.
#[derive(Debug, Clone)]
struct Step {
    commands: Vec<Command>,
    is_kept: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (vec(commands::command(), 1..4), prop::bool::weighted(0.2))
        .prop_map(|(commands, is_kept)| Step { commands, is_kept })
}

/// Any scope that a process may keep.
fn scope() -> impl Strategy<Value = Scope> {
    let whole = subsequence(Table::ALL.to_vec(), 0..=3)
        .prop_map(|left_out| Scope::ALL.without(&left_out))
        .prop_filter("rows refer to others", |scope| scope.is_whole());
    (whole, any::<bool>()).prop_map(|(scope, lists)| if lists { scope } else { scope.without_lists() })
}

/// A state and the naive model, which get the same changes.
#[derive(Default)]
struct Pair {
    log: Log,
    state: State,
    naive: Naive,
}

impl Pair {
    /// Creates the pair with the initial cluster.
    fn open() -> Self {
        let mut pair = Self::default();
        pair.advance([effects::initial_changes]);
        pair
    }

    /// Applies the commands of a step to both.
    fn apply_step(&mut self, step: &Step) -> ChangeSet {
        let index = self.log.next_index();
        self.advance(
            step.commands
                .iter()
                .map(|command| move |naive: &Naive| Vec::from_iter(command.change(naive, index))),
        )
    }

    /// Applies one change set to both. Each part of it is made from the result of the parts before.
    fn advance<F: FnOnce(&Naive) -> Vec<Change>>(&mut self, parts: impl IntoIterator<Item = F>) -> ChangeSet {
        let mut set: ChangeSet = self.log.entry(Vec::new());
        for part in parts {
            let changes = part(&self.naive);
            changes.iter().for_each(|change| self.naive.change(change, &set));
            set.changes.extend(changes);
        }
        (self.naive.index, self.naive.at) = (set.index, set.at);
        self.state.apply(&set).expect("commands make valid change sets");
        assert_same(&self.state, &self.naive);
        set
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_state_agrees_with_its_objects(steps in vec(step(), 1..50)) {
        let mut pair = Pair::open();
        let mut snapshots = Vec::new();
        for step in steps {
            pair.apply_step(&step);
            if step.is_kept {
                snapshots.push((pair.state.clone(), pair.naive.clone()));
            }
        }
        for (snapshot, naive) in &snapshots {
            assert_same(snapshot, naive);
        }
        let (naive, set) = pair.naive.as_loaded();
        let mut loaded = State::default();
        loaded.load(&set).expect("whole objects fit an empty state");
        assert_same(&loaded, &naive);
    }

    #[test]
    fn a_scope_of_a_state_agrees_with_the_whole_state(scope in scope(), steps in vec(step(), 1..30)) {
        let mut pair = Pair::default();
        let mut part = State::new(HistoryId::default(), scope);
        let initial = pair.advance([effects::initial_changes]);
        part.apply(&initial).expect("changes out of scope are skipped");
        for step in steps {
            part.apply(&pair.apply_step(&step)).expect("changes out of scope are skipped");
            assert_scoped(&part, &pair.state);
        }
        let (_, set) = pair.naive.as_loaded();
        let (mut loaded, mut whole) = (State::new(HistoryId::default(), scope), State::default());
        loaded.load(&set).expect("changes out of scope are skipped");
        whole.load(&set).expect("whole objects fit an empty state");
        assert_scoped(&loaded, &whole);
    }

    #[test]
    fn a_change_set_does_the_same_change_by_change(steps in vec(step(), 1..20)) {
        let mut pair = Pair::open();
        let mut stepwise = pair.state.clone();
        for step in steps {
            let set = pair.apply_step(&step);
            let (stamp, before) = (Stamp::from(&set), (stepwise.index(), stepwise.at()));
            for change in &set.changes {
                stepwise.apply_change(change, stamp).expect("commands make valid change sets");
            }
            assert_eq!((stepwise.index(), stepwise.at()), before, "the state is not at the next index yet");
            stepwise.advance(stamp);
            assert_same(&stepwise, &pair.naive);
        }
    }
}
