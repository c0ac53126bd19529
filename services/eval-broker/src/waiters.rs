//! [`Waiters`]: workers that wait for evaluations, served in order of arrival.
//!
//! Pure: the caller answers the workers and sets their deadlines.

use std::collections::{BTreeMap, BTreeSet};

use model::Timestamp;
use model::job::JobType;
use wire::broker::Delivery;

/// Maximum number of waiting workers.
pub(crate) const WAITERS_MAX: usize = 4096;

/// Waiting workers, each with a handle to answer it.
#[derive(Debug)]
pub struct Waiters<R> {
    /// In order of arrival.
    waiting: BTreeMap<u64, Waiter<R>>,
    by_deadline: BTreeSet<(Timestamp, u64)>,
    arrived: u64,
}

/// A waiting worker.
#[derive(Debug)]
pub struct Waiter<R> {
    /// Job types whose evaluations it accepts.
    pub kinds: Vec<JobType>,
    /// Maximum number of evaluations.
    pub max: usize,
    /// When its request times out.
    pub deadline: Timestamp,
    /// Handle to answer it.
    pub reply: R,
}

impl<R> Default for Waiters<R> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), by_deadline: BTreeSet::new(), arrived: 0 }
    }
}

impl<R> Waiters<R> {
    /// Whether no more workers may wait.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= WAITERS_MAX
    }

    /// Adds a worker.
    pub fn add(&mut self, waiter: Waiter<R>) {
        self.arrived += 1;
        self.by_deadline.insert((waiter.deadline, self.arrived));
        self.waiting.insert(self.arrived, waiter);
    }

    /// Serves the workers that wait longest. Each gets an equal share of the ready evaluations, so that the first
    /// worker does not get what several could process at once. `ready` counts evaluations of all types; `dequeue`
    /// leases some.
    pub fn serve(
        &mut self,
        ready: usize,
        mut dequeue: impl FnMut(&[JobType], usize) -> Vec<Delivery>,
    ) -> Vec<(R, Vec<Delivery>)> {
        let mut left = ready;
        let share = ready.div_ceil(self.waiting.len().max(1));
        let mut served = Vec::new();
        for (number, waiter) in &self.waiting {
            if left == 0 {
                break;
            }
            let deliveries = dequeue(&waiter.kinds, waiter.max.min(share));
            if !deliveries.is_empty() {
                left = left.saturating_sub(deliveries.len());
                served.push((*number, deliveries));
            }
        }
        let mut answer = |number| self.remove(number).map(|waiter| waiter.reply);
        served.into_iter().filter_map(|(number, deliveries)| Some((answer(number)?, deliveries))).collect()
    }

    /// The earliest deadline.
    pub fn poll_timeout(&self) -> Option<Timestamp> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }

    /// Removes and returns the workers whose deadline has passed.
    pub fn handle_timeout(&mut self, now: Timestamp) -> Vec<R> {
        let mut expired = Vec::new();
        while let Some((deadline, number)) = self.by_deadline.first().copied()
            && deadline <= now
        {
            expired.extend(self.remove(number).map(|waiter| waiter.reply));
        }
        expired
    }

    fn remove(&mut self, number: u64) -> Option<Waiter<R>> {
        let waiter = self.waiting.remove(&number)?;
        self.by_deadline.remove(&(waiter.deadline, number));
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use model::{EvalId, Index, RequestId};

    use super::*;

    const SECOND: Timestamp = Timestamp::from_secs(1);

    fn waiter(name: &'static str, kind: JobType, deadline: i64) -> Waiter<&'static str> {
        Waiter { kinds: vec![kind], max: 10, deadline: Timestamp::from_secs(deadline), reply: name }
    }

    fn delivery(kind: JobType) -> Delivery {
        Delivery {
            eval_id: EvalId::from_bytes([1; 16]),
            priority: 50,
            kind,
            token: RequestId::from_bytes([2; 16]),
            wait_index: Index(1),
            lease_ms: 1,
        }
    }

    /// Serves `batch` and `service` evaluations. Returns how many each worker gets.
    fn serve(
        waiters: &mut Waiters<&'static str>,
        batch: usize,
        service: usize,
    ) -> Vec<(&'static str, usize)> {
        let mut left = BTreeMap::from([(JobType::Batch, batch), (JobType::Service, service)]);
        let dequeue = |kinds: &[JobType], max: usize| {
            let left = left.entry(kinds[0]).or_default();
            let taken = max.min(*left);
            *left -= taken;
            vec![delivery(kinds[0]); taken]
        };
        let served = waiters.serve(batch + service, dequeue);
        served.into_iter().map(|(reply, deliveries)| (reply, deliveries.len())).collect()
    }

    #[test]
    fn the_first_to_come_is_the_first_served() {
        let mut waiters = Waiters::default();
        ["a", "b", "c"].into_iter().for_each(|name| waiters.add(waiter(name, JobType::Batch, 9)));
        assert_eq!(serve(&mut waiters, 2, 0), [("a", 1), ("b", 1)]);
        assert_eq!(serve(&mut waiters, 0, 3), []);
        assert_eq!(serve(&mut waiters, 2, 0), [("c", 2)]);
    }

    #[test]
    fn ready_evaluations_are_shared_among_the_waiters() {
        let mut waiters = Waiters::default();
        ["a", "b"].into_iter().for_each(|name| waiters.add(waiter(name, JobType::Batch, 9)));
        assert_eq!(serve(&mut waiters, 5, 0), [("a", 3), ("b", 2)]);
    }

    #[test]
    fn waiters_are_answered_by_their_deadline() {
        let mut waiters = Waiters::default();
        waiters.add(waiter("long", JobType::Batch, 9));
        waiters.add(waiter("short", JobType::Batch, 1));
        assert_eq!(waiters.poll_timeout(), Some(SECOND));
        assert_eq!(waiters.handle_timeout(SECOND), ["short"]);
        assert_eq!(waiters.poll_timeout(), Some(Timestamp::from_secs(9)));
        assert_eq!(serve(&mut waiters, 1, 0), [("long", 1)]);
        assert_eq!(waiters.poll_timeout(), None);
    }
}
