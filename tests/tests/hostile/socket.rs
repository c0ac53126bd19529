//! A client of HTTP that sends bytes unchanged and takes whatever comes back. No proper client sends what attackers
//! send.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{sleep, timeout};

/// How long an answer may take, and how long the server may refuse to read.
const TIMEOUT: Duration = Duration::from_secs(20);
/// How many bytes are read at once.
const READ_BYTES: usize = 64 << 10;
/// Pause between two attempts to connect.
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// How many attempts to connect are made.
const ATTEMPTS_MAX: u32 = 100;
/// Characters of an answer that error texts show.
const SHOWN_CHARS: usize = 300;
/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Stands for the status of an answer if the server closed the connection instead.
pub(crate) const CLOSED: u16 = 0;
/// Stands for the status of an answer that did not come in time.
pub(crate) const SILENT: u16 = 1;

/// A connection.
#[derive(Debug)]
pub(crate) struct Socket(TcpStream);

/// What came back.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    /// The status code, [`CLOSED`] or [`SILENT`].
    pub(crate) status: u16,
    /// Status line and headers.
    pub(crate) head: String,
    /// The body, put together if it came in chunks.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; null if it is not JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The status, and the beginning of the body, for error texts.
    pub(crate) fn summary(&self) -> String {
        let text: String = self.text().chars().take(SHOWN_CHARS).collect();
        match self.status {
            CLOSED => "the connection was closed without an answer".to_owned(),
            SILENT => format!("no whole answer within {} s", TIMEOUT.as_secs()),
            status => format!("{status} {text:?}"),
        }
    }

    /// The value of a header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        let mut headers = self.head.lines().filter_map(|line| line.split_once(':'));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map_or("", |(_, value)| value.trim())
    }
}

impl Socket {
    /// Connects to `host:port`.
    ///
    /// # Panics
    /// If the server does not accept in several attempts.
    pub(crate) async fn open(host: &str) -> Self {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match TcpStream::connect(host).await {
                Ok(stream) => return Self(stream),
                Err(_) if attempts < ATTEMPTS_MAX => sleep(RETRY_PAUSE).await,
                Err(error) => panic!("{host} does not accept connections: {error}"),
            }
        }
    }

    /// The same with small receive buffers, so that a client that does not read is noticed early.
    ///
    /// # Panics
    /// If the server does not accept.
    pub(crate) async fn open_narrow(host: &str) -> Self {
        let socket = TcpSocket::new_v4().expect("a socket can be made");
        socket.set_recv_buffer_size(4 << 10).expect("the size can be set");
        let address = host.parse().expect("the host is an address with a port");
        Self(socket.connect(address).await.expect("the server accepts connections"))
    }

    /// Sends bytes. Returns whether the server has taken them.
    pub(crate) async fn send(&mut self, bytes: &[u8]) -> bool {
        matches!(timeout(TIMEOUT, self.0.write_all(bytes)).await, Ok(Ok(())))
    }

    /// Ends the sending side, and keeps the receiving one.
    pub(crate) async fn end_sending(&mut self) {
        // If it fails, the server has closed the connection.
        let _ = self.0.shutdown().await;
    }

    /// Waits for the next answer.
    pub(crate) async fn answer(&mut self) -> Answer {
        read_answer(&mut self.0).await
    }

    /// Sends bytes and waits for an answer, which may come before all of them are sent.
    pub(crate) async fn exchange(&mut self, bytes: &[u8]) -> Answer {
        let (mut reader, mut writer) = self.0.split();
        let reading = read_answer(&mut reader);
        let writing = writer.write_all(bytes);
        tokio::pin!(reading);
        tokio::select! {
            answer = &mut reading => answer,
            // If the server does not take everything, its answer says why.
            _ = writing => reading.await,
        }
    }

    /// Reads until that many bytes have arrived. Returns what has arrived, which is less if the server closes the
    /// connection or is silent.
    pub(crate) async fn read_bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let reading = async {
            while bytes.len() < count {
                bytes.reserve(READ_BYTES);
                match self.0.read_buf(&mut bytes).await {
                    Ok(0) | Err(_) => return,
                    Ok(_) => {}
                }
            }
        };
        // Whatever has arrived by then is the result.
        let _ = timeout(TIMEOUT, reading).await;
        bytes
    }

    /// Reads and discards until the server closes the connection. Returns whether it does so in time.
    pub(crate) async fn is_closed_within(&mut self, time: Duration) -> bool {
        let mut discarded = vec![0; READ_BYTES];
        let reading = async { while matches!(self.0.read(&mut discarded).await, Ok(1..)) {} };
        timeout(time, reading).await.is_ok()
    }
}

