//! A low-level NATS client that sends whatever a test asks for and returns the server's responses. For messages that
//! the client of `bus` cannot send, and for those of an attacker.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nats_auth::{Credentials, Key};
use serde_json::json;

/// How long a response may take before the test fails.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection, with messages that were received but not yet returned.
#[derive(Debug)]
pub struct RawNats {
    reader: BufReader<TcpStream>,
    subscriptions: u64,
    /// Messages that arrived while another response was awaited.
    received: Vec<Received>,
}

/// Something that the server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message.
    Message {
        /// The subject.
        subject: String,
        /// The reply subject; empty if there is none.
        reply: String,
        /// Headers and body.
        text: String,
    },
    /// An error.
    Error(String),
    /// The response to a ping.
    Pong,
    /// The server has closed the connection.
    End,
}

impl RawNats {
    /// Connects with these credentials, or without any.
    ///
    /// # Errors
    /// The server's message if it refuses.
    ///
    /// # Panics
    /// If no server listens.
    pub fn connect(url: &str, credentials: Option<&Credentials>) -> Result<Self, String> {
        let login = credentials.map(|credentials| (credentials.jwt.as_str(), &credentials.key));
        Self::connect_as(url, login)
    }

    /// Connects with a JWT from any issuer, and the signature of a key.
    ///
    /// # Errors
    /// The server's message if it refuses.
    ///
    /// # Panics
    /// If no server listens.
    pub fn connect_as(url: &str, login: Option<(&str, &Key)>) -> Result<Self, String> {
        let address = url.trim_start_matches("nats://");
        let stream = TcpStream::connect(address).expect("nats-server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("the timeout is not zero");
        let mut client = Self { reader: BufReader::new(stream), subscriptions: 0, received: Vec::new() };
        let info = client.line();
        let info: serde_json::Value =
            serde_json::from_str(info.trim_start_matches("INFO ")).expect("the server greets with INFO");
        let mut options = json!({ "verbose": false, "pedantic": false, "headers": true, "no_responders": true, "lang": "test" });
        if let Some((jwt, key)) = login {
            let nonce = info["nonce"].as_str().unwrap_or_default();
            options["jwt"] = json!(jwt);
            options["sig"] = json!(URL_SAFE_NO_PAD.encode(key.sign(nonce.as_bytes())));
        }
        client.send(&format!("CONNECT {options}\r\nPING\r\n"));
        match client.receive() {
            Received::Pong => Ok(client),
            Received::Error(error) => Err(error),
            other @ (Received::Message { .. } | Received::End) => Err(format!("{other:?}")),
        }
    }

    /// Sends protocol lines unchanged. Lines that the server no longer reads are lost.
    pub fn send(&mut self, lines: &str) {
        self.send_bytes(lines.as_bytes());
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        // If the server has closed the connection, the next read reports that.
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Subscribes to a subject, in a queue group if `queue` is not empty.
    pub fn subscribe_to(&mut self, subject: &str, queue: &str) {
        self.subscriptions += 1;
        let number = self.subscriptions;
        self.send(&format!("SUB {subject} {queue} {number}\r\n"));
    }

    /// Publishes a message with these header lines, and with a reply subject if `reply` is not empty.
    pub fn publish(&mut self, subject: &str, reply: &str, headers: &str, body: &[u8]) {
        let headers = if headers.is_empty() { String::new() } else { format!("NATS/1.0\r\n{headers}\r\n") };
        let length = headers.len() + body.len();
        let mut bytes = if headers.is_empty() {
            format!("PUB {subject} {reply} {length}\r\n").into_bytes()
        } else {
            format!("HPUB {subject} {reply} {} {length}\r\n{headers}", headers.len()).into_bytes()
        };
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
        self.send_bytes(&bytes);
    }

    /// Sends a ping, and returns all that the server sent before its response.
    pub fn flush(&mut self) -> Vec<Received> {
        self.send("PING\r\n");
        let mut received = std::mem::take(&mut self.received);
        loop {
            match self.receive() {
                Received::Pong => return received,
                Received::End => {
                    received.push(Received::End);
                    return received;
                }
                other @ (Received::Message { .. } | Received::Error(_)) => received.push(other),
            }
        }
    }

    /// The errors that [`Self::flush`] returns.
    pub fn errors(&mut self) -> Vec<String> {
        let errors = self.flush().into_iter().filter_map(|received| match received {
            Received::Error(error) => Some(error),
            Received::End => Some("the connection was closed".to_owned()),
            Received::Message { .. } | Received::Pong => None,
        });
        errors.collect()
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// The server's response if it is not a message.
    pub fn message(&mut self) -> Result<Received, String> {
        match self.receive() {
            message @ Received::Message { .. } => Ok(message),
            other @ (Received::Error(_) | Received::Pong | Received::End) => Err(format!("{other:?}")),
        }
    }

    fn receive(&mut self) -> Received {
        loop {
            let line = self.line();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => return Received::End,
                ["PONG"] => return Received::Pong,
                ["PING"] => self.send("PONG\r\n"),
                ["-ERR", ..] => return Received::Error(line.trim_start_matches("-ERR ").trim().to_owned()),
                ["MSG", subject, _, length] => return self.body(subject, "", length),
                ["MSG", subject, _, reply, length] => return self.body(subject, reply, length),
                ["HMSG", subject, _, _, length] => return self.body(subject, "", length),
                ["HMSG", subject, _, reply, _, length] => return self.body(subject, reply, length),
                // INFO may arrive at any time.
                _ => {}
            }
        }
    }

    fn body(&mut self, subject: &str, reply: &str, length: &str) -> Received {
        let mut bytes = vec![0; length.parse::<usize>().expect("the length is a number") + 2];
        self.reader.read_exact(&mut bytes).expect("the message is complete");
        bytes.truncate(bytes.len() - 2);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Received::Message { subject: subject.to_owned(), reply: reply.to_owned(), text }
    }

    /// The next line; empty if the connection is closed.
    fn line(&mut self) -> String {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(_) => line,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nats-server sent nothing for {TIMEOUT:?}")
            }
            Err(_) => String::new(),
        }
    }
}
