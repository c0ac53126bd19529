//! Messages to and from the server, as JSON (`docs/rules/http-api.md` §14). Pure.

use anyhow::Context as _;
use api_types::Base64;
use serde::Deserialize;
use serde_json::json;

use super::streams::Chunk;

/// A message of the server.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct ServerMessage {
    stdout: Option<Output>,
    stderr: Option<Output>,
    exited: bool,
    result: Option<ExitResult>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct Output {
    data: Option<Base64>,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
struct ExitResult {
    exit_code: i64,
}

impl ServerMessage {
    /// Reads a message.
    pub(super) fn read(message: &[u8]) -> anyhow::Result<Self> {
        serde_json::from_slice(message).context("cannot decode a message of the server")
    }

    /// The exit code, if the command has ended.
    pub(super) fn exit_code(&self) -> Option<i64> {
        self.exited.then(|| self.result.as_ref().map_or(0, |result| result.exit_code))
    }

    /// What the command has written.
    pub(super) fn chunks(self) -> impl Iterator<Item = Chunk> {
        let bytes = |output: Option<Output>| output.and_then(|output| output.data).map(|data| data.0);
        let stdout = bytes(self.stdout).map(Chunk::Stdout);
        stdout.into_iter().chain(bytes(self.stderr).map(Chunk::Stderr))
    }
}

/// The first message of a client.
pub(super) fn handshake(version: u8, token: &str) -> String {
    json!({ "version": version, "auth_token": token }).to_string()
}

/// Bytes for the command.
pub(super) fn stdin_data(bytes: Vec<u8>) -> String {
    json!({ "stdin": { "data": Base64(bytes) } }).to_string()
}

/// The input has ended.
pub(super) fn stdin_closed() -> String {
    json!({ "stdin": { "close": true } }).to_string()
}

/// The terminal has this many rows and columns.
pub(super) fn tty_size((height, width): (u16, u16)) -> String {
    json!({ "tty_size": { "height": height, "width": width } }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_server_are_read() {
        let read = |text: &str| ServerMessage::read(text.as_bytes()).unwrap();
        let chunks = |text: &str| read(text).chunks().collect::<Vec<_>>();
        assert_eq!(chunks(r#"{"stdout":{"data":"bHMK"}}"#), [Chunk::Stdout(b"ls\n".to_vec())]);
        assert_eq!(chunks(r#"{"stderr":{"data":"bHMK"}}"#), [Chunk::Stderr(b"ls\n".to_vec())]);
        assert_eq!(chunks(r#"{"stdout":{"close":true}}"#), []);
        assert_eq!(read(r#"{"exited":true,"result":{}}"#).exit_code(), Some(0));
        assert_eq!(read(r#"{"exited":true,"result":{"exit_code":137}}"#).exit_code(), Some(137));
        assert_eq!(read("{}").exit_code(), None);
        assert!(ServerMessage::read(b"x").is_err());
    }

    #[test]
    fn messages_of_a_client_are_those_of_the_reference() {
        assert_eq!(stdin_data(b"ls\n".to_vec()), r#"{"stdin":{"data":"bHMK"}}"#);
        assert_eq!(stdin_closed(), r#"{"stdin":{"close":true}}"#);
        assert_eq!(tty_size((24, 80)), r#"{"tty_size":{"height":24,"width":80}}"#);
        let first: serde_json::Value = serde_json::from_str(&handshake(1, "secret")).unwrap();
        assert_eq!(first, json!({ "version": 1, "auth_token": "secret" }));
    }
}
