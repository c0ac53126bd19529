//! Does it hold up registrations when 100,000 finished allocations are forgotten? Small jobs are registered all the while:
//! first undisturbed, then from the moment at which garbage is to be collected until none of it is left.
//! `ALLOCS`, `NODES` and `WRITERS` in the environment change the sizes, `WAY` how the services run.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::JobKey;
use tests::benched::table::{Line, percentile, section};
use tests::benched::{Benched, Way, run, size};
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// How many allocations a job of those has that are to be forgotten.
const ALLOCS_OF_JOB: u64 = 10_000;
/// For how long registrations are measured undisturbed.
const UNDISTURBED: Duration = Duration::from_secs(10);

fn main() {
    run(async {
        for way in Way::wanted() {
            measure(way).await;
        }
    });
}

async fn measure(way: Way) {
    let [allocs, nodes, writers] =
        [("ALLOCS", 100_000), ("NODES", 1_000), ("WRITERS", 8)].map(|(name, usual)| size(name, usual));
    let mut cluster = Benched::start_in(BINARY, way).await;
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
        "garbage, {allocs} finished allocations of {jobs_count} jobs, {writers} writers, {way}"
    ));

    let quiet = Writers::begin(&cluster, writers, "quiet");
    tokio::time::sleep(UNDISTURBED).await;
    let quiet = quiet.end().await;
    let before = percentile(quiet.clone(), 99);
    Line::millis("a job registered, undisturbed (ms)", &quiet).put();
    Line::millis("  p99", &before).put();

    let busy = Writers::begin(&cluster, writers, "busy");
    let began = Instant::now();
    cluster.collect_garbage().await;
    let keys: Vec<JobKey> = jobs.iter().map(|job| JobKey::new("default", job.as_str())).collect();
    let gone = |state: &state::State| keys.iter().all(|key| state.job(key).is_none());
    let gone = cluster.observer.until("the garbage is gone", gone).await;
    let busy = busy.end().await;
    let after = percentile(busy.clone(), 99);
    Line::millis("  while garbage is collected", &busy).put();
    Line::millis("  p99", &after).put();
    let moved: Vec<Duration> =
        after.iter().zip(&before).map(|(after, before)| after.saturating_sub(*before)).collect();
    Line::millis("  by how much the p99 moved", &moved).at_most(20.0, None).put();
    Line::millis("all of it is gone (ms)", &[gone - began]).put();
}

/// Those who register jobs, one after the other.
struct Writers {
    is_over: Arc<AtomicBool>,
    tasks: JoinSet<Vec<Duration>>,
}

impl Writers {
    fn begin(cluster: &Benched, count: u64, name: &str) -> Self {
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

    /// How long each registration took.
    async fn end(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await.concat()
    }
}
