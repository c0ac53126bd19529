//! How fast does the API answer? Reads of one job, default and stale; a page of allocations and a long list of them; and
//! ten thousand blocking queries that one change wakes. The clients run on the same machine.
//! `ALLOCS`, `WATCHERS` and `SECONDS` in the environment change the sizes, `WAY` how the services run; `ADDR` measures
//! whatever speaks the API there.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use tests::benched::http::{Answer, Connection};
use tests::benched::table::{Line, percentile, section};
use tests::benched::waiting::Waiting;
use tests::benched::{Benched, Remote, Target, Way, run, size};
use tokio::task::JoinSet;

/// As `drover` has it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// How many simulated nodes there are.
const NODES: u64 = 1_000;
/// The job whose allocations are listed.
const LARGE: &str = "large";
/// The job that is read.
const SMALL: &str = "small";
/// The job that is watched.
const WATCHED: &str = "watched";
/// How many connections ask for one thing at once.
const READERS: u64 = 64;
/// How many ask for the long list at once.
const LISTERS: u64 = 4;
/// How many pages are read, one after the other.
const PAGES: usize = 2_000;
/// How often the job that is watched changes.
const CHANGES: u64 = 5;
/// Within which all who wait must have their answers.
const WOKEN_WITHIN: Duration = Duration::from_secs(30);

fn main() {
    run(async {
        if let Some(remote) = Remote::wanted() {
            section(&format!("reads, at {}", remote.api()));
            let allocs = size("ALLOCS", remote.nodes().await);
            return measure(Target::Theirs(remote), allocs).await;
        }
        for way in Way::wanted() {
            let mut cluster = Benched::start_in(BINARY, way).await;
            cluster.spawn_nodes(NODES).await;
            let allocs = size("ALLOCS", 20_000);
            section(&format!("reads, a job of {allocs} allocations, {way}"));
            measure(Target::Ours(Box::new(cluster)), allocs).await;
        }
    });
}

async fn measure(mut target: Target, allocs: u64) {
    let (watchers, length) = (size("WATCHERS", 10_000), Duration::from_secs(size("SECONDS", 5)));
    target.place(LARGE, allocs).await;
    target.place(SMALL, 1).await;
    let api = target.api().to_owned();

    let [job, stale] = ["", "?stale"].map(|query| format!("/v1/job/{}{query}", target.id(SMALL)));
    let reads = asked(&api, &job, READERS, length, false).await;
    Line::of("reads of a job (1/s)", vec![reads])
        .at_least(20_000.0, 40_000.0)
        .reference("10,000–25,000")
        .put();
    let reads = asked(&api, &stale, READERS, length, false).await;
    Line::of("  stale", vec![reads]).at_least(40_000.0, 80_000.0).put();
    let list = format!("/v1/job/{}/allocations", target.id(LARGE));
    let lists = asked(&api, &list, LISTERS, length, true).await;
    Line::of(format!("lists of {allocs} allocations, compressed (1/s)"), vec![lists])
        .at_least(100.0, 300.0)
        .put();
    Line::of("  as they are", vec![asked(&api, &list, LISTERS, length, false).await]).put();
    let pages = percentile(pages(&api).await, 99);
    Line::millis("a page of 100 allocations, p99 (ms)", &pages).at_most(3.0, 1.0).put();
    let woken = woken(&mut target, &api, watchers).await;
    let woken = Line::millis(format!("{watchers} blocking queries: the last woken (ms)"), &woken);
    woken.at_most(100.0, 20.0).reference("500").put();
    target.end().await;
}

/// How often in a second a path is read by so many connections together, which take compressed answers or do not.
async fn asked(api: &str, path: &str, connections: u64, length: Duration, gzip: bool) -> f64 {
    let mut asking = JoinSet::new();
    let began = Instant::now();
    for _ in 0..connections {
        let (api, path) = (api.to_owned(), path.to_owned());
        asking.spawn(async move {
            let connection = Connection::open(&api).await.expect("the API is there");
            let mut connection = if gzip { connection.taking_gzip() } else { connection };
            let mut answers = 0_u32;
            while began.elapsed() < length {
                good(connection.get(&path).await);
                answers += 1;
            }
            answers
        });
    }
    let answers: u32 = asking.join_all().await.into_iter().sum();
    f64::from(answers) / began.elapsed().as_secs_f64()
}

/// How long each page took.
async fn pages(api: &str) -> Vec<Duration> {
    let mut connection = Connection::open(api).await.expect("the API is there");
    let mut times = Vec::new();
    for _ in 0..PAGES {
        let began = Instant::now();
        good(connection.get("/v1/allocations?per_page=100").await);
        times.push(began.elapsed());
    }
    times
}

/// How long after each change of the job, seen at the change feed, the last answer came to those who wait for it.
async fn woken(target: &mut Target, api: &str, watchers: u64) -> Vec<Duration> {
    let mut waiting = tokio::task::block_in_place(|| Waiting::open(api, watchers)).expect("the API is there");
    target.change(WATCHED, 0).await;
    let job = format!("/v1/job/{}", target.id(WATCHED));
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        let mut one = Connection::open(api).await.expect("the API is there");
        let Answer { index, .. } = good(one.get(&job).await);
        let asked = tokio::task::block_in_place(|| waiting.ask(&format!("{job}?index={index}&wait=60s")));
        asked.expect("the API is there");
        // Whoever is asked after all others has heard all of them.
        good(one.get(&job).await);
        let answered = std::thread::spawn(move || (waiting.answered(WOKEN_WITHIN), waiting));
        let changed = target.change(WATCHED, change).await;
        let (last, back) = answered.join().expect("waiting does not panic");
        waiting = back;
        let last = last.expect("the API is there").expect("all are answered in time");
        for answer in waiting.answers().expect("the API is there") {
            assert!(good(Ok(answer)).index > index, "nobody is woken by nothing");
        }
        times.push(last.saturating_duration_since(changed));
    }
    times
}

fn good(answer: std::io::Result<Answer>) -> Answer {
    let answer = answer.expect("the API answers");
    assert_eq!(answer.status, 200);
    answer
}
