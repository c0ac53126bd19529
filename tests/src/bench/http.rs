//! A minimal HTTP client for measuring response times. One connection sends one request after another, and reads no
//! more of a response than it must.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The most bytes that are read at once.
const READ_BYTES_MAX: usize = 256 << 10;
/// The end of a chunked body. Compact JSON never contains these bytes.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
/// The pause before a failed connection attempt is repeated.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How many connection attempts are made.
const ATTEMPTS_MAX: u32 = 100;

/// An HTTP connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    host: String,
    /// The header that names accepted encodings, if any.
    accept: &'static str,
    read: Vec<u8>,
}

/// The parts of a response that callers look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The value of `X-Nomad-Index`, or 0.
    pub index: u64,
    /// The length of the body as received, in bytes.
    pub bytes: usize,
}

impl Response {
    /// Parses a complete response.
    ///
    /// # Errors
    /// If the text is not a response, or is incomplete.
    pub fn of(text: &[u8]) -> io::Result<Self> {
        let head = find(text, b"\r\n\r\n").ok_or_else(|| io::Error::other("the header does not end"))? + 4;
        let Head { status, index, length } = Head::read(&text[..head])?;
        let bytes = text.len() - head;
        if length != Some(bytes) {
            return Err(io::Error::other(format!("{bytes} bytes of a body of {length:?}")));
        }
        Ok(Self { status, index, bytes })
    }
}

impl Connection {
    /// Connects to `http://host:port`, in several attempts.
    ///
    /// # Errors
    /// If no attempt succeeds.
    pub async fn open(url: &str) -> io::Result<Self> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            match Self::connect(url).await {
                Err(_) if attempts < ATTEMPTS_MAX => tokio::time::sleep(RETRY_PAUSE).await,
                opened => return opened,
            }
        }
    }

    async fn connect(url: &str) -> io::Result<Self> {
        let host = url.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host, accept: "", read: Vec::new() })
    }

    /// Whether the other side has closed the connection, or sent data that was not requested.
    fn is_closed(&self) -> bool {
        !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Accepts compressed responses from now on, as browsers and Go clients do by default.
    #[must_use]
    pub fn with_gzip(self) -> Self {
        Self { accept: "Accept-Encoding: gzip\r\n", ..self }
    }

    /// Requests a path, and waits for the whole response.
    ///
    /// # Errors
    /// If the connection breaks, or the response is not HTTP.
    pub async fn get(&mut self, path: &str) -> io::Result<Response> {
        self.send(path).await?;
        self.read_response().await
    }

    /// Sends a request for a path.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn send(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.host, self.accept);
        self.stream.write_all(request.as_bytes()).await
    }

    /// Sends a request with a JSON body, and waits for the response.
    async fn request(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Response> {
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        self.stream.write_all(&[head.as_bytes(), body].concat()).await?;
        self.read_response().await
    }

    /// Waits for a response.
    ///
    /// # Errors
    /// If the connection breaks, or the response is not HTTP.
    pub async fn read_response(&mut self) -> io::Result<Response> {
        self.read.clear();
        let head = loop {
            let searched = self.read.len().saturating_sub(3);
            self.read_more().await?;
            if let Some(end) = find(&self.read[searched..], b"\r\n\r\n") {
                break searched + end + 4;
            }
        };
        let Head { status, index, length } = Head::read(&self.read[..head])?;
        match length {
            Some(length) => {
                while self.read.len() < head + length {
                    self.read_more().await?;
                }
            }
            // The last bytes of the header stand for the line end before the first chunk.
            None => {
                while !self.read[head - 2..].ends_with(LAST_CHUNK) {
                    self.read_more().await?;
                }
            }
        }
        Ok(Response { status, index, bytes: self.read.len() - head })
    }

    async fn read_more(&mut self) -> io::Result<()> {
        self.read.reserve(READ_BYTES_MAX.min(self.read.len().max(1 << 10)));
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Idle connections for reuse. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<(String, Connection)>>>);

impl Pool {
    /// Sends a request with a JSON body to `http://host:port`.
    ///
    /// # Errors
    /// The outer result is an error if the connection fails or breaks. The inner one holds the status and the reason if
    /// the request is refused.
    pub(super) async fn request(
        &self,
        url: &str,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<Result<(), (u16, String)>> {
        let mut connection = match self.take(url) {
            Some(connection) => connection,
            None => Connection::connect(url).await?,
        };
        let answer = connection.request(method, path, body).await?;
        let refused = (!(200..300).contains(&answer.status)).then(|| {
            let text = &connection.read[connection.read.len() - answer.bytes..];
            (answer.status, String::from_utf8_lossy(text).into_owned())
        });
        self.idle().push((url.to_owned(), connection));
        Ok(refused.map_or(Ok(()), Err))
    }

    fn take(&self, url: &str) -> Option<Connection> {
        let mut idle = self.idle();
        idle.retain(|(to, connection)| to != url || !connection.is_closed());
        let newest = idle.iter().rposition(|(to, _)| to == url)?;
        Some(idle.swap_remove(newest).1)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(String, Connection)>> {
        // The list is consistent even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The status line and the headers of a response.
struct Head {
    status: u16,
    index: u64,
    /// `None` if the body is chunked.
    length: Option<usize>,
}

impl Head {
    fn read(head: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(head).map_err(io::Error::other)?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no status line"))?;
        let mut head = Self { status, index: 0, length: None };
        for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
            if name.eq_ignore_ascii_case("content-length") {
                head.length = value.parse().ok();
            } else if name.eq_ignore_ascii_case("x-nomad-index") {
                head.index = value.parse().unwrap_or_default();
            }
        }
        Ok(head)
    }
}

fn find(text: &[u8], pattern: &[u8]) -> Option<usize> {
    text.windows(pattern.len()).position(|window| window == pattern)
}
