//! Tests of how a runner treats the hooks of its allocation.

use std::future::pending;
use std::sync::Mutex;

use async_trait::async_trait;

use super::*;
use crate::alloc::hooks::AllocHook;
use crate::testing::{dead, eventually, running};

/// A hook that records its calls, and behaves as a test wants.
#[derive(Clone, Default)]
struct Probe {
    calls: Arc<Mutex<Vec<&'static str>>>,
    /// What fails.
    failing: &'static str,
    /// What never ends.
    stuck: &'static str,
}

impl Probe {
    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    async fn called(&self, step: &'static str) -> Result<(), HookError> {
        self.calls.lock().unwrap().push(step);
        if self.stuck == step {
            pending::<()>().await;
        }
        if self.failing == step { Err(HookError::recoverable("it is a test")) } else { Ok(()) }
    }

    fn hooks(&self) -> AllocHooks {
        AllocHooks::new(vec![Box::new(self.clone())])
    }
}

#[async_trait]
impl AllocHook for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    async fn prerun(&self, alloc: &AllocRun, _: &mut AllocSetup) -> Result<(), HookError> {
        self.called("prerun").await?;
        Ok(alloc.dirs().build()?)
    }

    async fn update(&self, _: &AllocRun) -> Result<(), HookError> {
        self.called("update").await
    }

    async fn pre_kill(&self, _: &AllocRun) {
        let _ = self.called("pre_kill").await;
    }

    async fn postrun(&self, _: &AllocRun) -> Result<(), HookError> {
        self.called("postrun").await
    }
}

/// A hook that waits before it has prepared anything.
struct Wait(watch::Receiver<bool>);

#[async_trait]
impl AllocHook for Wait {
    fn name(&self) -> &'static str {
        "wait"
    }

    async fn prerun(&self, _: &AllocRun, _: &mut AllocSetup) -> Result<(), HookError> {
        let _ = self.0.clone().wait_for(|ended| *ended).await;
        Ok(())
    }
}

impl Scene {
    /// Sends the specification again, changed.
    async fn update(&self, index: u64, desired_status: DesiredStatus) {
        let mut newer = with_tasks(vec![task("web")]);
        newer.work.desired_status = desired_status;
        newer.work.alloc_modify_index = model::Index(index);
        self.commands.send(Command::Update(Box::new(newer))).await.unwrap();
    }

