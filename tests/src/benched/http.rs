//! HTTP for those who measure how fast others answer: one connection asks one thing after the other, and reads no more of
//! an answer than it must.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How much is read at once.
const PIECE: usize = 256 << 10;
/// The end of a body that comes in chunks. Nothing in compact JSON looks like it.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";
/// How long to wait before a connection that was not accepted is tried again.
const AGAIN: Duration = Duration::from_millis(50);
/// How often it is tried.
const TIMES: u32 = 100;

/// A connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    host: String,
    /// What it says of the answers that it understands.
    accept: &'static str,
    read: Vec<u8>,
}

/// What of an answer is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// The index that it is of, if it names one.
    pub index: u64,
    /// The length of its body as it came, in bytes.
    pub bytes: usize,
}

impl Answer {
    /// The answer that this is the whole of.
    ///
    /// # Errors
    /// If it is none, or not whole.
    pub fn of(text: &[u8]) -> io::Result<Self> {
        let head = find(text, b"\r\n\r\n").ok_or_else(|| io::Error::other("no end of the head"))? + 4;
        let Head { status, index, length } = Head::read(&text[..head])?;
        let bytes = text.len() - head;
        if length != Some(bytes) {
            return Err(io::Error::other(format!("{bytes} bytes of {length:?}")));
        }
        Ok(Self { status, index, bytes })
    }
}

impl Connection {
    /// Connects to `http://host:port`.
    ///
    /// # Errors
    /// If nobody listens there.
    pub async fn open(url: &str) -> io::Result<Self> {
        let mut tried = 0;
        loop {
            tried += 1;
            match Self::open_at_once(url).await {
                Err(_) if tried < TIMES => tokio::time::sleep(AGAIN).await,
                opened => return opened,
            }
        }
    }

    async fn open_at_once(url: &str) -> io::Result<Self> {
        let host = url.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, host, accept: "", read: Vec::new() })
    }

    /// Whether the other side has closed it, or said something that nobody asked for.
    fn is_over(&self) -> bool {
        !matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Takes compressed answers from now on, as browsers and clients in Go do unless they are told otherwise.
    #[must_use]
    pub fn taking_gzip(self) -> Self {
        Self { accept: "Accept-Encoding: gzip\r\n", ..self }
    }

    /// Asks for a path, and waits for the whole answer.
    ///
    /// # Errors
    /// If the connection breaks, or the answer is none of HTTP.
    pub async fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send(path).await?;
        self.answer().await
    }

    /// Asks for a path.
    ///
    /// # Errors
    /// If the connection breaks.
    pub async fn send(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n{}\r\n", self.host, self.accept);
        self.stream.write_all(request.as_bytes()).await
    }

    /// Has something done, which is said in JSON.
    async fn tell(&mut self, method: &str, path: &str, body: &[u8]) -> io::Result<Answer> {
        let (host, length) = (&self.host, body.len());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        );
        self.stream.write_all(&[head.as_bytes(), body].concat()).await?;
        self.answer().await
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// If the connection breaks, or the answer is none of HTTP.
    pub async fn answer(&mut self) -> io::Result<Answer> {
        self.read.clear();
        let head = loop {
            let looked_at = self.read.len().saturating_sub(3);
            self.more().await?;
            if let Some(end) = find(&self.read[looked_at..], b"\r\n\r\n") {
                break looked_at + end + 4;
            }
        };
        let Head { status, index, length } = Head::read(&self.read[..head])?;
        match length {
            Some(length) => {
                while self.read.len() < head + length {
                    self.more().await?;
                }
            }
            // The line before the body stands for the one before the first chunk.
            None => {
                while !self.read[head - 2..].ends_with(LAST_CHUNK) {
                    self.more().await?;
                }
            }
        }
        Ok(Answer { status, index, bytes: self.read.len() - head })
    }

    async fn more(&mut self) -> io::Result<()> {
        self.read.reserve(PIECE.min(self.read.len().max(1 << 10)));
        match self.stream.read_buf(&mut self.read).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// Connections that are kept for the next who has something to say. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<Vec<(String, Connection)>>>);

impl Pool {
    /// Has something done at `http://host:port`, which is said in JSON.
    ///
    /// # Errors
    /// If nobody is there, or the connection breaks; or `Ok(Err)`, the status and the reason why it is refused.
    pub(super) async fn tell(
        &self,
        url: &str,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> io::Result<Result<(), (u16, String)>> {
        let mut connection = match self.take(url) {
            Some(connection) => connection,
            None => Connection::open_at_once(url).await?,
        };
        let answer = connection.tell(method, path, body).await?;
        let refused = (!(200..300).contains(&answer.status)).then(|| {
            let text = &connection.read[connection.read.len() - answer.bytes..];
            (answer.status, String::from_utf8_lossy(text).into_owned())
        });
        self.kept().push((url.to_owned(), connection));
        Ok(refused.map_or(Ok(()), Err))
    }

    fn take(&self, url: &str) -> Option<Connection> {
        let mut kept = self.kept();
        kept.retain(|(to, connection)| to != url || !connection.is_over());
        let newest = kept.iter().rposition(|(to, _)| to == url)?;
        Some(kept.swap_remove(newest).1)
    }

    fn kept(&self) -> MutexGuard<'_, Vec<(String, Connection)>> {
        // Nothing is half done in there when somebody panics.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the lines in front of a body say.
struct Head {
    status: u16,
    index: u64,
    /// `None` where the body comes in chunks.
    length: Option<usize>,
}

impl Head {
    fn read(head: &[u8]) -> io::Result<Self> {
        let text = std::str::from_utf8(head).map_err(io::Error::other)?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|text| text.parse().ok());
        let status = status.ok_or_else(|| io::Error::other("no line of a status"))?;
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

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
