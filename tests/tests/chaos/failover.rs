//! A failover to a standby that lags loses acknowledged changes; the cluster cannot prevent that. It must notice it,
//! acknowledge nothing more until an operator accepts what is left, and then go on from there: everything that the
//! standby had received runs on, everything else is gone everywhere, and its tasks end.

use std::path::Path;
use std::process::Command;

use reqwest::Method;
use store::roles::Role;
use tests::harness::invariants::{self, History};
use tests::harness::{Cluster, jobs, processes};

use crate::{BINARY, rounds};
use tests::harness::steady::SteadyTasks;

const PROCESSES: [&str; 9] = [
    "plan-applier",
    "plan-applier@2",
    "eval-broker",
    "node-tracker",
    "deployment-watcher",
    "scheduler",
    "api",
    "api@2",
    "agent",
];
/// What a refusal tells the operator to do.
const ADVICE: &str = "`drover operator accept-database`";

#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_lost_writes_is_noticed_and_loses_nothing_more() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &PROCESSES).await;
    let steady = SteadyTasks::start(&cluster, &["agent"]).await;
    let rounds = rounds().unwrap_or(1);
    for round in 1..=rounds {
        fail_over(&mut cluster, &steady, round).await;
        println!("{round}/{rounds} the failover was noticed and accepted");
    }
}

async fn fail_over(cluster: &mut Cluster, steady: &SteadyTasks, round: usize) {
    let name = |what: &str| format!("{what}-{round}");
    let standby = cluster.postgres.standby().await.expect("a standby starts");
    register(cluster, &name("kept")).await;
    cluster.wait_for_alloc(&name("kept"), "running").await;
    wait_until_received(cluster).await;
    // From now on the standby receives nothing.
    standby.kill9().await.expect("the standby can be killed");

    let (lost_pids, lost_ticks) = (cluster.path(&name("lost.pids")), cluster.path(&name("lost.ticks")));
    let script = jobs::ticking_script(&lost_pids, &lost_ticks);
    cluster.api.put("/v1/jobs", &jobs::service(&name("lost"), &script)).await;
    cluster.wait_for_alloc(&name("lost"), "running").await;
    let lost_pid = first_pid(cluster, &lost_pids).await;

    cluster.postgres.fail_over(standby).await.expect("the standby becomes the primary");
    for api in cluster.apis() {
        cluster
            .wait_until("writes are refused with advice", async |_| {
                let job = jobs::mock_service(&name("refused"), 1);
                let refused = api.try_put("/v1/jobs", &job).await.expect_err("nothing is acknowledged");
                refused.contains(ADVICE).then_some(())
            })
            .await;
    }
    let accept = Command::new(BINARY)
        .args(["operator", "accept-database", "-yes"])
        .envs(cluster.login(Role::PlanApplier))
        .output()
        .expect("the binary can be started");
    assert!(accept.status.success(), "{}", String::from_utf8_lossy(&accept.stderr));

    register(cluster, &name("new")).await;
    for earlier in 1..=round {
        for kept in ["kept", "new"] {
            cluster.wait_for_alloc(&format!("{kept}-{earlier}"), "running").await;
        }
    }
    for gone in ["lost", "refused"] {
        let (status, text) = cluster.api.send(Method::GET, &format!("/v1/job/{}", name(gone)), "").await;
        assert_eq!(status, 404, "{}: {text}", name(gone));
    }
    let has_ended = async |_: &Cluster| (!processes::runs(lost_pid)).then_some(());
    cluster.wait_until("the task of the lost job has ended", has_ended).await;

    let mut history = History::new(cluster).await;
    history.wait_until_settled(cluster).await;
    history.assert_one_writer(cluster);
    history.assert_tables(cluster).await;
    invariants::assert_apis_agree_with_sql(cluster).await;
    steady.assert_never_stopped(cluster).await;
    cluster.assert_alive();
}

/// Registers a job, which must be acknowledged in the end.
async fn register(cluster: &Cluster, id: &str) {
    let job = jobs::mock_service(id, 1);
    let registered = async |cluster: &Cluster| cluster.api.try_put("/v1/jobs", &job).await.ok();
    cluster.wait_until("a job is registered", registered).await;
}

/// Waits until the standby has everything that has been committed so far.
async fn wait_until_received(cluster: &Cluster) {
    let committed = cluster.sql("select pg_current_wal_lsn()").swap_remove(0);
    let query = format!("select count(*) from pg_stat_replication where flush_lsn >= '{committed}'");
    let has_received = async |cluster: &Cluster| (cluster.sql(&query) == ["1"]).then_some(());
    cluster.wait_until("the standby has received everything", has_received).await;
}

async fn first_pid(cluster: &Cluster, pids: &Path) -> i32 {
    let pid = async |_: &Cluster| std::fs::read_to_string(pids).ok()?.trim().parse().ok();
    cluster.wait_until("the task has written its process id", pid).await
}
