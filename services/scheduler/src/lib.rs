//! Scheduler workers: take an evaluation, schedule it on a snapshot, submit the plan.
//!
//! Any number of processes may run. What a scheduler decides is `scheduling`'s business, what lands the applier's; here
//! is what brings them together. Safety is nobody's business here: a worker that is late, alone, or one of two that have
//! the same evaluation is refused by the applier.

pub mod attempt;
mod backoff;
mod metrics;
mod outstanding;
mod take;
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

use crate::backoff::HoldBack;
use crate::outstanding::Outstanding;
use crate::threads::Threads;
use crate::worker::{Schedule, Shared};

/// How many evaluations a process works on at once for each of its threads: most of the time they wait for a commit.
const EVALS_PER_THREAD: usize = 16;

/// What schedulers read of the state.
pub const SCOPE: Scope =
    Scope::ALL.without(&[Table::JobSummaries, Table::JobSubmissions, Table::Unblocked]).without_lists();

/// Settings of scheduler workers.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "scheduler")]
#[command(next_help_heading = "Scheduler")]
pub struct Args {
    /// How many threads schedule; one for each core unless given. 0: none, and no evaluations are taken.
    #[arg(long, env = "DROVER_WORKERS", value_name = "COUNT")]
    pub workers: Option<usize>,
    /// For which types of jobs evaluations are taken, with commas between them.
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
    /// How many threads schedule.
    pub fn worker_count(&self) -> usize {
        self.workers.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZeroUsize::get))
    }
}

/// The workers of one process.
#[derive(Debug)]
pub struct Workers {
    paused: watch::Sender<bool>,
    taking: Option<JoinHandle<()>>,
}

/// Works on evaluations until `stop`; what is under way then is finished or given back.
///
/// # Errors
/// If the system gives no threads.
pub async fn run(
    args: Args,
    bus: Bus,
    replica: Arc<Replica>,
    _process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    Workers::start(&args, bus, replica, stop.clone())?.stopped(&stop).await
}

impl Workers {
    /// Starts the workers.
    ///
    /// # Errors
    /// If the system gives no threads.
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
            return Ok(Self { paused, taking: None });
        }
        let evals_max = count * EVALS_PER_THREAD;
        let threads = Threads::start(count, evals_max).context("cannot start scheduler threads")?;
        let (hold_back, outstanding) = (HoldBack::default(), Outstanding::default());
        let shared = Arc::new(Shared { bus, replica, threads, schedule, outstanding, hold_back, stop });
        let taking = tokio::spawn(take::take(shared, args.schedulers.clone(), evals_max, is_paused));
        Ok(Self { paused, taking: Some(taking) })
    }

    /// Takes no further evaluations; what is under way is finished.
    pub fn pause(&self) {
        self.paused.send_replace(true);
    }

    /// Takes evaluations again, unless an operator has them rest.
    pub fn resume(&self) {
        self.paused.send_replace(false);
    }

    /// Waits for `stop`, and until what was under way then is finished or given back.
    ///
    /// # Errors
    /// If a worker panicked.
    pub async fn stopped(self, stop: &CancellationToken) -> anyhow::Result<()> {
        match self.taking {
            Some(taking) => taking.await.context("the scheduler's workers ended"),
            None => {
                stop.cancelled().await;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod scene;
#[cfg(test)]
mod tests;
