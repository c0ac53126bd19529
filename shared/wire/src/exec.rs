//! Messages of commands that run in a task for a user, between the API and an agent, on
//! [`Subject::AgentExec`](crate::Subject::AgentExec).
//!
//! A session begins with [`StartExec`]. Its reply subject receives everything that the agent has to say: first
//! [`OutputPart::Started`] or a refusal, then the other parts of [`ExecOutput`]. The API sends [`ExecInput`] with the
//! request id of [`StartExec`]. Both sides number their messages from 0, and send data only as far as the other side has
//! given credit ([`flow`](crate::flow)). NATS may lose messages: a gap in the numbers ends the session on both sides.

use bytes::Bytes;
use model::{AllocId, RequestId, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
use crate::files::LogStream;
use crate::refusal::RefusalKind;

/// Maximum length of a command together with its arguments, in bytes.
pub const COMMAND_BYTES_MAX: usize = 64 << 10;

/// Starts a command in a running task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartExec {
    /// The allocation.
    pub alloc: AllocId,
    /// Name of the task.
    pub task: Text,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Whether the command gets a terminal.
    #[serde(default)]
    pub tty: bool,
    /// Who runs the command, for the log of the agent.
    #[serde(default)]
    pub requester: Text,
}

/// A message of the API to the agent within a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecInput {
    /// The request id of [`StartExec`].
    pub session: RequestId,
    /// Position of the message among those of the API in this session.
    pub number: u64,
    /// What it says.
    pub part: InputPart,
}

/// What the API says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputPart {
    /// Bytes for the command's standard input. They use credit.
    Data(Bytes),
    /// The standard input ends.
    Closed,
    /// The terminal of the user has this size. Uses credit like data of no bytes.
    Resize(TerminalSize),
    /// The user has taken this many bytes of credit of output.
    Grant(u64),
    /// The API process still serves the session.
    Alive,
    /// The session is over: the user has left.
    End,
}

/// A message of the agent to the API within a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecOutput {
    /// Position of the message among those of the agent in this session.
    pub number: u64,
    /// What it says.
    pub part: OutputPart,
}

/// What the agent says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutputPart {
    /// The command runs. Always the first message.
    Started,
    /// Bytes that the command has written. They use credit.
    Data(LogStream, Bytes),
    /// A stream of output ends.
    Closed(LogStream),
    /// The command has taken this many bytes of credit of input.
    Grant(u64),
    /// The agent still serves the session.
    Alive,
    /// The command has ended with this exit code. Always the last message.
    Exited(i64),
    /// The session has failed. Always the last message.
    Failed(ExecFailure),
}

/// Why a session has failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExecFailure {
    /// Kind of the failure.
    pub kind: RefusalKind,
    /// The message, as users see it.
    pub message: Text,
}

/// Size of a terminal in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Number of rows.
    pub height: u16,
    /// Number of columns.
    pub width: u16,
}

kinds! {
    StartExec => "exec.start",
    ExecInput => "exec.input",
    ExecOutput => "exec.output",
}
