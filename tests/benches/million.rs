//! A million allocations: 1,000 jobs of 1,000 on 5,000 simulated nodes. How long until they are durable, in the tables,
//! and reported running; how much memory the services take then; how fast they are listed; and how long until a plan
//! applier that was killed places again.
//!
//! `NODES`, `JOBS`, `COUNT` and `IN_FLIGHT` change the sizes, `WAY` and `BINARY` what is measured.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use state::State;
use tests::bench::table::{Line, percentile, section};
use tests::bench::{BenchCluster, Layout, run, size};
use tokio::task::JoinSet;

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// How long to wait between two checks of the tables or of the state.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Number of allocations on a page when all are listed.
const PAGE: usize = 1_000;

fn main() {
    run(async {
        for layout in Layout::from_env() {
            measure(layout).await;
        }
    });
}

async fn measure(layout: Layout) {
    let [nodes, jobs, count, in_flight] =
        [("NODES", 5_000), ("JOBS", 1_000), ("COUNT", 1_000), ("IN_FLIGHT", 32)]
            .map(|(name, default)| size(name, default));
    let allocs = jobs * count;
    let mut cluster = BenchCluster::start_layout(BINARY, layout).await;
    section(&format!("{allocs} allocations, {jobs} jobs on {nodes} nodes, {layout}"));
    cluster.spawn_nodes(nodes).await;
    cluster.place("warm-up", 1, Instant::now()).await;

    let (before, began) = (cluster.total_processor_time(), Instant::now());
    let registration = register(&cluster, jobs, count, in_flight as usize);
    let is_placed = |state: &State| state.alloc_count() as u64 > allocs;
    let placed = cluster.observer.wait_until("all of it is placed", is_placed).await - began;
    registration.await.expect("the jobs are accepted");
    wait_until_in_tables(&cluster, allocs + 1).await;
    let in_tables = began.elapsed();
    let running = |state: &State| state.jobs().map(|job| runs(state, &job.key())).sum::<u64>();
    let mut checked_at = Instant::now();
    // Checking all jobs after each change would take longer than everything else.
    let all_run = |state: &State| {
        checked_at.elapsed() > POLL_INTERVAL && {
            checked_at = Instant::now();
            running(state) > allocs
        }
    };
    let all_run = cluster.observer.wait_until("all of it runs", all_run).await - began;
    Line::millis("all durably placed (ms)", &[placed]).at_most(30_000.0, 1_000.0).print();
    Line::millis("  in the tables", &[in_tables]).at_most(60_000.0, 10_000.0).print();
    Line::millis("  reported running", &[all_run]).print();
    let used = (cluster.total_processor_time() - before).as_secs_f64();
    Line::of("  processor seconds for 1,000 placements", vec![used * 1e3 / allocs as f64]).print();

    let [now, peak] = cluster.memory().map(|bytes| bytes as f64 / 1e6);
    let (limit, aim) = if layout == Layout::OneProcess { (2_000.0, 500.0) } else { (8_000.0, 3_000.0) };
    Line::of("memory of the services (MB)", vec![now]).at_most(limit, aim).reference("50,000").print();
    Line::of("  peak so far", vec![peak]).print();

    let (pages, seen, walked) = walk(cluster.api()).await;
    assert_eq!(seen, allocs + 1, "each allocation is listed once");
    Line::millis(format!("all of it listed by pages of {PAGE} (ms)"), &[walked]).print();
    Line::millis("  a page, p99", &percentile(pages, 99)).print();

    let killed = if layout == Layout::OneProcess { "server" } else { "plan-applier" };
    let began = Instant::now();
    cluster.kill9(killed);
    cluster.spawn(killed);
    let again = cluster.place("after", 1, began).await.placed;
    Line::millis(format!("kill -9 of the {killed}, started again: placing again (ms)"), &[again]).print();
}

/// Registers all jobs, `in_flight` of them at once.
fn register(cluster: &BenchCluster, jobs: u64, count: u64, in_flight: usize) -> tokio::task::JoinHandle<()> {
    let registrar = cluster.registrar();
    tokio::spawn(async move {
        let mut registrations = JoinSet::new();
        for job in 0..jobs {
            if registrations.len() >= in_flight {
                registrations
                    .join_next()
                    .await
                    .expect("the set is not empty")
                    .expect("the jobs are accepted");
            }
            let registrar = registrar.clone();
            registrations.spawn(async move { registrar.register(&format!("large-{job}"), count).await });
        }
        registrations.join_all().await;
    })
}

/// Waits until the tables hold `allocs` allocations.
async fn wait_until_in_tables(cluster: &BenchCluster, allocs: u64) {
    // Counting a million rows takes long. Reading how far the projection is does not.
    let index = cluster.observer.state().index();
    let has = format!("select projected_index >= {index} from projection");
    while cluster.sql(&has) != ["t"] {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let found = cluster.sql("select count(*) from allocs");
    if found != [allocs.to_string()] {
        // If nodes were taken for dead, their allocations were replaced.
        let allocs_by = cluster.sql(
            "select concat_ws(' ', desired_status, client_status, count(*)) from allocs
            group by desired_status, client_status",
        );
        let nodes_by = cluster.sql("select concat_ws(' ', status, count(*)) from nodes group by status");
        let evals_by = cluster.sql(
            "select concat_ws(' ', triggered_by, status, count(*)) from evals group by triggered_by, status",
        );
        panic!(
            "expected {allocs} allocations in the tables, found {found:?}: {allocs_by:?}; nodes {nodes_by:?}; \
            evaluations {evals_by:?}"
        );
    }
}

fn runs(state: &State, job: &model::JobKey) -> u64 {
    let summary = state.job_summary(job);
    summary.map_or(0, |summary| summary.groups.values().map(|group| u64::from(group.running)).sum())
}

/// Lists all allocations. Returns how long each page took, how many allocations there are, and how long all pages took.
async fn walk(api: &str) -> (Vec<Duration>, u64, Duration) {
    const ONE: &str = "\"DesiredStatus\":";
    let client = reqwest::Client::new();
    let (mut pages, mut seen, mut next) = (Vec::new(), 0, Some(String::new()));
    let whole = Instant::now();
    while let Some(token) = next {
        let began = Instant::now();
        let path = format!("{api}/v1/allocations?per_page={PAGE}&next_token={token}");
        let page = client.get(path).send().await.and_then(reqwest::Response::error_for_status);
        let page = page.expect("the API answers");
        let token = page.headers().get("X-Nomad-NextToken").map(|token| token.to_str().map(str::to_owned));
        next = token.transpose().expect("the token is valid text").filter(|token| !token.is_empty());
        seen += page.text().await.expect("the page can be read").matches(ONE).count() as u64;
        pages.push(began.elapsed());
    }
    (pages, seen, whole.elapsed())
}
