//! Tests of task runners with a simulated clock. The test plays the allocation.

mod artifacts;
mod cgroups;
mod hooks;
mod templates;

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use model::Timestamp;
use model::alloc::TaskEvent;
use model::job::Task;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

use super::*;
use crate::driver::process::ExecutorCommand;
use crate::starts::Starts;
use crate::task::commands::{HookRequests, Outcome, TaskAction};
use crate::task::hooks::TaskHook;
use crate::task::state::apply;
use crate::task::updates::TaskUpdate;
use crate::testing::{NOW, context_with, eventually, executor, running, task, with_group};

/// A task whose runner is running, and the parts of its allocation.
struct Scene {
    _dir: TempDir,
    contacted: watch::Sender<bool>,
    spec: watch::Sender<Arc<AllocSpec>>,
    gate: watch::Sender<bool>,
    kill: watch::Sender<Option<Kill>>,
    commands: Mutex<Option<mpsc::Sender<TaskCommand>>>,
    state: Arc<Mutex<TaskState>>,
    setup: watch::Sender<Option<Arc<AllocSetup>>>,
    /// The hooks of the next runners; `None` are those of the agent.
    hooks: Mutex<Option<Vec<Box<dyn TaskHook>>>>,
    context: Arc<Context>,
}

impl Scene {
    fn new(task: Task, attempts: u32) -> Self {
        Self::with_executor(task, attempts, executor())
    }

    fn with_executor(task: Task, attempts: u32, executor: ExecutorCommand) -> Self {
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
        let context = context_with(dir.path(), contacted.subscribe(), executor);
        context.dirs(spec.id()).build().unwrap();
        Self {
            _dir: dir,
            contacted,
            spec: watch::Sender::new(Arc::new(spec)),
            gate: watch::Sender::new(true),
            kill: watch::Sender::new(None),
            commands: Mutex::default(),
            state: Arc::new(Mutex::new(TaskState::pending("web".into()))),
            setup: watch::Sender::new(Some(Arc::default())),
            hooks: Mutex::default(),
            context,
        }
    }

    fn mock(config: Value, attempts: u32) -> Self {
        let Value::Object(config) = config else { unreachable!() };
        Self::new(Task { config: config.into_iter().collect(), ..task("web") }, attempts)
    }

    /// Starts the runner. The returned handle ends with it.
    fn begin(&self, known: Option<TaskState>) -> tokio::task::JoinHandle<()> {
        let (updates, mut inbox) = mpsc::channel::<TaskUpdate>(1);
        let state = Arc::clone(&self.state);
        if let Some(known) = &known {
            *state.lock().unwrap() = known.clone();
        }
        tokio::spawn(async move {
            while let Some(TaskUpdate { change, saved, .. }) = inbox.recv().await {
                apply(&mut state.lock().unwrap(), change, NOW);
                let _ = saved.send(());
            }
        });
        let (commands, command_receiver) = mpsc::channel(1);
        *self.commands.lock().unwrap() = Some(commands);
        let runner = TaskRunner {
            context: Arc::clone(&self.context),
            name: "web".into(),
            spec: self.spec.subscribe(),
            setup: self.setup.subscribe(),
            hooks: self.hooks.lock().unwrap().take().map_or_else(crate::task::hooks::all, TaskHooks::new),
            gate: self.gate.subscribe(),
            kill: self.kill.subscribe(),
            updates: Updates { task: "web".into(), inbox: updates },
            commands: command_receiver,
            requests: HookRequests::default(),
            trace: None,
        };
        tokio::spawn(runner.run(known))
    }

