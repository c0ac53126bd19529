//! Tests of how a runner treats hooks: those that fail, wait, are slow, or run again after a restart of the agent.

use std::future::pending;

use async_trait::async_trait;
use model::alloc::DesiredStatus;

use super::*;
use crate::driver::Running;
use crate::task::hooks::chain::HOOK_TIMEOUT;
use crate::task::hooks::{HookError, StartDraft};
use crate::testing::dead;

/// A hook that records its calls, and behaves as a test wants.
#[derive(Clone, Default)]
struct Probe {
    calls: Arc<Mutex<Vec<&'static str>>>,
    /// How often it fails before starts, and whether a retry may help.
    failures: Arc<Mutex<(u32, bool)>>,
    /// What never ends.
    stuck: &'static str,
}

impl Probe {
    fn stuck_in(step: &'static str) -> Self {
        Self { stuck: step, ..Self::default() }
    }

    fn failing(times: u32, recoverable: bool) -> Self {
        Self { failures: Arc::new(Mutex::new((times, recoverable))), ..Self::default() }
    }

    fn calls(&self) -> Vec<&'static str> {
        self.calls.lock().unwrap().clone()
    }

    async fn called(&self, step: &'static str) {
        self.calls.lock().unwrap().push(step);
        if self.stuck == step {
            pending::<()>().await;
        }
    }

    /// Whether it fails this time.
    fn fails(&self) -> Option<HookError> {
        let mut failures = self.failures.lock().unwrap();
        let (left, recoverable) = *failures;
        failures.0 = left.checked_sub(1)?;
        Some(match recoverable {
            true => HookError::recoverable("not now"),
            false => HookError::unrecoverable("never"),
        })
    }

    /// Makes it the only hook of the next runner.
    fn put_into(&self, scene: &Scene) {
        *scene.hooks.lock().unwrap() = Some(vec![Box::new(self.clone())]);
    }
}

#[async_trait]
impl TaskHook for Probe {
    fn name(&self) -> &'static str {
        "probe"
    }

    async fn prestart(&self, run: &TaskRun, draft: &mut StartDraft) -> Result<(), HookError> {
        self.called("prestart").await;
        assert_eq!((&*draft.id.task, run.job_parts().unwrap().1.name.as_str()), ("web", "web"));
        self.fails().map_or(Ok(()), Err)
    }

    async fn poststart(&self, _: &TaskRun, _: &Arc<dyn Running>) -> Result<(), HookError> {
        self.called("poststart").await;
        Ok(())
    }

    async fn update(&self, _: &TaskRun) -> Result<(), HookError> {
        self.called("update").await;
        Ok(())
    }

    async fn pre_kill(&self, _: &TaskRun) {
        self.called("pre_kill").await;
    }

    async fn exited(&self, _: &TaskRun) -> Result<(), HookError> {
        self.called("exited").await;
        Err(HookError::recoverable("the failure is only logged"))
    }

    async fn stop(&self, _: &TaskRun) -> Result<(), HookError> {
        self.called("stop").await;
        Ok(())
    }
}

fn long() -> Value {
    json!({ "run_for": "1h" })
}

#[tokio::test(start_paused = true)]
async fn hooks_follow_the_life_of_a_task() {
    let (scene, probe) = (Scene::mock(json!({ "run_for": "1s", "exit_code": 2 }), 1), Probe::default());
    probe.put_into(&scene);
    scene.begin(None).await.unwrap();
    let run = ["prestart", "poststart", "exited"];
    assert_eq!(probe.calls(), [&run[..], &run[..], &["stop"]].concat());
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_tried_again_if_that_may_help() {
    let (scene, probe) = (Scene::mock(json!({ "run_for": "1s" }), 1), Probe::failing(1, true));
    probe.put_into(&scene);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.events()[0], "Task hook failed: probe: not now");
    assert!(
        scene.events()[2..].contains(&"Started: Task started by client".to_owned()),
        "{:?}",
        scene.events()
    );
    assert_eq!(probe.calls(), ["prestart", "exited", "prestart", "poststart", "exited", "stop"]);

    let (scene, probe) = (Scene::mock(json!({ "run_for": "1s" }), 1), Probe::failing(1, false));
    probe.put_into(&scene);
    scene.begin(None).await.unwrap();
    assert_eq!(scene.events(), ["Task hook failed: probe: never", "Not Restarting: Error was unrecoverable"]);
    assert_eq!(probe.calls(), ["prestart", "exited", "stop"]);
}

