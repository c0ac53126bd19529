//! Commands inside tasks that are processes: the agent's side of what the executor does (`executor::session`). The
//! executor starts the command, so that it runs as the task does, and ends with it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use telemetry::chain;
use tokio::io::{AsyncBufReadExt as _, AsyncWrite, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use super::Exit;
use super::exec_session::{ExecError, ExecRequest, ExecSession, TerminalSize};
use super::terminal::Terminal;
use crate::disk::store::{self, Durability};
use crate::executor::session::{HELD, REQUEST, Requested, STATUS, STDERR, STDIN, STDOUT};
use crate::wait::until;

/// How long an executor may take to start a command.
const START_TIMEOUT: Duration = Duration::from_secs(10);
/// The exit code of a command that ended with its task: it was killed.
const KILLED: i64 = 137;
/// Permissions of the pipes between agent and executor.
const PIPE_MODE: Mode = Mode::from_bits_truncate(0o600);
/// Permissions of their directory.
const DIR_MODE: u32 = 0o700;
/// Number of sizes of a terminal that may wait to be set.
const SIZES_MAX: usize = 4;

/// The lines in which an executor says what becomes of a command.
type Status = Lines<BufReader<pipe::Receiver>>;

/// What a command reads and writes, at the agent's end.
enum Streams {
    Terminal(Terminal),
    Pipes { stdin: pipe::Sender, stdout: pipe::Receiver, stderr: pipe::Receiver },
}

/// A command in a task, from its start until its session is dropped.
struct Command {
    dir: PathBuf,
    status: Status,
    /// The executor kills the command when this closes.
    held: pipe::Sender,
    terminal: Option<Terminal>,
}

/// Starts a command in the task of an executor with this directory. `send` sends a line to the executor, and `task`
/// receives the end of the task.
pub(super) async fn exec(
    executor_dir: &Path,
    task: watch::Receiver<Option<Exit>>,
    request: ExecRequest,
    send: impl Fn(&str) -> io::Result<()> + Send + Sync,
) -> Result<ExecSession, ExecError> {
    let name = format!("exec-{:016x}", rand::random::<u64>());
    let dir = executor_dir.join(&name);
    let outcome = start(dir.clone(), task, request, || send(&format!("exec {name}\n"))).await;
    if outcome.is_err() {
        remove(&dir).await;
    }
    outcome
}

async fn start(
    dir: PathBuf,
    task: watch::Receiver<Option<Exit>>,
    request: ExecRequest,
    send: impl Fn() -> io::Result<()> + Send + Sync,
) -> Result<ExecSession, ExecError> {
    let cannot = |error: io::Error| ExecError(format!("cannot run a command in the task: {error}"));
    let (mut status, held) = make_dir(&dir).map_err(cannot)?;
    let (streams, terminal) = Streams::make(&dir, &request).map_err(cannot)?;
    let requested = Requested { command: request.command, terminal };
    store::write(&dir.join(REQUEST), &requested, Durability::Process).map_err(cannot)?;
    send().map_err(|_| task_ended())?;
    let first = tokio::select! {
        line = timeout(START_TIMEOUT, status.next_line()) => line,
        _ = until(&task, Option::is_some) => return Err(task_ended()),
    };
    match first {
        Ok(line) => match line.map_err(cannot)?.as_deref() {
            Some("started") => {}
            Some(line) => return Err(ExecError(line.strip_prefix("failed ").unwrap_or(line).to_owned())),
            None => return Err(task_ended()),
        },
        Err(_) => {
            return Err(ExecError(format!(
                "the task's executor did not start the command within {} seconds; if an older program has started the \
                 task, restart the task first",
                START_TIMEOUT.as_secs()
            )));
        }
    }
    let (resize, sizes) = mpsc::channel(SIZES_MAX);
    let (exit_sender, exit) = oneshot::channel();
    let (session, terminal) = match streams {
        Streams::Terminal(terminal) => {
            let (input, output) = terminal.halves();
            let (stdin, stdout) = (Box::new(input), Box::new(output));
            (ExecSession { stdin, stdout, stderr: None, resize, exit }, Some(terminal))
        }
        Streams::Pipes { stdin, stdout, stderr } => {
            let (stdin, stdout) = (Box::new(PipeInput(Some(stdin))), Box::new(stdout));
            (ExecSession { stdin, stdout, stderr: Some(Box::new(stderr)), resize, exit }, None)
        }
    };
    tokio::spawn(Command { dir, status, held, terminal }.supervise(task, sizes, exit_sender));
    Ok(session)
}

fn task_ended() -> ExecError {
    ExecError("the task has ended".to_owned())
}

/// Makes the directory of a command, and the pipes by which the executor is told and tells what becomes of it.
fn make_dir(dir: &Path) -> io::Result<(Status, pipe::Sender)> {
    DirBuilder::new().mode(DIR_MODE).create(dir)?;
    for name in [STATUS, HELD] {
        mkfifo(&dir.join(name), PIPE_MODE)?;
    }
    // Both are also opened for the other direction, so that neither needs the executor to be there.
    let mut both = pipe::OpenOptions::new();
    both.read_write(true);
    let status = BufReader::new(both.open_receiver(dir.join(STATUS))?).lines();
    Ok((status, both.open_sender(dir.join(HELD))?))
}

impl Streams {
    /// Makes what a command reads and writes. Returns the path of its terminal, too, if it gets one.
    fn make(dir: &Path, request: &ExecRequest) -> io::Result<(Self, Option<PathBuf>)> {
        if request.tty {
            let (terminal, path) = Terminal::open(request.size)?;
            return Ok((Self::Terminal(terminal), Some(path)));
        }
        for name in [STDIN, STDOUT, STDERR] {
            mkfifo(&dir.join(name), PIPE_MODE)?;
        }
        let streams = Self::Pipes {
            // Also opened for reading, because the command opens its end later.
            stdin: pipe::OpenOptions::new().read_write(true).open_sender(dir.join(STDIN))?,
            stdout: pipe::OpenOptions::new().open_receiver(dir.join(STDOUT))?,
            stderr: pipe::OpenOptions::new().open_receiver(dir.join(STDERR))?,
        };
        Ok((streams, None))
    }
}

impl Command {
    /// Reports the exit of the command, and changes the size of its terminal, until the session is dropped. What then
    /// remains of the command is killed.
    async fn supervise(
        self,
        task: watch::Receiver<Option<Exit>>,
        mut sizes: mpsc::Receiver<TerminalSize>,
        exit: oneshot::Sender<Result<i64, ExecError>>,
    ) {
        let Self { dir, mut status, held, terminal } = self;
        let mut exit = Some(exit);
        loop {
            tokio::select! {
                size = sizes.recv() => match (size, &terminal) {
                    (Some(size), Some(terminal)) => {
                        if let Err(error) = terminal.resize(size) {
                            tracing::debug!(error = chain(&error), "cannot change the size of a terminal");
                        }
                    }
                    (Some(_), None) => {}
                    (None, _) => break,
                },
                outcome = outcome(&mut status, &task), if exit.is_some() => {
                    if let Some(exit) = exit.take() {
                        // Fails if the session was dropped.
                        let _ = exit.send(outcome);
                    }
                }
            }
        }
        drop(held);
        remove(&dir).await;
    }
}

/// Waits for the end of a command.
async fn outcome(status: &mut Status, task: &watch::Receiver<Option<Exit>>) -> Result<i64, ExecError> {
    let line = tokio::select! {
        biased;
        line = status.next_line() => line.ok().flatten(),
        _ = until(task, Option::is_some) => return Ok(KILLED),
    };
    let line = line.unwrap_or_default();
    match line.split_once(' ') {
        Some(("exited", code)) => {
            code.parse().map_err(|_| ExecError(format!("the executor sent an invalid exit code: {line:?}")))
        }
        Some(("failed", reason)) => Err(ExecError(reason.to_owned())),
        Some(_) | None => Err(ExecError(format!("unexpected message of the executor: {line:?}"))),
    }
}

async fn remove(dir: &Path) {
    match tokio::fs::remove_dir_all(dir).await {
        Ok(()) => {}
        // It was not made, or the executor's directory was removed as a whole.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(dir = %dir.display(), error = chain(&error), "cannot remove the directory of a command");
        }
    }
}

/// The input of a command. Shutting it down closes the pipe.
struct PipeInput(Option<pipe::Sender>);

impl AsyncWrite for PipeInput {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Some(pipe) => Pin::new(pipe).poll_write(context, bytes),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0 = None;
        Poll::Ready(Ok(()))
    }
}
