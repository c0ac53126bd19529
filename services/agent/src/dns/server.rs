//! The sockets of the DNS server, and what becomes of a request.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use socket2::{Domain, Protocol, Socket, Type};
use telemetry::chain;
use telemetry::metrics::catalogue::{AGENT_DNS_DROPPED, AGENT_DNS_QUESTIONS};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::answer::{Content, Zone, answer};
use super::clients::Clients;
use super::forward::{Forwarder, Unanswered, read_message, write_message};
use super::lookup::Lookup;
use super::message::{REQUEST_BYTES_MAX, Transport, failure, read, respond};
use super::names::{Meaning, meaning};

/// The maximum number of requests by UDP that are in progress. Further ones are dropped; clients send them again.
const IN_PROGRESS_MAX: usize = 512;
/// The maximum number of connections. Further ones are closed.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send a request by TCP, or to take its response.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of requests on a connection.
const CONNECTION_REQUESTS_MAX: usize = 100;
/// The pause after an error of a socket.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// The number of connections that wait to be accepted.
const BACKLOG: i32 = 64;

/// Both sockets of an address.
#[derive(Debug)]
pub(crate) struct Listener {
    udp: UdpSocket,
    tcp: TcpListener,
    /// The address.
    pub(crate) address: SocketAddr,
}

impl Listener {
    /// Listens on an address. With `early` the address need not be there yet: that of a bridge comes with its first
    /// allocation.
    ///
    /// # Errors
    /// If it is not possible.
    pub(crate) fn bind(address: SocketAddr, early: bool) -> io::Result<Self> {
        let udp = UdpSocket::from_std(socket(address, Type::DGRAM, Protocol::UDP, early)?.into())?;
        // If the kernel has chosen the port, it is the same for both.
        let address = udp.local_addr()?;
        let tcp = socket(address, Type::STREAM, Protocol::TCP, early)?;
        tcp.listen(BACKLOG)?;
        Ok(Self { udp, tcp: TcpListener::from_std(tcp.into())?, address })
    }
}

fn socket(address: SocketAddr, kind: Type, protocol: Protocol, early: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
    socket.set_nonblocking(true)?;
    if kind == Type::STREAM {
        socket.set_reuse_address(true)?;
    }
    match address {
        SocketAddr::V4(_) if early => socket.set_freebind_v4(true)?,
        SocketAddr::V6(_) if early => socket.set_freebind_v6(true)?,
        SocketAddr::V4(_) | SocketAddr::V6(_) => {}
    }
    socket.bind(&address.into())?;
    Ok(socket)
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) struct Server {
    /// The agent's domain.
    pub(crate) zone: Zone,
    /// Who may ask.
    pub(crate) clients: Clients,
    /// Finds instances of services.
    pub(crate) lookup: Lookup,
    /// Asks about other names.
    pub(crate) forwarder: Forwarder,
}

/// Answers on an address until it is dropped.
pub(crate) async fn serve(server: Arc<Server>, listener: Listener) {
    let Listener { udp, tcp, .. } = listener;
    tokio::join!(serve_udp(Arc::clone(&server), Arc::new(udp)), serve_tcp(server, tcp));
}

async fn serve_udp(server: Arc<Server>, socket: Arc<UdpSocket>) {
    let permits = Arc::new(Semaphore::new(IN_PROGRESS_MAX));
    // One byte more than the limit, so that a longer request is noticed.
    let mut buffer = vec![0; REQUEST_BYTES_MAX.saturating_add(1)];
    loop {
        let (length, client) = match socket.recv_from(&mut buffer).await {
            Ok(received) => received,
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot receive requests by DNS");
                sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            AGENT_DNS_DROPPED.add(1);
            continue;
        };
        let bytes = buffer.get(..length).unwrap_or_default().to_vec();
        let (server, socket) = (Arc::clone(&server), Arc::clone(&socket));
        // It ends soon: everything that it waits for has a timeout.
        tokio::spawn(async move {
            if let Some(response) = server.respond(&bytes, client.ip(), Transport::Udp).await {
                // A client that is gone does not get it.
                let _ = socket.send_to(&response, client).await;
            }
            drop(permit);
        });
    }
}

async fn serve_tcp(server: Arc<Server>, listener: TcpListener) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(error = chain(&error), "cannot accept connections for DNS");
                sleep(ERROR_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            AGENT_DNS_DROPPED.add(1);
            continue;
        };
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            server.converse(stream, client.ip()).await;
            drop(permit);
        });
    }
}

impl Server {
    /// Answers the requests on a connection, one after the other.
    async fn converse(&self, mut stream: TcpStream, client: IpAddr) {
        for _ in 0..CONNECTION_REQUESTS_MAX {
            let read = timeout(CONNECTION_TIMEOUT, read_message(&mut stream, REQUEST_BYTES_MAX)).await;
            let Ok(Ok(bytes)) = read else { return };
            let Some(response) = self.respond(&bytes, client, Transport::Tcp).await else { return };
            let written = timeout(CONNECTION_TIMEOUT, write_message(&mut stream, &response)).await;
            if !matches!(written, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// The response to a request; `None` if there is to be none.
    pub(crate) async fn respond(
        &self,
        bytes: &[u8],
        client: IpAddr,
        transport: Transport,
    ) -> Option<Vec<u8>> {
        let request = match read(bytes) {
            Ok(request) => request,
            Err(response) => {
                count("other", "malformed");
                return response;
            }
        };
        if !self.clients.allow(client) {
            count("other", "refused");
            return failure(&request, ResponseCode::Refused);
        }
        let (kind, content) = match meaning(request.query.name(), &self.zone.domain) {
            Meaning::Elsewhere => {
                return match self.forwarder.forward(&request, transport).await {
                    Ok(response) => {
                        count("forwarded", "answered");
                        Some(response)
                    }
                    Err(Unanswered::Refused) => {
                        count("forwarded", "refused");
                        failure(&request, ResponseCode::Refused)
                    }
                    Err(Unanswered::Failed) => {
                        count("forwarded", "failed");
                        failure(&request, ResponseCode::ServFail)
                    }
                };
            }
            Meaning::Nothing => ("other", Content::Nothing),
            Meaning::Parent => ("other", Content::Parent),
            Meaning::Address(address) => ("address", Content::Address(address)),
            Meaning::Service(name) => match self.lookup.instances(&name).await {
                Ok(found) => ("service", found.map_or(Content::Nothing, Content::Instances)),
                Err(_) => {
                    count("service", "failed");
                    return failure(&request, ResponseCode::ServFail);
                }
            },
        };
        let mut pick = |below: usize| rand::random_range(0..below.max(1));
        let answer = answer(&self.zone, &request.query, content, &mut pick);
        let outcome = if answer.code == ResponseCode::NXDomain {
            "unknown"
        } else if answer.answers.is_empty() {
            "empty"
        } else {
            "answered"
        };
        count(kind, outcome);
        respond(&request, answer, transport)
    }
}

fn count(kind: &'static str, outcome: &'static str) {
    AGENT_DNS_QUESTIONS.add_with(1, &[kind, outcome]);
}
