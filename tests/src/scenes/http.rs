//! Requests sent as they stand: paths are neither escaped nor straightened, redirects are not followed, and nothing is
//! added to the headers.

use std::collections::BTreeMap;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

/// How long an answer may take that is not read as a stream.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) method: String,
    /// Path and query.
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    /// In lower case; what stands there twice is joined by commas.
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Vec<u8>,
    /// How long it took to its end.
    pub(super) took: Duration,
}

impl Answer {
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Sends a request and receives the answer; with `read`, for so long at most, or until that is enough.
///
/// # Errors
/// If there is none, or it does not come to its end in time.
pub(super) async fn send(
    address: &str,
    request: &Request,
    read: Option<Duration>,
    is_enough: impl Fn(&[u8]) -> bool,
) -> Result<Answer, String> {
    let began = Instant::now();
    let end = began + read.unwrap_or(PATIENCE);
    let late = |_| format!("the answer did not end within {} s", PATIENCE.as_secs());
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let hangs_up = HangUp(connection.abort_handle());
    let mut outgoing = hyper::Request::builder().method(&*request.method).uri(&*request.path);
    outgoing = outgoing.header("host", address);
    for (name, value) in &request.headers {
        outgoing = outgoing.header(name, value);
    }
    let outgoing =
        outgoing.body(Full::new(Bytes::from(request.body.clone()))).map_err(|error| error.to_string())?;
    let incoming = timeout_at(end, sender.send_request(outgoing)).await.map_err(late)?;
    let mut incoming = incoming.map_err(|error| error.to_string())?;
    let mut answer = Answer { status: incoming.status().as_u16(), ..Answer::default() };
    for (name, value) in incoming.headers() {
        let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
        let joined = answer.headers.entry(name.as_str().to_owned());
        joined.and_modify(|before| *before = format!("{before}, {value}")).or_insert(value);
    }
    while read.is_none() || !is_enough(&answer.body) {
        let frame = match timeout_at(end, incoming.body_mut().frame()).await {
            Ok(Some(frame)) => frame.map_err(|error| error.to_string())?,
            Ok(None) => break,
            Err(_) if read.is_some() => break,
            Err(elapsed) => return Err(late(elapsed)),
        };
        answer.body.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    drop(hangs_up);
    answer.took = began.elapsed();
    Ok(answer)
}

/// Closes a connection when nobody listens any more.
struct HangUp(tokio::task::AbortHandle);

impl Drop for HangUp {
    fn drop(&mut self) {
        self.0.abort();
    }
}
