//! Tests of simulated tasks with a simulated clock.

use std::path::Path;

use model::Text;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
        device_env: BTreeMap::new(),
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
    assert!(bad.contains("run_for: expected a duration"), "{bad}");
    assert!(!recoverable);
    assert_eq!(refusal(json!({ "driver_port_map": "80" })).await.0, r#"malformed port map: "80""#);
    assert_eq!(refusal(json!({ "signal_error": "x" })).await.0, "mock_driver: signal_error is not built");
}

/// What a command writes on both streams, and how it ends.
async fn command(config: Value, command: &[&str], input: &str) -> (String, String, Result<i64, ExecError>) {
    let dir = tempfile::tempdir().unwrap();
    let task = Mock.start(start(dir.path(), config)).await.unwrap();
    let command = command.iter().map(|part| (*part).to_owned()).collect();
    let mut session = task.exec(ExecRequest { command, tty: false, size: None }).await.unwrap();
    session.stdin.write_all(input.as_bytes()).await.unwrap();
    session.stdin.shutdown().await.unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    session.stdout.read_to_string(&mut stdout).await.unwrap();
    session.stderr.unwrap().read_to_string(&mut stderr).await.unwrap();
    (stdout, stderr, session.exit.await.unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_command_does_what_is_configured() {
    let configured = json!([{
        "run_for": "5s", "exit_code": 3, "stdout_string": "o", "stdout_repeat": 1,
        "stdout_repeat_duration": "1s", "stderr_string": "e",
    }]);
    let config = json!({ "run_for": "1h", "exec_command": configured });
    assert_eq!(command(config, &["x", "y"], "").await, ("oo".to_owned(), "e".to_owned(), Ok(3)));
    let config = json!({ "run_for": "1h", "exec_command": { "exit_err_msg": "it broke" } });
    assert_eq!(command(config, &["x"], "").await.2, Err(ExecError("it broke".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_command_that_shows_its_input_needs_no_configuration() {
    let config = json!({ "run_for": "1h" });
    let (stdout, _, exit) = command(config.clone(), &["showinput"], "hello").await;
    assert_eq!((stdout.as_str(), exit), ("TTY: false\nStdin:\nhello", Ok(0)));
    let dir = tempfile::tempdir().unwrap();
    let task = Mock.start(start(dir.path(), config)).await.unwrap();
    let request = ExecRequest { command: vec!["other".to_owned()], tty: false, size: None };
    let refused = task.exec(request).await.err().unwrap();
    assert_eq!(refused.to_string(), "no exec command is configured");
    let text = refusal(json!({ "exec_command": { "signal_error": "x" } })).await.0;
    assert_eq!(text, "mock_driver: exec_command.signal_error is not built");
}
