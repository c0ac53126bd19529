//! Sends requests unchanged: paths are neither escaped nor normalized, redirects are not followed, and no headers are
//! added.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// How long a response may take, unless it is read as a stream.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// A response.
#[derive(Debug, Clone, Default)]
pub(super) struct Response {
    pub(super) status: u16,
    /// Names are in lower case. Repeated headers are joined by commas.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
    /// How long the whole response took.
    pub(super) took: Duration,
}

impl Response {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request and receives the response. With `read`, stops after that time, or when `is_enough` returns true.
///
/// # Errors
/// If there is no response, or it is not complete in time.
pub(super) async fn send(
    address: &str,
    request: &Request,
    read: Option<Duration>,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Result<Response, String> {
    let began = Instant::now();
    let end = began + read.unwrap_or(TIMEOUT);
    let late = |_| format!("the response did not end within {} s", TIMEOUT.as_secs());
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let abort_on_drop = AbortOnDrop(connection.abort_handle());
    let mut outgoing = hyper::Request::builder().method(&*request.method).uri(&*request.path);
    outgoing = outgoing.header("host", address);
    for (name, value) in &request.headers {
        outgoing = outgoing.header(name, value);
    }
    let outgoing =
        outgoing.body(Full::new(Bytes::from(request.body.clone()))).map_err(|error| error.to_string())?;
    let incoming = timeout_at(end, sender.send_request(outgoing)).await.map_err(late)?;
    let mut incoming = incoming.map_err(|error| error.to_string())?;
    let mut response = Response { status: incoming.status().as_u16(), ..Response::default() };
    for (name, value) in incoming.headers() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let joined = response.headers.entry(name.as_str().to_owned());
        joined.and_modify(|before| *before = format!("{before}, {value}")).or_insert(value);
    }
    while read.is_none() || !is_enough(&response.body) {
        let frame = match timeout_at(end, incoming.body_mut().frame()).await {
            Ok(Some(frame)) => frame.map_err(|error| error.to_string())?,
            Ok(None) => break,
            Err(_) if read.is_some() => break,
            Err(elapsed) => return Err(late(elapsed)),
        };
        response.body.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    drop(abort_on_drop);
    response.took = began.elapsed();
    Ok(response)
}

/// Closes the connection when it is dropped.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}
