//! A client of a container engine: the part of Docker's API that the agent uses, over the engine's Unix socket. Podman
//! offers the same API on a socket of its own.
//!
//! Every request has a connection of its own, so that nothing is left to recover when the engine restarts. `calls` has the
//! requests, `answers` what they return, and `frames` takes the output of containers apart.

mod answers;
mod blocking;
mod calls;
pub(crate) mod frames;

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_util::io::ReaderStream;

pub(crate) use answers::{Container, ContainerState, EngineInfo, PullStatus, Stats, Summary, Version};
pub(crate) use calls::{ExecSettings, LogsFrom, Upgrade};

/// How long a request may take that the engine answers at once.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(60);
/// The maximum size of an answer that is read as a whole.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// The characters that are not escaped in a path: those of names of images and containers.
const PATH: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b':').remove(b'@').remove(b'.').remove(b'-').remove(b'_');

/// A container engine.
#[derive(Debug, Clone)]
pub(crate) struct Engine {
    socket: PathBuf,
}

/// Why a request to the engine failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EngineError {
    /// There is no engine, or the connection broke.
    #[error("cannot reach the container engine at {socket}: {cause}")]
    Unreachable {
        /// The engine's socket.
        socket: String,
        /// What went wrong.
        cause: String,
    },
    /// The engine took too long.
    #[error("the container engine did not answer within {0} s")]
    Late(u64),
    /// The engine refused the request.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// The engine's reason.
        message: String,
    },
    /// The engine sent something else than was expected.
    #[error("the answer of the container engine cannot be read: {0}")]
    Invalid(String),
}

impl EngineError {
    /// Whether what the request names does not exist.
    pub(crate) fn is_absent(&self) -> bool {
        self.status() == Some(StatusCode::NOT_FOUND.as_u16())
    }

    /// Whether what exists already stands in the way.
    pub(crate) fn is_conflict(&self) -> bool {
        self.status() == Some(StatusCode::CONFLICT.as_u16())
    }

    /// Whether the same request may succeed later: the engine is away or overloaded, or failed itself.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Late(_) => true,
            // What the engine does not implement it will not implement later either.
            Self::Refused { status, .. } => {
                *status >= StatusCode::INTERNAL_SERVER_ERROR.as_u16()
                    && *status != StatusCode::NOT_IMPLEMENTED.as_u16()
            }
            Self::Invalid(_) => false,
        }
    }

    fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable { .. } | Self::Late(_) | Self::Invalid(_) => None,
        }
    }
}

/// The body of a request.
enum Content {
    Nothing,
    Json(Value),
    /// The content of a file.
    File(tokio::fs::File),
}

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A request.
struct Call {
    method: Method,
    /// The path with the query.
    target: String,
    headers: Vec<(&'static str, String)>,
    content: Content,
}

impl Call {
    fn new(method: Method, target: impl Into<String>) -> Self {
        Self { method, target: target.into(), headers: Vec::new(), content: Content::Nothing }
    }

    fn get(target: impl Into<String>) -> Self {
        Self::new(Method::GET, target)
    }

    fn post(target: impl Into<String>) -> Self {
        Self::new(Method::POST, target)
    }

    fn json(mut self, body: Value) -> Self {
        self.content = Content::Json(body);
        self
    }

    fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }
}

/// An answer whose body has not been read. Dropping it closes the connection.
struct Answer {
    response: Response<Incoming>,
    connection: Connection,
}

