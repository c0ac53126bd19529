//! The newest change sets with the states around them, for streams that begin a little earlier.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::Index;
use state::{Followed, OneSet, Replica, Step};
use tokio::sync::watch;

/// How many change sets are kept at least, as the reference keeps by default.
const KEPT: usize = 100;

/// The newest change sets of a replica.
#[derive(Debug)]
pub(crate) struct Recent {
    steps: Mutex<VecDeque<Step>>,
    reached: watch::Sender<Index>,
}

impl Default for Recent {
    fn default() -> Self {
        Self { steps: Mutex::default(), reached: watch::Sender::new(Index::ZERO) }
    }
}

impl Recent {
    /// Keeps up with a replica for as long as it is polled.
    pub(crate) async fn keep_up(self: Arc<Self>, replica: Arc<Replica>) {
        let mut follower = replica.follow();
        loop {
            let index = match follower.next().await {
                Followed::Reset(state) => {
                    self.steps().clear();
                    state.index()
                }
                Followed::Step(step) => {
                    let (index, mut steps) = (step.after.index(), self.steps());
                    steps.push_back(step);
                    while steps.front().is_some_and(|oldest| oldest.after.index().0 + KEPT as u64 <= index.0)
                    {
                        steps.pop_front();
                    }
                    index
                }
            };
            self.reached.send_replace(index);
        }
    }

    /// What is kept of the change sets from one index to another, once the last of them is.
    pub(super) async fn between(&self, first: Index, last: Index) -> Vec<OneSet> {
        // Fails if nobody keeps up any more, when the process ends.
        let _ = self.reached.subscribe().wait_for(|reached| *reached >= last).await;
        let steps: Vec<Step> = self.steps().iter().cloned().collect();
        let steps = steps.iter().filter(|step| step.after.index() >= first && step.before.index() < last);
        let ones = steps.flat_map(Step::one_by_one);
        ones.filter(|one| (first..=last).contains(&one.set.index)).cloned().collect()
    }

    fn steps(&self) -> MutexGuard<'_, VecDeque<Step>> {
        // Nothing is half done in there when somebody panics.
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
