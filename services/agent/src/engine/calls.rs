//! The requests to the engine.

use std::collections::BTreeMap;
use std::time::Duration;

use hyper::Method;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};

use super::answers::{
    Container, Created, EngineInfo, Exec, Image, LoadedImage, PullStatus, Stats, Summary, Version,
};
use super::frames::since;
use super::{CALL_TIMEOUT, Call, Chunks, Engine, EngineError, existing, in_path, in_query, unreachable};

/// How long the engine may be silent while it unpacks an archive.
const LOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// How much longer than the task's own timeout the engine may take to stop a container.
const STOP_GRACE: Duration = Duration::from_secs(300);
/// The maximum length of a message about a pull.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// Which output of a container is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogsFrom {
    /// The time of the first entry, in nanoseconds since 1970.
    pub(crate) nanos: i64,
}

/// How a command runs in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecSettings {
    /// The program and its arguments.
    pub(crate) command: Vec<String>,
    /// Whether it has a terminal.
    pub(crate) tty: bool,
}

/// A command in a container that was created: running, or ended with a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExecState {
    /// Whether it runs.
    pub(crate) running: bool,
    /// Its exit code.
    pub(crate) code: Option<i64>,
    /// The id of its process, as the engine sees it.
    pub(crate) pid: i64,
}

/// A connection that carries a command's input and output.
pub(crate) type Upgrade = TokioIo<Upgraded>;

impl Engine {
    /// What the engine is.
    pub(crate) async fn version(&self) -> Result<Version, EngineError> {
        self.json(Call::get("/version"), CALL_TIMEOUT).await
    }

    /// What the engine can do.
    pub(crate) async fn info(&self) -> Result<EngineInfo, EngineError> {
        self.json(Call::get("/info"), CALL_TIMEOUT).await
    }

    // Images.

    /// An image by name or id, if the engine has it.
    pub(crate) async fn image(&self, name: &str) -> Result<Option<Image>, EngineError> {
        existing(self.json(Call::get(format!("/images/{}/json", in_path(name))), CALL_TIMEOUT).await)
    }

    /// Removes an image that no container uses.
    pub(crate) async fn remove_image(&self, name: &str) -> Result<(), EngineError> {
        let call = Call::new(Method::DELETE, format!("/images/{}", in_path(name)));
        self.call(call, CALL_TIMEOUT).await.map(drop)
    }

    /// Pulls an image. `seen` gets every message; after `silence` without one, the pull has failed.
    pub(crate) async fn pull(
        &self,
        repository: &str,
        tag: &str,
        auth: Option<&str>,
        silence: Duration,
        mut seen: impl FnMut(&PullStatus) + Send,
    ) -> Result<(), EngineError> {
        let target = format!("/images/create?fromImage={}&tag={}", in_query(repository), in_query(tag));
        let mut call = Call::post(target);
        if let Some(auth) = auth {
            call = call.header("x-registry-auth", auth);
        }
        let mut chunks = self.chunks(call, silence).await?;
        let mut lines = Lines::default();
        while let Some(bytes) = within(silence, chunks.next()).await? {
            lines.push(&bytes)?;
            while let Some(status) = lines.next::<PullStatus>()? {
                if !status.error.is_empty() {
                    // The engine answers 200 before it knows.
                    return Err(EngineError::Refused { status: 200, message: status.error });
                }
                seen(&status);
            }
        }
        Ok(())
    }

    /// Loads the images of an archive.
    pub(crate) async fn load(&self, archive: tokio::fs::File) -> Result<(), EngineError> {
        let mut call = Call::post("/images/load?quiet=1");
        call.content = super::Content::File(archive);
        let mut chunks = self.chunks(call, LOAD_TIMEOUT).await?;
        let mut lines = Lines::default();
        while let Some(bytes) = within(LOAD_TIMEOUT, chunks.next()).await? {
            lines.push(&bytes)?;
            while let Some(loaded) = lines.next::<LoadedImage>()? {
                if !loaded.error.is_empty() {
                    return Err(EngineError::Refused { status: 200, message: loaded.error });
                }
                tracing::debug!(message = loaded.stream.trim(), "loading an archive of images");
            }
        }
        Ok(())
    }

    // Containers.

    /// Creates a container, and returns its id.
    pub(crate) async fn create(&self, name: &str, body: Value) -> Result<String, EngineError> {
        let call = Call::post(format!("/containers/create?name={}", in_query(name))).json(body);
        self.json::<Created>(call, CALL_TIMEOUT).await.map(|created| created.id)
    }

    /// Starts a container that was created.
    pub(crate) async fn start(&self, container: &str) -> Result<(), EngineError> {
        let call = Call::post(format!("/containers/{}/start", in_path(container)));
        self.call(call, CALL_TIMEOUT).await.map(drop)
    }

    /// A container by name or id, if there is one.
    pub(crate) async fn container(&self, container: &str) -> Result<Option<Container>, EngineError> {
        let call = Call::get(format!("/containers/{}/json", in_path(container)));
        existing(self.json(call, CALL_TIMEOUT).await)
    }

    /// The containers with these labels, also those that do not run.
    pub(crate) async fn containers(
        &self,
        labels: &BTreeMap<String, String>,
    ) -> Result<Vec<Summary>, EngineError> {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let filters = json!({ "label": labels }).to_string();
        let call = Call::get(format!("/containers/json?all=1&filters={}", in_query(&filters)));
        self.json(call, CALL_TIMEOUT).await
    }

    /// Waits until a container does not run.
    pub(crate) async fn wait(&self, container: &str) -> Result<(), EngineError> {
        let call = Call::post(format!("/containers/{}/wait?condition=not-running", in_path(container)));
        // The head of the answer may come with its body, so there is no time limit for it.
        let answer = self.send(call).await?;
        self.body(answer).await.map(drop)
    }

