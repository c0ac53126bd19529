//! Dispatches of one parameterized job, 32 in flight: how long each takes until its child is durable, how that grows with the
//! number of children, and how long it takes until all of them run on simulated nodes. Then the same with an idempotency
//! token for each, which is compared with those of all children.
//!
//! `DISPATCHES`, `NODES` and `IN_FLIGHT` in the environment change the sizes, and `WAY` sets how the services run.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::{Duration, Instant};

use model::JobKey;
use tests::bench::table::{Line, percentile, section};
use tests::bench::{BenchCluster, Layout, run, size};
use tokio::task::JoinSet;

/// The same allocator as `drover`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");

fn main() {
    run(async {
        for layout in Layout::from_env() {
            measure(layout).await;
        }
    });
}

async fn measure(layout: Layout) {
    let [dispatches, nodes, in_flight] = [("DISPATCHES", 5_000), ("NODES", 1_000), ("IN_FLIGHT", 32)]
        .map(|(name, default)| size::<u64>(name, default));
    let mut cluster = BenchCluster::start_layout(BINARY, layout).await;
    cluster.spawn_nodes(nodes).await;
    section(&format!("dispatch, {dispatches} dispatches, {in_flight} in flight, {nodes} nodes, {layout}"));
    for (parent, with_tokens) in [("plain", false), ("tokens", true)] {
        cluster.registrar().register_parameterized(parent).await;
        let began = Instant::now();
        let times = dispatch(&cluster, parent, dispatches, in_flight, with_tokens).await;
        let (dispatched, key) = (began.elapsed(), JobKey::new("default", parent));
        let all_run = |state: &state::State| {
            let children = state.job_summary(&key).and_then(|summary| summary.children);
            children.is_some_and(|children| children.running == dispatches)
        };
        let placed = cluster.observer.wait_until("all children run", all_run).await;
        let quarter = times.len() / 4;
        let what = if with_tokens { "with a token" } else { "without a token" };
        let rate = dispatches as f64 / dispatched.as_secs_f64();
        Line::of(format!("dispatches per second, {what}"), vec![rate]).print();
        let first = percentile(times[..quarter].to_vec(), 99);
        let last = percentile(times[times.len() - quarter..].to_vec(), 99);
        Line::millis("  p99 of the first quarter (ms)", &first).print();
        Line::millis("  p99 of the last quarter", &last).print();
        Line::millis("  until all children run", &[placed - began]).print();
    }
}

/// Dispatches a job this often. Returns how long each dispatch took, in the order of their ends.
async fn dispatch(
    cluster: &BenchCluster,
    parent: &'static str,
    count: u64,
    in_flight: u64,
    with_tokens: bool,
) -> Vec<Duration> {
    let (mut running, mut times) = (JoinSet::new(), Vec::new());
    for number in 0..count {
        if number >= in_flight
            && let Some(time) = running.join_next().await
        {
            times.push(time.expect("the dispatch does not panic"));
        }
        let registrar = cluster.registrar();
        let token = if with_tokens { format!("token-{number}") } else { String::new() };
        running.spawn(async move {
            let began = Instant::now();
            registrar.dispatch(parent, &token).await;
            began.elapsed()
        });
    }
    times.extend(running.join_all().await);
    times
}
