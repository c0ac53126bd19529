//! Many connections that wait for a response at once, and take almost no processor time meanwhile: the measured time is
//! when the last response arrives, and the measured processes run on the same machine. Responses are read afterwards.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use telemetry::clock;

use super::http::Response;

/// How many events are read at once.
const EVENTS_AT_ONCE: usize = 1_024;
/// How often the connections are polled, which is also the precision of the result. A wake-up for each response would
/// take processor time from the measured processes on the same machine.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// The longest response, in bytes. It arrives in one piece.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Connections that have sent a request, or will.
#[derive(Debug)]
pub struct Waiters {
    connections: Vec<TcpStream>,
    epoll: Epoll,
    host: String,
}

impl Waiters {
    /// Opens `count` connections to `http://host:port`.
    ///
    /// # Errors
    /// If a connection is refused, or there are not enough sockets.
    pub fn open(url: &str, count: u64) -> io::Result<Self> {
        let host = url.trim_start_matches("http://").to_owned();
        let epoll = Epoll::new(EpollCreateFlags::empty())?;
        let connections = (0..count)
            .map(|number| {
                let connection = TcpStream::connect(&host)?;
                connection.set_nodelay(true)?;
                let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
                epoll.add(connection.as_fd(), EpollEvent::new(flags, number))?;
                Ok(connection)
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { connections, epoll, host })
    }

    /// Sends a request for a path on every connection.
    ///
    /// # Errors
    /// If a connection breaks.
    pub fn send(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.connections.iter_mut().try_for_each(|connection| connection.write_all(request.as_bytes()))
    }

    /// Waits until every connection has received part of a response. Returns when the last one did, or `None` after the
    /// timeout.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn wait_for_all(&self, timeout: Duration) -> io::Result<Option<Instant>> {
        let end = clock::monotonic() + timeout;
        let mut has_answer = vec![false; self.connections.len()];
        let mut missing = self.connections.len();
        let mut events = [EpollEvent::empty(); EVENTS_AT_ONCE];
        while missing > 0 {
            if clock::monotonic() > end {
                return Ok(None);
            }
            std::thread::sleep(POLL_INTERVAL);
            loop {
                let ready = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
                for event in &events[..ready] {
                    missing -= usize::from(!std::mem::replace(&mut has_answer[event.data() as usize], true));
                }
                if ready < EVENTS_AT_ONCE {
                    break;
                }
            }
        }
        Ok(Some(clock::monotonic()))
    }

    /// Reads the responses.
    ///
    /// # Errors
    /// If a connection breaks, a response is not HTTP, or it is longer than expected.
    pub fn read_responses(&mut self) -> io::Result<Vec<Response>> {
        let mut text = vec![0; RESPONSE_BYTES_MAX];
        let mut read = |connection: &mut TcpStream| {
            let length = connection.read(&mut text)?;
            Response::of(&text[..length])
        };
        self.connections.iter_mut().map(&mut read).collect()
    }
}