/// A-9.3a.
#[tokio::test(start_paused = true)]
async fn a_kill_ends_a_hook_that_prepares_a_start() {
    let (scene, probe) = (Scene::mock(long(), 3), Probe::stuck_in("prestart"));
    probe.put_into(&scene);
    let runner = scene.begin(None);
    eventually("the hook has begun", || probe.calls() == ["prestart"]).await;
    scene.end();
    runner.await.unwrap();
    assert_eq!(scene.events(), ["Killed: Task successfully killed"]);
    assert_eq!(probe.calls(), ["prestart", "exited", "stop"]);
    assert!(scene.state_dirs().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_kill_does_not_wait_for_a_hook_that_follows_the_start() {
    let (scene, probe) = (Scene::mock(long(), 3), Probe::stuck_in("poststart"));
    probe.put_into(&scene);
    let runner = scene.begin(None);
    eventually("the hook has begun", || probe.calls() == ["prestart", "poststart"]).await;
    scene.end();
    runner.await.unwrap();
    assert_eq!(probe.calls()[2..], ["pre_kill", "exited", "stop"]);
}

#[tokio::test(start_paused = true)]
async fn no_hook_keeps_a_task_from_ending() {
    for step in ["pre_kill", "exited", "stop"] {
        let (scene, probe) = (Scene::mock(long(), 3), Probe::stuck_in(step));
        probe.put_into(&scene);
        let runner = scene.begin(None);
        eventually("the task runs", || probe.calls().contains(&"poststart")).await;
        let killed_at = tokio::time::Instant::now();
        scene.end();
        runner.await.unwrap();
        assert!(killed_at.elapsed() >= HOOK_TIMEOUT, "{step}");
        assert_eq!(probe.calls()[2..], ["pre_kill", "exited", "stop"], "{step}");
        assert_eq!(scene.events().last().unwrap(), "Killed: Task successfully killed", "{step}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_by_a_user_is_an_end_and_a_start() {
    let (scene, probe) = (Scene::mock(long(), 0), Probe::default());
    probe.put_into(&scene);
    let runner = scene.begin(None);
    eventually("the task runs", || probe.calls().contains(&"poststart")).await;
    assert!(scene.context.running.get(scene.spec.borrow().id(), "web").is_some());
    scene.command(TaskAction::Restart { reason: "" }).await.unwrap();
    eventually("the task runs again", || probe.calls().len() == 6).await;
    assert_eq!(probe.calls()[2..], ["pre_kill", "exited", "prestart", "poststart"]);
    scene.end();
    runner.await.unwrap();
    assert!(scene.context.running.of_alloc(scene.spec.borrow().id()).is_empty());
}

///
#[tokio::test(start_paused = true)]
async fn a_change_reaches_the_hooks_of_a_running_task_unless_it_is_the_end() {
    let (scene, probe) = (Scene::mock(long(), 0), Probe::default());
    probe.put_into(&scene);
    let runner = scene.begin(None);
    eventually("the task runs", || probe.calls().contains(&"poststart")).await;
    let mut changed = AllocSpec::clone(&scene.spec.borrow());
    changed.work.alloc_modify_index = changed.work.alloc_modify_index.next();
    scene.spec.send_replace(Arc::new(changed.clone()));
    eventually("the hook knows", || probe.calls().last() == Some(&"update")).await;
    changed.work.desired_status = DesiredStatus::Stop;
    scene.spec.send_replace(Arc::new(changed));
    scene.end();
    runner.await.unwrap();
    assert_eq!(probe.calls()[2..], ["update", "pre_kill", "exited", "stop"]);
}

#[tokio::test]
async fn hooks_run_again_after_a_restart_of_the_agent() {
    // The first agent ends while a hook prepares the start.
    let (scene, interrupted) = (Scene::mock(long(), 0), Probe::stuck_in("prestart"));
    interrupted.put_into(&scene);
    let first = scene.begin(None);
    eventually("the hook has begun", || interrupted.calls() == ["prestart"]).await;
    first.abort();
    let _ = first.await;

    // The second one ends while the task runs.
    let probe = Probe::default();
    probe.put_into(&scene);
    let second = scene.begin(Some(scene.state()));
    eventually("the task runs", || probe.calls() == ["prestart", "poststart"]).await;
    second.abort();
    let _ = second.await;

    // The third one finds the running task. What follows a start needs what the allocation prepares.
    let probe = Probe::default();
    probe.put_into(&scene);
    scene.setup.send_replace(None);
    let third = scene.begin(Some(scene.state()));
    let id = scene.spec.borrow().id();
    eventually("the task is found", || scene.context.running.get(id, "web").is_some()).await;
    assert!(probe.calls().is_empty());
    scene.setup.send_replace(Some(Arc::default()));
    eventually("the hook has run", || probe.calls() == ["poststart"]).await;
    scene.end();
    third.await.unwrap();
    assert_eq!(probe.calls(), ["poststart", "pre_kill", "exited", "stop"]);
}

///
#[tokio::test(start_paused = true)]
async fn a_payload_is_written_before_the_first_start_only() {
    let config = [("run_for".to_owned(), json!("1s")), ("exit_code".to_owned(), json!(2))].into();
    let target = model::job::DispatchPayload { file: "in".into() };
    let scene = Scene::new(Task { dispatch_payload: Some(target), config, ..task("web") }, 1);
    scene.spec.send_modify(|spec| {
        let job = Arc::make_mut(&mut Arc::make_mut(spec).job);
        Arc::make_mut(&mut job.spec).payload = Some(api_types::Base64(b"given".to_vec()));
    });
    let file = scene.context.dirs(scene.spec.borrow().id()).task("web").local.join("in");
    let runner = scene.begin(None);
    scene.until_running().await;
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "given");
    std::fs::write(&file, "changed by the task").unwrap();
    runner.await.unwrap();
    assert_eq!(scene.state().restarts, 1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "changed by the task");
}

///
#[tokio::test(start_paused = true)]
async fn hooks_of_a_dead_task_stop_once_more_after_a_restart() {
    let (scene, probe) = (Scene::mock(long(), 0), Probe::default());
    probe.put_into(&scene);
    scene.begin(Some(dead())).await.unwrap();
    assert_eq!(probe.calls(), ["stop"]);
    assert!(scene.events().is_empty());
}
