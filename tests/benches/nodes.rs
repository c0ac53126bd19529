//! Failing nodes: how soon a dead node is noticed, and how soon the allocations of a failed share of all nodes run
//! elsewhere; the cost of heartbeats; and the effect of nodes that repeatedly fail and return.
//!
//! Every service is a process of its own, with a second node-tracker. PostgreSQL and NATS are private and on the same
//! machine. An observer of the change feed takes the times. `NODES` changes the size: four allocations a node, either
//! of jobs of ten or of one job. `ROUNDS` sets how often a share of the nodes fails, `SINGLE` how many nodes die alone,
//! and `SECONDS` how long heartbeats are measured and how long nodes flap. `BINARY` measures another build.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use model::alloc::ClientStatus;
use model::node::NodeStatus;
use model::{Index, JobKey};
use state::State;
use tests::bench::costs::processor_time;
use tests::bench::table::{Line, remark, section};
use tests::bench::{BenchCluster, run, size};
use tokio::time::sleep;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
const TRACKERS: [&str; 2] = ["node-tracker", "node-tracker@2"];
const OTHERS: [&str; 4] = ["plan-applier", "eval-broker", "scheduler", "api"];
/// Resources of a node, which suffice for ten allocations, so that half of the nodes can take all.
const SIZE: [&str; 4] = ["--cpu", "1000", "--memory", "1000"];
const ALLOCS_OF_NODE: u64 = 4;
const ALLOCS_OF_JOB: u64 = 10;
/// The pause between nodes that die alone.
const APART: Duration = Duration::from_millis(300);
/// The period of flapping nodes, in milliseconds.
const PERIOD_MS: u64 = 3_000;
/// The most nodes for which a silence of one second is noticed.
const NOTICED_MAX: u64 = 1_000;

/// The sizes of the measurements.
struct Sizes {
    nodes: u64,
    rounds: u64,
    single: u64,
    seconds: u64,
}

fn main() {
    run(measure());
}

async fn measure() {
    let [nodes, rounds, single, seconds] =
        [("NODES", 10_000), ("ROUNDS", 3), ("SINGLE", 20), ("SECONDS", 60)]
            .map(|(name, default)| size(name, default));
    let sizes = Sizes { nodes, rounds, single, seconds };
    section(&format!(
        "failing nodes, {nodes} nodes, {} allocations, two node-trackers",
        nodes * ALLOCS_OF_NODE
    ));
    let mut cluster = start(nodes, &SIZE).await;
    heartbeats(&mut cluster, &sizes).await;
    deaths(&mut cluster, &sizes).await;

    let jobs = nodes * ALLOCS_OF_NODE / ALLOCS_OF_JOB;
    let jobs: Vec<String> = (0..jobs).map(|number| format!("job-{number}")).collect();
    cluster.place_all(&jobs, ALLOCS_OF_JOB).await;
    shares(&mut cluster, &sizes, "jobs of ten", "5%", true).await;
    shares(&mut cluster, &sizes, "jobs of ten", "50%", false).await;
    flapping(&mut cluster, &sizes, "defaults").await;
    drop(cluster);

    let mut cluster = start(nodes, &SIZE).await;
    cluster.place_all(&["one".to_owned()], nodes * ALLOCS_OF_NODE).await;
    shares(&mut cluster, &sizes, "one job", "5%", true).await;
    drop(cluster);

    let sizes = Sizes { nodes: nodes.min(NOTICED_MAX), ..sizes };
    let settings = [("MIN_HEARTBEAT_TTL_MS", "500"), ("HEARTBEAT_GRACE_MS", "500")];
    let faulty_reports = ["--late-reports", "10", "--doubled-reports", "10"];
    let mut cluster = start_with(sizes.nodes, &[&SIZE[..], &faulty_reports].concat(), &settings).await;
    let jobs = &jobs[..(sizes.nodes * ALLOCS_OF_NODE / ALLOCS_OF_JOB) as usize];
    cluster.place_all(jobs, ALLOCS_OF_JOB).await;
    let what = format!("{} nodes, noticed after a second, reports late and doubled", sizes.nodes);
    flapping(&mut cluster, &sizes, &what).await;
}

