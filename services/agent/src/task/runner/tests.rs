//! Loops of single tasks, by a clock that jumps; the allocation is the test.

use std::sync::Mutex;

use model::Timestamp;
use model::alloc::TaskEvent;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::task::state::apply;
use crate::testing::{NOW, context, eventually, running, task, with_group};

/// A task whose loop runs, with what an allocation would do for it.
struct Scene {
    dir: TempDir,
    contacted: watch::Sender<bool>,
    spec: watch::Sender<Arc<AllocSpec>>,
    gate: watch::Sender<bool>,
    kill: watch::Sender<Option<Kill>>,
    orders: Mutex<Option<mpsc::Sender<TaskOrder>>>,
    state: Arc<Mutex<TaskState>>,
    context: Arc<Context>,
}

impl Scene {
    fn new(task: Task, attempts: u32) -> Self {
        let policy = RestartPolicy {
            attempts,
            interval: Nanos::from_mins(30),
            delay: Nanos::from_secs(15),
            mode: Some(model::job::RestartMode::Fail),
            render_templates: false,
        };
        let group = model::job::TaskGroup {
            name: "app".into(),
            tasks: vec![task],
            restart_policy: Some(policy),
            ..Default::default()
        };
        let spec = with_group(JobType::Batch, group);
        let dir = tempfile::tempdir().unwrap();
        let contacted = watch::Sender::new(false);
        let context = context(dir.path(), contacted.subscribe());
        context.dirs(spec.id()).build().unwrap();
        Self {
            dir,
            contacted,
            spec: watch::Sender::new(Arc::new(spec)),
            gate: watch::Sender::new(true),
            kill: watch::Sender::new(None),
            orders: Mutex::default(),
            state: Arc::new(Mutex::new(TaskState::pending("web".into()))),
            context,
        }
    }

    fn pretending(config: Value, attempts: u32) -> Self {
        let Value::Object(config) = config else { unreachable!() };
        Self::new(Task { config: config.into_iter().collect(), ..task("web") }, attempts)
    }

    /// Begins the loop; it ends with what is answered.
    fn begin(&self, known: Option<TaskState>) -> tokio::task::JoinHandle<()> {
        let (news, mut inbox) = mpsc::channel::<News>(1);
        let state = Arc::clone(&self.state);
        if let Some(known) = &known {
            *state.lock().unwrap() = known.clone();
        }
        tokio::spawn(async move {
            while let Some(News { happening, saved, .. }) = inbox.recv().await {
                apply(&mut state.lock().unwrap(), happening, NOW);
                let _ = saved.send(());
            }
        });
        let (orders, ordered) = mpsc::channel(1);
        *self.orders.lock().unwrap() = Some(orders);
        let runner = TaskRunner {
            context: Arc::clone(&self.context),
            name: "web".into(),
            spec: self.spec.subscribe(),
            gate: self.gate.subscribe(),
            kill: self.kill.subscribe(),
            news,
            orders: ordered,
            trace: None,
        };
        tokio::spawn(runner.run(known))
    }

