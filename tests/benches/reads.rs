//! How fast does the API answer? Reads of one job, default and stale; a page of allocations and a long list of them; and
//! ten thousand blocking queries that one change wakes. The clients run on the same machine.
//! `ALLOCS`, `WATCHERS` and `SECONDS` in the environment change the sizes.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a benchmark reads the clock and prints")]

use std::time::{Duration, Instant};

use tests::benched::Benched;
use tests::benched::http::{Answer, Connection};
use tests::benched::table::{head, line};
use tests::benched::waiting::Waiting;
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const PROCESSES: [&str; 6] =
    ["plan-applier", "eval-broker", "node-tracker", "deployment-watcher", "scheduler", "api"];
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
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("the system has threads to give").block_on(run());
}

async fn run() {
    let [allocs, watchers, seconds] =
        [("ALLOCS", 20_000), ("WATCHERS", 10_000), ("SECONDS", 5)].map(|(name, usual)| {
            std::env::var(name).map_or(usual, |text| text.parse::<u64>().expect("a size is a number"))
        });
    let length = Duration::from_secs(seconds);
    let mut cluster = Benched::start(BINARY, &PROCESSES).await;
    cluster.spawn_nodes(NODES).await;
    cluster.place(LARGE, allocs, Instant::now()).await;
    cluster.place(SMALL, 1, Instant::now()).await;
    let api = cluster.api().to_owned();

    println!("reads: a job of {allocs} allocations\n");
    let rate = |what: &str, rate: f64, hold: &str, aim: &str| {
        println!("{what:<44} {rate:>8.0} {:>8} {:>8} {:>8} {hold:>9} {aim:>5}", "", "", "");
    };
    let [job, stale] = ["", "?stale"].map(|query| format!("/v1/job/{SMALL}{query}"));
    println!("{:<44} {:>8}", "", "1/s");
    rate("reads of a job", asked(&api, &job, READERS, length, false).await, "20000", "");
    rate("  stale", asked(&api, &stale, READERS, length, false).await, "40000", "");
    let list = format!("/v1/job/{LARGE}/allocations");
    let compressed = asked(&api, &list, LISTERS, length, true).await;
    rate(&format!("lists of {allocs} allocations, compressed"), compressed, "100", "300");
    rate("  as they are", asked(&api, &list, LISTERS, length, false).await, "", "");

    println!("\n{}", head());
    println!("{}", line("a page of 100 allocations (ms)", pages(&api).await, "p99 3", ""));
    let woken = woken(&mut cluster, &api, watchers).await;
    println!("{}", line(&format!("{watchers} blocking queries: the last woken (ms)"), woken, "100", "20"));
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
async fn woken(cluster: &mut Benched, api: &str, watchers: u64) -> Vec<Duration> {
    let mut waiting = tokio::task::block_in_place(|| Waiting::open(api, watchers)).expect("the API is there");
    cluster.change(WATCHED, 0).await;
    let job = format!("/v1/job/{WATCHED}");
    let mut times = Vec::new();
    for change in 1..=CHANGES {
        let mut one = Connection::open(api).await.expect("the API is there");
        let Answer { index, .. } = good(one.get(&job).await);
        let asked = tokio::task::block_in_place(|| waiting.ask(&format!("{job}?index={index}&wait=60s")));
        asked.expect("the API is there");
        // Whoever is asked after all others has heard all of them.
        good(one.get(&job).await);
        let answered = std::thread::spawn(move || (waiting.answered(WOKEN_WITHIN), waiting));
        let changed = cluster.change(WATCHED, change).await;
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
