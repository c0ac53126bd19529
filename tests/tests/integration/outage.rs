//! Tasks continue while all control services are down. A task that ends meanwhile is reported afterwards.

use std::fs;

use tests::harness::api::text;
use tests::harness::{Cluster, SERVICES, jobs};

use crate::BINARY;

#[tokio::test(flavor = "multi_thread")]
async fn tasks_go_on_without_control_services() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let [pid, ticks, go, done] = ["pid", "ticks", "go", "done"].map(|name| cluster.path(name));
    let short = format!("while [ ! -e {} ]; do sleep 0.05; done; touch {}", go.display(), done.display());
    cluster.api.put("/v1/jobs", &jobs::service("long", &jobs::ticking_script(&pid, &ticks))).await;
    cluster.api.put("/v1/jobs", &jobs::batch("short", &short)).await;
    let long = cluster.wait_for_alloc("long", "running").await;
    cluster.wait_for_alloc("short", "running").await;

    SERVICES.iter().for_each(|service| cluster.kill9(service));
    let length = |path| fs::metadata(path).map_or(0, |found| found.len());
    let ticked = length(&ticks);
    fs::write(&go, "").expect("the file can be written");
    cluster.wait_until("the short task is done", async |_| done.exists().then_some(())).await;
    cluster.wait_until("the long task continues", async |_| (length(&ticks) > ticked).then_some(())).await;

    SERVICES.iter().for_each(|service| cluster.spawn(service));
    cluster.wait_for_alloc("short", "complete").await;
    let after = cluster.wait_for_alloc("long", "running").await;
    assert_eq!(text(&after, "ID"), text(&long, "ID"));
    assert_eq!(after["TaskStates"]["task"]["Restarts"], 0);
    assert_eq!(fs::read_to_string(&pid).expect("the task has written its process id").lines().count(), 1);
    cluster.assert_alive();
}
