//! A NATS client that keeps no rules: it sends whatever a test says, and shows what the server answers. For messages that the
//! client of `bus` could not send, and for what an attacker would.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use nats_auth::{Credentials, Key};
use serde_json::json;

/// How long an answer may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// A connection, and what it has received and nobody has taken out.
#[derive(Debug)]
pub struct RawNats {
    reader: BufReader<TcpStream>,
    subscriptions: u64,
    /// What came in while something else was waited for.
    received: Vec<Received>,
}

/// Something that the server sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A message: its subject, and its headers and body as text.
    Message {
        /// The subject.
        subject: String,
        /// Where its sender expects an answer; empty if nowhere.
        reply: String,
        /// Headers and body.
        text: String,
    },
    /// An error.
    Error(String),
    /// The answer to a ping.
    Pong,
    /// The server has closed the connection.
    End,
}

impl RawNats {
    /// Connects with these credentials, or without any; the server's first answer is the error, if it refuses.
    ///
    /// # Errors
    /// What the server says if it refuses.
    ///
    /// # Panics
    /// If there is no server.
    pub fn connect(url: &str, credentials: Option<&Credentials>) -> Result<Self, String> {
        let login = credentials.map(|credentials| (credentials.jwt.as_str(), &credentials.key));
        Self::connect_as(url, login)
    }

    /// Connects with this JWT, whoever made it, and the signature of this key.
    ///
    /// # Errors
    /// What the server says if it refuses.
    ///
    /// # Panics
    /// If there is no server.
    pub fn connect_as(url: &str, login: Option<(&str, &Key)>) -> Result<Self, String> {
        let address = url.trim_start_matches("nats://");
        let stream = TcpStream::connect(address).expect("nats-server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a time that is not zero");
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

    /// Sends protocol lines as they are. What the server no longer reads is lost.
    pub fn send(&mut self, lines: &str) {
        self.send_bytes(lines.as_bytes());
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        // A server that has hung up shows in what is read next.
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Subscribes to a subject; in a queue group if `queue` is not empty.
    pub fn listen(&mut self, subject: &str, queue: &str) {
        self.subscriptions += 1;
        let number = self.subscriptions;
        self.send(&format!("SUB {subject} {queue} {number}\r\n"));
    }

    /// Publishes a message, with these header lines, and a subject for the answer if `reply` is not empty.
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

    /// All that the server has to say to what was sent so far.
    pub fn settle(&mut self) -> Vec<Received> {
        self.send("PING\r\n");
        let mut settled = std::mem::take(&mut self.received);
        loop {
            match self.receive() {
                Received::Pong => return settled,
                Received::End => {
                    settled.push(Received::End);
                    return settled;
                }
                other @ (Received::Message { .. } | Received::Error(_)) => settled.push(other),
            }
        }
    }

    /// The errors among [`Self::settle`].
    pub fn errors(&mut self) -> Vec<String> {
        let errors = self.settle().into_iter().filter_map(|received| match received {
            Received::Error(error) => Some(error),
            Received::End => Some("the connection was closed".to_owned()),
            Received::Message { .. } | Received::Pong => None,
        });
        errors.collect()
    }

    /// Waits for the next message; errors that come before it are an `Err`.
    ///
    /// # Errors
    /// What the server says, if that is not a message.
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
                // INFO may come again.
                _ => {}
            }
        }
    }

    fn body(&mut self, subject: &str, reply: &str, length: &str) -> Received {
        let mut bytes = vec![0; length.parse::<usize>().expect("a length") + 2];
        self.reader.read_exact(&mut bytes).expect("a message comes whole");
        bytes.truncate(bytes.len() - 2);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Received::Message { subject: subject.to_owned(), reply: reply.to_owned(), text }
    }

    /// The next line; empty when the connection is closed.
    fn line(&mut self) -> String {
        let mut line = String::new();
        match self.reader.read_line(&mut line) {
            Ok(_) => line,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("nats-server said nothing for {PATIENCE:?}")
            }
            Err(_) => String::new(),
        }
    }
}
