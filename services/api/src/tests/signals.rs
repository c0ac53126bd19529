//! Tests of commands for tasks, with a fake agent whose tasks do not run.

use std::sync::Arc;

use bus::Bus;
use model::alloc::TaskResources;
use model::change::Change;
use serde_json::json;
use wire::tasks::SignalTasks;
use wire::{Refusal, RefusalKind, Subject};

use super::files::{ALLOC, NODE, cluster};
use super::harness::{Harness, Response};

/// A fake agent whose tasks are not running.
async fn serve(bus: Bus) {
    let mut requests = bus.serve(Subject::AgentTasks(NODE).to_string()).await.unwrap();
    bus.flush().await.unwrap();
    tokio::spawn(async move {
        while let Some(request) = requests.next().await {
            let asked: SignalTasks = request.body().unwrap();
            let message = match asked.task.as_deref() {
                Some("nope") => "Could not find task runner for task: nope",
                _ => "Task not running",
            };
            request.refuse(Refusal { kind: RefusalKind::Invalid, message: message.into() }).await;
        }
    });
}

/// The cluster with the tasks `a` and `b` in its allocation.
fn with_tasks() -> Vec<Change> {
    let mut changes = cluster();
    for change in &mut changes {
        if let Change::AllocsPlaced(placements) = change {
            let task = |name: &str| TaskResources { name: name.into(), ..TaskResources::default() };
            Arc::make_mut(&mut placements.common).resources.tasks = vec![task("a"), task("b")];
        }
    }
    changes
}

/// http-api §18.
#[actix_web::test]
async fn a_refused_signal_names_the_tasks() {
    let harness = Harness::with(with_tasks()).await;
    serve(harness.bus.clone()).await;
    let path = format!("/v1/client/allocation/{ALLOC}/signal");
    let signal = async |body: &str| harness.put(&path, body).await;
    let all = "2 errors occurred:\n\t* Failed to signal task: a, err: Task not running\n\t* Failed to signal task: \
               b, err: Task not running\n\n";
    assert_eq!(signal(r#"{"Signal": "SIGHUP"}"#).await.error(), (500, all));
    assert_eq!(signal(r#"{"Task": "nope", "Signal": "SIGHUP"}"#).await.error(), (500, "Task not found"));
    assert_eq!(signal(r#"{"Task": "a"}"#).await.error(), (500, "Task not running"));
    let got = signal("").await;
    assert_eq!(got.error(), (400, "Failed to decode body: Request body is empty"));
}

/// http-api §18: schedules of tasks belong to Nomad Enterprise.
#[actix_web::test]
async fn tasks_are_not_paused() {
    let harness = Harness::with(cluster()).await;
    let path = format!("/v1/client/allocation/{ALLOC}/pause");
    assert_eq!(harness.get(&path).await.error(), (500, "Enterprise only"));
    let body = json!({ "Task": "t", "ScheduleState": "pause" }).to_string();
    assert_eq!(harness.put(&path, &body).await.error(), (500, "Enterprise only"));
    assert_eq!(Response::new(harness.builder("DELETE", &path)).await.error(), (405, "Invalid method"));
}
