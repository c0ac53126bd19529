//! Latency of registrations while 100,000 terminal allocations are garbage-collected. Small jobs are registered all the
//! time: first undisturbed, then from the start of the garbage collection until its end. `ALLOCS`, `NODES` and
//! `WRITERS` in the environment change the sizes, and `WAY` sets how the services run.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::JobKey;
use tests::bench::table::{Line, percentile, section};
use tests::bench::{BenchCluster, Layout, run, size};
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// Number of allocations of each job that is collected.
const ALLOCS_OF_JOB: u64 = 10_000;
/// How long registrations are measured undisturbed.
const UNDISTURBED: Duration = Duration::from_secs(10);

fn main() {
    run(async {
        for layout in Layout::from_env() {
            measure(layout).await;
        }
    });
}

async fn measure(layout: Layout) {
    let [allocs, nodes, writers] =
        [("ALLOCS", 100_000), ("NODES", 1_000), ("WRITERS", 8)].map(|(name, default)| size(name, default));
    let mut cluster = BenchCluster::start_layout(BINARY, layout).await;
    cluster.spawn_nodes(nodes).await;
    let jobs: Vec<String> = (0..allocs.div_ceil(ALLOCS_OF_JOB)).map(|job| format!("old-{job}")).collect();
    for job in &jobs {
        cluster.place(job, ALLOCS_OF_JOB, Instant::now()).await;
    }
    for job in &jobs {
        cluster.stop(job).await;
    }
    let jobs_count = jobs.len();
    section(&format!(
        "garbage, {allocs} terminal allocations of {jobs_count} jobs, {writers} writers, {layout}"
    ));

    let quiet = Writers::begin(&cluster, writers, "quiet");
    tokio::time::sleep(UNDISTURBED).await;
    let quiet = quiet.end().await;
    let before = percentile(quiet.clone(), 99);
    Line::millis("a job registered, undisturbed (ms)", &quiet).print();
    Line::millis("  p99", &before).print();

    let busy = Writers::begin(&cluster, writers, "busy");
    let began = Instant::now();
    cluster.collect_garbage().await;
    let keys: Vec<JobKey> = jobs.iter().map(|job| JobKey::new("default", job.as_str())).collect();
    let gone = |state: &state::State| keys.iter().all(|key| state.job(key).is_none());
    let gone = cluster.observer.wait_until("the garbage is gone", gone).await;
    let busy = busy.end().await;
    let after = percentile(busy.clone(), 99);
    Line::millis("  while garbage is collected", &busy).print();
    Line::millis("  p99", &after).print();
    let moved: Vec<Duration> =
        after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before)).collect();
    Line::millis("  increase of the p99", &moved).at_most(20.0, None).print();
    Line::millis("until all of it is gone (ms)", &[gone - began]).print();
}

/// Tasks that register jobs, one after the other.
struct Writers {
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<Vec<Duration>>,
}

impl Writers {
    fn begin(cluster: &BenchCluster, count: u64, name: &str) -> Self {
        let (is_over, numbers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..count {
            let (is_over, numbers, name) = (Arc::clone(&is_over), Arc::clone(&numbers), name.to_owned());
            let register = cluster.registrar();
            tasks.spawn(async move {
                let mut times = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let job = format!("{name}-{}", numbers.fetch_add(1, Ordering::Relaxed));
                    let began = Instant::now();
                    register.register(&job, 1).await;
                    times.push(began.elapsed());
                }
                times
            });
        }
        Self { is_over, tasks }
    }

    /// Stops the tasks. Returns how long each registration took.
    async fn end(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.concat()
    }
}
