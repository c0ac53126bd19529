//! Asks resolvers about names that are not the agent's.
//!
//! Nothing is kept: there is no cache that a forged response could enter. Each question goes out from a port of its own
//! that the kernel chooses at random, with a random id, and only a response from that resolver to that question counts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hickory_proto::op::Query;
use model::{Nanos, Timestamp};
use telemetry::{chain, clock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

use super::message::{Request, Transport, is_response_to, question, relayed};
use crate::networks::{machine_resolv_conf, name_servers};
use crate::node::dns::Resolvers;

/// How long a resolver may take before the next one is asked.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1_500);
/// The maximum number of resolvers that are asked about one name. Clients ask again after 5 seconds.
const RESOLVERS_MAX: usize = 3;
/// The maximum size of a resolver's response by UDP, in bytes. It is asked for less.
const DATAGRAM_BYTES_MAX: usize = 4_096;
/// The maximum number of datagrams that are not the response, before the question is given up: somebody guesses ids.
const FOREIGN_MAX: usize = 16;
/// How long the resolvers of the machine are used before they are read again.
const REREAD: Nanos = Nanos::from_secs(10);
/// The port of the machine's resolvers.
const DNS_PORT: u16 = 53;

/// Why a question was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unanswered {
    /// Nobody is to be asked.
    Refused,
    /// No resolver has answered.
    Failed,
}

/// Asks resolvers.
#[derive(Debug)]
pub(crate) struct Forwarder {
    resolvers: Resolvers,
    /// Where the server itself listens, which must not be asked.
    own: Vec<SocketAddr>,
    /// The machine's resolvers, and when they were read.
    machine: Mutex<Option<(Timestamp, Vec<SocketAddr>)>>,
}

impl Forwarder {
    /// Asks these resolvers, except those at the addresses of the server itself.
    pub(crate) fn new(resolvers: Resolvers, own: Vec<SocketAddr>) -> Self {
        Self { resolvers, own, machine: Mutex::default() }
    }

    /// Asks about a name, and returns the response for the client.
    ///
    /// # Errors
    /// If there is no response.
    pub(crate) async fn forward(
        &self,
        request: &Request,
        transport: Transport,
    ) -> Result<Vec<u8>, Unanswered> {
        let resolvers = self.resolvers(clock::steady());
        if resolvers.is_empty() {
            return Err(Unanswered::Refused);
        }
        for resolver in resolvers {
            match timeout(ANSWER_TIMEOUT, ask(resolver, request, transport)).await {
                Ok(Ok(response)) => return relayed(request, response, transport).ok_or(Unanswered::Failed),
                Ok(Err(error)) => {
                    tracing::debug!(%resolver, error = chain(&error), "cannot ask a resolver");
                }
                Err(_) => tracing::debug!(%resolver, "a resolver does not answer"),
            }
        }
        Err(Unanswered::Failed)
    }

    fn resolvers(&self, now: Timestamp) -> Vec<SocketAddr> {
        let resolvers = match &self.resolvers {
            Resolvers::Nobody => Vec::new(),
            Resolvers::Given(given) => given.clone(),
            Resolvers::Machine => {
                // A poisoned lock is harmless, because each change is a single step.
                let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
                match &*machine {
                    Some((read, resolvers)) if now - *read < REREAD => resolvers.clone(),
                    Some(_) | None => {
                        let servers = name_servers(&machine_resolv_conf()).into_iter();
                        let found: Vec<_> = servers.map(|ip| SocketAddr::new(ip, DNS_PORT)).collect();
                        *machine = Some((now, found.clone()));
                        found
                    }
                }
            }
        };
        resolvers.into_iter().filter(|resolver| !self.is_own(*resolver)).take(RESOLVERS_MAX).collect()
    }

    /// Whether questions to this address would come back to this server.
    fn is_own(&self, resolver: SocketAddr) -> bool {
        self.own.iter().any(|own| {
            own.port() == resolver.port()
                && (own.ip() == resolver.ip() || own.ip().is_unspecified() && resolver.ip().is_loopback())
        })
    }
}

/// Asks a resolver. It gets as much time as the caller gives it.
async fn ask(resolver: SocketAddr, request: &Request, transport: Transport) -> io::Result<Vec<u8>> {
    let id = rand::random();
    let question = question(request, id).ok_or(io::ErrorKind::InvalidData)?;
    match transport {
        Transport::Udp => ask_by_udp(resolver, &question, id, &request.query).await,
        Transport::Tcp => ask_by_tcp(resolver, &question, id, &request.query).await,
    }
}

async fn ask_by_udp(resolver: SocketAddr, question: &[u8], id: u16, query: &Query) -> io::Result<Vec<u8>> {
    let any: IpAddr = match resolver {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    // The kernel then drops what others send.
    socket.connect(resolver).await?;
    socket.send(question).await?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    for _ in 0..FOREIGN_MAX {
        let length = socket.recv(&mut buffer).await?;
        if let Some(received) = buffer.get(..length).filter(|received| is_response_to(received, id, query)) {
            return Ok(received.to_vec());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "too many responses to other questions"))
}

async fn ask_by_tcp(resolver: SocketAddr, question: &[u8], id: u16, query: &Query) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(resolver).await?;
    write_message(&mut stream, question).await?;
    let response = read_message(&mut stream, usize::from(u16::MAX)).await?;
    if !is_response_to(&response, id, query) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a response to another question"));
    }
    Ok(response)
}

/// Reads a message from a connection: its length in two bytes, and its bytes.
///
/// # Errors
/// If it is longer than `bytes_max`, or the connection fails.
pub(crate) async fn read_message(stream: &mut TcpStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let length = usize::from(stream.read_u16().await?);
    if length > bytes_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a message is too long"));
    }
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Writes a message to a connection.
///
/// # Errors
/// If it is too long, or the connection fails.
pub(crate) async fn write_message(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    let length = u16::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidData)?;
    stream.write_all(&[&length.to_be_bytes(), bytes].concat()).await
}
