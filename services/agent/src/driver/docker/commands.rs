//! Commands that run inside a container.

use std::io;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use telemetry::chain;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf, copy, duplex, split,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep;
use wire::files::LogStream;

use super::processes::is_process_of;
use crate::driver::exec_session::{ExecError, ExecRequest, ExecSession, TerminalSize};
use crate::engine::frames::{Form, Splitter};
use crate::engine::{Engine, EngineError, ExecSettings, Upgrade};

/// The number of bytes of output that wait for whoever reads them.
const OUTPUT_BYTES: usize = 64 << 10;
/// The number of changes of the terminal's size that wait.
const SIZES_MAX: usize = 4;
/// How often the size is set, and the pause in between.
const SIZE_ATTEMPTS: u32 = 5;
const SIZE_PAUSE: Duration = Duration::from_millis(20);
/// How often the exit code is asked for after the output has ended, and the pause in between.
const EXIT_ATTEMPTS: u32 = 40;
const EXIT_PAUSE: Duration = Duration::from_millis(250);

/// Runs a command in a container.
pub(super) async fn run(
    engine: &Engine,
    container: &str,
    request: ExecRequest,
) -> Result<ExecSession, ExecError> {
    let failed = |error: EngineError| ExecError(chain(&error));
    let settings = ExecSettings { command: request.command, tty: request.tty };
    let exec = engine.create_exec(container, &settings).await.map_err(failed)?;
    let connection = engine.start_exec(&exec, request.tty).await.map_err(failed)?;
    let (resize, sizes) = mpsc::channel(SIZES_MAX);
    if let Some(size) = request.size {
        // There is room for the first one.
        let _ = resize.try_send(size);
    }
    tokio::spawn(change_sizes(engine.clone(), exec.clone(), sizes));
    let (output, input) = split(connection);
    let (stdout, stdout_writer) = duplex(OUTPUT_BYTES);
    let (stderr, stderr_writer) = if request.tty {
        (None, None)
    } else {
        let (stderr, writer) = duplex(OUTPUT_BYTES);
        (Some(stderr), Some(writer))
    };
    let (exit_sender, exit) = oneshot::channel();
    let command = Command { engine: engine.clone(), container: container.to_owned(), exec };
    tokio::spawn(command.follow(output, stdout_writer, stderr_writer, exit_sender));
    Ok(ExecSession {
        stdin: Box::new(input),
        stdout: Box::new(stdout),
        stderr: stderr.map(boxed),
        resize,
        exit,
    })
}

fn boxed(output: DuplexStream) -> Box<dyn AsyncRead + Send + Unpin> {
    Box::new(output)
}

async fn change_sizes(engine: Engine, exec: String, mut sizes: mpsc::Receiver<TerminalSize>) {
    while let Some(size) = sizes.recv().await {
        // The engine refuses it until the command runs.
        for attempt in 1..=SIZE_ATTEMPTS {
            let Err(error) = engine.resize_exec(&exec, size.height, size.width).await else { break };
            tracing::debug!(attempt, error = chain(&error), "cannot change the size of a terminal");
            sleep(SIZE_PAUSE).await;
        }
    }
}

/// A command in a container.
struct Command {
    engine: Engine,
    container: String,
    exec: String,
}

impl Command {
    /// Passes the output on, and then the exit code. Ends the command if nobody waits for it any more.
    async fn follow(
        self,
        output: ReadHalf<Upgrade>,
        stdout: DuplexStream,
        stderr: Option<DuplexStream>,
        mut exit: oneshot::Sender<Result<i64, ExecError>>,
    ) {
        tokio::select! {
            passed = pass_on(output, stdout, stderr) => {
                if let Err(error) = passed {
                    tracing::debug!(error = chain(&error), "the output of a command was cut off");
                }
            }
            () = exit.closed() => return self.end().await,
        }
        // Fails if nobody waits for it any more.
        let _ = exit.send(self.exit_code().await);
    }

    async fn exit_code(&self) -> Result<i64, ExecError> {
        for _ in 0..EXIT_ATTEMPTS {
            let state = self.engine.exec(&self.exec).await.map_err(|error| ExecError(chain(&error)))?;
            if !state.running {
                return state
                    .code
                    .ok_or_else(|| ExecError("the engine has no exit code of the command".into()));
            }
            sleep(EXIT_PAUSE).await;
        }
        Err(ExecError("the command has closed its output, but has not ended".into()))
    }

    /// Kills the command's process. The engine has no request for that.
    async fn end(self) {
        let state = match self.engine.exec(&self.exec).await {
            Ok(state) => state,
            Err(error) => {
                return tracing::debug!(error = chain(&error), "a command in a container may still run");
            }
        };
        let Some(pid) = i32::try_from(state.pid).ok().filter(|pid| state.running && *pid > 1) else { return };
        if is_process_of(pid, &self.container) {
            // Fails if it has ended meanwhile.
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        } else {
            tracing::warn!(container = self.container, "cannot end a command that nobody waits for any more");
        }
    }
}

/// Passes the output on until it ends, or nobody reads it any more.
async fn pass_on(
    mut output: ReadHalf<Upgrade>,
    mut stdout: DuplexStream,
    stderr: Option<DuplexStream>,
) -> io::Result<()> {
    let Some(mut stderr) = stderr else {
        return copy(&mut output, &mut stdout).await.map(drop);
    };
    let mut splitter = Splitter::new(Form::Frames);
    let mut buffer = vec![0; OUTPUT_BYTES];
    loop {
        let length = output.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        splitter.push(&buffer[..length]);
        while let Some(part) = splitter.next().map_err(io::Error::other)? {
            let target: &mut (dyn AsyncWrite + Send + Unpin) = match part.stream {
                LogStream::Stdout => &mut stdout,
                LogStream::Stderr => &mut stderr,
            };
            target.write_all(&part.bytes).await?;
        }
    }
}
