//! Many who wait for an answer at once, and cost next to nothing while they do: what is measured is when the last answer
//! has come, and the machine that is measured is this one. Answers are read afterwards.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use telemetry::clock;

use super::http::Answer;

/// How many are heard of at once.
const EVENTS_AT_ONCE: usize = 1_024;
/// How often is looked who has an answer, and so how far off a time may be. Whoever were told of each would have it cost
/// those who are measured, on whose machine this is.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The longest answer, in bytes; it comes in one piece.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Connections, each of which has asked or will.
#[derive(Debug)]
pub struct Waiting {
    connections: Vec<TcpStream>,
    epoll: Epoll,
    host: String,
}

impl Waiting {
    /// Connects so many times to `http://host:port`.
    ///
    /// # Errors
    /// If nobody listens there, or there are not so many sockets.
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

    /// All ask for a path.
    ///
    /// # Errors
    /// If a connection breaks.
    pub fn ask(&mut self, path: &str) -> io::Result<()> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.host);
        self.connections.iter_mut().try_for_each(|connection| connection.write_all(request.as_bytes()))
    }

    /// Waits until all have something of an answer, which is when the last one has: `None` if it takes longer than this.
    ///
    /// # Errors
    /// If waiting fails.
    pub fn answered(&self, within: Duration) -> io::Result<Option<Instant>> {
        let end = clock::monotonic() + within;
        let mut has_answer = vec![false; self.connections.len()];
        let mut missing = self.connections.len();
        let mut events = [EpollEvent::empty(); EVENTS_AT_ONCE];
        while missing > 0 {
            if clock::monotonic() > end {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
            loop {
                let heard = self.epoll.wait(&mut events, EpollTimeout::ZERO)?;
                for event in &events[..heard] {
                    missing -= usize::from(!std::mem::replace(&mut has_answer[event.data() as usize], true));
                }
                if heard < EVENTS_AT_ONCE {
                    break;
                }
            }
        }
        Ok(Some(clock::monotonic()))
    }

    /// The answers.
    ///
    /// # Errors
    /// If a connection breaks, or an answer is none of HTTP or longer than any that is expected.
    pub fn answers(&mut self) -> io::Result<Vec<Answer>> {
        let mut text = vec![0; ANSWER_BYTES_MAX];
        let mut read = |connection: &mut TcpStream| {
            let length = connection.read(&mut text)?;
            Answer::of(&text[..length])
        };
        self.connections.iter_mut().map(&mut read).collect()
    }
}
