//! Commands that run inside a running task.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};

/// A command to run inside a task: as the task's user, with its environment and in its namespaces and control groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecRequest {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Whether it runs in a terminal.
    pub(crate) tty: bool,
    /// The size of the terminal.
    pub(crate) size: Option<TerminalSize>,
}

/// The size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TerminalSize {
    pub(crate) height: u16,
    pub(crate) width: u16,
}

/// A command that runs inside a task. Dropping the session ends it.
pub(crate) struct ExecSession {
    /// Its input. Shutting it down ends the input.
    pub(crate) stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// Its output; in a terminal, all of it.
    pub(crate) stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// Its error output; `None` in a terminal.
    pub(crate) stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Changes the size of the terminal.
    pub(crate) resize: mpsc::Sender<TerminalSize>,
    /// Its exit code.
    pub(crate) exit: oneshot::Receiver<Result<i64, ExecError>>,
}

/// Why a command cannot be run inside a task, or how it was lost.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct ExecError(pub(crate) String);

impl ExecError {
    /// A driver runs no commands inside its tasks.
    pub(crate) fn unsupported(driver: &str) -> Self {
        Self(format!("the driver {driver} does not run commands in tasks"))
    }
}
