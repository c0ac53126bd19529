//! Speed of the API: default and stale reads of one job; a page of allocations and a long list of them; and ten
//! thousand blocking queries that one change wakes. The clients run on the same machine. `ALLOCS`, `WATCHERS` and
//! `SECONDS` in the environment change the sizes, and `WAY` sets how the services run. `ADDR` measures an existing
//! cluster at that address.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use tests::bench::http::{Connection, Response};
use tests::bench::table::{Line, percentile, section};
use tests::bench::waiters::Waiters;
use tests::bench::{BenchCluster, Layout, Remote, Target, run, size};
use tokio::task::JoinSet;

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// Number of simulated nodes.
const NODES: u64 = 1_000;
/// The job whose allocations are listed.
const LARGE: &str = "large";
/// The job that is read.
const SMALL: &str = "small";
/// The job that is watched.
const WATCHED: &str = "watched";
/// Number of connections that read one path at once.
const READERS: u64 = 64;
/// Number of connections that read the long list at once.
const LISTERS: u64 = 4;
/// Number of pages that are read, one after the other.
const PAGES: usize = 2_000;
/// How often the watched job changes.
const CHANGES: u64 = 5;
/// The time within which all blocking queries must be answered.
const WOKEN_WITHIN: Duration = Duration::from_secs(30);

fn main() {
    run(async {
        if let Some(remote) = Remote::from_env() {
            section(&format!("reads, at {}", remote.api()));
            let allocs = size("ALLOCS", remote.nodes().await);
            return measure(Target::Remote(remote), allocs).await;
        }
        for layout in Layout::from_env() {
            let mut cluster = BenchCluster::start_layout(BINARY, layout).await;
            cluster.spawn_nodes(NODES).await;
            let allocs = size("ALLOCS", 20_000);
            section(&format!("reads, a job of {allocs} allocations, {layout}"));
            measure(Target::Own(Box::new(cluster)), allocs).await;
        }
    });
}

async fn measure(mut target: Target, allocs: u64) {
    let (watchers, length) = (size("WATCHERS", 10_000), Duration::from_secs(size("SECONDS", 5)));
    target.place(LARGE, allocs).await;
    target.place(SMALL, 1).await;
    let api = target.api().to_owned();

    let [job, stale] = ["", "?stale"].map(|query| format!("/v1/job/{}{query}", target.id(SMALL)));
    let reads = reads_per_second(&api, &job, READERS, length, false).await;
    Line::of("reads of a job (1/s)", vec![reads])
        .at_least(20_000.0, 40_000.0)
        .reference("10,000–25,000")
        .print();
    let reads = reads_per_second(&api, &stale, READERS, length, false).await;
    Line::of("  stale", vec![reads]).at_least(40_000.0, 80_000.0).print();
    let list = format!("/v1/job/{}/allocations", target.id(LARGE));
    let lists = reads_per_second(&api, &list, LISTERS, length, true).await;
    Line::of(format!("lists of {allocs} allocations, compressed (1/s)"), vec![lists])
        .at_least(100.0, 300.0)
        .print();
    Line::of("  uncompressed", vec![reads_per_second(&api, &list, LISTERS, length, false).await]).print();
    let pages = percentile(pages(&api).await, 99);
    Line::millis("a page of 100 allocations, p99 (ms)", &pages).at_most(3.0, 1.0).print();
    let woken = woken(&mut target, &api, watchers).await;
    let woken = Line::millis(format!("{watchers} blocking queries: the last woken (ms)"), &woken);
    woken.at_most(100.0, 20.0).reference("500").print();
    target.end().await;
}

/// Returns how often per second a path is read by all connections together, with or without compression.
async fn reads_per_second(api: &str, path: &str, connections: u64, length: Duration, gzip: bool) -> f64 {
    let mut clients = JoinSet::new();
    let began = Instant::now();
    for _ in 0..connections {
        let (api, path) = (api.to_owned(), path.to_owned());
        clients.spawn(async move {
            let connection = Connection::open(&api).await.expect("the API accepts connections");
            let mut connection = if gzip { connection.with_gzip() } else { connection };
            let mut responses = 0_u32;
            while began.elapsed() < length {
                expect_ok(connection.get(&path).await);
                responses += 1;
            }
            responses
        });
    }
    let responses: u32 = clients.join_all().await.into_iter().sum();
    f64::from(responses) / began.elapsed().as_secs_f64()
}

/// Returns how long each page took.
async fn pages(api: &str) -> Vec<Duration> {
    let mut connection = Connection::open(api).await.expect("the API accepts connections");
    let mut times = Vec::new();
    for _ in 0..PAGES {
        let began = Instant::now();
        expect_ok(connection.get("/v1/allocations?per_page=100").await);
        times.push(began.elapsed());
    }
    times
}

/// For each change of the job, returns the time from the change, as seen on the feed, to the last response to the
/// blocking queries.
async fn woken(target: &mut Target, api: &str, watchers: u64) -> Vec<Duration> {
    let mut waiters =
        tokio::task::block_in_place(|| Waiters::open(api, watchers)).expect("the API accepts connections");
    target.change(WATCHED, 0).await;
    let job = format!("/v1/job/{}", target.id(WATCHED));
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        let mut one = Connection::open(api).await.expect("the API accepts connections");
        let Response { index, .. } = expect_ok(one.get(&job).await);
        let sent = tokio::task::block_in_place(|| waiters.send(&format!("{job}?index={index}&wait=60s")));
        sent.expect("the connections are open");
        // A request that is sent after all others is answered after the API has received them.
        expect_ok(one.get(&job).await);
        let waiting = std::thread::spawn(move || (waiters.wait_for_all(WOKEN_WITHIN), waiters));
        let changed = target.change(WATCHED, change).await;
        let (last, back) = waiting.join().expect("waiting does not panic");
        waiters = back;
        let last = last.expect("the connections are open").expect("all queries are answered in time");
        for response in waiters.read_responses().expect("the connections are open") {
            assert!(expect_ok(Ok(response)).index > index, "a query was answered without a change");
        }
        times.push(last.saturating_duration_since(changed));
    }
    times
}

fn expect_ok(response: std::io::Result<Response>) -> Response {
    let response = response.expect("the API answers");
    assert_eq!(response.status, 200);
    response
}
