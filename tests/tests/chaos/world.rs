//! A cluster under a stream of writes, and what must hold after whatever was done to it.

use std::sync::Mutex;
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;
use telemetry::clock;
use tests::harness::invariants::{self, History};
use tests::harness::{Cluster, wait_until};

use crate::stream::{ALL_MEMORY_MB, MEMORY_MB_MAX, RunningStream, Stream, StreamStats};
use tests::harness::steady::SteadyTasks;

/// Every service is a process of its own, and most have several.
pub(crate) const PROCESSES: [&str; 16] = [
    "plan-applier",
    "plan-applier@2",
    "eval-broker",
    "eval-broker@2",
    "node-tracker",
    "node-tracker@2",
    "deployment-watcher",
    "deployment-watcher@2",
    "scheduler@1",
    "scheduler@2",
    "scheduler@3",
    "api",
    "api@2",
    "agent@1",
    "agent@2",
    "agent@3",
];
pub(crate) const AGENTS: [&str; 3] = ["agent@1", "agent@2", "agent@3"];
/// How many writes must be acknowledged before the next step of a round.
const WRITES: usize = 20;
/// Memory of a node for the steady tasks, in MB, and the part that may remain unused.
const OTHER_MEMORY_MB: u32 = 10 + MEMORY_MB_MAX;

/// The cluster, the stream, and the log from its beginning.
pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) history: History,
    pub(crate) rng: StdRng,
    steady: SteadyTasks,
    /// `None` while the stream runs.
    stream: Option<Stream>,
}

/// The results of one round.
pub(crate) struct RoundResult {
    pub(crate) stats: StreamStats,
    /// How long it took until everything was as acknowledged.
    pub(crate) settled: Duration,
}

impl World {
    /// The environment of all processes. All jobs fit, but not onto one node.
    pub(crate) fn environment() -> [(&'static str, String); 3] {
        let memory = ALL_MEMORY_MB / AGENTS.len() as u32 + OTHER_MEMORY_MB;
        [
            ("DROVER_MEMORY_TOTAL_MB", memory.to_string()),
            ("DROVER_CPU_TOTAL_COMPUTE", "4000".to_owned()),
            // The log must reach back to its beginning, whatever happens to clocks.
            ("DROVER_LOG_KEEP_SECS", "1000000".to_owned()),
        ]
    }

    /// Begins in a cluster that runs all [`PROCESSES`].
    pub(crate) async fn begin(cluster: Cluster, seed: u64) -> Self {
        let steady = SteadyTasks::start(&cluster, &AGENTS).await;
        let history = History::new(&cluster).await;
        let stream = Some(Stream::new(&cluster.apis(), seed));
        Self { cluster, history, rng: StdRng::seed_from_u64(seed), steady, stream }
    }

    /// Starts the stream, and waits for its first writes.
    pub(crate) async fn start_stream(&mut self) -> RunningStream {
        let running = self.stream.take().expect("the stream does not run between the rounds").start();
        self.wait_for_writes(&running).await;
        running
    }

    /// Ends the stream, waits until the cluster has settled, and checks that everything is as acknowledged.
    pub(crate) async fn finish_stream(&mut self, running: RunningStream) -> RoundResult {
        self.wait_for_writes(&running).await;
        let (stream, stats) = running.finish().await;
        let settled = self.settle(&stream).await;
        self.stream = Some(stream);
        self.history.assert_one_writer(&self.cluster);
        self.history.assert_tables(&self.cluster).await;
        invariants::assert_apis_agree_with_sql(&self.cluster).await;
        self.steady.assert_never_stopped(&self.cluster).await;
        self.cluster.assert_alive();
        RoundResult { stats, settled }
    }

    /// Waits until some more writes are acknowledged.
    pub(crate) async fn wait_for_writes(&self, running: &RunningStream) {
        let enough = running.acknowledged() + WRITES;
        let is_enough = async |_: &Cluster| (running.acknowledged() >= enough).then_some(());
        self.cluster.wait_until("more writes are acknowledged", is_enough).await;
    }

    /// Waits until everything is as acknowledged, and checks all change sets up to then. Returns how long that took.
    async fn settle(&mut self, stream: &Stream) -> Duration {
        let begun = clock::monotonic();
        let difference = Mutex::new(String::new());
        let history = tokio::sync::Mutex::new(&mut self.history);
        let has_settled = async || {
            let mut history = history.lock().await;
            history.follow().await;
            match stream.check_converged(history.state()) {
                Ok(()) => Some(()),
                Err(reason) => {
                    *difference.lock().expect("no thread panics while it holds the lock") = reason;
                    None
                }
            }
        };
        let explain = || {
            let difference = difference.lock().expect("no thread panics while it holds the lock");
            format!("{difference}\n{}", self.cluster.log_tails())
        };
        wait_until("everything is as acknowledged", has_settled, explain).await;
        begun.elapsed()
    }
}
