//! Simulated commands in simulated tasks (`exec_command`, A-22.8).

use model::Nanos;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;

use crate::driver::exec_session::{ExecError, ExecRequest, ExecSession, TerminalSize};
use crate::wait::to_std;

/// The command that shows how it was called, whatever is configured.
const SHOW_INPUT: &str = "showinput";
/// How much input and output a command holds that is not read yet, in bytes.
const HELD_BYTES_MAX: usize = 64 << 10;
/// Number of sizes of a terminal that may wait. They have no effect.
const SIZES_MAX: usize = 4;

/// The configuration of commands, the block `exec_command` of a task's. Durations are strings such as `1m30s`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    pub(super) run_for: String,
    pub(super) exit_code: i64,
    pub(super) exit_signal: i64,
    pub(super) exit_err_msg: String,
    pub(super) signal_error: String,
    pub(super) stdout_string: String,
    pub(super) stdout_repeat: u32,
    pub(super) stdout_repeat_duration: String,
    pub(super) stderr_string: String,
    pub(super) stderr_repeat: u32,
    pub(super) stderr_repeat_duration: String,
}

/// What commands in a task do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Simulated {
    /// How long a command runs.
    pub(super) run_for: Nanos,
    /// Its exit code.
    pub(super) exit_code: i64,
    /// If it is not empty, the command fails with this text.
    pub(super) failure: String,
    /// What it writes to standard output.
    pub(super) stdout: Written,
    /// What it writes to standard error.
    pub(super) stderr: Written,
}

/// A text that a command writes once and then repeatedly.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) repeat: u32,
    pub(super) every: Nanos,
}

/// The command's ends of the streams of a session, and what it is told.
struct Ends {
    stdin: DuplexStream,
    stdout: DuplexStream,
    stderr: Option<DuplexStream>,
    sizes: mpsc::Receiver<TerminalSize>,
    exit: oneshot::Sender<Result<i64, ExecError>>,
}

/// Runs a command.
pub(super) fn run(simulated: Option<Simulated>, request: &ExecRequest) -> Result<ExecSession, ExecError> {
    let is_show_input = request.command.len() == 1 && request.command[0] == SHOW_INPUT;
    let (session, ends) = session(request.tty);
    match simulated {
        _ if is_show_input => drop(tokio::spawn(show_input(ends, request.tty))),
        Some(simulated) => drop(tokio::spawn(play(ends, simulated))),
        None => return Err(ExecError("no exec command is configured".to_owned())),
    }
    Ok(session)
}

fn session(tty: bool) -> (ExecSession, Ends) {
    let (stdin, own_stdin) = duplex(HELD_BYTES_MAX);
    let (stdout, own_stdout) = duplex(HELD_BYTES_MAX);
    let (stderr, own_stderr) = match tty {
        true => (None, None),
        false => {
            let (stderr, own_stderr) = duplex(HELD_BYTES_MAX);
            (Some(stderr), Some(own_stderr))
        }
    };
    let (resize, sizes) = mpsc::channel(SIZES_MAX);
    let (own_exit, exit) = oneshot::channel();
    let stderr = stderr.map(|stderr| Box::new(stderr) as Box<dyn AsyncRead + Send + Unpin>);
    let session = ExecSession { stdin: Box::new(stdin), stdout: Box::new(stdout), stderr, resize, exit };
    let ends = Ends { stdin: own_stdin, stdout: own_stdout, stderr: own_stderr, sizes, exit: own_exit };
    (session, ends)
}

/// Writes how the command was called, and then its input until that ends.
async fn show_input(ends: Ends, tty: bool) {
    let Ends { mut stdin, mut stdout, stderr, sizes, exit } = ends;
    let shown = async {
        stdout.write_all(format!("TTY: {tty}\nStdin:\n").as_bytes()).await?;
        tokio::io::copy(&mut stdin, &mut stdout).await
    };
    let outcome = tokio::select! {
        shown = shown => shown.map(|_| 0).map_err(|error| ExecError(error.to_string())),
        () = dropped(sizes) => return,
    };
    drop((stdout, stderr));
    // Fails if the session was dropped.
    let _ = exit.send(outcome);
}

/// Does what is configured. The command ends when its time is over and its output is written.
async fn play(ends: Ends, simulated: Simulated) {
    let Ends { mut stdin, mut stdout, mut stderr, sizes, exit } = ends;
    let Simulated { run_for, exit_code, failure, stdout: first, stderr: second } = simulated;
    let writing = async {
        match &mut stderr {
            Some(stderr) => {
                tokio::join!(write(&mut stdout, &first), write(stderr, &second));
            }
            // In a terminal, both go the same way.
            None => {
                write(&mut stdout, &first).await;
                write(&mut stdout, &second).await;
            }
        }
    };
    let running = async {
        tokio::join!(sleep(to_std(run_for)), writing);
    };
    let reading = async {
        // Without that, a command that reads nothing would hold up who writes.
        let _ = tokio::io::copy(&mut stdin, &mut tokio::io::sink()).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = running => {}
        () = reading => {}
        () = dropped(sizes) => return,
    }
    let outcome = if failure.is_empty() { Ok(exit_code) } else { Err(ExecError(failure)) };
    // Fails if the session was dropped.
    let _ = exit.send(outcome);
}

/// Writes a text once and then repeatedly, as configured.
async fn write(stream: &mut DuplexStream, written: &Written) {
    if written.text.is_empty() {
        return;
    }
    for round in 0..=written.repeat {
        if round > 0 {
            sleep(to_std(written.every)).await;
        }
        // Fails if nobody reads any more.
        if stream.write_all(written.text.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Waits until the session is dropped.
async fn dropped(mut sizes: mpsc::Receiver<TerminalSize>) {
    while sizes.recv().await.is_some() {}
}
