//! Messages of the WebSockets of commands in tasks, as JSON (http-api §14). Pure.

use api_types::Base64;
use serde::Deserialize;
use wire::exec::{OutputPart, TerminalSize};
use wire::files::LogStream;

/// The only version of the messages.
const VERSION: i64 = 1;
/// What is said about a message that is none of these.
const UNEXPECTED: &str = "unexpected message type";

/// The first message of a client that asks for a handshake.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Handshake {
    version: i64,
    auth_token: Option<String>,
}

/// A message of a client. An empty one only shows that the client is there.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ClientMessage {
    stdin: Option<Stdin>,
    tty_size: Option<Size>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stdin {
    data: Option<Base64>,
    close: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Size {
    height: i64,
    width: i64,
}

/// What a client says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    /// Bytes for the command.
    Data(Vec<u8>),
    /// The input ends.
    Closed,
    /// The terminal has this size.
    Resize(TerminalSize),
}

/// Checks the first message of a client, if it asked for a handshake. `header_token` is the token in the header of its
/// request, if there was one.
pub(super) fn check_handshake(message: &[u8], header_token: &str) -> Result<(), String> {
    let unreadable = |error: serde_json::Error| format!("failed to decode the handshake message: {error}");
    let Handshake { version, auth_token } = serde_json::from_slice(message).map_err(unreadable)?;
    if version != VERSION {
        return Err(format!("unexpected handshake version {version}: this server knows version {VERSION}"));
    }
    let token = auth_token.unwrap_or_default();
    if !token.is_empty() && !header_token.is_empty() && token != header_token {
        return Err("the token in the handshake is not the one in the header".to_owned());
    }
    Ok(())
}

/// Reads a message of a client.
pub(super) fn read(message: &[u8]) -> Result<Vec<Said>, String> {
    let read =
        serde_json::from_slice(message).map_err(|error: serde_json::Error| format!("{UNEXPECTED}: {error}"));
    let ClientMessage { stdin, tty_size } = read?;
    let mut said = Vec::new();
    if let Some(Stdin { data, close }) = stdin {
        let data = data.map(|Base64(bytes)| bytes).filter(|bytes| !bytes.is_empty());
        said.extend(data.map(Said::Data));
        said.extend(close.then_some(Said::Closed));
    }
    let cells = |number: i64| u16::try_from(number.max(0)).unwrap_or(u16::MAX);
    said.extend(
        tty_size
            .map(|size| Said::Resize(TerminalSize { height: cells(size.height), width: cells(size.width) })),
    );
    Ok(said)
}

/// What the client gets about the agent's messages.
#[derive(Debug, Default)]
pub(super) struct Shown {
    closed: Vec<LogStream>,
}

impl Shown {
    /// The message for what the agent says; `None` if the client gets nothing. A stream that has ended shows nothing more.
    pub(super) fn message(&mut self, part: &OutputPart) -> Option<String> {
        match part {
            OutputPart::Data(stream, data) if !self.closed.contains(stream) => {
                let data = serde_json::to_string(&Base64(data.to_vec()));
                let data = data.expect("plain data always serializes to JSON");
                Some(format!(r#"{{"{stream}":{{"data":{data}}}}}"#))
            }
            OutputPart::Closed(stream) if !self.closed.contains(stream) => {
                self.closed.push(*stream);
                Some(format!(r#"{{"{stream}":{{"close":true}}}}"#))
            }
            OutputPart::Exited(0) => Some(r#"{"exited":true,"result":{}}"#.to_owned()),
            OutputPart::Exited(code) => Some(format!(r#"{{"exited":true,"result":{{"exit_code":{code}}}}}"#)),
            OutputPart::Data(..)
            | OutputPart::Closed(_)
            | OutputPart::Started
            | OutputPart::Grant(_)
            | OutputPart::Alive
            | OutputPart::Failed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use actix_web::web::Bytes;

    use super::*;

    #[test]
    fn messages_of_clients_are_read() {
        let said = |text: &str| read(text.as_bytes());
        assert_eq!(said("{}"), Ok(vec![]));
        assert_eq!(said(r#"{"stdin":{"data":"bHMK"}}"#), Ok(vec![Said::Data(b"ls\n".to_vec())]));
        assert_eq!(
            said(r#"{"stdin":{"data":"bHMK","close":true}}"#),
            Ok(vec![Said::Data(b"ls\n".to_vec()), Said::Closed])
        );
        assert_eq!(said(r#"{"stdin":{"data":null,"close":true}}"#), Ok(vec![Said::Closed]));
        let size = |height, width| Ok(vec![Said::Resize(TerminalSize { height, width })]);
        assert_eq!(said(r#"{"tty_size":{"height":24,"width":80}}"#), size(24, 80));
        assert_eq!(said(r#"{"tty_size":{"height":-1,"width":70000}}"#), size(0, u16::MAX));
        for unknown in ["", "7", r#"{"stdout":{}}"#, r#"{"stdin":{"data":"?"}}"#] {
            assert!(said(unknown).unwrap_err().starts_with(UNEXPECTED), "{unknown}");
        }
    }

    #[test]
    fn clients_get_what_the_reference_sends() {
        let mut shown = Shown::default();
        let data = |stream| OutputPart::Data(stream, Bytes::from_static(b"ls\n"));
        let mut message = |part: OutputPart| shown.message(&part).unwrap_or_default();
        assert_eq!(message(OutputPart::Started), "");
        assert_eq!(message(data(LogStream::Stdout)), r#"{"stdout":{"data":"bHMK"}}"#);
        assert_eq!(message(data(LogStream::Stderr)), r#"{"stderr":{"data":"bHMK"}}"#);
        assert_eq!(message(OutputPart::Closed(LogStream::Stdout)), r#"{"stdout":{"close":true}}"#);
        assert_eq!(message(OutputPart::Closed(LogStream::Stdout)), "", "it is closed once");
        assert_eq!(message(data(LogStream::Stdout)), "", "nothing follows the end");
        assert_eq!(message(OutputPart::Exited(0)), r#"{"exited":true,"result":{}}"#);
        assert_eq!(message(OutputPart::Exited(137)), r#"{"exited":true,"result":{"exit_code":137}}"#);
    }

    #[test]
    fn a_handshake_has_a_version_and_the_token_of_the_header() {
        let check = |message: &str, token| check_handshake(message.as_bytes(), token);
        assert_eq!(check(r#"{"version":1,"auth_token":""}"#, "secret"), Ok(()));
        assert_eq!(check(r#"{"version":1,"auth_token":"secret"}"#, "secret"), Ok(()));
        assert_eq!(check(r#"{"version":1}"#, ""), Ok(()));
        assert!(check(r#"{"version":1,"auth_token":"other"}"#, "secret").is_err());
        assert!(check(r#"{"version":2,"auth_token":""}"#, "").unwrap_err().contains("version 2"));
        assert!(check("x", "").is_err());
    }
}
