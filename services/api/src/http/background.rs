//! Long computations, on threads beside those that serve requests. Of each kind only a few run at the same time, so that
//! they leave processors to the serving threads, and never wait for those of another kind.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::Error;

/// Maximum number of requests that wait for a thread, for each kind of work.
const WAITING_MAX: usize = 256;
/// Time that a request waits for a thread.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// A kind of long computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Finding and rendering the items of a list.
    List,
    /// Comparing versions of a job.
    Comparison,
    /// Planning a job.
    Plan,
    /// Parsing a job file.
    Parse,
    /// Computing metrics from the state.
    Metrics,
}

impl Work {
    const ALL: [Self; 5] = [Self::List, Self::Comparison, Self::Plan, Self::Parse, Self::Metrics];

    /// Maximum number that run at the same time on so many cores, and the name of the kind in error texts.
    fn limit(self, cores: usize) -> (usize, &'static str) {
        match self {
            Self::List => (cores, "lists"),
            Self::Comparison => (cores, "comparisons of versions"),
            Self::Plan => (cores, "plans of jobs"),
            Self::Parse => (cores, "job files"),
            // Its callers share one result.
            Self::Metrics => (1, "metrics"),
        }
    }
}

/// The threads of a server for long computations.
#[derive(Debug)]
pub(crate) struct Background([Pool; Work::ALL.len()]);

#[derive(Debug)]
struct Pool {
    name: &'static str,
    threads: Arc<Semaphore>,
    waiting: Semaphore,
}

impl Default for Background {
    fn default() -> Self {
        let cores = available_parallelism().map_or(1, usize::from);
        Self(Work::ALL.map(|work| {
            let (max, name) = work.limit(cores);
            Pool { name, threads: Arc::new(Semaphore::new(max)), waiting: Semaphore::new(WAITING_MAX) }
        }))
    }
}

impl Background {
    /// Computes something beside the serving threads. What has begun runs to its end, also if the client leaves; what has
    /// not begun is dropped with this future.
    ///
    /// # Errors
    /// A 503 if too many requests wait already, or no thread is free in time.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: Work,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let pool = &self.0[work as usize];
        run_with(pool.thread().await?, compute).await
    }

    /// Like [`Self::run`], for the further pieces of a response that has begun, which wait for as long as it takes.
    pub(crate) async fn run_further<T: Send + 'static>(
        &self,
        work: Work,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let thread = Arc::clone(&self.0[work as usize].threads).acquire_owned().await;
        run_with(thread.expect("the semaphore is never closed"), compute).await
    }
}

impl Pool {
    /// Waits for a free thread.
    async fn thread(&self) -> Result<OwnedSemaphorePermit, Error> {
        if let Ok(thread) = Arc::clone(&self.threads).try_acquire_owned() {
            return Ok(thread);
        }
        let name = self.name;
        let _place = self.waiting.try_acquire().map_err(|_| {
            Error::overloaded(format!(
                "this server is busy: {WAITING_MAX} requests wait for {name} to be computed; try again later"
            ))
        })?;
        let thread = timeout(WAIT_MAX, Arc::clone(&self.threads).acquire_owned()).await.map_err(|_| {
            let secs = WAIT_MAX.as_secs();
            Error::overloaded(format!(
                "this server is busy: it computes other {name} and had no thread for this request within {secs} s; \
                 try again later"
            ))
        })?;
        Ok(thread.expect("the semaphore is never closed"))
    }
}

/// The thread is free again when the computation has ended, whoever still waits for it.
async fn run_with<T: Send + 'static>(
    thread: OwnedSemaphorePermit,
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let computed = spawn_blocking(move || {
        let result = compute();
        drop(thread);
        result
    });
    computed.await.map_err(|error| Error::unavailable(format!("a computation failed: {error}")))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn pool() -> Pool {
        Pool { name: "lists", threads: Arc::new(Semaphore::new(1)), waiting: Semaphore::new(1) }
    }

    #[tokio::test]
    async fn requests_beyond_the_queue_are_refused() {
        let pool = pool();
        let running = pool.thread().await.unwrap();
        let (second, third) = tokio::join!(
            async {
                let second = pool.thread().await;
                second.map(drop)
            },
            async {
                tokio::task::yield_now().await;
                let third = pool.thread().await.map(drop);
                drop(running);
                third
            }
        );
        assert!(second.is_ok());
        let error = third.unwrap_err();
        assert_eq!(error.status.as_u16(), 503);
        assert!(error.text.contains("wait for lists to be computed"), "{}", error.text);
        assert!(pool.thread().await.is_ok(), "both places are free again");
    }

    #[tokio::test]
    async fn one_kind_waits_for_no_other() {
        let background = Background::default();
        let (end, ended) = mpsc::channel::<()>();
        let stuck = background.run(Work::Metrics, move || ended.recv());
        let other = async {
            let result = background.run(Work::Plan, || 7).await;
            end.send(()).unwrap();
            result
        };
        let (stuck, other) = tokio::join!(stuck, other);
        assert_eq!(other, Ok(7));
        assert!(stuck.unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_thread_is_taken_until_the_work_has_ended() {
        let background = Background::default();
        let (end, ended) = mpsc::channel::<()>();
        let abandoned = background.run(Work::Metrics, move || ended.recv());
        assert!(timeout(Duration::from_millis(20), abandoned).await.is_err(), "the client leaves");
        let threads = &background.0[Work::Metrics as usize].threads;
        assert_eq!(threads.available_permits(), 0);
        end.send(()).unwrap();
        assert!(background.run(Work::Metrics, || ()).await.is_ok());
    }
}
