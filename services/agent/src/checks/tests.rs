//! Tests of checks that run: against a service of this test, with results that are followed, read and saved.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use model::Nanos;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::check::tests::tcp;
use super::check::{RestartRule, Runner, Script};
use super::core::{ConsulStatus, Restart, Status};
use super::*;
use crate::disk::dirs::AllocDirs;
use crate::disk::store::Store;
use crate::driver::mock::Mock;
use crate::driver::running::RunningTasks;
use crate::driver::start::{Progress, Start};
use crate::driver::{Driver as _, Running};
use crate::resources::TaskLimits;
use crate::testing::{alloc_id, eventually, task_id};

/// Checks that run, with their saved results in a directory.
struct Scene {
    checks: Arc<Checks>,
    store: Store,
    restarts: mpsc::Receiver<Restart>,
    tasks: RunningTasks,
    runner: JoinHandle<()>,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let checks = Arc::new(Checks::default());
        let (sender, restarts) = mpsc::channel(4);
        let tasks = RunningTasks::default();
        let runner = tokio::spawn(runner::run(Arc::clone(&checks), store.clone(), tasks.clone(), sender));
        Self { checks, store, restarts, tasks, runner, _dir: dir }
    }

    fn set(&self, checks: Vec<Check>) {
        self.checks.set(alloc_id(1), checks, &BTreeMap::new());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.runner.abort();
    }
}

/// A check that runs as often as this test can want, and has more time than any run takes.
fn often(id: &str, address: SocketAddr) -> Check {
    Check { interval: Nanos(20 * Nanos::MILLISECOND.0), timeout: Nanos::from_secs(60), ..tcp(id, address) }
}

async fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

//
#[tokio::test]
async fn the_health_of_checks_follows_the_service() {
    let scene = Scene::new();
    let mut health = scene.checks.follow(alloc_id(1));
    assert_eq!(*health.borrow(), CheckHealth::default());
    let (listener, address) = listener().await;
    scene.set(vec![often("a", address), often("b", address)]);
    let passing = health.wait_for(|health| health.passing == 2).await.unwrap().clone();
    assert!(passing.passing_since.is_some());
    drop(listener);
    let failing = health.wait_for(|health| health.passing == 0).await.unwrap().clone();
    assert_eq!((failing.registered, failing.passing_since), (2, None));
    scene.checks.remove(alloc_id(1));
    health.wait_for(|health| health.registered == 0).await.unwrap();
    scene.checks.forget(alloc_id(1));
    assert!(health.changed().await.is_err(), "nobody follows an allocation that has ended");
}

//
#[tokio::test]
async fn results_are_saved_when_a_status_changes() {
    let scene = Scene::new();
    let (_listener, address) = listener().await;
    scene.set(vec![often("a", address)]);
    let saved = || runner::saved_results(&scene.store, alloc_id(1));
    eventually("the result is saved", || {
        saved().get("a").is_some_and(|result| result.status == Status::Success)
    })
    .await;
    let restarted = Checks::default();
    restarted.set(alloc_id(1), vec![often("a", address), often("b", address)], &saved());
    let mut read = Vec::new();
    restarted.read(alloc_id(1), "", |check, result| {
        read.push((check.id.to_string(), result.status));
        true
    });
    assert_eq!(read, [("a".to_owned(), Status::Success), ("b".to_owned(), Status::Pending)]);
    assert!(runner::saved_results(&scene.store, alloc_id(2)).is_empty());
}

//
#[tokio::test]
async fn a_check_that_fails_asks_for_a_restart_of_a_task_that_has_started() {
    let mut scene = Scene::new();
    let (closed, address) = listener().await;
    drop(closed);
    let restart = Some(RestartRule { limit: 2, grace: Nanos::ZERO });
    scene.set(vec![Check { task: "web".into(), restart, ..often("a", address) }]);
    scene.checks.task_started(alloc_id(1), "web");
    let asked = scene.restarts.recv().await.unwrap();
    let reason = "healthcheck: check \"alive\" unhealthy".into();
    assert_eq!(asked, Restart { alloc: alloc_id(1), task: Some("web".into()), reason });
    scene.checks.task_ending(alloc_id(1), "web");
}

/// A running task in which every command writes a text and ends with an exit code.
async fn task(dir: &Path, exit_code: i64) -> Arc<dyn Running> {
    let commands = json!({ "exit_code": exit_code, "stdout_string": "found" });
    let dirs = AllocDirs::new(dir.join("a"));
    let start = Start {
        id: task_id(),
        config: [("run_for".to_owned(), json!("1h")), ("exec_command".to_owned(), commands)].into(),
        env: BTreeMap::new(),
        user: Text::default(),
        state_dir: dir.join("exec"),
        logs: None,
        dirs: dirs.task("web"),
        resources: TaskLimits::default(),
        cgroup: None,
        mounts: Vec::new(),
        devices: Vec::new(),
        device_env: BTreeMap::new(),
        network: None,
        ports: Vec::new(),
        progress: Progress::default(),
    };
    Mock.start(start).await.unwrap()
}

//
#[tokio::test]
async fn a_program_in_a_task_says_what_consul_is_told() {
    let scene = Scene::new();
    let dir = tempfile::tempdir().unwrap();
    let task = task(dir.path(), 1).await;
    let listed = scene.tasks.add(alloc_id(1), &"web".into(), &task);
    let in_consul =
        InConsul { service_id: "s".into(), name: "alive".into(), on_update: None, ignores_warnings: false };
    let script = Script {
        task: "web".into(),
        command: vec!["/bin/check".to_owned()],
        check_id: "c".into(),
        in_consul,
    };
    let address = "127.0.0.1:1".parse().unwrap();
    scene.set(vec![Check { runner: Runner::Script(script), ..often("a", address) }]);
    let reports = scene.checks.reports().await;
    assert_eq!((&*reports[0].check_id, reports[0].status), ("c", ConsulStatus::Warning));
    assert_eq!(&*reports[0].output, "found");
    drop(listed);
    let mut last = reports;
    // A run that had begun may be reported before.
    for _ in 0..5 {
        if last[0].status == ConsulStatus::Critical {
            break;
        }
        last = scene.checks.reports().await;
    }
    assert_eq!(&*last[0].output, "nomad: the task \"web\" is not running");
    assert_eq!(scene.checks.follow(alloc_id(1)).borrow().passing, 0);
    scene.checks.read(alloc_id(1), "", |_, _| panic!("Consul shows the check"));
}