/// A request with these header lines, each ended by a line break, and a body.
pub(crate) fn request(host: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = match (method, body.len()) {
        ("GET" | "HEAD", 0) => String::new(),
        (_, length) => format!("Content-Length: {length}\r\n"),
    };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{length}{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Sends a request on a connection of its own, and waits for the answer.
pub(crate) async fn ask(host: &str, method: &str, path: &str, body: &[u8]) -> Answer {
    Socket::open(host).await.exchange(&request(host, method, path, "", body)).await
}

/// The same for a request without a body.
pub(crate) async fn get(host: &str, path: &str) -> Answer {
    ask(host, "GET", path, b"").await
}

async fn read_answer(reader: &mut (impl AsyncRead + Unpin)) -> Answer {
    let mut bytes = Vec::new();
    let mut head = None;
    let reading = async {
        loop {
            if head.is_none() {
                head = Head::find(&bytes);
            }
            if head.as_ref().is_some_and(|head| head.is_complete(&bytes)) {
                return;
            }
            bytes.reserve(READ_BYTES);
            match reader.read_buf(&mut bytes).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    };
    let is_late = timeout(TIMEOUT, reading).await.is_err();
    match head {
        Some(Head { status, end, length }) => Answer {
            status: if is_late { SILENT } else { status },
            head: String::from_utf8_lossy(&bytes[..end]).into_owned(),
            body: match length {
                BodyLength::Chunked => joined_chunks(&bytes[end..]),
                BodyLength::Bytes(_) | BodyLength::Unknown => bytes.split_off(end),
            },
        },
        None => Answer { status: if is_late { SILENT } else { CLOSED }, head: String::new(), body: bytes },
    }
}

/// The chunks of a body, up to the first that is not whole.
fn joined_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut joined = Vec::new();
    while let Some(end) = rest.windows(2).position(|window| window == b"\r\n") {
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(chunk) = size.and_then(|size| rest.get(end + 2..end + 2 + size)) else { break };
        joined.extend_from_slice(chunk);
        rest = rest.get(end + 2 + chunk.len() + 2..).unwrap_or_default();
    }
    joined
}

/// The head of an answer.
struct Head {
    status: u16,
    /// Where the body begins.
    end: usize,
    length: BodyLength,
}

enum BodyLength {
    Bytes(usize),
    Chunked,
    /// The connection is closed at the end of the body.
    Unknown,
}

impl Head {
    fn find(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
        let text = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = text.split(' ').nth(1)?.parse().ok()?;
        let mut length = BodyLength::Unknown;
        if status < 200 || status == 204 || status == 304 {
            length = BodyLength::Bytes(0);
        }
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match (name, value.trim()) {
                ("content-length", value) => {
                    length = value.parse().map_or(BodyLength::Unknown, BodyLength::Bytes)
                }
                ("transfer-encoding", "chunked") => length = BodyLength::Chunked,
                _ => {}
            }
        }
        Some(Self { status, end, length })
    }

    fn is_complete(&self, bytes: &[u8]) -> bool {
        match self.length {
            BodyLength::Bytes(length) => bytes.len() >= self.end + length,
            BodyLength::Chunked => bytes.len() > self.end && bytes.ends_with(LAST_CHUNK),
            BodyLength::Unknown => false,
        }
    }
}
