//! Whatever happens to a cluster, its state says what plain maps of the same objects say, in whichever way it got there.

use model::HistoryId;
use model::change::{Change, ChangeSet};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::subsequence;
use state::{Scope, Stamp, State, Table};
use tests::build::Log;

use crate::commands::{self, Command};
use crate::compare::{assert_part, assert_same};
use crate::effects;
use crate::naive::Naive;

/// One change set: the commands that it is made of, and whether the state after it is kept as a snapshot.
#[derive(Debug, Clone)]
struct Step {
    commands: Vec<Command>,
    kept: bool,
}

fn step() -> impl Strategy<Value = Step> {
    (vec(commands::command(), 1..4), prop::bool::weighted(0.2))
        .prop_map(|(commands, kept)| Step { commands, kept })
}

/// Any part of the state that a process may keep.
fn scope() -> impl Strategy<Value = Scope> {
    let whole = subsequence(Table::ALL.to_vec(), 0..=3)
        .prop_map(|left_out| Scope::ALL.without(&left_out))
        .prop_filter("rows refer to others", |scope| scope.is_whole());
    (whole, any::<bool>()).prop_map(|(scope, lists)| if lists { scope } else { scope.without_lists() })
}

#[derive(Default)]
struct Twins {
    log: Log,
    state: State,
    naive: Naive,
}

impl Twins {
    /// The cluster that every history begins with.
    fn open() -> Self {
        let mut twins = Self::default();
        twins.advance([effects::opening]);
        twins
    }

    /// Both move on by the step's commands.
    fn take(&mut self, step: &Step) -> ChangeSet {
        let index = self.log.next_index();
        self.advance(
            step.commands
                .iter()
                .map(|command| move |naive: &Naive| Vec::from_iter(command.change(naive, index))),
        )
    }

    /// Both move on by one change set; each part of it sees what the parts before it did.
    fn advance<F: FnOnce(&Naive) -> Vec<Change>>(&mut self, parts: impl IntoIterator<Item = F>) -> ChangeSet {
        let mut set: ChangeSet = self.log.entry(Vec::new());
        for part in parts {
            let changes = part(&self.naive);
            changes.iter().for_each(|change| self.naive.change(change, &set));
            set.changes.extend(changes);
        }
        (self.naive.index, self.naive.at) = (set.index, set.at);
        self.state.apply(&set).expect("commands make change sets that fit");
        assert_same(&self.state, &self.naive);
        set
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_state_says_what_its_objects_say(steps in vec(step(), 1..50)) {
        let mut twins = Twins::open();
        let mut snapshots = Vec::new();
        for step in steps {
            twins.take(&step);
            if step.kept {
                snapshots.push((twins.state.clone(), twins.naive.clone()));
            }
        }
        for (snapshot, naive) in &snapshots {
            assert_same(snapshot, naive);
        }
        let (naive, set) = twins.naive.as_loaded();
        let mut loaded = State::default();
        loaded.load(&set).expect("whole objects fit an empty state");
        assert_same(&loaded, &naive);
    }

    #[test]
    fn a_part_of_a_state_says_what_the_whole_one_says(scope in scope(), steps in vec(step(), 1..30)) {
        let mut twins = Twins::default();
        let mut part = State::new(HistoryId::default(), scope);
        let opening = twins.advance([effects::opening]);
        part.apply(&opening).expect("what is out of scope is passed over");
        for step in steps {
            part.apply(&twins.take(&step)).expect("what is out of scope is passed over");
            assert_part(&part, &twins.state);
        }
        let (_, set) = twins.naive.as_loaded();
        let (mut loaded, mut whole) = (State::new(HistoryId::default(), scope), State::default());
        loaded.load(&set).expect("what is out of scope is passed over");
        whole.load(&set).expect("whole objects fit an empty state");
        assert_part(&loaded, &whole);
    }

    #[test]
    fn a_change_set_does_the_same_change_by_change(steps in vec(step(), 1..20)) {
        let mut twins = Twins::open();
        let mut stepwise = twins.state.clone();
        for step in steps {
            let set = twins.take(&step);
            let (stamp, before) = (Stamp::from(&set), (stepwise.index(), stepwise.at()));
            for change in &set.changes {
                stepwise.apply_change(change, stamp).expect("commands make change sets that fit");
            }
            assert_eq!((stepwise.index(), stepwise.at()), before, "it is not at the next index yet");
            stepwise.advance(stamp);
            assert_same(&stepwise, &twins.naive);
        }
    }
}
