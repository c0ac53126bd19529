//! Commands in tasks, with real processes, executors and terminals.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::driver::exec_session::{ExecError, ExecRequest, ExecSession, TerminalSize};

fn shell(script: &str, tty: bool) -> ExecRequest {
    let command = ["sh", "-c", script].map(str::to_owned).to_vec();
    ExecRequest { command, tty, size: Some(TerminalSize { height: 30, width: 100 }) }
}

async fn begin(task: &Arc<dyn Running>, script: &str, tty: bool) -> ExecSession {
    task.exec(shell(script, tty)).await.unwrap()
}

/// What a command writes on both streams, and how it ends, after it was given this input.
async fn outcome(mut session: ExecSession, input: &str) -> (String, String, Result<i64, ExecError>) {
    session.stdin.write_all(input.as_bytes()).await.unwrap();
    session.stdin.shutdown().await.unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    session.stdout.read_to_string(&mut stdout).await.unwrap();
    if let Some(mut reader) = session.stderr {
        reader.read_to_string(&mut stderr).await.unwrap();
    }
    (stdout, stderr, session.exit.await.unwrap())
}

#[tokio::test]
async fn a_command_runs_as_the_task_does() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    let session = begin(&task, "echo $GREETING$HIDDEN; pwd >&2; exit 3", false).await;
    let (stdout, stderr, exit) = outcome(session, "").await;
    assert_eq!((stdout.as_str(), exit), ("hello\n", Ok(3)));
    assert_eq!(stderr.trim(), scene.dirs.task("web").task.to_str().unwrap());
    let session = begin(&task, "cat; kill -9 $$", false).await;
    assert_eq!(outcome(session, "typed").await, ("typed".to_owned(), String::new(), Ok(137)));
    task.stop(None, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_command_that_cannot_be_started_says_why() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    let request = ExecRequest { command: vec!["no-such-program".to_owned()], tty: false, size: None };
    let failed = match task.exec(request).await {
        Err(error) => error.to_string(),
        Ok(session) => outcome(session, "").await.2.unwrap_err().to_string(),
    };
    assert!(failed.ends_with("exec: \"no-such-program\": executable file not found in $PATH"), "{failed}");
    task.stop(None, Duration::ZERO).await.unwrap();
    assert!(task.exec(shell("true", false)).await.is_err(), "the task has ended");
}

#[tokio::test]
async fn a_terminal_has_the_users_size_and_ends_with_the_command() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    let wanted = "until [ \"$(stty size)\" = '41 121' ]; do sleep 0.01; done";
    let script = format!("test -t 0 && test -t 2 && stty size; {wanted}; echo resized; exit 7");
    let mut session = begin(&task, &script, true).await;
    assert!(session.stderr.is_none());
    let mut seen = vec![0; 8];
    session.stdout.read_exact(&mut seen).await.unwrap();
    assert_eq!(seen, b"30 100\r\n");
    session.resize.send(TerminalSize { height: 41, width: 121 }).await.unwrap();
    let mut rest = String::new();
    session.stdout.read_to_string(&mut rest).await.unwrap();
    assert_eq!((rest.as_str(), session.exit.await.unwrap()), ("resized\r\n", Ok(7)));
    task.stop(None, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_terminal_passes_on_the_end_of_the_input() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    let session = begin(&task, "stty -echo; cat", true).await;
    let (stdout, _, exit) = outcome(session, "line\n").await;
    assert!(stdout.ends_with("line\r\n"), "{stdout:?}");
    assert_eq!(exit, Ok(0));
    task.stop(None, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_command_ends_with_its_session_and_so_does_what_it_started() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    for tty in [false, true] {
        let script = "rm -f child; sh -c 'echo $$ > child; exec sleep 60' & echo $$ > command; wait";
        let session = begin(&task, script, tty).await;
        let (child, command) = (scene.pid_in("child").await, scene.pid_in("command").await);
        drop(session);
        eventually("the command has ended", || !is_alive(child) && !is_alive(command)).await;
        fs::remove_file(scene.file("child")).unwrap();
        fs::remove_file(scene.file("command")).unwrap();
    }
    let state = scene.dir.path().join("state/exec-1");
    let is_command = |entry: fs::DirEntry| entry.file_name().to_string_lossy().starts_with("exec-");
    let remain = || fs::read_dir(&state).unwrap().flatten().any(is_command);
    eventually("the directories of the commands are removed", || !remain()).await;
    task.stop(None, Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_command_ends_with_its_task() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    let session = begin(&task, "echo $$ > command; exec sleep 60", false).await;
    let command = scene.pid_in("command").await;
    task.stop(None, Duration::ZERO).await.unwrap();
    assert!(!is_alive(command), "the executor ends all processes of the task");
    assert_eq!(session.exit.await.unwrap(), Ok(137));
}

#[tokio::test]
async fn a_command_runs_in_a_task_that_was_found_again() {
    let scene = Scene::new();
    let task = scene.script("sleep 60").await;
    let found = driver().recover(&task.handle()).await.unwrap();
    let session = begin(&found, "echo $GREETING", false).await;
    assert_eq!(outcome(session, "").await.0, "hello\n");
    task.stop(None, Duration::ZERO).await.unwrap();
}