    /// Sends a command to the running task and returns the outcome.
    async fn command(&self, action: TaskAction) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let commands = self.commands.lock().unwrap().clone().unwrap();
        commands.send(TaskCommand { action, done }).await.unwrap();
        outcome.await.unwrap()
    }

    fn state(&self) -> TaskState {
        self.state.lock().unwrap().clone()
    }

    fn events(&self) -> Vec<String> {
        let text = |event: &TaskEvent| format!("{}: {}", event.kind.as_str(), event.kind.display());
        self.state().events.iter().map(text).collect()
    }

    async fn until_running(&self) {
        eventually("the task runs", || self.state().state == TaskRunState::Running).await;
    }

    fn file(&self) -> PathBuf {
        self.context.store.task(self.spec.borrow().id(), "web").join("record")
    }

    /// The directories of what is kept of tasks.
    fn state_dirs(&self) -> Vec<PathBuf> {
        self.context.store.tasks(self.spec.borrow().id()).unwrap()
    }

    fn end(&self) {
        self.kill.send_replace(Some(Kill { skip_delay: false }));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_ends_well_is_done() {
    let scene = Scene::mock(json!({ "run_for": "1m" }), 3);
    scene.begin(None).await.unwrap();
    assert!(scene.state().successful());
    assert_eq!(
        scene.events(),
        [
            "Task Setup: Building Task Directory",
            "Started: Task started by client",
            "Terminated: Exit Code: 0",
        ]
    );
    assert!(!scene.file().exists(), "the record is removed");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_is_started_again_as_often_as_it_may() {
    let scene = Scene::mock(json!({ "run_for": "1s", "exit_code": 2 }), 1);
    scene.begin(None).await.unwrap();
    let state = scene.state();
    assert!(state.failed && state.state == TaskRunState::Dead);
    assert_eq!(state.restarts, 1);
    let events = scene.events();
    assert!(events[3].starts_with("Restarting: Task restarting in 1"), "{events:?}");
    assert_eq!(events[5], "Terminated: Exit Code: 2");
    assert_eq!(
        events[6],
        r#"Not Restarting: Exceeded allowed attempts 1 in interval 30m0s and mode is "fail""#
    );
}

#[tokio::test(start_paused = true)]
async fn a_task_that_cannot_be_started_fails_and_says_why() {
    let scene = Scene::mock(json!({ "start_error": "no way" }), 3);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.events()[1..], ["Driver Failure: no way", "Not Restarting: Error was unrecoverable"]);

    let scene = Scene::mock(json!({ "stdout_string": "${NOMAD_PROT_http}" }), 3);
    scene.begin(None).await.unwrap();
    let events = scene.events();
    let [.., failed, last] = &events[..] else { panic!("{events:?}") };
    let unknown = "Failed Validation: driver configuration: stdout_string refers to ${NOMAD_PROT_http}";
    assert!(failed.starts_with(unknown), "{failed}");
    assert_eq!(last, "Not Restarting: Error was unrecoverable");

    let unsupported = Task { schedule: Some(Box::default()), ..task("web") };
    let scene = Scene::new(unsupported, 3);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.events()[0], "Failed Validation: task schedules are not built into this agent");
    assert!(scene.state().failed);

    let scene = Scene::new(Task { driver: "docker".into(), ..task("web") }, 3);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.events()[0], r#"Failed Validation: driver "docker" is not on this node"#);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_waits_for_others_says_so() {
    let mut scene = Scene::mock(json!({ "run_for": "1h" }), 3);
    Arc::get_mut(&mut scene.context).unwrap().starts = Starts::new(1);
    let other = scene.context.starts.try_permit().unwrap();
    let runner = scene.begin(None);
    eventually("an event says that the start waits", || !scene.events().is_empty()).await;
    let waiting =
        "Task Setup: Waiting for other tasks of this node to start: at most 1 start at the same time now";
    assert_eq!(scene.events(), [waiting]);
    drop(other);
    scene.until_running().await;
    assert!(scene.context.starts.try_permit().is_some(), "the start is over");
    scene.end();
    runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_task_waits_for_its_gate_and_may_be_ended_there() {
    let scene = Scene::mock(json!({ "run_for": "1m" }), 3);
    scene.gate.send_replace(false);
    let running = scene.begin(None);
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(scene.events().is_empty());
    scene.end();
    running.await.unwrap();
    assert_eq!(scene.events(), ["Killed: Task successfully killed"]);
    assert!(scene.state().successful());
}

#[tokio::test(start_paused = true)]
async fn a_task_is_ended_after_its_shutdown_delay() {
    let delayed = Task { shutdown_delay: Nanos::from_secs(30), ..task("web") };
    let scene = Scene::new(Task { config: [("run_for".to_owned(), json!("1h"))].into(), ..delayed }, 3);
    let runner = scene.begin(None);
    scene.until_running().await;
    scene.end();
    eventually("the shutdown delay has begun", || scene.events().len() == 3).await;
    assert_eq!(scene.state().state, TaskRunState::Pending);
    scene.kill.send_replace(Some(Kill { skip_delay: true }));
    runner.await.unwrap();
    assert_eq!(
        scene.events()[2..],
        [
            "Waiting for shutdown delay: Waiting for shutdown_delay of 30s before killing the task.",
            "Terminated: Exit Code: 0",
            "Killed: Task successfully killed",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_wait_before_a_restart_can_be_cut_short() {
    let scene = Scene::mock(json!({ "run_for": "1s", "exit_code": 2 }), 3);
    let runner = scene.begin(None);
    eventually("the restart is pending", || scene.state().restarts == 1).await;
    scene.end();
    runner.await.unwrap();
    assert_eq!(scene.events().last().unwrap(), "Killed: Task successfully killed");
    assert!(scene.state().successful(), "a killed task has not failed");
}

#[tokio::test]
async fn a_lost_task_waits_for_the_servers() {
    let scene = Scene::mock(json!({ "run_for": "0s" }), 3);
    let runner = scene.begin(Some(running()));
    eventually("the task counts as lost", || scene.state().state == TaskRunState::Pending).await;
    assert_eq!(
        scene.events(),
        ["Failed Restoring Task: failed to restore task; will not run until server is contacted"]
    );
    assert!(!runner.is_finished());
    scene.contacted.send_replace(true);
    runner.await.unwrap();
    assert!(
        scene.events().contains(&"Started: Task started by client".to_owned()),
        "the task is started again"
    );
}

/// The state of a task whose start was not saved before the agent stopped.
async fn stopped_before_saving(scene: &Scene) -> TaskState {
    let first = scene.begin(None);
    scene.until_running().await;
    first.abort();
    let _ = first.await;
    let mut known = scene.state();
    known.events.truncate(1);
    TaskState { state: TaskRunState::Pending, started_at: Timestamp::UNSET, ..known }
}

#[tokio::test]
async fn a_start_that_was_not_reported_is_reported_after_a_restart() {
    let scene = Scene::mock(json!({ "run_for": "1m" }), 0);
    let known = stopped_before_saving(&scene).await;
    let second = scene.begin(Some(known));
    scene.until_running().await;
    assert_eq!(scene.events()[1..], ["Started: Task started by client"]);
    scene.end();
    second.await.unwrap();
}

#[tokio::test]
async fn a_run_whose_end_was_reported_is_only_cleaned_up() {
    let scene = Scene::mock(json!({ "run_for": "1m" }), 0);
    let known = TaskState { restarts: 1, ..stopped_before_saving(&scene).await };
    scene.gate.send_replace(false);
    let second = scene.begin(Some(known));
    eventually("the record is removed", || !scene.file().exists()).await;
    assert_eq!(scene.state().state, TaskRunState::Pending);
    scene.gate.send_replace(true);
    scene.until_running().await;
    scene.end();
    second.await.unwrap();
}

#[tokio::test]
async fn a_recovered_process_causes_no_event() {
    let script =
        "echo $$ >> ../pids; while [ -d $NOMAD_TASK_DIR -a ! -e ../go ]; do sleep 0.01; done; exit 4";
    let scene = Scene::new(shell(script), 0);
    let first = scene.begin(None);
    scene.until_running().await;
    let known = scene.state();
    first.abort();
    let _ = first.await;

    let second = scene.begin(Some(known.clone()));
    let root = scene.context.dirs(scene.spec.borrow().id()).root;
    std::fs::write(root.join("go"), "").unwrap();
    second.await.unwrap();
    assert_eq!(
        std::fs::read_to_string(root.join("pids")).unwrap().lines().count(),
        1,
        "the task was started once"
    );
    let events = scene.events();
    assert_eq!(events[..known.events.len()], events[..2]);
    assert_eq!(events[2..], ["Terminated: Exit Code: 4", "Not Restarting: Policy allows no restarts"]);
    assert!(scene.state_dirs().is_empty(), "no record and no driver directory is left");
}

/// A task of the driver `raw_exec` that runs a shell script.
fn shell(script: &str) -> Task {
    let config = [("command".to_owned(), json!("sh")), ("args".to_owned(), json!(["-c", script]))];
    Task { driver: "raw_exec".into(), config: config.into(), ..task("web") }
}

/// The process of a task that writes its id into a file of the allocation.
async fn pid_in(scene: &Scene, file: &str) -> i32 {
    let file = scene.context.dirs(scene.spec.borrow().id()).root.join(file);
    let read = || std::fs::read_to_string(&file).ok().and_then(|text| text.trim().parse().ok());
    eventually("the task has written its process id", || read().is_some()).await;
    read().unwrap()
}

fn is_alive(pid: i32) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None).is_ok()
}

/// The record of the running task cannot be read. Only one copy of the task may run.
#[tokio::test]
async fn a_task_with_an_unreadable_record_is_ended_before_its_restart() {
    let script = "echo $$ > ../pid-$(ls .. | grep -c pid); exec sleep 60";
    let scene = Scene::new(shell(script), 0);
    let first = scene.begin(None);
    scene.until_running().await;
    let pid = pid_in(&scene, "pid-0").await;
    let known = scene.state();
    first.abort();
    let _ = first.await;
    std::fs::write(scene.file(), "what another version wrote").unwrap();

    let second = scene.begin(Some(known));
    eventually("the task counts as lost", || scene.state().state == TaskRunState::Pending).await;
    assert!(!is_alive(pid));
    scene.contacted.send_replace(true);
    let again = pid_in(&scene, "pid-1").await;
    assert_ne!(again, pid);
    scene.end();
    second.await.unwrap();
    assert!(!is_alive(again));
}

/// The executor of this test removes the task's record, so that the handle cannot be saved.
#[tokio::test]
async fn a_task_whose_handle_cannot_be_saved_is_ended() {
    let sabotage = "for dir; do :; done; record=${dir%/*}/record; \
                    rm \"$record\"; mkdir -p \"$record/x\"; exec \"$0\" \"$@\"";
    let real = std::env::current_exe().unwrap().display().to_string();
    let args =
        ["-c", sabotage, &real, "executor::tests::executor_process", "--exact", "--ignored", "--nocapture"];
    let executor = ExecutorCommand::new("/bin/sh".into(), args.map(str::to_owned).to_vec());
    let scene = Scene::with_executor(shell("echo $$ > ../pid; exec sleep 60"), 0, executor);
    scene.begin(None).await.unwrap();
    let events = scene.events();
    assert!(events[1].starts_with("Driver Failure: cannot save the task's state: "), "{events:?}");
    let pid = std::fs::read_to_string(scene.context.dirs(scene.spec.borrow().id()).root.join("pid"));
    // It may have been ended before it came to its first command.
    if let Ok(pid) = pid {
        assert!(!is_alive(pid.trim().parse().unwrap()));
    }
    assert!(scene.state_dirs().is_empty());
}

// A-11.3
#[tokio::test(start_paused = true)]
async fn a_restart_by_a_failing_check_counts_against_the_restart_policy() {
    let scene = Scene::mock(json!({ "run_for": "1h" }), 1);
    let ended = scene.begin(None);
    scene.until_running().await;
    let failed = || TaskAction::RestartFailed { reason: "healthcheck: check \"a\" unhealthy".into() };
    scene.command(failed()).await.unwrap();
    eventually("the task runs again", || {
        let state = scene.state();
        state.restarts == 1 && state.state == TaskRunState::Running
    })
    .await;
    let events = scene.events();
    let reason = "Restart Signaled: healthcheck: check \"a\" unhealthy".to_owned();
    assert!(events.contains(&reason), "{events:?}");
    scene.command(failed()).await.unwrap();
    ended.await.unwrap();
    let events = scene.events();
    assert!(scene.state().failed, "{events:?}");
    assert!(
        events.iter().any(|event| event.starts_with("Not Restarting: Exceeded allowed attempts 1 ")),
        "{events:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn users_can_restart_and_signal_a_task() {
    let scene = Scene::mock(json!({ "run_for": "1h" }), 0);
    let ended = scene.begin(None);
    scene.until_running().await;
    scene.command(TaskAction::Signal(nix::sys::signal::Signal::SIGUSR1)).await.unwrap();
    scene.command(TaskAction::Restart { reason: "User requested task to restart" }).await.unwrap();
    eventually("the task runs again", || {
        let state = scene.state();
        state.restarts == 1 && state.state == TaskRunState::Running
    })
    .await;
    let events = scene.events();
    assert!(events.contains(&"Signaling: Task being sent signal SIGUSR1".to_owned()), "{events:?}");
    assert!(events.contains(&"Restart Signaled: User requested task to restart".to_owned()), "{events:?}");
    assert!(!scene.state().failed, "a restart by a user does not count as an attempt");
    scene.kill.send_replace(Some(Kill { skip_delay: true }));
    ended.await.unwrap();
}
