//! Drains of 500 of 10,000 nodes by force, with 40,000 allocations in the cluster: how long it takes until all drains are
//! complete, and until everything that ran on the nodes runs elsewhere. `NODES`, `ALLOCS` and `DRAINED` in the environment
//! change the sizes, and `WAY` sets how the services run.
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::time::Instant;

use model::{JobKey, NodeId};
use tests::bench::table::{Line, section};
use tests::bench::{BenchCluster, Layout, run, size};
use tokio::task::JoinSet;

const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// Number of allocations of each job.
const ALLOCS_OF_JOB: u64 = 10_000;
/// The body of a request that drains a node by force.
const BY_FORCE: &str = r#"{"DrainSpec": {"Deadline": -1}}"#;

fn main() {
    run(async {
        for layout in Layout::from_env() {
            measure(layout).await;
        }
    });
}

async fn measure(layout: Layout) {
    let [nodes, allocs, drained] =
        [("NODES", 10_000), ("ALLOCS", 40_000), ("DRAINED", 500)].map(|(name, default)| size(name, default));
    let mut cluster = BenchCluster::start_layout(BINARY, layout).await;
    cluster.spawn_nodes(nodes).await;
    let jobs: Vec<String> = (0..allocs.div_ceil(ALLOCS_OF_JOB)).map(|job| format!("job-{job}")).collect();
    for job in &jobs {
        cluster.place(job, ALLOCS_OF_JOB, Instant::now()).await;
    }
    let count = usize::try_from(drained).unwrap_or(usize::MAX);
    let chosen: Vec<NodeId> = {
        let mut busy: Vec<_> =
            cluster.observer.state().nodes().map(|node| (node.allocs().len(), node.id())).collect();
        busy.sort_unstable_by(|one, other| other.cmp(one));
        busy.into_iter().take(count).map(|(_, id)| id).collect()
    };
    let state = cluster.observer.state();
    let moved: usize = chosen.iter().map(|id| state.allocs_of_node(*id).len()).sum();
    section(&format!("drains of {drained} of {nodes} nodes, {moved} of {allocs} allocations, {layout}"));

    let client = reqwest::Client::new();
    let mut requests = JoinSet::new();
    let began = Instant::now();
    for id in &chosen {
        let request = client.put(format!("{}/v1/node/{id}/drain", cluster.api())).body(BY_FORCE).send();
        requests.spawn(async move {
            request.await.and_then(reqwest::Response::error_for_status).expect("the drain is accepted");
        });
    }
    requests.join_all().await;
    let accepted = began.elapsed();
    let are_complete = |state: &state::State| {
        chosen.iter().all(|id| state.node(*id).is_some_and(|node| node.server().drain.is_none()))
    };
    let complete = cluster.observer.wait_until("the drains are complete", are_complete).await;
    let keys: Vec<JobKey> = jobs.iter().map(|job| JobKey::new("default", job.as_str())).collect();
    let all_moved = |state: &state::State| {
        let is_empty =
            |id: &NodeId| state.allocs_of_node(*id).all(|alloc| alloc.client_status().is_terminal());
        chosen.iter().all(is_empty) && keys.iter().all(|key| runs(state, key) == ALLOCS_OF_JOB)
    };
    let moved = cluster.observer.wait_until("everything runs elsewhere", all_moved).await;
    Line::millis("all drains accepted (ms)", &[accepted]).print();
    Line::millis("all drains complete (ms)", &[complete - began]).print();
    Line::millis("everything runs elsewhere (ms)", &[moved - began]).print();
}

/// The number of running allocations of a job that should run.
fn runs(state: &state::State, key: &JobKey) -> u64 {
    let running = state
        .allocs_of_job(key)
        .filter(|alloc| !alloc.is_terminal() && alloc.client_status() == model::alloc::ClientStatus::Running);
    running.count() as u64
}
