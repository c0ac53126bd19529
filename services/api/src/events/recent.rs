//! The newest change sets with the states around them, for streams that begin at an earlier index.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Index;
use model::change::Change;
use state::{FollowEvent, Replica, SingleSet, Step};
use tokio::sync::watch;

/// Number of change sets that are kept, the reference's default. The change sets of one step stay together.
const CHANGE_SETS_MAX: usize = 100;
/// Maximum number of objects that the kept change sets changed together. Beyond it, only the newest ones are kept. The
/// states before and after a change set each hold the changed rows and their neighbours: some kilobytes for each
/// allocation, and one change set may change ten thousand.
const OBJECTS_MAX: usize = 10_000;

/// Steps, the oldest first, each with the number of objects that it changed.
#[derive(Debug, Default)]
struct Window {
    steps: VecDeque<(usize, Step)>,
    objects: usize,
}

impl Window {
    fn push(&mut self, step: Step) {
        let (last, objects) = (step.after.index(), step.changes().map(objects).sum());
        self.objects += objects;
        self.steps.push_back((objects, step));
        while self.steps.len() > 1 && (self.objects > OBJECTS_MAX || self.is_oldest_expired(last)) {
            let gone = self.steps.pop_front();
            self.objects -= gone.map_or(0, |(objects, _)| objects);
        }
    }

    fn is_oldest_expired(&self, last: Index) -> bool {
        self.steps
            .front()
            .is_some_and(|(_, oldest)| oldest.after.index().0 + CHANGE_SETS_MAX as u64 <= last.0)
    }
}

/// Number of objects that a change affects.
fn objects(change: &Change) -> usize {
    #[allow(clippy::wildcard_enum_match_arm, reason = "other changes affect one object")]
    match change {
        Change::AllocsPlaced(placed) => placed.len(),
        Change::AllocsChanged(changed) => changed.ids.len(),
        Change::AllocsDeleted(ids) => ids.len(),
        Change::NodesChanged(changed) => changed.ids.len(),
        Change::EvalsChanged(changed) => changed.ids.len(),
        Change::EvalsDeleted(ids) => ids.len(),
        _ => 1,
    }
}

/// The newest change sets of a replica.
#[derive(Debug)]
pub(crate) struct RecentChanges {
    window: Mutex<Window>,
    reached: watch::Sender<Index>,
}

impl Default for RecentChanges {
    fn default() -> Self {
        Self { window: Mutex::default(), reached: watch::Sender::new(Index::ZERO) }
    }
}

impl RecentChanges {
    /// Follows a replica for as long as the future is polled.
    pub(crate) async fn follow(self: Arc<Self>, replica: Arc<Replica>) {
        let mut follower = replica.follow();
        loop {
            let index = match follower.next().await {
                FollowEvent::Reset(state) => {
                    *self.window() = Window::default();
                    state.index()
                }
                FollowEvent::Step(step) => {
                    let index = step.after.index();
                    self.window().push(step);
                    index
                }
            };
            self.reached.send_replace(index);
        }
    }

    /// The kept change sets from `first` to `last`. Waits until `last` has been received.
    pub(super) async fn between(&self, first: Index, last: Index) -> Vec<SingleSet> {
        // Fails if nothing follows the replica any more, when the process ends.
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= last).await;
        let steps: Vec<Step> = self.window().steps.iter().map(|(_, step)| step.clone()).collect();
        let steps = steps.iter().filter(|step| step.after.index() >= first && step.before.index() < last);
        let ones = steps.flat_map(Step::one_by_one);
        ones.filter(|one| (first..=last).contains(&one.set.index)).cloned().collect()
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        // A panic while the lock is held leaves no partial update behind.
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use model::change::EvalsChanged;
    use model::{EvalId, RequestId};
    use state::State;

    use super::*;
    use crate::testing;

    /// A step that changes `objects` objects.
    fn step(before: &Arc<State>, objects: usize) -> Step {
        let ids = (0..objects).map(|n| EvalId::derived(RequestId::from_bytes([1; 16]), n as u32)).collect();
        let changes = vec![Change::EvalsChanged(EvalsChanged { ids, ..EvalsChanged::default() })];
        let set = testing::set(before.index().next().0, changes);
        let mut after = State::clone(before);
        after.apply(&set).unwrap();
        Step::new(Arc::clone(before), vec![set.into()], after.into())
    }

    fn window(steps: &[usize]) -> usize {
        let (mut window, mut state) = (Window::default(), Arc::new(testing::state_of(Vec::new())));
        for objects in steps {
            let step = step(&state, *objects);
            state = Arc::clone(&step.after);
            window.push(step);
        }
        assert_eq!(window.objects, window.steps.iter().map(|(objects, _)| objects).sum::<usize>());
        window.steps.len()
    }

    #[test]
    fn a_hundred_are_kept_unless_they_are_large() {
        assert_eq!(window(&[1; 99]), 99);
        assert_eq!(window(&[1; 250]), CHANGE_SETS_MAX);
        assert_eq!(window(&[OBJECTS_MAX / 4; 9]), 4);
        assert_eq!(window(&[1, 1, OBJECTS_MAX + 1]), 1, "the newest step is always kept");
        assert_eq!(window(&[OBJECTS_MAX + 1, 1, 1]), 2);
    }
}