async fn start(nodes: u64, arguments: &[&str]) -> BenchCluster {
    start_with(nodes, arguments, &[]).await
}

async fn start_with(nodes: u64, arguments: &[&str], settings: &[(&str, &str)]) -> BenchCluster {
    let mut cluster = BenchCluster::start(BINARY, &OTHERS).await;
    settings.iter().for_each(|(name, value)| cluster.set(&format!("DROVER_{name}"), value));
    TRACKERS.iter().for_each(|tracker| cluster.spawn(tracker));
    cluster.spawn_nodes_with(nodes, arguments).await;
    cluster
}

/// Measures the cost of heartbeats of idle nodes.
async fn heartbeats(cluster: &mut BenchCluster, sizes: &Sizes) {
    let used = |cluster: &BenchCluster| {
        let nats = cluster.nats.pid().map(processor_time);
        [Some(cluster.processor_time(TRACKERS[0])), Some(cluster.processor_time(TRACKERS[1])), nats]
    };
    let (before, began) = (used(cluster), Instant::now());
    sleep(Duration::from_secs(sizes.seconds)).await;
    let (after, elapsed) = (used(cluster), began.elapsed());
    for (number, name) in TRACKERS.into_iter().chain(["nats-server"]).enumerate() {
        let used = after[number].zip(before[number]).map(|(after, before)| after - before);
        let share = used.unwrap_or_default().as_secs_f64() / elapsed.as_secs_f64();
        let share = Line::of(format!("heartbeats: {name}, of one core (%)"), vec![share * 100.0]);
        share.at_most(5.0, None).print();
    }
}

/// Measures nodes that die alone, one after the other.
async fn deaths(cluster: &mut BenchCluster, sizes: &Sizes) {
    let mut died = Vec::new();
    for _ in 0..sizes.single {
        died.push(cluster.control_nodes("fail 1"));
        sleep(APART).await;
    }
    let mut noticed: BTreeMap<usize, Instant> = BTreeMap::new();
    while noticed.len() < died.len() {
        let known = noticed.len();
        let at = cluster.observer.wait_until("a node is down", |state| down(state).count() > known).await;
        for number in down(cluster.observer.state()) {
            noticed.entry(number).or_insert(at);
        }
    }
    let times: Vec<Duration> = noticed.into_iter().map(|(number, at)| at - died[number]).collect();
    Line::millis("a dead node is noticed after (ms)", &times).at_most(20_000.0, 10_000.0).print();
    recover(cluster, sizes).await;
}

/// The numbers, in their names, of the nodes that are down. Simulated nodes fail in the order of their numbers.
fn down(state: &State) -> impl Iterator<Item = usize> {
    let is_down = state.nodes().filter(|node| node.server().status == NodeStatus::Down);
    is_down.map(|node| {
        let number = node.spec().name.rsplit('-').next();
        number.and_then(|number| number.parse().ok()).expect("names of simulated nodes end in a number")
    })
}

async fn recover(cluster: &mut BenchCluster, sizes: &Sizes) {
    cluster.control_nodes("recover");
    cluster.wait_until_all_ready(sizes.nodes).await;
    cluster.observer.wait_until("the cluster has settled", is_settled).await;
}

/// Whether no evaluation is pending, and every job has its count of allocations running, each name once, on ready
/// nodes.
fn is_settled(state: &State) -> bool {
    state.live_evals().next().is_none() && state.jobs().all(|job| runs_once(state, &job.key()))
}

fn runs_once(state: &State, job: &JobKey) -> bool {
    let wanted = state.job(job).map_or(0, |job| job.spec.task_groups[0].count as usize);
    let mut live = state.allocs_of_job(job).filter(|alloc| !alloc.is_terminal());
    let mut names = BTreeSet::new();
    let all_run = live.all(|alloc| {
        let is_on_ready_node = alloc.node().is_some_and(|node| node.is_ready());
        let runs = alloc.client_status() == ClientStatus::Running && is_on_ready_node;
        runs && alloc.name_index().is_some_and(|index| names.insert(index))
    });
    all_run && names.len() == wanted
}

