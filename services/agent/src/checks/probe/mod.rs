//! Runs a check once: connects to the service and, for HTTP, sends a request. What a service answers is read to a
//! small limit only, and redirects are not followed.

mod http;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use telemetry::chain;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, timeout_at};

use self::tls::TlsConfigs;
use super::check::{Check, HttpRequest, Probe, Runner};
use super::core::{Outcome, Status};
use crate::networks::namespace;

/// Runs checks. It keeps what probes share.
#[derive(Default)]
pub(super) struct Prober {
    tls: TlsConfigs,
}

impl Prober {
    /// Runs a check once, within its timeout.
    pub(super) async fn probe(&self, check: &Check, limit: Duration) -> Outcome {
        let probe = match &check.runner {
            Runner::Agent(Ok(probe)) => probe,
            Runner::Agent(Err(reason)) => return Outcome::failure(reason),
            Runner::Consul(_) | Runner::Script(_) => return Outcome::failure("it connects to nothing"),
        };
        let deadline = Instant::now() + limit;
        let late = || Outcome::failure(&format!("no answer from {} within {limit:?}", probe.address));
        let stream = match timeout_at(deadline, connect(probe)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                return Outcome::failure(&format!("cannot connect to {}: {}", probe.address, chain(&error)));
            }
            Err(_) => return late(),
        };
        let Some(request) = &probe.request else { return Outcome::success(0, "nomad: tcp ok") };
        let answered = Box::pin(self.request(stream, probe.address, request, deadline));
        timeout_at(deadline, answered).await.unwrap_or_else(|_| late())
    }

    async fn request(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        request: &HttpRequest,
        deadline: Instant,
    ) -> Outcome {
        let Some(settings) = &request.tls else {
            return http::ask(stream, address, request, deadline).await;
        };
        match self.tls.connect(stream, address, settings).await {
            Ok(stream) => http::ask(stream, address, request, deadline).await,
            Err(error) => Outcome::failure(&format!("no TLS connection to {address}: {error}")),
        }
    }
}

/// Opens a connection from the namespace of the probe.
async fn connect(probe: &Probe) -> io::Result<TcpStream> {
    let socket = match &probe.namespace {
        Some(path) => namespace::tcp_socket(path, probe.address).await?,
        None if probe.address.is_ipv4() => TcpSocket::new_v4()?,
        None => TcpSocket::new_v6()?,
    };
    socket.connect(probe.address).await
}

impl Outcome {
    fn success(code: u16, output: &str) -> Self {
        Self { status: Status::Success, code, output: output.into() }
    }

    /// A failure without a response. The output says that it is the agent that speaks, and not the service.
    pub(super) fn failure(reason: &str) -> Self {
        Self { status: Status::Failure, code: 0, output: format!("nomad: {reason}").into() }
    }
}

#[cfg(test)]
mod tests;
