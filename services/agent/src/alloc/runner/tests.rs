//! Loops of whole allocations with tasks that pretend to run.

use std::time::Duration;

use model::alloc::{ClientStatus, DesiredStatus, TaskRunState};
use model::job::{Lifecycle, LifecycleHook};
use serde_json::json;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::*;
use crate::testing::{alloc_id, context, spec, task, with_tasks};

struct Scene {
    _dir: TempDir,
    context: Arc<Context>,
    commands: mpsc::Sender<Command>,
    told: mpsc::Receiver<Told>,
    over: JoinHandle<()>,
}

impl Scene {
    fn of(spec: AllocSpec, before: Before) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let contacted = watch::Sender::new(true);
        let context = context(dir.path(), contacted.subscribe());
        let (commands, inbox) = mpsc::channel(4);
        let (reporter, told) = mpsc::channel(100);
        let core = AllocCore::new(Arc::new(spec), clock::now());
        let runner = AllocRunner::new(Arc::clone(&context), core, inbox, reporter);
        let over = tokio::spawn(runner.run(before, None));
        Self { _dir: dir, context, commands, told, over }
    }

    /// Wants something of a task; how that ends is told later.
    async fn order(&self, task: &str, wish: Wish) -> oneshot::Receiver<Outcome> {
        let (done, outcome) = oneshot::channel();
        let order = TasksOrder { whom: Whom::Task(task.into()), wish, done };
        self.commands.send(Command::Tasks(order)).await.unwrap();
        outcome
    }

    /// Has all tasks begin anew, and waits until that has been done.
    async fn restart_all(&self) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let wish = Wish::Restart { reason: "User requested all tasks to restart" };
        let order = TasksOrder { whom: Whom::All, wish, done };
        self.commands.send(Command::Tasks(order)).await.unwrap();
        outcome.await.unwrap()
    }

    /// Waits until it is told so.
    async fn until(&mut self, status: ClientStatus) -> AllocState {
        loop {
            match self.told.recv().await {
                Some(Told::State(_, state)) if state.status == status => return state,
                Some(_) => {}
                None => panic!("it ended before it was {status}"),
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
    let mut scene = Scene::of(spec, Before::default());
    scene.until(ClientStatus::Pending).await;
    scene.until(ClientStatus::Running).await;
    let last = scene.until(ClientStatus::Complete).await;
    scene.over.await.unwrap();
    let kept = store::read::<AllocState>(&state_file(&scene.context, alloc_id(1))).unwrap();
    assert_eq!(kept, Some(last), "what was told is on disk");
}

#[tokio::test(start_paused = true)]
async fn an_allocation_is_stopped_when_the_servers_want_it() {
    let mut scene = Scene::of(spec(), Before::default());
    scene.until(ClientStatus::Running).await;
    let mut newer = spec();
    newer.work.desired_status = DesiredStatus::Stop;
    newer.work.alloc_modify_index = newer.work.alloc_modify_index.next();
    scene.commands.send(Command::Update(Box::new(newer.clone()))).await.unwrap();
    scene.until(ClientStatus::Complete).await;
    scene.over.await.unwrap();
    let kept = store::read::<AllocSpec>(&spec_file(&scene.context, alloc_id(1))).unwrap();
    assert_eq!(kept, Some(newer));
}

#[tokio::test(start_paused = true)]
async fn an_allocation_waits_for_the_one_before_it() {
    let ended = watch::Sender::new(false);
    let before = Before { ends: vec![ended.subscribe()], data_of: None };
    let mut scene = Scene::of(spec(), before);
    scene.until(ClientStatus::Pending).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(scene.told.try_recv().is_err(), "it has not begun");
    ended.send_replace(true);
    scene.until(ClientStatus::Running).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_leads_elsewhere_fails_the_allocation() {
    let mut scene = Scene::of(with_tasks(vec![task("../x"), task("b")]), Before::default());
    let failed = scene.until(ClientStatus::Failed).await;
    let states = failed.task_states.unpack().unwrap();
    assert!(states.iter().all(|state| state.state == TaskRunState::Dead && state.failed));
    assert_eq!(
        states[1].events[1].kind.display(),
        r#"failed to setup alloc: task name "../x" is not allowed"#
    );
    scene.over.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_reconnected_allocation_is_told_of_again() {
    let mut scene = Scene::of(spec(), Before::default());
    scene.until(ClientStatus::Running).await;
    let mut newer = spec();
    newer.work.client_status = ClientStatus::Unknown;
    newer.work.alloc_modify_index = newer.work.alloc_modify_index.next();
    scene.commands.send(Command::Reconnect(Box::new(newer.clone()))).await.unwrap();
    assert!(matches!(scene.told.recv().await, Some(Told::Again(_))));
    let state = scene.until(ClientStatus::Running).await;
    let events = state.task_states.unpack().unwrap().remove(0).events;
    assert_eq!(events.last().unwrap().kind.display(), "Client reconnected");
    let kept = store::read::<AllocSpec>(&spec_file(&scene.context, alloc_id(1))).unwrap().unwrap();
    assert_eq!(kept.index(), newer.index());
    assert_eq!(kept.job, newer.job, "the record stays complete (A-4.5a)");
}

#[tokio::test(start_paused = true)]
async fn an_order_that_cannot_be_carried_out_says_why() {
    let slow = [("run_for".to_owned(), json!("1h")), ("kill_after".to_owned(), json!("60s"))];
    let slow = model::job::Task { config: slow.into(), ..task("a") };
    let mut scene = Scene::of(with_tasks(vec![slow]), Before::default());
    scene.until(ClientStatus::Running).await;
    let unknown = scene.order("b", Wish::Restart { reason: "" }).await.await.unwrap();
    assert_eq!(unknown, Err("Could not find task runner for task: b".into()));

    // While the task ends, a few may wait.
    let restart = scene.order("a", Wish::Restart { reason: "" }).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut waiting = Vec::new();
    for _ in 0..ORDERS_MAX {
        waiting.push(scene.order("a", Wish::Signal(nix::sys::signal::Signal::SIGHUP)).await);
    }
    let refused = scene.order("a", Wish::Signal(nix::sys::signal::Signal::SIGHUP)).await.await.unwrap();
    assert_eq!(refused, Err(BUSY.into()));
    assert_eq!(restart.await.unwrap(), Ok(()));
    for outcome in waiting {
        assert_eq!(outcome.await.unwrap(), Ok(()), "it was carried out once the task ran again");
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_begin_anew_those_too_that_have_ended() {
    let before = Lifecycle { hook: LifecycleHook::Prestart, sidecar: false };
    let first = model::job::Task { lifecycle: Some(before), ..short("first") };
    let mut scene = Scene::of(with_tasks(vec![first, task("main")]), Before::default());
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
    assert!(again[0].finished_at >= states[1].started_at, "it ended again");
    assert!(again[1].started_at >= again[0].finished_at, "what comes first came first again");
    let told: Vec<_> = again[0].events.iter().map(|event| event.kind.display()).collect();
    assert!(told.contains(&"User requested all tasks to restart".to_owned()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_to_end_does_not_begin_anew() {
    let slow = [("run_for".to_owned(), json!("1h")), ("kill_after".to_owned(), json!("60s"))];
    let slow = model::job::Task { config: slow.into(), ..task("a") };
    let mut scene = Scene::of(with_tasks(vec![slow]), Before::default());
    scene.until(ClientStatus::Running).await;
    scene.commands.send(Command::Destroy).await.unwrap();
    assert_eq!(scene.restart_all().await, Err(SHOULD_NOT_RUN.into()));
}

#[tokio::test(start_paused = true)]
async fn what_is_wanted_no_more_before_it_begins_is_only_reported() {
    let mut unwanted = spec();
    unwanted.work.desired_status = DesiredStatus::Stop;
    let mut scene = Scene::of(unwanted, Before::default());
    scene.until(ClientStatus::Complete).await;
    scene.over.await.unwrap();
    assert!(!scene.context.dirs(alloc_id(1)).root.join("web").exists());
}
