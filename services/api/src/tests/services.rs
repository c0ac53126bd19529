//! Tests of services in the cluster's own service discovery (http-api §21).

use std::sync::Arc;

use model::change::Change;
use model::job::{Job, JobSpec};
use model::service::ServiceRegistration;
use model::{AllocId, Index};
use serde_json::{Value, json};
use wire::command::Command;
use wire::{Refusal, RefusalKind};

use super::harness::{Harness, Response};
use crate::shapes::services::tests::web;

/// A registration of the service `web` with other names.
fn named(number: u8, namespace: &str, name: &str) -> Change {
    let mut registration = web(number);
    registration.key.namespace = namespace.into();
    registration.key.name = name.into();
    put(registration)
}

fn put(registration: ServiceRegistration) -> Change {
    Change::ServiceRegistration(Box::new(registration))
}

/// Three instances of `web` and one of `api` in the namespace `default`, and one of `web` in another.
async fn harness() -> Harness {
    let mut tagged = web(2);
    tagged.tags = vec!["b".into(), "c".into()];
    let changes =
        vec![put(web(1)), put(tagged), put(web(3)), named(4, "default", "api"), named(5, "other", "web")];
    Harness::with(changes).await
}

/// The last characters of the allocations of listed instances, in order.
fn allocs(got: &Response) -> Vec<String> {
    let list = got.json();
    let alloc = |one: &Value| {
        let id: AllocId = one["AllocID"].as_str().unwrap().parse().unwrap();
        id.as_bytes()[0].to_string()
    };
    list.as_array().unwrap().iter().map(alloc).collect()
}

#[actix_web::test]
async fn services_are_listed_by_namespace_with_all_their_tags() {
    let harness = harness().await;
    let own = json!({ "Namespace": "default", "Services": [
        { "ServiceName": "api", "Tags": ["a", "b"] },
        { "ServiceName": "web", "Tags": ["a", "b", "c"] },
    ] });
    let other = json!({ "Namespace": "other", "Services": [{ "ServiceName": "web", "Tags": ["a", "b"] }] });
    let got = harness.get("/v1/services").await;
    assert_eq!(got.json(), json!([own]));
    assert_eq!((got.header("x-nomad-index"), got.header("x-nomad-knownleader")), ("2", "true"));
    assert_eq!(harness.get("/v1/services?namespace=*").await.json(), json!([own, other]));
    assert_eq!(harness.get("/v1/services?namespace=*&reverse=true").await.json(), json!([other, own]));
    assert_eq!(harness.get("/v1/services?namespace=none").await.json(), json!([]));
    let prefixed = json!([{ "Namespace": "default", "Services": [own["Services"][1]] }]);
    assert_eq!(harness.get("/v1/services?prefix=w").await.json(), prefixed);
    let got = harness.get("/v1/services?namespace=*&per_page=1").await;
    assert_eq!((got.json(), got.header("x-nomad-nexttoken")), (json!([own]), "other"));
    let got = harness.get("/v1/services?namespace=*&next_token=other").await;
    assert_eq!((got.json(), got.header("x-nomad-nexttoken")), (json!([other]), ""));
    let text = "Expect a number for `per_page` query string parameter";
    assert_eq!(harness.get("/v1/services?per_page=x").await.error(), (400, text));
}

#[actix_web::test]
async fn the_instances_of_a_service_are_listed_by_id() {
    let harness = harness().await;
    let got = harness.get("/v1/service/web").await;
    assert_eq!(allocs(&got), ["1", "2", "3"]);
    let id = "01010101-0101-0101-0101-010101010101";
    let expected = json!({
        "ID": format!("_nomad-task-{id}-group-app-web-http"),
        "ServiceName": "web",
        "Namespace": "default",
        "NodeID": "09090909-0909-0909-0909-090909090909",
        "Datacenter": "dc1",
        "JobID": "shop",
        "AllocID": id,
        "Tags": ["a", "b"],
        "Address": "10.0.0.1",
        "Port": 8001,
        "CreateIndex": 5,
        "ModifyIndex": 6,
    });
    assert_eq!(got.json()[0], expected);
    let allocs_of = async |path: &str| allocs(&harness.get(path).await);
    assert_eq!(allocs_of("/v1/service/web?namespace=other").await, ["5"]);
    assert_eq!(allocs_of("/v1/service/web?namespace=*").await, [""; 0], "no wildcard here");
    assert_eq!(allocs_of("/v1/service/none").await, [""; 0]);
    assert_eq!(allocs_of("/v1/service/web?filter=Tags%20contains%20%22c%22").await, ["2"]);
    assert_eq!(allocs_of(&format!("/v1/service/web?filter=AllocID%20==%20%22{id}%22")).await, ["1"]);
    assert_eq!(allocs_of("/v1/service/web?reverse=true").await, ["3", "2", "1"]);
    let got = harness.get("/v1/service/web?per_page=2").await;
    assert_eq!(allocs(&got), ["1", "2"]);
    let next = got.header("x-nomad-nexttoken").to_owned();
    assert_eq!(allocs_of(&format!("/v1/service/web?per_page=2&next_token={next}")).await, ["3"]);
    let got = harness.get("/v1/service/none?filter=bad").await;
    let start = "failed to create result paginator: failed to read filter expression: ";
    assert!(got.error().0 == 400 && got.text.starts_with(start), "{}", got.text);
}

