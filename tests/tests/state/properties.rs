//! Whatever happens to a cluster, its state says what plain maps of the same objects say.

use model::change::{Change, ChangeSet};
use proptest::collection::vec;
use proptest::prelude::*;
use state::State;
use tests::build::Log;

use crate::commands::{self, Command};
use crate::compare::{assert_same, assert_same_objects};
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

#[derive(Default)]
struct Twins {
    log: Log,
    state: State,
    naive: Naive,
}

impl Twins {
    /// Both move on by one change set; each part of it sees what the parts before it did.
    fn advance<F: FnOnce(&Naive) -> Vec<Change>>(&mut self, parts: impl IntoIterator<Item = F>) {
        let mut set: ChangeSet = self.log.entry(Vec::new());
        for part in parts {
            let changes = part(&self.naive);
            changes.iter().for_each(|change| self.naive.change(change, &set));
            set.changes.extend(changes);
        }
        (self.naive.index, self.naive.at) = (set.index, set.at);
        self.state.apply(&set).expect("commands make change sets that fit");
        assert_same(&self.state, &self.naive);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_state_says_what_its_objects_say(steps in vec(step(), 1..50)) {
        let mut twins = Twins::default();
        twins.advance([effects::opening]);
        let mut snapshots = Vec::new();
        for step in steps {
            let index = twins.log.next_index();
            twins.advance(step.commands.iter().map(|command| {
                move |naive: &Naive| Vec::from_iter(command.change(naive, index))
            }));
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
        assert_eq!((loaded.index(), loaded.at()), (naive.index, naive.at));
        assert_same_objects(&loaded, &naive);
    }
}
