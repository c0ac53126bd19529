//! A million allocations: 1,000 jobs of 1,000 on 5,000 simulated nodes. How soon they are durable, in the tables and
//! reported running, what the services take of the memory then, how they are listed, and how soon the plan applier places
//! again that was killed meanwhile.
//!
//! `NODES`, `JOBS`, `COUNT` and `IN_FLIGHT` change the sizes, `WAY` and `BINARY` what is measured.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use state::State;
use tests::benched::table::{Line, percentile, section};
use tests::benched::{Benched, Way, run, size};
use tokio::task::JoinSet;

/// As `drover` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// How long to wait before the tables are looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How many allocations a page of the walk through all of them has.
const PAGE: usize = 1_000;

fn main() {
    run(async {
        for way in Way::wanted() {
            measure(way).await;
        }
    });
}

async fn measure(way: Way) {
    let [nodes, jobs, count, in_flight] =
        [("NODES", 5_000), ("JOBS", 1_000), ("COUNT", 1_000), ("IN_FLIGHT", 32)]
            .map(|(name, usual)| size(name, usual));
    let allocs = jobs * count;
    let mut cluster = Benched::start_in(BINARY, way).await;
    section(&format!("{allocs} allocations, {jobs} jobs on {nodes} nodes, {way}"));
    cluster.spawn_nodes(nodes).await;
    cluster.place("warm-up", 1, Instant::now()).await;

    let (before, began) = (cluster.cost(), Instant::now());
    let registering = register(&cluster, jobs, count, in_flight as usize);
    let is_placed = |state: &State| state.alloc_count() as u64 > allocs;
    let placed = cluster.observer.until("all of it is placed", is_placed).await - began;
    registering.await.expect("the jobs are taken");
    until_in_tables(&cluster, allocs + 1).await;
    let in_tables = began.elapsed();
    let running = |state: &State| state.jobs().map(|job| runs(state, &job.key())).sum::<u64>();
    let mut looked_at = Instant::now();
    // To look through all jobs for each change would take longer than all else.
    let all_run = |state: &State| {
        looked_at.elapsed() > LOOK_AGAIN && {
            looked_at = Instant::now();
            running(state) > allocs
        }
    };
    let all_run = cluster.observer.until("all of it runs", all_run).await - began;
    Line::millis("all durably placed (ms)", &[placed]).at_most(30_000.0, 1_000.0).put();
    Line::millis("  in the tables", &[in_tables]).at_most(60_000.0, 10_000.0).put();
    Line::millis("  reported running", &[all_run]).put();
    let used = (cluster.cost() - before).as_secs_f64();
    Line::of("  processor seconds for 1,000 placements", vec![used * 1e3 / allocs as f64]).put();

    let [now, most] = cluster.memory().map(|bytes| bytes as f64 / 1e6);
    let (hold, aim) = if way == Way::OneProcess { (2_000.0, 500.0) } else { (8_000.0, 3_000.0) };
    Line::of("memory of the services (MB)", vec![now]).at_most(hold, aim).reference("50,000").put();
    Line::of("  at most so far", vec![most]).put();

    let (pages, seen, walked) = walk(cluster.api()).await;
    assert_eq!(seen, allocs + 1, "each is listed once");
    Line::millis(format!("all of it listed by pages of {PAGE} (ms)"), &[walked]).put();
    Line::millis("  a page, p99", &percentile(pages, 99)).put();

    let killed = if way == Way::OneProcess { "server" } else { "plan-applier" };
    let began = Instant::now();
    cluster.kill9(killed);
    cluster.spawn(killed);
    let again = cluster.place("after", 1, began).await.placed;
    Line::millis(format!("kill -9 of the {killed}, started again: placing again (ms)"), &[again]).put();
}

/// Registers all jobs, some at once.
fn register(cluster: &Benched, jobs: u64, count: u64, in_flight: usize) -> tokio::task::JoinHandle<()> {
    let registrar = cluster.registrar();
    tokio::spawn(async move {
        let mut asking = JoinSet::new();
        for job in 0..jobs {
            if asking.len() >= in_flight {
                asking.join_next().await.expect("some are asked").expect("the jobs are taken");
            }
            let registrar = registrar.clone();
            asking.spawn(async move { registrar.register(&format!("large-{job}"), count).await });
        }
        asking.join_all().await;
    })
}

/// Waits until so many allocations can be found by SQL.
async fn until_in_tables(cluster: &Benched, allocs: u64) {
    // To count a million rows takes long; that the tables have followed so far does not.
    let index = cluster.observer.state().index();
    let has = format!("select projected_index >= {index} from projection");
    while cluster.sql(&has) != ["t"] {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let found = cluster.sql("select count(*) from allocs");
    if found != [allocs.to_string()] {
        // Nodes that were taken for dead have their work replaced.
        let allocs_by = cluster.sql(
            "select concat_ws(' ', desired_status, client_status, count(*)) from allocs
            group by desired_status, client_status",
        );
        let nodes_by = cluster.sql("select concat_ws(' ', status, count(*)) from nodes group by status");
        let evals_by = cluster.sql(
            "select concat_ws(' ', triggered_by, status, count(*)) from evals group by triggered_by, status",
        );
        panic!(
            "{allocs} allocations should be in the tables, there are {found:?}: {allocs_by:?}; nodes {nodes_by:?}; \
            evaluations {evals_by:?}"
        );
    }
}

fn runs(state: &State, job: &model::JobKey) -> u64 {
    let summary = state.job_summary(job);
    summary.map_or(0, |summary| summary.groups.values().map(|group| u64::from(group.running)).sum())
}

/// Walks through all allocations: how long each page took, how many there are, and how long all took.
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
        next = token.transpose().expect("a token is a word").filter(|token| !token.is_empty());
        seen += page.text().await.expect("the whole page comes").matches(ONE).count() as u64;
        pages.push(began.elapsed());
    }
    (pages, seen, whole.elapsed())
}
