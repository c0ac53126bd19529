//! Tests of allocation runners with simulated tasks.

mod hooks;

use std::time::Duration;

use model::alloc::{ClientStatus, DesiredStatus, TaskRunState};
use model::job::{Lifecycle, LifecycleHook};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::commands::{BUSY, NOT_RUNNING, SHOULD_NOT_RUN};
use super::*;
use crate::alloc::hooks::{Predecessors, all};
use crate::task::commands::{Outcome, TaskAction, TaskSelector, TasksCommand};
use crate::testing::{alloc_id, context, spec, task, with_tasks};

struct Scene {
    _dir: TempDir,
    context: Arc<Context>,
    commands: mpsc::Sender<Command>,
    events: mpsc::Receiver<AllocEvent>,
    runner: JoinHandle<()>,
}

impl Scene {
    fn of(spec: AllocSpec, predecessors: Predecessors) -> Self {
        Self::with_hooks(spec, all(predecessors))
    }

    fn with_hooks(spec: AllocSpec, hooks: AllocHooks) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let contacted = watch::Sender::new(true);
        let context = context(dir.path(), contacted.subscribe());
        let (commands, inbox) = mpsc::channel(4);
        let (reporter, events) = mpsc::channel(100);
        let core = AllocCore::new(Arc::new(spec), clock::now());
        let runner = AllocRunner::new(Arc::clone(&context), core, hooks, inbox, reporter);
        let runner = tokio::spawn(runner.run(None));
        Self { _dir: dir, context, commands, events, runner }
    }

    /// Sends a command for one task. The outcome arrives later.
    async fn command(&self, task: &str, action: TaskAction) -> oneshot::Receiver<Outcome> {
        let (done, outcome) = oneshot::channel();
        let command = TasksCommand { selector: TaskSelector::Task(task.into()), action, done };
        self.commands.send(Command::Tasks(command)).await.unwrap();
        outcome
    }

    /// Restarts all tasks and waits for the outcome.
    async fn restart_all(&self) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let action = TaskAction::Restart { reason: "User requested all tasks to restart" };
        let command = TasksCommand { selector: TaskSelector::All, action, done };
        self.commands.send(Command::Tasks(command)).await.unwrap();
        outcome.await.unwrap()
    }

    /// Waits until this status is reported.
    async fn until(&mut self, status: ClientStatus) -> AllocState {
        loop {
            match self.events.recv().await {
                Some(AllocEvent::State(_, state)) if state.status == status => return state,
                Some(_) => {}
                None => panic!("the allocation ended before its status was {status}"),
            }
        }
    }
}

fn short(name: &str) -> model::job::Task {
    model::job::Task { config: [("run_for".to_owned(), json!("10s"))].into(), ..task(name) }
}

#[tokio::test(start_paused = true)]
async fn an_allocation_runs_to_its_end() {
    let mut spec = with_tasks(vec![short("a"), short("b")]);
    let job = Arc::make_mut(&mut spec.job);
    Arc::make_mut(&mut job.spec).kind = model::job::JobType::Batch;
    let mut scene = Scene::of(spec, Predecessors::default());
    scene.until(ClientStatus::Pending).await;
    scene.until(ClientStatus::Running).await;
    let last = scene.until(ClientStatus::Complete).await;
    scene.runner.await.unwrap();
    let saved = store::read::<AllocState>(&state_file(&scene.context, alloc_id(1))).unwrap();
    assert_eq!(saved, Some(last), "the reported state is on disk");
}

#[tokio::test(start_paused = true)]
async fn an_allocation_is_stopped_when_the_servers_want_it() {
    let mut scene = Scene::of(spec(), Predecessors::default());
    scene.until(ClientStatus::Running).await;
    let mut newer = spec();
    newer.work.desired_status = DesiredStatus::Stop;
    newer.work.alloc_modify_index = newer.work.alloc_modify_index.next();
    scene.commands.send(Command::Update(Box::new(newer.clone()))).await.unwrap();
    scene.until(ClientStatus::Complete).await;
    scene.runner.await.unwrap();
    let saved = store::read::<AllocSpec>(&spec_file(&scene.context, alloc_id(1))).unwrap();
    assert_eq!(saved, Some(newer));
}