    /// Stops a container by its stop signal, and kills it after the timeout. It is no error if it does not run.
    pub(crate) async fn stop(&self, container: &str, timeout: Duration) -> Result<(), EngineError> {
        // The engine counts whole seconds.
        let secs = timeout.as_millis().div_ceil(1_000);
        let call = Call::post(format!("/containers/{}/stop?t={secs}", in_path(container)));
        self.call(call, timeout.saturating_add(STOP_GRACE)).await.map(drop)
    }

    /// Sends a container's first process a signal.
    pub(crate) async fn kill(&self, container: &str, signal: &str) -> Result<(), EngineError> {
        let call = Call::post(format!("/containers/{}/kill?signal={}", in_path(container), in_query(signal)));
        self.call(call, CALL_TIMEOUT).await.map(drop)
    }

    /// Kills and removes a container, and its anonymous volumes. It is no error if there is none.
    pub(crate) async fn remove(&self, container: &str) -> Result<(), EngineError> {
        let call = Call::new(Method::DELETE, format!("/containers/{}?force=1&v=1", in_path(container)));
        existing(self.call(call, CALL_TIMEOUT).await).map(drop)
    }

    /// What a container uses.
    pub(crate) async fn stats(&self, container: &str) -> Result<Stats, EngineError> {
        let call = Call::get(format!("/containers/{}/stats?stream=0&one-shot=1", in_path(container)));
        self.json(call, CALL_TIMEOUT).await
    }

    /// The output of a container, with the time of each entry, until the container ends.
    pub(crate) async fn logs(&self, container: &str, from: LogsFrom) -> Result<Chunks, EngineError> {
        let target = format!(
            "/containers/{}/logs?follow=1&stdout=1&stderr=1&timestamps=1&since={}",
            in_path(container),
            since(from.nanos)
        );
        // A container that has not written anything may have no head of an answer either.
        let answer = self.send(Call::get(target)).await?;
        Ok(Chunks { answer, socket: self.socket().to_owned() })
    }

    // Commands in containers.

    /// Creates a command in a container, and returns its id.
    pub(crate) async fn create_exec(
        &self,
        container: &str,
        settings: &ExecSettings,
    ) -> Result<String, EngineError> {
        let body = json!({
            "AttachStdin": true,
            "AttachStdout": true,
            "AttachStderr": true,
            "Tty": settings.tty,
            "Cmd": settings.command,
        });
        let call = Call::post(format!("/containers/{}/exec", in_path(container))).json(body);
        self.json::<Created>(call, CALL_TIMEOUT).await.map(|created| created.id)
    }

    /// Starts a command, and returns the connection that carries its input and output.
    pub(crate) async fn start_exec(&self, exec: &str, tty: bool) -> Result<Upgrade, EngineError> {
        let call = Call::post(format!("/exec/{}/start", in_path(exec)))
            .json(json!({ "Detach": false, "Tty": tty }))
            .header("connection", "Upgrade")
            .header("upgrade", "tcp");
        let upgraded = async {
            let answer = self.send(call).await?;
            let upgraded = hyper::upgrade::on(answer.response).await;
            drop(answer.connection);
            upgraded.map(TokioIo::new).map_err(|error| unreachable(self.socket(), &error))
        };
        within(CALL_TIMEOUT, upgraded).await
    }

    /// Changes the size of a command's terminal.
    pub(crate) async fn resize_exec(&self, exec: &str, height: u16, width: u16) -> Result<(), EngineError> {
        let call = Call::post(format!("/exec/{}/resize?h={height}&w={width}", in_path(exec)));
        self.call(call, CALL_TIMEOUT).await.map(drop)
    }

    /// The state of a command.
    pub(crate) async fn exec(&self, exec: &str) -> Result<ExecState, EngineError> {
        let found: Exec = self.json(Call::get(format!("/exec/{}/json", in_path(exec))), CALL_TIMEOUT).await?;
        Ok(ExecState { running: found.running, code: found.exit_code, pid: found.pid })
    }
}

/// Waits for an answer for some time.
async fn within<T>(
    time: Duration,
    answer: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    tokio::time::timeout(time, answer).await.unwrap_or(Err(EngineError::Late(time.as_secs())))
}

/// JSON values, one after the other, that arrive in parts.
#[derive(Debug, Default)]
struct Lines {
    buffer: Vec<u8>,
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        if self.buffer.len() + bytes.len() > MESSAGE_BYTES_MAX {
            return Err(EngineError::Invalid("a line is too long".to_owned()));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// The value of the next complete line.
    fn next<T: serde::de::DeserializeOwned>(&mut self) -> Result<Option<T>, EngineError> {
        loop {
            let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
            let line: Vec<u8> = self.buffer.drain(..=end).collect();
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let value = serde_json::from_slice(&line);
            return value.map(Some).map_err(|error| EngineError::Invalid(error.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_may_arrive_in_parts() {
        let mut lines = Lines::default();
        lines.push(b"{\"status\":\"Pulling\"}\r\n\r\n{\"sta").unwrap();
        assert_eq!(lines.next::<PullStatus>().unwrap().unwrap().status, "Pulling");
        assert_eq!(lines.next::<PullStatus>().unwrap(), None);
        lines.push(b"tus\":\"Done\"}\n").unwrap();
        assert_eq!(lines.next::<PullStatus>().unwrap().unwrap().status, "Done");
        lines.push(b"<html>\n").unwrap();
        lines.next::<PullStatus>().unwrap_err();
    }
}
