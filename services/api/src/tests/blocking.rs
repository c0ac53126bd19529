//! Tests of blocking queries.

use std::time::Duration;

use futures::future::join_all;
use model::change::Change;
use model::cluster::Namespace;
use telemetry::clock::monotonic;

use super::harness::Harness;

fn namespace(name: &str, index: u64) -> Change {
    let index = model::Index(index);
    let namespace =
        Namespace { name: name.into(), create_index: index, modify_index: index, ..Namespace::default() };
    Change::Namespace(Box::new(namespace))
}

#[actix_web::test]
async fn a_query_that_has_seen_less_is_answered_at_once() {
    let harness = Harness::with(vec![namespace("a", 2)]).await;
    for path in ["/v1/namespaces?index=1&wait=300s", "/v1/namespaces?wait=300s", "/v1/namespaces?index=0"] {
        let got = harness.get(path).await;
        assert_eq!(got.header("x-nomad-index"), "2", "{path}");
    }
}

#[actix_web::test]
async fn a_query_waits_its_time_and_then_shows_what_there_is() {
    let harness = Harness::with(vec![namespace("a", 2)]).await;
    let began = monotonic();
    let got = harness.get("/v1/namespace/a?index=99&wait=300ms").await;
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(got.json()["Name"], "a");
    let got = harness.get("/v1/job/none?index=99&wait=100ms").await;
    assert_eq!(got.error(), (404, "job not found"));
}

#[actix_web::test]
async fn many_queries_are_woken_by_one_change() {
    const WAITING: usize = 500;
    let harness = Harness::with(vec![namespace("a", 2)]).await;
    let waiting = join_all((0..WAITING).map(|_| harness.get("/v1/namespaces?index=2&wait=60s&stale")));
    let change = async {
        // A query may arrive before or after the change. Neither may wait until its time has passed.
        tokio::task::yield_now().await;
        harness.change(vec![namespace("b", 3)]);
    };
    let (answers, ()) = tokio::join!(waiting, change);
    for got in answers {
        assert_eq!(got.header("x-nomad-index"), "3");
        assert_eq!(got.json().as_array().unwrap().len(), 3);
    }
}

#[actix_web::test]
async fn a_change_elsewhere_wakes_nobody() {
    let harness = Harness::with(vec![namespace("a", 2)]).await;
    let waits = harness.get("/v1/jobs?index=2&wait=300ms");
    let (got, ()) = tokio::join!(waits, async { harness.change(vec![namespace("b", 3)]) });
    assert_eq!(got.header("x-nomad-index"), "1");
}
