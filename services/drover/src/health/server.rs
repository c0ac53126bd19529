//! The health endpoint: a small HTTP server on a thread of its own, so that it answers even while the process's event loop
//! is stuck. Each connection serves one request, and its size and time are limited.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::thread;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use telemetry::clock;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::board::Board;
use super::report::Report;

/// Maximum number of connections. Beyond that, the oldest is closed: requests are answered within milliseconds, so the
/// oldest connections are those that only stay open.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send the request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a connection may stay open.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of the request head.
const HEAD_BYTES_MAX: usize = 16 << 10;
const HEADERS_MAX: usize = 64;
/// The pause after a connection could not be accepted, for example because too many files are open.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";
/// The content type that Prometheus expects.
const EXPOSITION: &str = "text/plain; version=0.0.4; charset=utf-8";
const METHODS: &str = "GET, HEAD";

/// Starts the server on a thread that lasts until the process ends.
///
/// # Errors
/// If no thread can be started or the listener cannot be registered.
pub(super) fn start(listener: std::net::TcpListener, board: Board) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = {
        let _entered = runtime.enter();
        TcpListener::from_std(listener)?
    };
    let serve = move || runtime.block_on(serve(&listener, &board));
    thread::Builder::new().name("health".to_owned()).spawn(serve).map(drop)
}

async fn serve(listener: &TcpListener, board: &Board) {
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(serve_connection(stream, board.clone())).abort_handle());
    }
}

/// Serves one request.
async fn serve_connection(stream: TcpStream, board: Board) {
    let service = service_fn(|request: hyper::Request<_>| {
        let response = respond(request.method(), request.uri().path(), &board);
        async { Ok::<_, Infallible>(response) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // A slow or invalid client, or one that disconnected, cannot be answered.
    let _ = timeout(CONNECTION_TIMEOUT, connection).await;
}

fn respond(method: &Method, path: &str, board: &Board) -> Response<Full<Bytes>> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let text = format!("the method {method} is not allowed: expected {METHODS}\n");
        let mut refused = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static(METHODS));
        return refused;
    }
    match path {
        "/live" => report_response(&board.live(clock::monotonic())),
        "/ready" => report_response(&board.ready(clock::monotonic())),
        "/metrics" => response(StatusCode::OK, EXPOSITION, telemetry::metrics::process_text()),
        _ => response(StatusCode::NOT_FOUND, TEXT, "there are /live, /ready and /metrics\n".to_owned()),
    }
}

fn report_response(report: &Report) -> Response<Full<Bytes>> {
    let status = if report.is_ok() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = serde_json::to_string(report).expect("a report can be written as JSON") + "\n";
    response(status, JSON, text)
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};

    use tokio_util::sync::CancellationToken;

    use super::super::facts::Parts;
    use super::*;

    fn started(stop: CancellationToken) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        start(listener, Board::new("it", Parts::NONE, stop)).unwrap();
        addr
    }

    /// All that the server sends until it closes the connection.
    fn ask(addr: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(CONNECTION_TIMEOUT * 2)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    fn get(addr: SocketAddr, path: &str) -> String {
        ask(addr, &format!("GET {path} HTTP/1.1\r\nHost: it\r\n\r\n"))
    }

    #[test]
    fn answers_with_a_status_and_a_report() {
        let stop = CancellationToken::new();
        let addr = started(stop.clone());
        let live = get(addr, "/live?verbose");
        assert!(live.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"), "{live}");
        assert!(live.contains("\r\nconnection: close\r\n"), "{live}");
        assert!(
            live.contains("{\"status\":\"live\",\"service\":\"it\",\"role\":\"\",\"checks\":[{"),
            "{live}"
        );
        let not_ready = get(addr, "/ready");
        assert!(not_ready.starts_with("HTTP/1.1 503 "), "{not_ready}");
        assert!(not_ready.contains("\"status\":\"not ready\""), "{not_ready}");
        stop.cancel();
        assert!(get(addr, "/ready").contains("the process is ending"));
        assert!(get(addr, "/live").starts_with("HTTP/1.1 200 "));
        assert!(
            get(addr, "/metrics").starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4")
        );
    }

    #[test]
    fn a_head_has_no_body_and_other_requests_are_refused() {
        let addr = started(CancellationToken::new());
        let head = ask(addr, "HEAD /live HTTP/1.1\r\nHost: it\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
        assert!(get(addr, "/").starts_with("HTTP/1.1 404 "));
        let posted = ask(addr, "POST /live HTTP/1.1\r\nHost: it\r\nContent-Length: 0\r\n\r\n");
        assert!(posted.starts_with("HTTP/1.1 405 "), "{posted}");
        assert!(posted.contains("\r\nallow: GET, HEAD\r\n"), "{posted}");
    }

    #[test]
    fn large_heads_are_refused() {
        let addr = started(CancellationToken::new());
        let many = ask(addr, &format!("GET /live HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(HEADERS_MAX + 1)));
        assert!(many.starts_with("HTTP/1.1 431 "), "{many}");
        let long = format!("GET /live HTTP/1.1\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
        let long = ask(addr, &long);
        assert!(long.starts_with("HTTP/1.1 431 "), "{long}");
    }

    #[test]
    fn clients_that_only_hold_connections_keep_nobody_out() {
        let addr = started(CancellationToken::new());
        let mut slow: Vec<TcpStream> = (0..CONNECTIONS_MAX * 3)
            .map(|_| {
                let mut stream = TcpStream::connect(addr).unwrap();
                stream.write_all(b"GET /live HT").unwrap();
                stream
            })
            .collect();
        assert!(get(addr, "/live").starts_with("HTTP/1.1 200 "));
        // The first connection was closed for newer ones, and the last one after its timeout.
        for stream in [0, CONNECTIONS_MAX * 3 - 1] {
            let stream = &mut slow[stream];
            stream.set_read_timeout(Some(CONNECTION_TIMEOUT * 2)).unwrap();
            let mut response = Vec::new();
            let ended = stream.read_to_end(&mut response);
            assert!(
                ended.is_ok() || ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
            );
        }
    }
}
