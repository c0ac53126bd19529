//! The driver with an engine that runs nothing. Its log collectors are real processes.

mod fake;

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use model::alloc::TaskEventKind;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use self::fake::FakeEngine;
use super::*;
use crate::disk::dirs::AllocDirs;
use crate::disk::logs::LogFiles;
use crate::driver::exec_session::ExecRequest;
use crate::driver::start::Progress;
use crate::testing::{eventually, executor, secrets, task_id};

/// A task's directories, and an engine.
struct Scene {
    dir: tempfile::TempDir,
    engine: FakeEngine,
    settings: Settings,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let alloc = AllocDirs::new(dir.path().join("alloc"));
        alloc.build().unwrap();
        alloc.task("web").build(&secrets()).unwrap();
        Self { dir, engine: FakeEngine::start(), settings: Settings::default() }
    }

    fn driver(&self) -> Docker {
        let node = NodeNames { id: "n1".into(), name: "node-1".into() };
        Docker::new(self.settings.clone(), self.engine.socket(), node, executor())
    }

    fn start(&self, config: Value) -> Start {
        let Value::Object(config) = config else { unreachable!() };
        let alloc = AllocDirs::new(self.dir.path().join("alloc"));
        let logs =
            LogFiles { alloc: alloc.root.clone(), task: "web".into(), files_max: 3, file_bytes_max: 1 << 20 };
        Start {
            config: config.into_iter().collect(),
            dirs: alloc.task("web"),
            state_dir: self.dir.path().join("state/exec-1"),
            logs: Some(logs),
            ..create::tests::start()
        }
    }

    async fn started(&self) -> Arc<dyn Running> {
        self.driver().start(self.start(json!({ "image": "web:1" }))).await.unwrap()
    }

    fn log(&self, stream: &str) -> String {
        let path = self.dir.path().join(format!("alloc/alloc/logs/web.{stream}.0"));
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

/// Kills the log collector of a directory, if there is one.
fn kill_collector(dir: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse::<i32>().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let last = command.split(|byte| *byte == 0).rfind(|argument| !argument.is_empty())?.to_vec();
        (last == dir.as_os_str().as_bytes()).then_some(Pid::from_raw(pid))
    });
    processes.filter(|pid| kill(*pid, Signal::SIGKILL).is_ok()).count() > 0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_runs_and_its_output_and_end_are_told() {
    let scene = Scene::new();
    let task = scene.started().await;
    let (id, container) = scene.engine.container();
    assert_eq!(container.body["Image"], "sha256:web");
    scene.engine.write(1, 1, "hello\n");
    scene.engine.write(2, 2, "oh\n");
    eventually("the output arrives", || {
        (scene.log("stdout"), scene.log("stderr")) == ("hello\n".into(), "oh\n".into())
    })
    .await;
    assert_eq!(task.network().unwrap().ip, "172.17.0.2");
    assert_eq!(task.usage().await.unwrap().unwrap().memory.usage, Some(7));
    scene.engine.write(3, 1, "last words\n");
    scene.engine.end(3, false);
    let exit = task.wait().await;
    assert_eq!((exit.code, exit.oom_killed), (3, false));
    assert_eq!(scene.log("stdout"), "hello\nlast words\n");
    task.destroy().await;
    assert!(!scene.engine.world().containers.contains_key(&id));
    assert!(!scene.dir.path().join("state/exec-1").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_neither_lost_nor_doubled_when_agent_and_collector_are_killed() {
    let scene = Scene::new();
    let first = scene.started().await;
    let handle = first.handle();
    scene.engine.write(5, 1, "one\n");
    scene.engine.write(5, 1, "two\n");
    eventually("the first output arrives", || scene.log("stdout") == "one\ntwo\n").await;
    drop(first);
    let dir = scene.dir.path().join("state/exec-1");
    eventually("the collector is killed", || kill_collector(&dir)).await;
    scene.engine.write(5, 1, "three\n");
    scene.engine.write(6, 1, "four\n");
    let second = scene.driver().recover(&handle).await.unwrap();
    eventually("the rest arrives", || scene.log("stdout").ends_with("four\n")).await;
    scene.engine.end(0, false);
    assert!(second.wait().await.successful());
    assert_eq!(scene.log("stdout"), "one\ntwo\nthree\nfour\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_ended_while_no_agent_ran_is_found_with_its_end() {
    let scene = Scene::new();
    let handle = scene.started().await.handle();
    scene.engine.end(137, true);
    let task = scene.driver().recover(&handle).await.unwrap();
    let exit = task.wait().await;
    assert_eq!((exit.code, exit.message.as_str(), exit.oom_killed), (137, "OOM Killed", true));
    scene.engine.change(|world| world.containers.clear());
    assert!(scene.driver().recover(&handle).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_stopped_by_their_signal_or_that_of_their_image() {
    let scene = Scene::new();
    let (long, short) = (Duration::from_secs(10), Duration::from_millis(10));
    for (signal, grace, request) in
        [(Some(Signal::SIGTERM), long, "kill"), (None, short, "stop"), (Some(Signal::SIGUSR1), short, "stop")]
    {
        let task = scene.started().await;
        task.stop(signal, grace).await.unwrap();
        assert_eq!(task.wait().await.code, 143);
        let last =
            scene.engine.world().requests.iter().rfind(|found| !found.ends_with("wait")).cloned().unwrap();
        assert!(last.ends_with(request), "{last}");
        task.stop(signal, Duration::ZERO).await.unwrap();
        task.destroy().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_earlier_start_has_left_is_replaced_and_what_others_have_is_not() {
    let scene = Scene::new();
    let first = scene.started().await;
    let (old, container) = scene.engine.container();
    let second = scene.started().await;
    let (new, _) = scene.engine.container();
    assert_ne!(old, new);
    assert!(first.wait().await.message.contains("removed"));
    second.destroy().await;
    let foreign = fake::FakeContainer { body: json!({}), ..container };
    scene.engine.change(|world| {
        world.containers.insert("foreign".into(), foreign);
    });
    let Err(error) = scene.driver().start(scene.start(json!({ "image": "web:1" }))).await else {
        panic!("the container of another was replaced");
    };
    assert!(error.message.contains("already in use") && !error.recoverable, "{error}");
    assert_eq!(scene.engine.container().0, "foreign");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_share_a_pull_and_the_image_goes_with_the_last() {
    let mut scene = Scene::new();
    scene.settings.gc_image_delay = Duration::ZERO;
    scene.engine.change(|world| world.pulls_wait = true);
    let driver = scene.driver();
    let start = |task: &str| {
        let (progress, events) = Progress::new();
        let id = TaskId { task: task.into(), ..task_id() };
        let state_dir = scene.dir.path().join(task);
        let start = scene.start(json!({ "image": "r.example/db:2" }));
        (Start { id, state_dir, progress, ..start }, events)
    };
    let ((one, mut events_of_one), (two, mut events_of_two)) = (start("one"), start("two"));
    let waiting = async {
        let expected = TaskEventKind::Driver { message: "Downloading image".into() };
        assert_eq!(events_of_one.recv().await.as_ref(), Some(&expected));
        assert_eq!(events_of_two.recv().await.as_ref(), Some(&expected));
        scene.engine.change(|world| world.pulls_wait = false);
    };
    let (one, two, ()) = tokio::join!(driver.start(one), driver.start(two), waiting);
    let (one, two) = (one.unwrap(), two.unwrap());
    let pulls = scene.engine.world().requests.iter().filter(|found| found.contains("images")).count();
    assert_eq!(pulls, 1);
    one.destroy().await;
    assert!(scene.engine.world().images.contains_key("r.example/db:2"));
    two.destroy().await;
    eventually("the image is removed", || !scene.engine.world().images.contains_key("r.example/db:2")).await;
}

/// Why a task with this configuration does not start.
async fn refused(scene: &Scene, config: Value) -> StartError {
    match scene.driver().start(scene.start(config)).await {
        Ok(_) => panic!("the task has started"),
        Err(error) => error,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_say_whether_a_retry_may_help() {
    let scene = Scene::new();
    scene.engine.change(|world| world.pull_error = Some("manifest unknown".into()));
    let error = refused(&scene, json!({ "image": "web:2" })).await;
    assert_eq!(
        (error.message.as_str(), error.recoverable),
        ("Failed to pull `web:2`: manifest unknown", false)
    );
    let error = refused(&scene, json!({ "image": "web:1", "privileged": true })).await;
    assert!(error.message.contains("privileged mode is disabled") && !error.recoverable, "{error}");
    let error = refused(&scene, json!({ "image": "web:1", "load": "absent.tar", "force_pull": true })).await;
    assert!(error.message.starts_with("cannot open the archive") && !error.recoverable, "{error}");
    let link = scene.dir.path().join("alloc/web/local/link");
    std::os::unix::fs::symlink("/etc", link).unwrap();
    let error = refused(&scene, json!({ "image": "web:1", "volumes": ["local/link:/x"] })).await;
    assert!(error.message.contains("leads out of its directory") && !error.recoverable, "{error}");
    assert!(scene.engine.world().containers.is_empty());
    std::fs::remove_file(scene.engine.socket()).unwrap();
    let error = refused(&scene, json!({ "image": "web:1" })).await;
    assert!(error.message.starts_with("Failed to connect to docker daemon") && error.recoverable, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_may_be_fetched_before_its_task_starts() {
    let scene = Scene::new();
    let driver = scene.driver();
    let start = scene.start(json!({ "image": "web:latest", "force_pull": true }));
    for _ in 0..2 {
        driver.prepare(&Prepare::of(&start)).await.unwrap();
    }
    assert!(scene.engine.world().images.contains_key("web:latest"));
    let task = driver.start(start).await.unwrap();
    let pulls = scene.engine.world().requests.iter().filter(|found| found.contains("images")).count();
    assert_eq!(pulls, 1, "the start uses what was fetched for it");
    task.destroy().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_holds_the_network_of_an_allocation() {
    let scene = Scene::new();
    let driver = scene.driver();
    let alloc = task_id().alloc;
    for _ in 0..2 {
        // The engine's processes are not this machine's.
        let error = driver.make_namespace(alloc, Some("web")).await.unwrap_err();
        assert!(error.message.contains("PID namespace") && !error.recoverable, "{error}");
    }
    let (_, holder) = scene.engine.container();
    assert_eq!(holder.name, format!("nomad_init_{alloc}"));
    assert_eq!(holder.body["Image"], "sha256:registry.k8s.io/pause:3.3");
    assert_eq!(
        (&holder.body["Hostname"], &holder.body["HostConfig"]["NetworkMode"]),
        (&json!("web"), &json!("none"))
    );
    let creations = scene.engine.world().requests.iter().filter(|found| found.ends_with("create")).count();
    assert_eq!(creations, 2, "one image and one container");
    for _ in 0..2 {
        driver.remove_namespace(alloc).await.unwrap();
    }
    assert!(scene.engine.world().containers.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_run_inside_containers() {
    let scene = Scene::new();
    let task = scene.started().await;
    let request = ExecRequest { command: vec!["cat".into()], tty: false, size: None };
    let mut session = task.exec(request).await.unwrap();
    session.stdin.write_all(b"to and fro").await.unwrap();
    session.stdin.shutdown().await.unwrap();
    let (mut output, mut errors) = (String::new(), String::new());
    session.stdout.read_to_string(&mut output).await.unwrap();
    session.stderr.take().unwrap().read_to_string(&mut errors).await.unwrap();
    assert_eq!((output.as_str(), errors.as_str()), ("to and fro", "bye"));
    assert_eq!(session.exit.await.unwrap(), Ok(7));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_node_says_what_the_engine_can_do() {
    let scene = Scene::new();
    let driver = Arc::new(scene.driver());
    let fingerprint = |driver: &Arc<Docker>| {
        let driver = Arc::clone(driver);
        async move { tokio::task::spawn_blocking(move || driver.fingerprint()).await.unwrap() }
    };
    let found = fingerprint(&driver).await;
    assert!(found.detected && found.healthy, "{found:?}");
    let attributes: Vec<(&str, &str)> =
        found.attributes.iter().map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(
        attributes,
        [
            ("driver.docker", "true"),
            ("driver.docker.bridge_ip", "172.17.0.1"),
            ("driver.docker.os_type", "linux"),
            ("driver.docker.runtimes", "runc"),
            ("driver.docker.version", "99.0"),
        ]
    );
    std::fs::remove_file(scene.engine.socket()).unwrap();
    let found = fingerprint(&driver).await;
    assert!(found.detected && !found.healthy && found.attributes.is_empty(), "{found:?}");
    let other = Arc::new(scene.driver());
    assert!(!fingerprint(&other).await.detected);
}
