//! The API without a socket, for fuzz targets: requests go to the function to which the HTTP server passes them.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use actix_web::FromRequest as _;
use actix_web::body::to_bytes_limited;
use actix_web::http::header::{HeaderName, HeaderValue};
use actix_web::http::{Method, Uri};
use actix_web::test::TestRequest;
use actix_web::web::{Bytes, Data, Payload};
use bus::Bus;
use clap::Parser as _;
use model::ProcessId;
use state::Replica;
use tokio_util::sync::CancellationToken;

use crate::settings::Limits;
use crate::{Api, Args, Colocated, Parts, serve};

/// Parts of the paths of streams that do not end. Their bodies are not read.
const ENDLESS: [&str; 2] = ["event", "monitor"];
/// Maximum size of a response, in bytes. Clusters of targets are small.
const RESPONSE_BYTES_MAX: usize = 64 << 20;
/// How long a body may take. A longer one is a stream that does not end.
const BODY_TIMEOUT: Duration = Duration::from_millis(200);
/// Time that a request waits for the applier. That of targets responds at once.
const LEADER_TIMEOUT: Duration = Duration::from_millis(500);
/// Error of a request whose task on another thread panicked.
const TASK_LOST: &[u8] = b"a computation failed: ";

/// An API that is called directly.
pub struct InMemory(Data<Api>);

/// A request. Its parts need not be valid.
#[derive(Debug)]
pub struct Request<'a> {
    /// Method.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// Names and values of the headers.
    pub headers: Vec<(&'a str, &'a [u8])>,
    /// Body.
    pub body: &'a [u8],
}

/// A response.
#[derive(Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Body; empty for a stream that does not end.
    pub body: Bytes,
}

#[derive(clap::Parser)]
struct Flags {
    #[command(flatten)]
    args: Args,
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InMemory")
    }
}

impl InMemory {
    /// Starts an API. Its tasks run on the current runtime.
    pub fn start(bus: Bus, replica: Arc<Replica>) -> Self {
        let args = Flags::parse_from(["api"]).args;
        let limits = Limits { leader_timeout: LEADER_TIMEOUT, ..args.limits() };
        let parts = Parts {
            limits,
            args,
            addr: SocketAddr::from((Ipv4Addr::LOCALHOST, 4646)),
            colocated: Colocated::default(),
            contact: bus.contact(),
            bus,
            replica,
            process: ProcessId::from_bytes([9; 16]),
            stop: CancellationToken::new(),
        };
        Self(parts.start().0)
    }

    /// The response to a request; `None` if the HTTP server would refuse the request itself.
    ///
    /// # Panics
    /// If the response is too large, or a part of the work panicked on another thread.
    pub async fn respond(&self, request: &Request<'_>) -> Option<Response> {
        let method = Method::from_bytes(request.method.as_bytes()).ok()?;
        // `TestRequest` takes a text, and panics if that is not a URI.
        request.target.parse::<Uri>().ok()?;
        let mut parts = TestRequest::default().method(method).uri(request.target);
        for (name, value) in &request.headers {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            parts = parts.append_header((name, HeaderValue::from_bytes(value).ok()?));
        }
        let (http_request, mut payload) = parts.set_payload(request.body.to_vec()).to_http_parts();
        let payload = Payload::from_request(&http_request, &mut payload).await.ok()?;
        // Boxed, because the handlers' futures are large.
        let response = Box::pin(serve::serve(Data::clone(&self.0), http_request, payload)).await;
        let status = response.status().as_u16();
        let is_endless = ENDLESS.iter().any(|part| request.target.contains(part));
        let body = if is_endless { Bytes::new() } else { received(response.into_body()).await };
        let is_lost = status == 500 && body.starts_with(TASK_LOST);
        assert!(!is_lost, "a part of the work panicked on another thread");
        Some(Response { status, body })
    }
}

/// The whole body; empty if it does not end, or breaks off.
async fn received(body: actix_web::body::BoxBody) -> Bytes {
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes_limited(body, RESPONSE_BYTES_MAX)).await {
        Ok(Ok(Ok(body))) => body,
        Ok(Err(_)) => panic!("the response is larger than {RESPONSE_BYTES_MAX} bytes"),
        Ok(Ok(Err(_))) | Err(_) => Bytes::new(),
    }
}