#[tokio::test(start_paused = true)]
async fn an_allocation_waits_for_the_one_before_it() {
    let ended = watch::Sender::new(false);
    let predecessors = Predecessors { ends: vec![ended.subscribe()], data_of: None };
    let mut scene = Scene::of(spec(), predecessors);
    scene.until(ClientStatus::Pending).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scene.events.try_recv().is_err(), "the allocation has not started");
    ended.send_replace(true);
    scene.until(ClientStatus::Running).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_name_with_a_path_fails_the_allocation() {
    let mut scene = Scene::of(with_tasks(vec![task("../x"), task("b")]), Predecessors::default());
    let failed = scene.until(ClientStatus::Failed).await;
    let states = failed.task_states.unpack().unwrap();
    assert!(states.iter().all(|state| state.state == TaskRunState::Dead && state.failed));
    assert_eq!(
        states[1].events[1].kind.display(),
        r#"failed to setup alloc: task name "../x" is not allowed"#
    );
    scene.runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconnected_allocation_is_reported_again() {
    let mut scene = Scene::of(spec(), Predecessors::default());
    scene.until(ClientStatus::Running).await;
    let mut newer = spec();
    newer.work.client_status = ClientStatus::Unknown;
    newer.work.alloc_modify_index = newer.work.alloc_modify_index.next();
    scene.commands.send(Command::Reconnect(Box::new(newer.clone()))).await.unwrap();
    assert!(matches!(scene.events.recv().await, Some(AllocEvent::ReportAgain(_))));
    let state = scene.until(ClientStatus::Running).await;
    let events = state.task_states.unpack().unwrap().remove(0).events;
    assert_eq!(events.last().unwrap().kind.display(), "Client reconnected");
    let saved = store::read::<AllocSpec>(&spec_file(&scene.context, alloc_id(1))).unwrap().unwrap();
    assert_eq!(saved.index(), newer.index());
    assert_eq!(saved.job, newer.job, "the record stays complete (A-4.5a)");
}

#[tokio::test(start_paused = true)]
async fn a_command_that_cannot_be_carried_out_says_why() {
    let slow = [("run_for".to_owned(), json!("1h")), ("kill_after".to_owned(), json!("60s"))];
    let slow = model::job::Task { config: slow.into(), ..task("a") };
    let mut scene = Scene::of(with_tasks(vec![slow]), Predecessors::default());
    scene.until(ClientStatus::Running).await;
    let unknown = scene.command("b", TaskAction::Restart { reason: "" }).await.await.unwrap();
    assert_eq!(unknown, Err("Could not find task runner for task: b".into()));

    // While the task ends, a few commands may wait.
    let restart = scene.command("a", TaskAction::Restart { reason: "" }).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut waiting = Vec::new();
    for _ in 0..TASK_COMMANDS_MAX {
        waiting.push(scene.command("a", TaskAction::Signal(nix::sys::signal::Signal::SIGHUP)).await);
    }
    let refused =
        scene.command("a", TaskAction::Signal(nix::sys::signal::Signal::SIGHUP)).await.await.unwrap();
    assert_eq!(refused, Err(BUSY.into()));
    assert_eq!(restart.await.unwrap(), Ok(()));
    for outcome in waiting {
        assert_eq!(outcome.await.unwrap(), Ok(()), "the command is carried out once the task runs again");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_are_restarted_including_ended_ones() {
    let before = Lifecycle { hook: LifecycleHook::Prestart, sidecar: false };
    let first = model::job::Task { lifecycle: Some(before), ..short("first") };
    let mut scene = Scene::of(with_tasks(vec![first, task("main")]), Predecessors::default());
    let is_running = |states: &[TaskState], restarts| {
        states.iter().all(|state| state.restarts == restarts)
            && states[0].state == TaskRunState::Dead
            && states[1].state == TaskRunState::Running
    };
    let mut until = async |restarts| loop {
        let states = scene.until(ClientStatus::Running).await.task_states.unpack().unwrap();
        if is_running(&states, restarts) {
            return (states, scene.restart_all().await);
        }
    };
    let (states, outcome) = until(0).await;
    assert_eq!(outcome, Ok(()));
    let (again, _) = until(1).await;
    assert!(again[0].finished_at >= states[1].started_at, "the prestart task ended again");
    assert!(again[1].started_at >= again[0].finished_at, "the prestart task ran first again");
    let events: Vec<_> = again[0].events.iter().map(|event| event.kind.display()).collect();
    assert!(events.contains(&"User requested all tasks to restart".to_owned()), "{events:?}");
}

#[tokio::test(start_paused = true)]
async fn an_allocation_that_is_being_destroyed_is_not_restarted() {
    let slow = [("run_for".to_owned(), json!("1h")), ("kill_after".to_owned(), json!("60s"))];
    let slow = model::job::Task { config: slow.into(), ..task("a") };
    let mut scene = Scene::of(with_tasks(vec![slow]), Predecessors::default());
    scene.until(ClientStatus::Running).await;
    scene.commands.send(Command::Destroy).await.unwrap();
    assert_eq!(scene.restart_all().await, Err(SHOULD_NOT_RUN.into()));
}

#[tokio::test(start_paused = true)]
async fn an_allocation_that_is_stopped_before_it_starts_is_only_reported() {
    let mut unwanted = spec();
    unwanted.work.desired_status = DesiredStatus::Stop;
    let mut scene = Scene::of(unwanted, Predecessors::default());
    scene.until(ClientStatus::Complete).await;
    scene.runner.await.unwrap();
    assert!(!scene.context.dirs(alloc_id(1)).root.join("web").exists());
}
