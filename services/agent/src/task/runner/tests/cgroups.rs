//! Tests of tasks in the machine's own control groups.

use super::*;
use crate::cgroups::testing::{NODE, Place};

/// A task of `raw_exec` that runs a script in cgroups.
fn scene(place: &Place, script: &str) -> Scene {
    let config = [("command".to_owned(), json!("sh")), ("args".to_owned(), json!(["-c", script]))];
    let task = Task { driver: "raw_exec".into(), config: config.into_iter().collect(), ..task("web") };
    let mut scene = Scene::new(task, 0);
    let context = Arc::get_mut(&mut scene.context).expect("nothing else uses the context yet");
    context.cgroups = Some(place.cgroups.clone());
    scene
}

#[tokio::test]
async fn a_task_has_groups_while_it_runs() {
    let Some(place) = Place::new("a_task_has_groups_while_it_runs") else { return };
    let scene = scene(&place, "exec sleep 60");
    let runner = scene.begin(None);
    scene.until_running().await;
    let alloc = scene.spec.borrow().id();
    assert_eq!(place.cgroups.leftovers(NODE).unwrap(), [alloc].into());
    let running = scene.context.running.get(alloc, "web").unwrap();
    assert_eq!(running.usage().await.unwrap().unwrap().pids.len(), 1);
    scene.end();
    runner.await.unwrap();
    assert!(place.cgroups.leftovers(NODE).unwrap().is_empty());
}

#[tokio::test]
async fn a_task_that_another_agent_finds_leaves_no_groups() {
    let Some(place) = Place::new("a_task_that_another_agent_finds_leaves_no_groups") else { return };
    let scene = scene(&place, "exec sleep 60");
    let runner = scene.begin(None);
    scene.until_running().await;
    // The agent ends, and the task does not.
    runner.abort();
    assert!(runner.await.is_err());
    let found = scene.begin(Some(running()));
    scene.until_running().await;
    scene.end();
    found.await.unwrap();
    assert!(place.cgroups.leftovers(NODE).unwrap().is_empty());
}
