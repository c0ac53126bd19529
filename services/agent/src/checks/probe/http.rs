//! The HTTP request of a check: a status from 200 to 399 is a success, whatever the body is. Of the body of a failure the
//! beginning is kept.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderName, TRANSFER_ENCODING, USER_AGENT};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use telemetry::chain;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::checks::check::HttpRequest;
use crate::checks::core::{Outcome, Status};

/// The maximum length of the output of a check, in bytes.
const OUTPUT_BYTES_MAX: usize = 3 << 10;
/// The maximum size of the head of a response, in bytes. It also limits what is read of a body at once.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// The lowest and the highest status of a success.
const SUCCESS: std::ops::RangeInclusive<u16> = 200..=399;
/// The `User-Agent` of requests, unless the job gives one.
const AGENT: &str = "drover-check";
/// The characters that must be escaped in a path with a query. Escapes that are there already stay.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Headers that follow from the request and the connection, whatever the job says.
static OWN_HEADERS: [HeaderName; 3] = [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Sends a request and judges the response. Of the response, no more than the head and a few KiB are read.
pub(super) async fn ask<S>(
    stream: S,
    address: SocketAddr,
    request: &HttpRequest,
    deadline: Instant,
) -> Outcome
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = match build(address, request) {
        Ok(request) => request,
        Err(error) => return Outcome::failure(&format!("the request is not valid: {}", chain(&error))),
    };
    let handshake = http1::Builder::new().max_buf_size(HEAD_BYTES_MAX).handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = match handshake {
        Ok(parts) => parts,
        Err(error) => return Outcome::failure(&chain(&error)),
    };
    // Dropping it closes the connection.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let response = match sender.send_request(request).await {
        Ok(response) => response,
        Err(error) => return Outcome::failure(&format!("no response from {address}: {}", chain(&error))),
    };
    let code = response.status().as_u16();
    if SUCCESS.contains(&code) {
        return Outcome { status: Status::Success, code, output: "nomad: http ok".into() };
    }
    let output = beginning(response.into_body(), deadline).await;
    Outcome { status: Status::Failure, code, output: output.into() }
}

/// Builds the request.
fn build(address: SocketAddr, request: &HttpRequest) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
    let target = utf8_percent_encode(&request.target, ESCAPED).to_string();
    let mut built = Request::builder().method(&*request.method).uri(target).header(CONNECTION, "close");
    let given = |name: &HeaderName| request.headers.iter().any(|(given, _)| name == given.as_str());
    if !given(&HOST) {
        built = built.header(HOST, address.to_string());
    }
    if !given(&USER_AGENT) {
        built = built.header(USER_AGENT, AGENT);
    }
    for (name, value) in &request.headers {
        if OWN_HEADERS.iter().all(|own| own != name.as_str()) {
            built = built.header(name.as_str(), value.as_str());
        }
    }
    built.body(Full::new(Bytes::from(request.body.as_str().to_owned())))
}

/// The beginning of a body, as text: what arrives until the deadline, up to the limit.
async fn beginning(mut body: Incoming, deadline: Instant) -> String {
    let mut read = Vec::new();
    while read.len() < OUTPUT_BYTES_MAX {
        let Ok(Some(Ok(frame))) = timeout_at(deadline, body.frame()).await else { break };
        if let Some(data) = frame.data_ref() {
            let room = OUTPUT_BYTES_MAX.saturating_sub(read.len());
            read.extend(data.iter().take(room));
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}