/// Closes the connection when it is dropped.
struct Connection {
    _sender: SendRequest<Body>,
    task: AbortHandle,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The body of an answer as it arrives. Dropping it closes the connection.
pub(crate) struct Chunks {
    answer: Answer,
    socket: PathBuf,
}

impl Chunks {
    /// The next part of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, EngineError> {
        loop {
            match self.answer.response.body_mut().frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(unreachable(&self.socket, &error)),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}

/// The engine's reason for a refusal.
#[derive(Deserialize)]
struct Refusal {
    message: String,
}

fn unreachable(socket: &Path, error: &dyn std::error::Error) -> EngineError {
    EngineError::Unreachable { socket: socket.display().to_string(), cause: telemetry::chain(error) }
}

/// A name as a part of a path.
fn in_path(name: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(name, PATH)
}

/// A text as the value of a query.
fn in_query(text: &str) -> impl std::fmt::Display + '_ {
    utf8_percent_encode(text, NON_ALPHANUMERIC)
}

impl Engine {
    /// The engine with this socket.
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The engine's socket.
    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sends a request. The engine's refusals are errors.
    async fn send(&self, call: Call) -> Result<Answer, EngineError> {
        let stream =
            UnixStream::connect(&self.socket).await.map_err(|error| unreachable(&self.socket, &error))?;
        let handshake = http1::handshake::<_, Body>(TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.map_err(|error| unreachable(&self.socket, &error))?;
        let task = tokio::spawn(connection.with_upgrades()).abort_handle();
        let mut request = Request::builder().method(call.method).uri(call.target).header("host", "engine");
        for (name, value) in call.headers {
            request = request.header(name, value);
        }
        let body = match call.content {
            Content::Nothing => whole(Bytes::new()),
            Content::Json(body) => {
                request = request.header("content-type", "application/json");
                whole(Bytes::from(body.to_string()))
            }
            Content::File(file) => {
                request = request.header("content-type", "application/x-tar");
                StreamBody::new(ReaderStream::new(file).map_ok(Frame::data)).boxed_unsync()
            }
        };
        let request = request.body(body).map_err(|error| EngineError::Invalid(error.to_string()))?;
        let sent = sender.send_request(request).await;
        // From here on, dropping it closes the connection.
        let connection = Connection { _sender: sender, task };
        let response = sent.map_err(|error| unreachable(&self.socket, &error))?;
        let answer = Answer { response, connection };
        let status = answer.response.status();
        if status.is_client_error() || status.is_server_error() {
            let body = self.body(answer).await?;
            let reason = serde_json::from_slice::<Refusal>(&body).map(|refusal| refusal.message);
            let message =
                reason.unwrap_or_else(|_| format!("{status} {}", String::from_utf8_lossy(&body).trim()));
            return Err(EngineError::Refused { status: status.as_u16(), message });
        }
        Ok(answer)
    }

    /// Reads the whole body of an answer.
    async fn body(&self, answer: Answer) -> Result<Bytes, EngineError> {
        let Answer { response, connection } = answer;
        let read = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        drop(connection);
        match read {
            Ok(body) => Ok(body.to_bytes()),
            Err(error) => Err(unreachable(&self.socket, &*error)),
        }
    }

    /// Sends a request, and reads the answer, within a time.
    async fn call(&self, call: Call, within: Duration) -> Result<Bytes, EngineError> {
        let answered = async { self.body(self.send(call).await?).await };
        timeout(within, answered).await.unwrap_or(Err(EngineError::Late(within.as_secs())))
    }

    /// Sends a request whose answer is JSON.
    async fn json<T: DeserializeOwned>(&self, call: Call, within: Duration) -> Result<T, EngineError> {
        let body = self.call(call, within).await?;
        serde_json::from_slice(&body).map_err(|error| EngineError::Invalid(error.to_string()))
    }

    /// Sends a request whose answer is read as it arrives. Only its beginning has to be there within the time.
    async fn chunks(&self, call: Call, within: Duration) -> Result<Chunks, EngineError> {
        let sent = timeout(within, self.send(call)).await;
        let answer = sent.unwrap_or(Err(EngineError::Late(within.as_secs())))?;
        Ok(Chunks { answer, socket: self.socket.clone() })
    }
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never: Infallible| -> io::Error { match never {} }).boxed_unsync()
}

/// What was found: `None` if it does not exist.
fn existing<T>(found: Result<T, EngineError>) -> Result<Option<T>, EngineError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_absent() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images_keep_their_form_in_paths() {
        let name = "registry.example:5000/team/web-1_a@sha256:0f";
        assert_eq!(in_path(name).to_string(), name);
        assert_eq!(in_path("a b?c").to_string(), "a%20b%3Fc");
        assert_eq!(in_query("a/b:c").to_string(), "a%2Fb%3Ac");
    }

    #[test]
    fn only_failures_of_the_engine_itself_are_worth_a_retry() {
        let refused = |status| EngineError::Refused { status, message: String::new() };
        assert!(refused(500).is_transient() && !refused(404).is_transient() && refused(404).is_absent());
        assert!(EngineError::Late(60).is_transient());
        assert!(!EngineError::Invalid(String::new()).is_transient());
    }
}
