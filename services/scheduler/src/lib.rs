//! Scheduler workers: dequeue an evaluation, schedule it on a snapshot, and submit the plan.
//!
//! Any number of processes may run. The scheduling decisions are in the crate `scheduling`, and the plan applier
//! decides what is committed; this crate connects the two. It does not have to guarantee safety: the applier refuses
//! the plan of a worker that is late, partitioned, or one of two workers with the same evaluation.

pub mod attempt;
mod backoff;
mod dequeue;
mod metrics;
mod outstanding;
mod threads;
mod worker;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread;

use anyhow::Context as _;
use bus::Bus;
use model::ProcessId;
use model::job::JobType;
use state::{Replica, Scope, Table};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::backoff::DequeuePause;
use crate::outstanding::Outstanding;
use crate::threads::Threads;
use crate::worker::{Schedule, Shared};

/// Number of evaluations that a process works on at once, for each of its threads. It is more than one because workers
/// mostly wait for commits.
const EVALS_PER_THREAD: usize = 16;

/// The part of the state that schedulers read.
pub const SCOPE: Scope =
    Scope::ALL.without(&[Table::JobSummaries, Table::JobSubmissions, Table::Unblocked]).without_lists();

/// Settings of scheduler workers.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "scheduler")]
#[command(next_help_heading = "Scheduler")]
pub struct Args {
    /// Number of scheduler threads; one for each core by default. With 0 threads, no evaluations are dequeued.
    #[arg(long, env = "DROVER_WORKERS", value_name = "COUNT")]
    pub workers: Option<usize>,
    /// Job types whose evaluations are dequeued, separated by commas.
    #[arg(
        long,
        env = "DROVER_SCHEDULERS",
        value_name = "TYPES",
        value_delimiter = ',',
        default_value = "service,batch,system,sysbatch"
    )]
    pub schedulers: Vec<JobType>,
}

impl Args {
    /// The number of scheduler threads.
    pub fn worker_count(&self) -> usize {
        self.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }
}

/// The workers of one process.
#[derive(Debug)]
pub struct Workers {
    paused: watch::Sender<bool>,
    dequeuing: Option<JoinHandle<()>>,
}

/// Runs scheduler workers until `stop`. Evaluations that are being worked on then are finished or returned to the
/// broker.
///
/// # Errors
/// If threads cannot be started.
pub async fn run(
    args: Args,
    bus: Bus,
    replica: Arc<Replica>,
    _process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    // Workers decide by the cluster's time.
    bus.contact().first_head().await;
    Workers::start(&args, bus, replica, stop.clone())?.stopped(&stop).await
}

impl Workers {
    /// Starts the workers.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn start(
        args: &Args,
        bus: Bus,
        replica: Arc<Replica>,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        Self::start_with(args, bus, replica, stop, scheduling::schedule)
    }

    fn start_with(
        args: &Args,
        bus: Bus,
        replica: Arc<Replica>,
        stop: CancellationToken,
        schedule: Schedule,
    ) -> anyhow::Result<Self> {
        let count = args.worker_count();
        let (paused, is_paused) = watch::channel(false);
        if count == 0 || args.schedulers.is_empty() {
            // Without threads or job types there are no workers.
            return Ok(Self { paused, dequeuing: None });
        }
        let evals_max = count * EVALS_PER_THREAD;
        let threads = Threads::start(count, evals_max).context("cannot start scheduler threads")?;
        let (dequeue_pause, outstanding) = (DequeuePause::default(), Outstanding::default());
        let shared = Arc::new(Shared { bus, replica, threads, schedule, outstanding, dequeue_pause, stop });
        let dequeuing = tokio::spawn(dequeue::run(shared, args.schedulers.clone(), evals_max, is_paused));
        Ok(Self { paused, dequeuing: Some(dequeuing) })
    }

    /// Stops dequeuing evaluations; those that are being worked on are finished.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Resumes dequeuing, unless an operator has paused the broker.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Waits for `stop`, and until the evaluations that are being worked on then are finished or returned to the
    /// broker.
    ///
    /// # Errors
    /// If a worker panicked.
    pub async fn stopped(self, stop: &CancellationToken) -> anyhow::Result<()> {
        match self.dequeuing {
            Some(dequeuing) => dequeuing.await.context("scheduler workers stopped unexpectedly"),
            None => {
                stop.cancelled().await;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