#[actix_web::test]
async fn some_instances_are_chosen_by_a_key() {
    let harness = harness().await;
    let chosen = async |choice: &str| allocs(&harness.get(&format!("/v1/service/web?choose={choice}")).await);
    let one = chosen("1%7Ckey").await;
    assert_eq!(one.len(), 1);
    assert_eq!(chosen("1%7Ckey").await, one);
    assert_eq!(chosen("0%7Ckey").await, [""; 0]);
    assert_eq!(chosen("9%7Ckey").await, ["1", "2", "3"]);
    let text = "failed to choose services: Parameter for choose must be in form '<number>|<key>'";
    for path in ["/v1/service/web?choose=x", "/v1/service/none?choose=a%7Cb"] {
        assert_eq!(harness.get(path).await.error(), (400, text), "{path}");
    }
}

#[actix_web::test]
async fn a_query_waits_for_instances_of_its_service() {
    let harness = harness().await;
    let waits = harness.get("/v1/service/web?index=2&wait=60s&stale");
    let change = async {
        tokio::task::yield_now().await;
        harness.change(vec![Change::ServiceRegistrationDeleted(web(1).key)]);
    };
    let (got, ()) = tokio::join!(waits, change);
    assert_eq!((allocs(&got), got.header("x-nomad-index")), (vec!["2".to_owned(), "3".to_owned()], "3"));
}

#[actix_web::test]
async fn paths_of_services_are_checked_in_order() {
    let harness = harness().await;
    let answer = async |method: &str, path: &str| {
        let got = Response::new(harness.builder(method, path)).await;
        let (status, text) = got.error();
        (status, text.to_owned())
    };
    for (method, path, status, text) in [
        ("GET", "/v1/service/", 400, "missing service name"),
        ("DELETE", "/v1/service/", 405, "Invalid method"),
        ("GET", "/v1/service/a/b/c", 400, "invalid URI"),
        ("DELETE", "/v1/service/a/b/c", 400, "invalid URI"),
        ("GET", "/v1/service/a/b", 405, "Invalid method"),
        ("DELETE", "/v1/service/a", 405, "Invalid method"),
        ("PUT", "/v1/service/a", 405, "Invalid method"),
        ("PUT", "/v1/services", 405, "Invalid method"),
    ] {
        assert_eq!(answer(method, path).await, (status, text.to_owned()), "{method} {path}");
    }
    assert!(harness.applier.commands.lock().unwrap().is_empty());
}

#[actix_web::test]
async fn a_registration_is_deleted_by_its_id() {
    let harness = harness().await;
    let id = web(1).key.id;
    let path = format!("/v1/service/whatever/{id}?namespace=other");
    let got = Response::new(harness.builder("DELETE", &path)).await;
    assert_eq!((got.status.as_u16(), &*got.text, got.header("x-nomad-index")), (200, "", "3"));
    {
        let commands = harness.applier.commands.lock().unwrap();
        let [Command::DeleteService(delete)] = &commands[..] else { panic!("{commands:?}") };
        assert_eq!((&*delete.namespace, &delete.id), ("other", &id));
    }
    let message = "service registration not found";
    let refusal = Refusal { kind: RefusalKind::NotFound, message: message.into() };
    *harness.applier.refusal.lock().unwrap() = Some(refusal);
    let got = Response::new(harness.builder("DELETE", "/v1/service/web/x")).await;
    assert_eq!(got.error(), (500, message));
}

#[actix_web::test]
async fn jobs_and_allocations_show_their_registrations() {
    let spec = JobSpec { namespace: "default".into(), id: "shop".into(), ..JobSpec::default() };
    let job = Job { spec: spec.into(), create_index: Index(2), modify_index: Index(2), ..Job::default() };
    let harness = Harness::with(vec![Change::Job(Arc::new(job))]).await;
    assert_eq!(harness.get("/v1/job/shop/services").await.json(), json!([]));
    assert_eq!(harness.get("/v1/job/none/services").await.error(), (404, "job not found"));
    let got = harness.get("/v1/allocation/00000000-0000-4000-8000-000000000000/services").await;
    assert_eq!(got.error(), (404, "allocation not found"));
    assert_eq!(got.header("x-nomad-knownleader"), "true");
}

#[actix_web::test]
async fn prometheus_discovers_all_instances() {
    let harness = harness().await;
    let all = harness.get("/v1/services/prometheus?namespace=*").await.json();
    assert_eq!(all.as_array().unwrap().len(), 5);
    let got = harness.get("/v1/services/prometheus?prefix=web&filter=Tags%20contains%20%22c%22").await.json();
    assert_eq!(got.as_array().unwrap().len(), 1);
    assert_eq!(got[0]["targets"], json!(["10.0.0.1:8002"]));
    assert_eq!(got[0]["labels"]["__meta_nomad_tags"], ",b,c,");
    let none = harness.get("/v1/services/prometheus?namespace=none").await;
    assert_eq!(none.json(), json!([]));
}
