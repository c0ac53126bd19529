//! A database that lost acknowledged changes is not written to before an operator accepts it.

use std::process::Command;

use reqwest::Method;
use store::roles::Role;
use tests::harness::{Cluster, jobs};

use crate::BINARY;

/// Runs a program that must succeed.
fn run(program: &str, arguments: &[&str]) {
    let status = Command::new(program).args(arguments).status().expect("the program can be started");
    assert!(status.success(), "{program} {arguments:?}: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_went_back_is_written_to_once_it_is_accepted() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    cluster.api.put("/v1/jobs", &jobs::mock_service("kept", 1)).await;
    cluster.wait_for_alloc("kept", "running").await;
    let files = cluster.sql("show data_directory").swap_remove(0);
    let backup = format!("{files}-backup");
    cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
    run("cp", &["-a", &files, &backup]);
    cluster.postgres.restart().await.expect("PostgreSQL starts again");
    cluster
        .wait_until("a job that the backup does not have is registered", async |cluster| {
            cluster.api.try_put("/v1/jobs", &jobs::mock_service("lost", 1)).await.ok()
        })
        .await;
    // The lost history is then longer than its replacement at first.
    cluster.wait_for_alloc("lost", "running").await;
    cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
    run("rm", &["-r", &files]);
    run("mv", &[&backup, &files]);
    cluster.postgres.restart().await.expect("PostgreSQL starts again");

    let refused = cluster
        .wait_until("writes are refused", async |cluster| {
            let refused = cluster.api.try_put("/v1/jobs", &jobs::mock_service("new", 1)).await.err()?;
            refused.contains("went back").then_some(refused)
        })
        .await;
    assert!(refused.contains("`drover operator accept-database`"), "{refused}");

    // An applier that is started later learns it from the database.
    cluster.kill9("plan-applier");
    cluster.spawn("plan-applier");
    let refused = cluster
        .wait_until("writes are refused", async |cluster| {
            let refused = cluster.api.try_put("/v1/jobs", &jobs::mock_service("new", 1)).await.err()?;
            refused.contains("operator").then_some(refused)
        })
        .await;
    assert!(
        refused.contains("went back") && refused.contains("`drover operator accept-database`"),
        "{refused}"
    );

    let accept = Command::new(BINARY)
        .args(["operator", "accept-database", "-yes"])
        .envs(cluster.login(Role::PlanApplier))
        .output()
        .expect("the binary can be started");
    assert!(accept.status.success(), "{}", String::from_utf8_lossy(&accept.stderr));

    cluster
        .wait_until("jobs can be registered again", async |cluster| {
            cluster.api.try_put("/v1/jobs", &jobs::mock_service("new", 1)).await.ok()
        })
        .await;
    cluster.wait_for_alloc("new", "running").await;
    cluster.wait_for_alloc("kept", "running").await;
    let (status, _) = cluster.api.send(Method::GET, "/v1/job/lost", "").await;
    assert_eq!(status, 404, "changes that the database lost are gone everywhere");
    cluster.assert_alive();
}