    /// Has something done with the running task, and says how that ended.
    async fn order(&self, wish: Wish) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let orders = self.orders.lock().unwrap().clone().unwrap();
        orders.send(TaskOrder { wish, done }).await.unwrap();
        outcome.await.unwrap()
    }

    fn state(&self) -> TaskState {
        self.state.lock().unwrap().clone()
    }

    fn told(&self) -> Vec<String> {
        let text = |event: &TaskEvent| format!("{}: {}", event.kind.as_str(), event.kind.display());
        self.state().events.iter().map(text).collect()
    }

    async fn until_running(&self) {
        eventually("the task runs", || self.state().state == TaskRunState::Running).await;
    }

    fn file(&self) -> PathBuf {
        self.context.store.alloc(self.spec.borrow().id()).join("task-web")
    }

    fn end(&self) {
        self.kill.send_replace(Some(Kill { skip_delay: false }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_well_is_done() {
    let scene = Scene::pretending(json!({ "run_for": "1m" }), 3);
    scene.begin(None).await.unwrap();
    assert!(scene.state().successful());
    assert_eq!(
        scene.told(),
        [
            "Task Setup: Building Task Directory",
            "Started: Task started by client",
            "Terminated: Exit Code: 0",
        ]
    );
    assert!(!scene.file().exists(), "nothing is kept of it");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_is_started_again_as_often_as_it_may() {
    let scene = Scene::pretending(json!({ "run_for": "1s", "exit_code": 2 }), 1);
    scene.begin(None).await.unwrap();
    let state = scene.state();
    assert!(state.failed && state.state == TaskRunState::Dead);
    assert_eq!(state.restarts, 1);
    let told = scene.told();
    assert!(told[3].starts_with("Restarting: Task restarting in 1"), "{told:?}");
    assert_eq!(told[5], "Terminated: Exit Code: 2");
    assert_eq!(
        told[6],
        r#"Not Restarting: Exceeded allowed attempts 1 in interval 30m0s and mode is "fail""#
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_started_fails_and_says_why() {
    let scene = Scene::pretending(json!({ "start_error": "no way" }), 3);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.told()[1..], ["Driver Failure: no way", "Not Restarting: Error was unrecoverable"]);

    let unbuilt = Task { templates: vec![api_types::Template::default()], ..task("web") };
    let scene = Scene::new(unbuilt, 3);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.told()[0], "Failed Validation: templates are not built into this agent");
    assert!(scene.state().failed);

    let scene = Scene::new(Task { driver: "docker".into(), ..task("web") }, 3);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.told()[0], r#"Failed Validation: driver "docker" is not on this node"#);
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_its_gate_and_may_be_ended_there() {
    let scene = Scene::pretending(json!({ "run_for": "1m" }), 3);
    scene.gate.send_replace(false);
    let running = scene.begin(None);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(scene.told().is_empty());
    scene.end();
    running.await.unwrap();
    assert_eq!(scene.told(), ["Killed: Task successfully killed"]);
    assert!(scene.state().successful());
}

#[tokio::test(start_paused = true)]
async fn a_task_is_ended_after_its_shutdown_delay() {
    let delayed = Task { shutdown_delay: Nanos::from_secs(30), ..task("web") };
    let scene = Scene::new(Task { config: [("run_for".to_owned(), json!("1h"))].into(), ..delayed }, 3);
    let over = scene.begin(None);
    scene.until_running().await;
    scene.end();
    eventually("it waits", || scene.told().len() == 3).await;
    assert_eq!(scene.state().state, TaskRunState::Pending);
    scene.kill.send_replace(Some(Kill { skip_delay: true }));
    over.await.unwrap();
    assert_eq!(
        scene.told()[2..],
        [
            "Waiting for shutdown delay: Waiting for shutdown_delay of 30s before killing the task.",
            "Terminated: Exit Code: 0",
            "Killed: Task successfully killed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_before_a_restart_can_be_cut_short() {
    let scene = Scene::pretending(json!({ "run_for": "1s", "exit_code": 2 }), 3);
    let over = scene.begin(None);
    eventually("it is to be restarted", || scene.state().restarts == 1).await;
    scene.end();
    over.await.unwrap();
    assert_eq!(scene.told().last().unwrap(), "Killed: Task successfully killed");
    assert!(scene.state().successful(), "it was to end, and did");
}

#[tokio::test]
async fn a_lost_task_waits_for_the_servers() {
    let scene = Scene::pretending(json!({ "run_for": "0s" }), 3);
    let over = scene.begin(Some(running()));
    eventually("it is lost", || scene.state().state == TaskRunState::Pending).await;
    assert_eq!(
        scene.told(),
        ["Failed Restoring Task: failed to restore task; will not run until server is contacted"]
    );
    assert!(!over.is_finished());
    scene.contacted.send_replace(true);
    over.await.unwrap();
    assert!(scene.told().contains(&"Started: Task started by client".to_owned()), "it is started anew");
}

/// How the agent left a task that it had started, without a word of that.
async fn untold(scene: &Scene) -> TaskState {
    let first = scene.begin(None);
    scene.until_running().await;
    first.abort();
    let _ = first.await;
    let mut known = scene.state();
    known.events.truncate(1);
    TaskState { state: TaskRunState::Pending, started_at: Timestamp::UNSET, ..known }
}

#[tokio::test]
async fn a_task_that_was_started_and_not_told_of_is_told_of_now() {
    let scene = Scene::pretending(json!({ "run_for": "1m" }), 0);
    let known = untold(&scene).await;
    let second = scene.begin(Some(known));
    scene.until_running().await;
    assert_eq!(scene.told()[1..], ["Started: Task started by client"]);
    scene.end();
    second.await.unwrap();
}

#[tokio::test]
async fn a_run_whose_end_was_told_is_only_tidied_up() {
    let scene = Scene::pretending(json!({ "run_for": "1m" }), 0);
    let known = TaskState { restarts: 1, ..untold(&scene).await };
    scene.gate.send_replace(false);
    let second = scene.begin(Some(known));
    eventually("nothing is kept of it", || !scene.file().exists()).await;
    assert_eq!(scene.state().state, TaskRunState::Pending);
    scene.gate.send_replace(true);
    scene.until_running().await;
    scene.end();
    second.await.unwrap();
}

#[tokio::test]
async fn a_process_is_found_again_and_nothing_is_said_of_it() {
    let mut shell = task("web");
    shell.driver = "raw_exec".into();
    let script =
        "echo $$ >> ../pids; while [ -d $NOMAD_TASK_DIR -a ! -e ../go ]; do sleep 0.01; done; exit 4";
    shell.config = [("command".to_owned(), json!("sh")), ("args".to_owned(), json!(["-c", script]))].into();
    let scene = Scene::new(shell, 0);
    let first = scene.begin(None);
    scene.until_running().await;
    let known = scene.state();
    first.abort();
    let _ = first.await;

    let second = scene.begin(Some(known.clone()));
    let root = scene.context.dirs(scene.spec.borrow().id()).root;
    std::fs::write(root.join("go"), "").unwrap();
    second.await.unwrap();
    assert_eq!(std::fs::read_to_string(root.join("pids")).unwrap().lines().count(), 1, "it was started once");
    let told = scene.told();
    assert_eq!(told[..known.events.len()], told[..2]);
    assert_eq!(told[2..], ["Terminated: Exit Code: 4", "Not Restarting: Policy allows no restarts"]);
    let kept = std::fs::read_dir(scene.dir.path().join("state/allocs")).unwrap().flatten();
    let kept: usize = kept.map(|alloc| std::fs::read_dir(alloc.path()).unwrap().count()).sum();
    assert_eq!(kept, 0, "nothing is kept of it");
}

#[test]
fn input_goes_into_the_tasks_directory_only() {
    let dirs = crate::task::dirs::AllocDirs::new("/a".into()).task("web");
    let file = |name| payload_file(&dirs, name).ok();
    assert_eq!(file("in/put"), Some("/a/web/local/in/put".into()));
    for name in ["", "../x", "/etc/passwd", "a/../../x"] {
        assert_eq!(file(name), None, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn people_may_have_a_task_begin_anew_or_signal_it() {
    let scene = Scene::pretending(json!({ "run_for": "1h" }), 0);
    let ended = scene.begin(None);
    scene.until_running().await;
    scene.order(Wish::Signal(nix::sys::signal::Signal::SIGUSR1)).await.unwrap();
    scene.order(Wish::Restart { reason: "User requested task to restart" }).await.unwrap();
    eventually("it runs again", || {
        let state = scene.state();
        state.restarts == 1 && state.state == TaskRunState::Running
    })
    .await;
    let told = scene.told();
    assert!(told.contains(&"Signaling: Task being sent signal SIGUSR1".to_owned()), "{told:?}");
    assert!(told.contains(&"Restart Signaled: User requested task to restart".to_owned()), "{told:?}");
    assert!(!scene.state().failed, "its policy has no attempts, which do not count here");
    scene.kill.send_replace(Some(Kill { skip_delay: true }));
    ended.await.unwrap();
}
