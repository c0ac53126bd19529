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

/// The files of the database, and a copy of them that lacks the job `lost`.
struct Backup {
    files: String,
    copy: String,
}

impl Backup {
    /// Copies the files of the database, and has a job registered after that.
    async fn make(cluster: &mut Cluster) -> Self {
        cluster.api.put("/v1/jobs", &jobs::mock_service("kept", 1)).await;
        cluster.wait_for_alloc("kept", "running").await;
        let files = cluster.sql("show data_directory").swap_remove(0);
        let copy = format!("{files}-backup");
        cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
        run("cp", &["-a", &files, &copy]);
        cluster.postgres.restart().await.expect("PostgreSQL starts again");
        cluster
            .wait_until("a job that the backup does not have is registered", async |cluster| {
                cluster.api.try_put("/v1/jobs", &jobs::mock_service("lost", 1)).await.ok()
            })
            .await;
        // The lost history is then longer than its replacement at first.
        cluster.wait_for_alloc("lost", "running").await;
        Self { files, copy }
    }

    async fn restore(self, cluster: &mut Cluster) {
        cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
        run("rm", &["-r", &self.files]);
        run("mv", &[&self.copy, &self.files]);
        cluster.postgres.restart().await.expect("PostgreSQL starts again");
    }
}

/// Waits until a write is refused for a reason that contains these words.
async fn assert_refused(cluster: &Cluster, words: &[&str]) {
    let refused = cluster
        .wait_until("writes are refused", async |cluster| {
            let refused = cluster.api.try_put("/v1/jobs", &jobs::mock_service("new", 1)).await.err()?;
            words.iter().all(|word| refused.contains(word)).then_some(refused)
        })
        .await;
    assert!(refused.contains("`drover operator accept-database`"), "{refused}");
}

/// Accepts the database, and waits until the cluster runs on with what it has.
async fn accept(cluster: &mut Cluster) {
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

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_went_back_is_written_to_once_it_is_accepted() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let backup = Backup::make(&mut cluster).await;
    backup.restore(&mut cluster).await;
    assert_refused(&cluster, &["went back"]).await;

    // An applier that is started later learns it from the database.
    cluster.kill9("plan-applier");
    cluster.spawn("plan-applier");
    assert_refused(&cluster, &["went back", "operator"]).await;
    accept(&mut cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applier_that_starts_with_a_database_that_went_back_is_told_by_the_others() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let backup = Backup::make(&mut cluster).await;
    cluster.kill9("plan-applier");
    backup.restore(&mut cluster).await;
    cluster.spawn("plan-applier");
    assert_refused(&cluster, &["went back"]).await;
    let marked = cluster.sql("select refuses_writes from head where refuses_writes is not null");
    assert!(matches!(&marked[..], [reason] if reason.contains("went back")), "{marked:?}");
    // What the others had seen of the lost writes is still what they show, marked as doubtful.
    let (status, _) = cluster.api.send(Method::GET, "/v1/job/lost?stale", "").await;
    assert_eq!(status, 200, "nothing was silently taken back");
    accept(&mut cluster).await;
}
