//! Commands that users run in tasks, with `alloc exec` and `job action`, real services and a real agent: exit codes, input,
//! terminals, many at once, much data, and what becomes of them when a process is killed.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use tests::harness::api::text;
use tests::harness::{AGENT, Cluster, jobs, processes};

use crate::BINARY;

/// A side that was killed is noticed within this time (`wire::flow::SILENCE_MAX`), and a little more.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

/// A cluster with a task that runs.
async fn running(job: &Value) -> (Cluster, String) {
    let cluster = Cluster::start(BINARY, &[]).await;
    cluster.api.put("/v1/jobs", job).await;
    let id = job["Job"]["ID"].as_str().expect("a job has an id");
    let alloc = cluster.wait_for_alloc(id, "running").await;
    let alloc = text(&alloc, "ID").to_owned();
    (cluster, alloc)
}

fn sleeping() -> Value {
    jobs::service("sleeping", "exec sleep 600")
}

/// The command line with these words.
fn drover(cluster: &Cluster, words: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command.args(words).env("NOMAD_ADDR", format!("http://{}", cluster.api.host()));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Starts a shell script in a task.
fn start(cluster: &Cluster, alloc: &str, script: &str) -> Child {
    let words = ["alloc", "exec", "-task", "task", alloc, "sh", "-c", script];
    drover(cluster, &words).spawn().expect("the command line starts")
}

/// Gives a command this input, and waits for its end.
async fn finish(mut child: Child, input: Vec<u8>) -> Output {
    let mut stdin = child.stdin.take().expect("the input is a pipe");
    // Fails if the command does not read all of it.
    let writing = thread::spawn(move || drop(stdin.write_all(&input)));
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let output =
        waiting.await.expect("the thread does not panic").expect("the command line can be waited for");
    writing.join().expect("the thread does not panic");
    output
}

fn parts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn plain(code: i32, stdout: &str, stderr: &str) -> (Option<i32>, String, String) {
    (Some(code), stdout.to_owned(), stderr.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_with_its_own_code_and_has_both_outputs() {
    let (cluster, alloc) = running(&sleeping()).await;
    let run = async |script: &str, input: &str| {
        parts(&finish(start(&cluster, &alloc, script), input.as_bytes().to_vec()).await)
    };
    assert_eq!(run("echo $NOMAD_TASK_NAME; echo oh >&2", "").await, plain(0, "task\n", "oh\n"));
    assert_eq!(run("exit 3", "").await, plain(3, "", ""));
    assert_eq!(run("kill -9 $$", "").await, plain(137, "", ""));
    assert_eq!(run("cat; echo end", "typed").await, plain(0, "typedend\n", ""), "the input ends");

    let words = async |words: &[&str]| {
        let child = drover(&cluster, words).spawn().expect("the command line starts");
        parts(&finish(child, Vec::new()).await)
    };
    let (code, _, error) = words(&["alloc", "exec", &alloc, "no-such-program"]).await;
    assert_eq!(code, Some(1));
    let reason = "failed to exec into task: rpc error: code = Unknown desc = failed to start command: exec: \
                  \"no-such-program\": executable file not found in $PATH\n";
    assert_eq!(error, reason);
    let (code, _, error) = words(&["exec", "-task", "nope", &alloc, "true"]).await;
    assert_eq!((code, error.as_str()), (Some(1), "Could not find task named: nope, found:\ntask\n"));
    let (code, _, error) = words(&["exec", "-t", &alloc, "true"]).await;
    assert_eq!((code, error.as_str()), (Some(1), "failed to exec into task: not a terminal\n"));
    assert_eq!(words(&["exec", "-i=false", "-job", "sleeping", "cat"]).await, plain(0, "", ""));
    let logged = cluster.log_text(AGENT);
    let has_line = |words: &[&str]| logged.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has_line(&["a user's command in a task has started", &alloc, "sh"]), "{logged}");
    assert!(has_line(&["a user's command in a task has ended", &alloc, "137"]), "{logged}");
    assert!(!logged.contains("kill -9"), "only the first word of a command is logged");
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_commands_run_at_once_and_much_data_passes_both_ways() {
    const BYTES: usize = 8 << 20;
    let (cluster, alloc) = running(&sleeping()).await;
    let children: Vec<Child> = (0..10).map(|_| start(&cluster, &alloc, "cat")).collect();
    let inputs: Vec<Vec<u8>> = (0..10_u8).map(|seed| pattern(seed).take(BYTES).collect()).collect();
    let finishing = children.into_iter().zip(inputs.clone()).map(|(child, input)| finish(child, input));
    let finishing: Vec<_> = finishing.map(tokio::spawn).collect();
    for (output, input) in finishing.into_iter().zip(&inputs) {
        let output = output.await.expect("the task does not panic");
        assert!(output.status.success(), "{:?}", parts(&output).2);
        assert!(output.stdout == *input, "{} bytes of {BYTES}", output.stdout.len());
    }
}

/// Bytes that repeat late.
fn pattern(seed: u8) -> impl Iterator<Item = u8> {
    (0_u32..).map(move |at| (at.wrapping_mul(2_654_435_761) >> 24) as u8 ^ seed)
}

/// Run it with `cargo test -p tests --test integration -- --ignored gigabyte`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "moves a gigabyte in each direction"]
async fn a_gigabyte_passes_both_ways_unchanged() {
    const BYTES: usize = 1 << 30;
    let (cluster, alloc) = running(&sleeping()).await;
    let mut child = start(&cluster, &alloc, "cat");
    let mut stdin = child.stdin.take().expect("the input is a pipe");
    let writing = thread::spawn(move || {
        let mut bytes = pattern(0);
        let mut left = BYTES;
        while left > 0 {
            let chunk: Vec<u8> = bytes.by_ref().take(left.min(1 << 16)).collect();
            stdin.write_all(&chunk).expect("the command reads everything");
            left -= chunk.len();
        }
    });
    let mut stdout = child.stdout.take().expect("the output is a pipe");
    let reading = tokio::task::spawn_blocking(move || {
        let (mut expected, mut count) = (pattern(0), 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let bytes = stdout.read(&mut buffer).expect("the output can be read");
            if bytes == 0 {
                return count;
            }
            assert!(buffer[..bytes].iter().copied().eq(expected.by_ref().take(bytes)), "after {count} bytes");
            count += bytes;
        }
    });
    assert_eq!(reading.await.expect("the bytes are the same"), BYTES);
    writing.join().expect("the thread does not panic");
    assert!(child.wait().expect("the command line can be waited for").success());
}

/// A terminal of which a program has the other end.
struct Terminal {
    master: File,
    path: PathBuf,
}

impl Terminal {
    fn new(rows: u16, columns: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal can be made");
        grantpt(&master).expect("its other end can be used");
        unlockpt(&master).expect("its other end can be used");
        let path = ptsname(&master, Vec::new()).expect("it has a path");
        let path = PathBuf::from(path.into_string().expect("its path is text"));
        let terminal = Self { master: master.into(), path };
        terminal.resize(rows, columns);
        terminal
    }

    fn resize(&self, rows: u16, columns: u16) {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.master, size).expect("the size can be set");
    }

    fn other_end(&self) -> Stdio {
        // It must not become the terminal of this process.
        let flags = OFlag::O_NOCTTY.bits();
        let opened = File::options().read(true).write(true).custom_flags(flags).open(&self.path);
        opened.expect("the other end can be opened").into()
    }

    /// Reads until a text has appeared. Returns everything up to there.
    async fn read_until(&self, text: &'static str) -> String {
        let mut master = self.master.try_clone().expect("the descriptor can be copied");
        let reading = tokio::task::spawn_blocking(move || {
            let (mut seen, mut byte) = (Vec::new(), [0]);
            while !seen.ends_with(text.as_bytes()) {
                master.read_exact(&mut byte).expect("the terminal can be read");
                seen.push(byte[0]);
            }
            String::from_utf8_lossy(&seen).into_owned()
        });
        let limited = tokio::time::timeout(tests::harness::TIMEOUT, reading).await;
        limited.unwrap_or_else(|_| panic!("{text:?} does not appear")).expect("the thread does not panic")
    }

    fn type_in(&mut self, text: &str) {
        self.master.write_all(text.as_bytes()).expect("the terminal can be written");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_is_that_of_the_user_until_the_escape() {
    let (cluster, alloc) = running(&sleeping()).await;
    let mut terminal = Terminal::new(33, 101);
    let wait = |size: &str| format!("until [ \"$(stty size)\" = '{size}' ]; do sleep 0.05; done");
    let (first, second) = (wait("33 101"), wait("40 120"));
    let script = format!("{first}; echo first; {second}; echo second; read line; echo got $line; sleep 600");
    let words = ["alloc", "exec", "-t", &alloc, "sh", "-c", &script];
    let mut command = drover(&cluster, &words);
    command.stdin(terminal.other_end()).stdout(terminal.other_end()).stderr(terminal.other_end());
    let mut child = command.spawn().expect("the command line starts");
    drop(command);
    terminal.read_until("first\r\n").await;
    terminal.resize(40, 120);
    // The terminal is not that of the session of the command line, so the kernel does not send it.
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGWINCH).expect("the process can be signalled");
    terminal.read_until("second\r\n").await;
    terminal.type_in("hello\r");
    terminal.read_until("got hello\r\n").await;
    terminal.type_in("~.");
    let status = tokio::task::spawn_blocking(move || child.wait()).await.expect("the thread does not panic");
    assert_eq!(status.expect("the command line can be waited for").code(), Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_action_runs_by_its_name() {
    let mut job = jobs::service("acting", "exec sleep 600");
    job["Job"]["TaskGroups"][0]["Tasks"][0]["Actions"] =
        json!([{ "Name": "greet", "Command": "/bin/sh", "Args": ["-c", "echo hello; exit 4"] }]);
    let (cluster, alloc) = running(&job).await;
    let words = async |words: &[&str]| {
        let child = drover(&cluster, words).spawn().expect("the command line starts");
        parts(&finish(child, Vec::new()).await)
    };
    let by_group = ["job", "action", "-job", "acting", "-group", "group", "-task", "task", "greet"];
    assert_eq!(words(&by_group).await, plain(4, "hello\n", ""));
    assert_eq!(
        words(&["action", "-job", "acting", "-alloc", &alloc, "greet"]).await,
        plain(4, "hello\n", "")
    );
    let (code, _, error) = words(&["action", "-job", "acting", "-alloc", &alloc, "nope"]).await;
    let expected = "failed to exec into task: action nope not found in task task\n";
    assert_eq!((code, error.as_str()), (Some(1), expected));
}

/// A command that has written its process id, and that id.
async fn sleeping_command(cluster: &Cluster, alloc: &str) -> (Child, i32) {
    let file = cluster.path("command");
    let script = format!("echo $$ > {0}.part; mv {0}.part {0}; exec sleep 600", file.display());
    let child = start(cluster, alloc, &script);
    let read = async |_: &Cluster| std::fs::read_to_string(&file).ok()?.trim().parse().ok();
    let pid = cluster.wait_until("the command runs", read).await;
    (child, pid)
}

async fn ends_in_time(mut child: Child, within: Duration) -> (Option<i32>, String, String) {
    drop(child.stdin.take());
    let waiting = tokio::task::spawn_blocking(move || child.wait_with_output());
    let ended = tokio::time::timeout(within, waiting).await.expect("the user is told in time");
    parts(&ended.expect("the thread does not panic").expect("the command line can be waited for"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_when_its_agent_is_killed_and_its_user_is_told() {
    let (mut cluster, alloc) = running(&sleeping()).await;
    let (child, pid) = sleeping_command(&cluster, &alloc).await;
    cluster.kill9(AGENT);
    let (code, _, error) = ends_in_time(child, NOTICED_WITHIN).await;
    assert_eq!(code, Some(1));
    assert!(error.starts_with("failed to exec into task: the connection to the node was lost"), "{error}");
    cluster.wait_until("the command has ended", async |_| (!processes::runs(pid)).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_ends_when_its_api_process_is_killed() {
    let (mut cluster, alloc) = running(&sleeping()).await;
    let (child, pid) = sleeping_command(&cluster, &alloc).await;
    cluster.kill9("api");
    let (code, _, error) = ends_in_time(child, NOTICED_WITHIN).await;
    assert_eq!(code, Some(1));
    assert!(error.starts_with("failed to exec into task: "), "{error}");
    cluster.wait_until("the command has ended", async |_| (!processes::runs(pid)).then_some(())).await;
    cluster.wait_until_logged(AGENT, "nothing was heard from the other side for 10 seconds").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_refuses_commands_if_it_is_told_to() {
    let disabled = [("DROVER_DISABLE_REMOTE_EXEC", "true".to_owned())];
    let cluster = Cluster::start(BINARY, &disabled).await;
    cluster.api.put("/v1/jobs", &sleeping()).await;
    let alloc = cluster.wait_for_alloc("sleeping", "running").await;
    let output = finish(start(&cluster, text(&alloc, "ID"), "true"), Vec::new()).await;
    let (code, _, error) = parts(&output);
    assert_eq!(code, Some(1));
    assert!(error.starts_with("failed to exec into task: Permission denied: "), "{error}");
}