    fn has_begun(&self) -> bool {
        begun_file(&self.context, alloc_id(1)).exists()
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_follow_the_life_of_an_allocation() {
    let probe = Probe::default();
    let mut scene = Scene::with_hooks(spec(), probe.hooks());
    scene.until(ClientStatus::Running).await;
    assert!(scene.has_begun());
    scene.update(6, DesiredStatus::Run).await;
    scene.update(7, DesiredStatus::Stop).await;
    scene.until(ClientStatus::Complete).await;
    let begun = begun_file(&scene.context, alloc_id(1));
    scene.runner.await.unwrap();
    assert_eq!(probe.calls(), ["prerun", "update", "pre_kill", "postrun"]);
    assert!(!begun.exists());
}

///
#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_fails_the_tasks_and_hooks_clean_up() {
    let probe = Probe { failing: "prerun", ..Probe::default() };
    let mut scene = Scene::with_hooks(spec(), probe.hooks());
    let failed = scene.until(ClientStatus::Failed).await;
    let events = failed.task_states.unpack().unwrap().remove(0).events;
    let last = events.last().unwrap().kind.display();
    assert_eq!(last, "failed to setup alloc: it is a test");
    scene.runner.await.unwrap();
    assert_eq!(probe.calls(), ["prerun", "postrun"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_allocation_ends_its_preparation() {
    let probe = Probe { stuck: "prerun", ..Probe::default() };
    let mut scene = Scene::with_hooks(spec(), probe.hooks());
    scene.until(ClientStatus::Pending).await;
    eventually("the hook has begun", || probe.calls() == ["prerun"]).await;
    scene.update(6, DesiredStatus::Stop).await;
    scene.until(ClientStatus::Complete).await;
    scene.runner.await.unwrap();
    assert_eq!(probe.calls(), ["prerun", "pre_kill", "postrun"]);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_the_preparation_reaches_the_hooks_afterwards() {
    let ended = watch::Sender::new(false);
    let probe = Probe::default();
    let hooks = AllocHooks::new(vec![Box::new(Wait(ended.subscribe())), Box::new(probe.clone())]);
    let mut scene = Scene::with_hooks(spec(), hooks);
    scene.until(ClientStatus::Pending).await;
    scene.update(6, DesiredStatus::Run).await;
    let (done, outcome) = oneshot::channel();
    let selector = TaskSelector::Task("web".into());
    let command = TasksCommand { selector, action: TaskAction::Restart { reason: "" }, done };
    scene.commands.send(Command::Tasks(command)).await.unwrap();
    outcome.await.unwrap().unwrap_err();
    assert!(probe.calls().is_empty(), "the change has arrived, and waits");
    ended.send_replace(true);
    scene.until(ClientStatus::Running).await;
    assert_eq!(probe.calls(), ["prerun", "update"]);
}

/// An agent that starts beside an allocation that had ended, whose hooks had not cleaned up yet.
async fn clean_up_after(probe: &Probe, states: Vec<TaskState>) -> (TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let context = context(dir.path(), watch::channel(true).1);
    let spec = Arc::new(spec());
    let begun = begun_file(&context, spec.id());
    store::save(begun.clone(), &true, Durability::Process).await.unwrap();
    let core = AllocCore::restore(spec, states.clone(), None, clock::now());
    let (_commands, inbox) = mpsc::channel(1);
    let (reporter, mut events) = mpsc::channel(1);
    AllocRunner::new(context, core, probe.hooks(), inbox, reporter).clean_up(states).await;
    assert!(events.recv().await.is_none(), "what was reported stays");
    (dir, begun)
}

fn state_of_web(state: TaskState) -> TaskState {
    TaskState { task: "web".into(), ..state }
}

#[tokio::test(start_paused = true)]
async fn hooks_clean_up_after_an_agent_that_could_not() {
    // The second allocation was declared ended before its task was.
    for state in [dead(), running()] {
        let probe = Probe::default();
        let (_dir, begun) = clean_up_after(&probe, vec![state_of_web(state)]).await;
        assert_eq!(probe.calls(), ["postrun"]);
        assert!(!begun.exists());
    }
    let probe = Probe { failing: "postrun", ..Probe::default() };
    let (_dir, begun) = clean_up_after(&probe, vec![state_of_web(dead())]).await;
    assert!(begun.exists(), "the next agent tries again");
}

#[tokio::test(start_paused = true)]
async fn commands_are_answered_while_hooks_clean_up() {
    let probe = Probe { stuck: "postrun", ..Probe::default() };
    let mut scene = Scene::with_hooks(with_tasks(vec![short("web")]), probe.hooks());
    scene.until(ClientStatus::Running).await;
    eventually("the tasks have ended", || probe.calls().last() == Some(&"postrun")).await;
    assert_eq!(scene.restart_all().await, Err(SHOULD_NOT_RUN.into()));
    let signal = TaskAction::Signal(nix::sys::signal::Signal::SIGHUP);
    assert_eq!(scene.command("web", signal).await.await.unwrap(), Err(NOT_RUNNING.into()));
    scene.runner.await.unwrap();
}

#[tokio::test]
async fn tasks_of_a_restored_allocation_end_if_it_cannot_be_prepared_again() {
    let mut scene = Scene::with_hooks(spec(), Probe::default().hooks());
    let states = scene.until(ClientStatus::Running).await.task_states.unpack().unwrap();
    scene.runner.abort();
    let _ = scene.runner.await;

    let core = AllocCore::restore(Arc::new(spec()), states.clone(), None, clock::now());
    let (_commands, inbox) = mpsc::channel(1);
    let (reporter, mut events) = mpsc::channel(100);
    let probe = Probe { failing: "prerun", ..Probe::default() };
    let runner = AllocRunner::new(Arc::clone(&scene.context), core, probe.hooks(), inbox, reporter);
    runner.run(Some(states)).await;
    assert!(scene.context.running.of_alloc(alloc_id(1)).is_empty());
    let mut last = None;
    while let Some(event) = events.recv().await {
        if let AllocEvent::State(_, state) = event {
            last = Some(state);
        }
    }
    let last = last.unwrap();
    assert_eq!(last.status, ClientStatus::Failed);
    let events = last.task_states.unpack().unwrap().remove(0).events;
    let texts: Vec<_> = events.iter().map(|event| event.kind.display()).collect();
    assert!(texts.iter().any(|text| text.starts_with("failed to setup alloc: ")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("Task successfully killed")), "{texts:?}");
}
