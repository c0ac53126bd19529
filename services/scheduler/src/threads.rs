//! Threads for scheduling, the only ones that compute for long. Waiting is done elsewhere.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use telemetry::clock;
use tokio::sync::oneshot;

/// Generates the ids of a thread. Ids of one computation share their second half: indexes that sort by the second half
/// first then store the allocations of a plan together (`state`).
pub(crate) struct Ids {
    random: StdRng,
    second_half: [u8; 8],
}

/// A computation for a thread.
type Computation = Box<dyn FnOnce(&mut Ids) + Send>;

/// A fixed number of threads with a shared queue. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    computations: SyncSender<Computation>,
}

/// The computation panicked, or no thread is left.
#[derive(Debug, thiserror::Error)]
#[error("the scheduler panicked")]
pub(crate) struct Panicked;

impl Threads {
    /// Starts `count` threads with a queue of at most `queue_max` computations.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub(crate) fn start(count: usize, queue_max: usize) -> io::Result<Self> {
        let (computations, queue) = mpsc::sync_channel(queue_max);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..count {
            let queue = Arc::clone(&queue);
            let ids = Ids::seeded();
            thread::Builder::new().name(format!("scheduler-{number}")).spawn(move || run(&queue, ids))?;
        }
        Ok(Self { computations })
    }

    /// Runs a computation on a thread.
    ///
    /// # Errors
    /// If it panics, or if the queue is full.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&mut Ids) -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let (reply, answer) = oneshot::channel();
        let computation: Computation = Box::new(move |ids| {
            if let Ok(answer) = panic::catch_unwind(AssertUnwindSafe(|| compute(ids))) {
                // Fails if the caller no longer waits.
                let _ = reply.send(answer);
            }
        });
        self.computations.try_send(computation).map_err(|_| Panicked)?;
        answer.await.map_err(|_| Panicked)
    }
}

impl Ids {
    fn seeded() -> Self {
        let mut seed = [0; 32];
        seed[..16].copy_from_slice(&clock::random_bytes());
        seed[16..].copy_from_slice(&clock::random_bytes());
        Self { random: StdRng::from_seed(seed), second_half: [0; 8] }
    }

    /// Starts a new computation, with a new second half.
    fn start_computation(&mut self) {
        self.random.fill_bytes(&mut self.second_half);
    }

    /// The bytes of a new random UUID.
    pub(crate) fn next(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let (first_half, second_half) = bytes.split_at_mut(8);
        self.random.fill_bytes(first_half);
        second_half.copy_from_slice(&self.second_half);
        uuid::Builder::from_random_bytes(bytes).into_uuid().into_bytes()
    }
}

fn run(queue: &Mutex<Receiver<Computation>>, mut ids: Ids) {
    loop {
        // One thread at a time waits. A panic does not poison the lock, because computations run without it.
        let computation = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(computation) = computation else { return };
        ids.start_computation();
        computation(&mut ids);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_an_answer_and_the_thread_goes_on() {
        let threads = Threads::start(1, 4).unwrap();
        assert!(threads.compute(|_| -> u8 { panic!("as a test") }).await.is_err());
        assert_eq!(threads.compute(|_| 7).await.unwrap(), 7);
    }

    #[tokio::test]
    async fn ids_are_random_uuids_and_threads_make_different_ones() {
        let threads = Threads::start(2, 4).unwrap();
        let make = |ids: &mut Ids| [(); 100].map(|()| ids.next());
        let (a, b) = tokio::join!(threads.compute(make), threads.compute(make));
        let ids: BTreeSet<[u8; 16]> = a.unwrap().into_iter().chain(b.unwrap()).collect();
        assert_eq!(ids.len(), 200);
        assert!(ids.iter().all(|id| uuid::Uuid::from_bytes(*id).get_version_num() == 4));
        let second_halves: BTreeSet<&[u8]> = ids.iter().map(|id| &id[8..]).collect();
        assert_eq!(second_halves.len(), 2, "ids of one computation share it");
    }
}
