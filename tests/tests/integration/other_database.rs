//! A process whose database is not the plan applier's says which one it has, and takes no part in the cluster.

use tests::harness::api::text;
use tests::harness::{AGENT, SERVICES, jobs};

use crate::health::HealthCluster;

/// The password in the URL of a database, and the host, port and name of the database.
fn password_and_address(url: &str) -> (String, String) {
    let (login, address) = url.rsplit_once('@').expect("the URL has a login");
    let (_, password) = login.rsplit_once(':').expect("the login has a password");
    (password.to_owned(), address.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_with_another_database_names_both_and_stands_aside() {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = HealthCluster::start(&names).await;
    for name in names {
        cluster.wait_until_ready(name).await;
    }
    let url = cluster.cluster.postgres.new_database().await.expect("a database can be created");
    let (password, own) = password_and_address(&url);
    let (_, applier) = password_and_address(&cluster.cluster.postgres.url());
    let file = cluster.cluster.path("administrator.password");
    std::fs::write(&file, password).expect("the password file can be written");
    let login = [("DROVER_DATABASE_URL", url), ("DROVER_DATABASE_PASSWORD_FILE", file.display().to_string())];

    // The first of them makes the tables. It does not become active, although nobody holds this database's lease.
    let others = ["plan-applier@2", "api@2", "eval-broker@2", "scheduler@2"];
    for name in others {
        cluster.spawn_with(name, &login);
        cluster.cluster.wait_until_logged(name, "the plan applier writes another database").await;
        let why = cluster.wait_until_not_ready(name, "database").await;
        assert!(why.contains(&own) && why.contains(&applier), "{why}");
        assert!(why.contains("DROVER_DATABASE_URL"), "{why}");
    }
    let refused = cluster.cluster.apis().swap_remove(1).try_get("/v1/jobs").await.unwrap_err();
    assert!(refused.contains("another database"), "{refused}");

    // None of them takes over.
    cluster.cluster.kill9("eval-broker");
    cluster.spawn("eval-broker@3");
    cluster.cluster.api.put("/v1/jobs", &jobs::mock_service("one", 1)).await;
    cluster.cluster.wait_for_alloc("one", "running").await;
    for name in ["plan-applier@2", "eval-broker@2"] {
        let (_, report) = cluster.ready(name).await.expect("the health endpoint answers");
        assert_eq!(text(&report, "role"), "standby", "{report}");
    }

    cluster.cluster.kill9("api@2");
    cluster.spawn("api@2");
    cluster.wait_until_ready("api@2").await;
    cluster.cluster.assert_alive();
}
