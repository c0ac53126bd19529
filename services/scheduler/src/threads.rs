//! Threads that schedule: the only ones that compute for long. What waits for anything waits elsewhere.

use std::panic::{self, AssertUnwindSafe};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use telemetry::clock;
use tokio::sync::oneshot;

/// Where a thread's ids come from. Those that one job is given differ in their first halves only: what is placed together lies
/// together wherever it is found by its second half first (`state`).
pub(crate) struct Ids {
    random: StdRng,
    second_half: [u8; 8],
}

/// What a thread is given to do.
type Job = Box<dyn FnOnce(&mut Ids) + Send>;

/// A fixed number of threads, and the queue before them. They end when this is dropped.
#[derive(Debug)]
pub(crate) struct Threads {
    jobs: SyncSender<Job>,
}

/// The job ended in a panic, or there is no thread any more.
#[derive(Debug, thiserror::Error)]
#[error("the scheduler panicked")]
pub(crate) struct Panicked;

impl Threads {
    /// Starts `count` threads, for at most `queue_max` jobs at once.
    ///
    /// # Errors
    /// If the system gives no more threads.
    pub(crate) fn start(count: usize, queue_max: usize) -> io::Result<Self> {
        let (jobs, queue) = mpsc::sync_channel(queue_max);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..count {
            let queue = Arc::clone(&queue);
            let ids = Ids::seeded();
            thread::Builder::new().name(format!("scheduler-{number}")).spawn(move || run(&queue, ids))?;
        }
        Ok(Self { jobs })
    }

    /// Has a thread compute something.
    ///
    /// # Errors
    /// If it panics. There must not be more jobs at once than the queue takes.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        compute: impl FnOnce(&mut Ids) -> T + Send + 'static,
    ) -> Result<T, Panicked> {
        let (reply, answer) = oneshot::channel();
        let job: Job = Box::new(move |ids| {
            if let Ok(answer) = panic::catch_unwind(AssertUnwindSafe(|| compute(ids))) {
                // Fails where nobody waits for it any more.
                let _ = reply.send(answer);
            }
        });
        self.jobs.try_send(job).map_err(|_| Panicked)?;
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

    /// Another job begins.
    fn begin(&mut self) {
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

fn run(queue: &Mutex<Receiver<Job>>, mut ids: Ids) {
    loop {
        // One thread at a time waits; a panic in a job does not happen under the lock.
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        ids.begin();
        job(&mut ids);
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
        assert_eq!(second_halves.len(), 2, "those of one job have it in common");
    }
}
