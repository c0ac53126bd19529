//! Tests of garbage on nodes, with a fake agent.

use bus::Bus;
use wire::tasks::{RemoveEnded, TasksDone};
use wire::{Refusal, RefusalKind, Subject};

use super::files::{ALLOC, NODE, cluster};
use super::harness::{Harness, Response};

const NOT_REMOVABLE: &str = "No such allocation on client, or allocation not eligible for GC";

/// A fake agent whose only allocation has not ended.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentTasks(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let asked: RemoveEnded = request.body().unwrap();
            match asked.alloc {
                Some(id) => {
                    assert_eq!(id, ALLOC);
                    let message = NOT_REMOVABLE.into();
                    request.refuse(Refusal { kind: RefusalKind::Invalid, message }).await;
                }
                None => request.answer(&TasksDone {}).await,
            }
        }
    });
}

/// http-api §18.
#[actix_web::test]
async fn nodes_collect_garbage_on_request() {
    let harness = Harness::with(cluster()).await;
    serve(harness.bus.clone()).await;
    let path = format!("/v1/client/gc?node_id={NODE}");
    for method in ["GET", "PUT", "POST"] {
        let response = Response::new(harness.builder(method, &path)).await;
        assert_eq!((response.status.as_u16(), response.text.as_str()), (200, ""), "{method}");
    }
    let alloc = format!("/v1/client/allocation/{ALLOC}/gc");
    assert_eq!(harness.get(&alloc).await.error(), (500, NOT_REMOVABLE));
    let unknown = "00000000-0000-4000-8000-000000000000";
    for (path, status, text) in [
        ("/v1/client/gc".to_owned(), 400, "No local Node and node_id not provided"),
        (format!("/v1/client/gc?node_id={unknown}"), 500, &*format!("Unknown node {unknown}")),
        (format!("/v1/client/allocation/{unknown}/gc"), 404, &*format!("Unknown allocation \"{unknown}\"")),
    ] {
        assert_eq!(harness.get(&path).await.error(), (status, text), "{path}");
    }
}
