//! Processes connect to NATS with their own identities, over TLS if configured, and log the reason if they cannot.

use std::path::PathBuf;

use model::NodeId;
use nats_auth::Issuer;
use private_servers::{NatsAccess, NatsOptions};
use tests::harness::{AGENT, Cluster, certificates, jobs};
use wire::Role;
use wire::permissions::Purpose;

use crate::BINARY;

/// The credentials and keys of another operator.
fn foreign() -> Issuer {
    Issuer::new(Purpose::Cluster, &mut rand::random)
}

fn now_secs() -> i64 {
    telemetry::clock::now().as_secs()
}

fn write(cluster: &Cluster, name: &str, text: &str) -> String {
    let path: PathBuf = cluster.path(name);
    std::fs::write(&path, text).expect("the file can be written");
    path.display().to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_works_over_tls() {
    let dir = tempfile::tempdir().expect("a temporary directory can be created");
    let tls = certificates::make(dir.path());
    let options = NatsOptions { tls: Some(tls), ..NatsOptions::default() };
    let names: Vec<&str> = tests::harness::SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_with(BINARY, &[], &names, options).await;
    cluster.api.put("/v1/jobs", &jobs::mock_service("secure", 1)).await;
    cluster.wait_for_alloc("secure", "running").await;

    // A process that trusts another authority logs that and does not connect.
    let other = tempfile::tempdir().expect("a temporary directory can be created");
    let untrusted = certificates::make(other.path()).ca.display().to_string();
    cluster.spawn_with("scheduler@untrusting", &[("DROVER_NATS_CA", untrusted.clone())]);
    let words = format!("the server's certificate was not signed by the authority in {untrusted}");
    cluster.wait_until_logged("scheduler@untrusting", &words).await;
    assert!(!cluster.log_text("scheduler@untrusting").contains("connected to NATS"));
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_process_names_its_user_and_the_reason() {
    let access = NatsAccess::Credentials(Purpose::Cluster);
    let options = NatsOptions { access, ..NatsOptions::default() };
    let mut cluster = Cluster::start_with(BINARY, &[], &["plan-applier"], options).await;
    let credentials =
        foreign().service(Role::Scheduler, &mut rand::random, now_secs()).expect("the role has credentials");
    let file = write(&cluster, "foreign.creds", &credentials.text());
    cluster.spawn_with("scheduler@foreign", &[("DROVER_NATS_CREDENTIALS", file.clone())]);
    let words =
        format!("NATS refuses user scheduler ({}) with the credentials in {file}", credentials.claims.sub);
    cluster.wait_until_logged("scheduler@foreign", &words).await;

    // A process with credentials of another role connects, and gets an error for each subject that the role may not
    // use.
    let broker = cluster
        .nats
        .credentials(Role::EvalBroker)
        .expect("the credentials can be written")
        .expect("NATS uses credentials");
    cluster.spawn_with("scheduler@broker", &[("DROVER_NATS_CREDENTIALS", broker.display().to_string())]);
    cluster.wait_until_logged("scheduler@broker", "NATS does not permit this").await;
    cluster.wait_until_logged("scheduler@broker", "inbox.scheduler").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_the_node_that_its_credentials_name() {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let issuer = cluster.nats.issuer().expect("NATS uses credentials").clone();
    let node = |number: u8| NodeId::from_bytes([number; 16]);
    let file = |number: u8| {
        let credentials = issuer.node("worker", node(number), &mut rand::random, now_secs());
        write(&cluster, &format!("worker-{number}.creds"), &credentials.text())
    };
    let [first, second] = [file(7), file(8)];
    let environment = |file: &str| [("DROVER_NATS_CREDENTIALS", file.to_owned())];
    cluster.spawn_with("agent@worker", &environment(&first));
    let path = format!("/v1/node/{}", node(7));
    cluster
        .wait_until("the node is ready", async |cluster| {
            let node = cluster.api.try_get(&path).await.ok()?;
            (node["Status"] == "ready").then_some(())
        })
        .await;

    // The data directory belongs to the first node now.
    cluster.kill9("agent@worker");
    cluster.spawn_with("agent@worker", &environment(&second));
    let words = format!("the NATS credentials belong to node {}", node(8));
    cluster.wait_until_logged("agent@worker", &words).await;
    cluster.wait_until_logged("agent@worker", &format!("belongs to node {}", node(7))).await;
}