/// A share of all nodes fails at once, in each round.
async fn shares(cluster: &mut BenchCluster, sizes: &Sizes, jobs: &str, share: &str, is_limited: bool) {
    let (mut last_down, mut replaced, mut lost) = (Vec::new(), Vec::new(), 0);
    let mut evals = BTreeMap::new();
    for _ in 0..sizes.rounds {
        let percent: u64 = share.trim_end_matches('%').parse().expect("a share is a number");
        let failing = (sizes.nodes * percent).div_ceil(100) as usize;
        let (before, index) = (cluster.observer.state().alloc_count(), cluster.observer.state().index());
        let failed = cluster.control_nodes(&format!("fail {share}"));
        let all_down = cluster
            .observer
            .wait_until("the failing nodes are down", |state| down(state).count() == failing)
            .await;
        let at = cluster.observer.wait_until("their allocations are replaced", is_replaced).await;
        last_down.push(all_down - failed);
        replaced.push(at.saturating_duration_since(all_down));
        lost += cluster.observer.state().alloc_count() - before;
        count_evals(cluster.observer.state(), index, &mut evals);
        recover(cluster, sizes).await;
    }
    Line::millis(format!("{share} of nodes fail, {jobs}: the last down (ms)"), &last_down).print();
    let replaced = Line::millis("  after that: all replaced", &replaced);
    if is_limited { replaced.at_most(5_000.0, 500.0).reference("3,700–5,400") } else { replaced }.print();
    remark(&format!("{lost} allocations lost; evaluations: {}", listed(&evals)));
}

/// Counts the evaluations that were made after an index, by their trigger.
fn count_evals(state: &State, since: Index, evals: &mut BTreeMap<String, usize>) {
    for eval in state.evals().filter(|eval| eval.create_index > since) {
        *evals.entry(eval.trigger.to_string()).or_default() += 1;
    }
}

fn listed(evals: &BTreeMap<String, usize>) -> String {
    let each: Vec<String> = evals.iter().map(|(trigger, count)| format!("{count} {trigger}")).collect();
    each.join(", ")
}

/// Whether nodes that are down have no live allocations, and every job has its count.
fn is_replaced(state: &State) -> bool {
    let is_down = state.nodes().filter(|node| node.server().status == NodeStatus::Down);
    let mut left = is_down.flat_map(|node| state.allocs_of_node(node.id()));
    let has_all = |job: &JobKey, count: u32| state.live_alloc_count(job) == count as usize;
    state.jobs().all(|job| has_all(&job.key(), job.spec.task_groups[0].count))
        && left.all(|alloc| alloc.is_terminal())
}

/// A twentieth of the nodes repeatedly fails and returns.
async fn flapping(cluster: &mut BenchCluster, sizes: &Sizes, what: &str) {
    let state = cluster.observer.state();
    let (index, allocs) = (state.index(), state.alloc_count());
    let began = cluster.control_nodes(&format!("flap 5% {PERIOD_MS}"));
    let (mut most, mut away, mut went) = (0, 0, 0);
    let is_over = |state: &State| {
        let now = state.nodes().filter(|node| !node.is_ready()).count();
        went += now.saturating_sub(away);
        away = now;
        let beyond = |job: &JobKey, count: u32| state.live_alloc_count(job).saturating_sub(count as usize);
        let jobs = state.jobs().map(|job| beyond(&job.key(), job.spec.task_groups[0].count));
        most = most.max(jobs.max().unwrap_or_default());
        began.elapsed() >= Duration::from_secs(sizes.seconds)
    };
    cluster.observer.wait_until("the nodes have flapped", is_over).await;
    let ended = Instant::now();
    recover(cluster, sizes).await;
    let state = cluster.observer.state();
    let mut evals = BTreeMap::new();
    count_evals(state, index, &mut evals);
    remark(&format!(
        "5% flap every {PERIOD_MS} ms for {} s ({what}): nodes went away {went} times; evaluations: {}; {} placements; a job had \
         at most {most} allocations too many; settled after {:.1} s, every allocation running once on a ready node",
        sizes.seconds,
        listed(&evals),
        state.alloc_count() - allocs,
        ended.elapsed().as_secs_f64(),
    ));
}
