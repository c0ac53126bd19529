//! Does it hold up registrations when 100,000 finished allocations are forgotten? Small jobs are registered all the while:
//! first undisturbed, then from the moment at which garbage is to be collected until none of it is left.
//! `ALLOCS`, `NODES` and `WRITERS` in the environment change the sizes.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::JobKey;
use tests::benched::Benched;
use tests::benched::table::{head, line};
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const PROCESSES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
/// How many allocations a job of those has that are to be forgotten.
const ALLOCS_OF_JOB: u64 = 10_000;
/// For how long registrations are measured undisturbed.
const UNDISTURBED: Duration = Duration::from_secs(10);

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system has threads to give").block_on(run());
}

async fn run() {
    let [allocs, nodes, writers] =
        [("ALLOCS", 100_000), ("NODES", 1_000), ("WRITERS", 8)].map(|(name, usual)| {
            std::env::var(name).map_or(usual, |text| text.parse::<u64>().expect("a size is a number"))
        });
    let mut cluster = Benched::start(BINARY, &PROCESSES).await;
    cluster.spawn_nodes(nodes).await;
    let jobs: Vec<String> = (0..allocs.div_ceil(ALLOCS_OF_JOB)).map(|job| format!("old-{job}")).collect();
    for job in &jobs {
        cluster.place(job, ALLOCS_OF_JOB, Instant::now()).await;
    }
    for job in &jobs {
        cluster.stop(job).await;
    }
    println!("garbage: {allocs} finished allocations of {} jobs, {writers} writers\n", jobs.len());
    println!("{}", head());

    let quiet = Writers::begin(&cluster, writers, "quiet");
    tokio::time::sleep(UNDISTURBED).await;
    let quiet = quiet.end().await;
    let p99 = |times: &[Duration]| times[times.len() * 99 / 100];
    let before = p99(&quiet);
    println!("{}", line("a job registered, undisturbed (ms)", quiet, "", ""));

    let busy = Writers::begin(&cluster, writers, "busy");
    let began = Instant::now();
    cluster.collect_garbage().await;
    let keys: Vec<JobKey> = jobs.iter().map(|job| JobKey::new("default", job.as_str())).collect();
    let gone = |state: &state::State| keys.iter().all(|key| state.job(key).is_none());
    let gone = cluster.observer.until("the garbage is gone", gone).await;
    let busy = busy.end().await;
    let after = p99(&busy);
    println!("{}", line("  while garbage is collected", busy, "", ""));
    println!("{}", line("all of it is gone (ms)", vec![gone - began], "", ""));
    println!("{}", line("by how much the p99 moved (ms)", vec![after.saturating_sub(before)], "20", ""));
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

    /// How long each registration took, the shortest first.
    async fn end(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        let mut times = self.tasks.join_all().await.concat();
        times.sort_unstable();
        times
    }
}
