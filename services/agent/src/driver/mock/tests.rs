//! Tests of simulated tasks with a simulated clock.

use std::path::Path;

use model::Text;
use serde_json::{Value, json};

use super::*;
use crate::disk::dirs::AllocDirs;
use crate::driver::start::Progress;
use crate::resources::TaskLimits;
use crate::testing::task_id;

fn start(dir: &Path, config: Value) -> Start {
    let Value::Object(config) = config else { unreachable!() };
    let dirs = AllocDirs::new(dir.join("a"));
    dirs.build().unwrap();
    Start {
        id: task_id(),
        config: config.into_iter().collect(),
        env: BTreeMap::new(),
        user: Text::default(),
        state_dir: dir.join("exec"),
        logs: Some(LogFiles {
            alloc: dirs.root.clone(),
            task: "web".into(),
            files_max: 1,
            file_bytes_max: 100,
        }),
        dirs: dirs.task("web"),
        resources: TaskLimits::default(),
        cgroup: None,
        mounts: Vec::new(),
        devices: Vec::new(),
        network: None,
        ports: Vec::new(),
        progress: Progress::default(),
    }
}

async fn refusal(config: Value) -> (String, bool) {
    let dir = tempfile::tempdir().unwrap();
    match Mock.start(start(dir.path(), config)).await {
        Ok(_) => panic!("the task started"),
        Err(error) => (error.message, error.recoverable),
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_has_the_same_exit_if_it_ends_or_is_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({ "run_for": "1h", "exit_code": 3, "exit_signal": 2, "exit_err_msg": "oh", "kill_after": "5s" });
    let exit = Exit { code: 3, signal: 2, message: "oh".into(), oom_killed: false };
    let task = Mock.start(start(dir.path(), config.clone())).await.unwrap();
    assert_eq!(task.wait().await, exit);
    let stopped = Mock.start(start(dir.path(), config)).await.unwrap();
    stopped.stop(None, Duration::ZERO).await.unwrap();
    assert_eq!(stopped.wait().await, exit);
    let found = Mock.recover(&stopped.handle()).await.unwrap();
    assert_eq!(found.wait().await, exit);
}

#[tokio::test(start_paused = true)]
async fn a_task_writes_the_configured_output() {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({
        "run_for": "10s", "stdout_string": "tick\n", "stdout_repeat": 2, "stdout_repeat_duration": "1s",
    });
    let task = Mock.start(start(dir.path(), config)).await.unwrap();
    task.wait().await;
    let log = std::fs::read_to_string(dir.path().join("a/alloc/logs/web.stdout.0")).unwrap();
    assert_eq!(log, "tick\ntick\ntick\n");
}

#[tokio::test]
async fn a_task_fails_to_start_as_configured() {
    assert_eq!(
        refusal(json!({ "start_error": "no", "start_error_recoverable": true })).await,
        ("no".to_owned(), true)
    );
    let (bad, recoverable) = refusal(json!({ "run_for": "soon" })).await;
    assert!(bad.starts_with("run_for soon not a valid duration: "), "{bad}");
    assert!(!recoverable);
    assert_eq!(refusal(json!({ "driver_port_map": "80" })).await.0, r#"malformed port map: "80""#);
    assert_eq!(refusal(json!({ "signal_error": "x" })).await.0, "mock_driver: signal_error is not built");
}
