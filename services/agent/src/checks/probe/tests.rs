//! Tests of probes against services of this test: good ones, and some that want to harm the agent.

use std::sync::Arc;

use model::Text;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use super::*;
use crate::checks::check::Tls;
use crate::checks::check::tests::tcp;

/// More than any of these tests takes.
const LONG: Duration = Duration::from_secs(60);

/// A service that answers each connection with the same bytes and closes it. It returns the first request.
async fn service(answer: impl Into<Vec<u8>>) -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let answer = answer.into();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let request = read_head(&mut stream).await;
        // Fails if the probe has read enough.
        let _ = stream.write_all(&answer).await;
        let _ = stream.shutdown().await;
        request
    });
    (address, served)
}

/// The head of a request, and what arrives with its end.
async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut read = Vec::new();
    while !String::from_utf8_lossy(&read).contains("\r\n\r\n") {
        let mut part = [0; 1_024];
        match stream.read(&mut part).await {
            Ok(0) | Err(_) => break,
            Ok(count) => read.extend(part.iter().take(count)),
        }
    }
    String::from_utf8_lossy(&read).into_owned()
}

fn get(target: &str) -> HttpRequest {
    HttpRequest {
        tls: None,
        method: "GET".into(),
        target: target.into(),
        headers: Vec::new(),
        body: Text::default(),
    }
}

fn check(address: SocketAddr, request: Option<HttpRequest>) -> Check {
    Check { runner: Runner::Agent(Ok(Probe { address, namespace: None, request })), ..tcp("a", address) }
}

async fn probe(address: SocketAddr, request: Option<HttpRequest>) -> Outcome {
    Prober::default().probe(&check(address, request), LONG).await
}

/// The outcome of a request that gets these bytes.
async fn answered(bytes: impl Into<Vec<u8>>) -> Outcome {
    let (address, _served) = service(bytes).await;
    probe(address, Some(get("/"))).await
}

/// An address at which nothing listens.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

//
#[tokio::test]
async fn a_tcp_check_passes_if_the_port_is_open() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let outcome = probe(listener.local_addr().unwrap(), None).await;
    assert_eq!(outcome, Outcome { status: Status::Success, code: 0, output: "nomad: tcp ok".into() });
    let address = closed().await;
    let outcome = probe(address, None).await;
    assert_eq!(outcome.status, Status::Failure);
    assert!(
        outcome.output.starts_with(&format!("nomad: cannot connect to {address}: ")),
        "{}",
        outcome.output
    );
}

//
#[tokio::test]
async fn an_http_check_passes_by_a_status_from_200_to_399() {
    for (code, passes) in
        [(200, true), (204, true), (302, true), (399, true), (400, false), (429, false), (503, false)]
    {
        let answer =
            format!("HTTP/1.1 {code} X\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n");
        let outcome = answered(answer).await;
        assert_eq!((outcome.status == Status::Success, outcome.code), (passes, code), "{outcome:?}");
        assert_eq!(&*outcome.output, if passes { "nomad: http ok" } else { "" });
    }
}

//
#[tokio::test]
async fn the_request_is_the_one_that_the_job_describes() {
    let (address, served) = service("HTTP/1.1 200 OK\r\n\r\n").await;
    let request = HttpRequest {
        method: "POST".into(),
        target: "/a b?x=1%20".into(),
        headers: vec![
            ("Accept".into(), "text/html".into()),
            ("accept".into(), "text/plain".into()),
            ("Content-Length".into(), "1000".into()),
            ("Host".into(), "site.example".into()),
        ],
        body: "hello".into(),
        ..get("")
    };
    assert_eq!(probe(address, Some(request)).await.status, Status::Success);
    let sent = served.await.unwrap();
    assert!(sent.starts_with("POST /a%20b?x=1%20 HTTP/1.1\r\n"), "{sent}");
    for line in ["accept: text/html", "accept: text/plain", "content-length: 5", "host: site.example"] {
        assert!(sent.to_lowercase().contains(&format!("{line}\r\n")), "{line}: {sent}");
    }
    assert!(!sent.contains("1000") && sent.contains("drover-check"), "{sent}");
}

#[tokio::test]
async fn requests_that_cannot_be_sent_fail_with_the_reason() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let header = HttpRequest { headers: vec![("a b".into(), "x".into())], ..get("/") };
    let value = HttpRequest { headers: vec![("a".into(), "x\r\ny: z".into())], ..get("/") };
    let method = HttpRequest { method: "GE T".into(), ..get("/") };
    for request in [header, value, method] {
        let outcome = probe(address, Some(request)).await;
        assert_eq!(outcome.status, Status::Failure);
        assert!(outcome.output.starts_with("nomad: the request is not valid: "), "{}", outcome.output);
    }
    let unknown =
        Check { runner: Runner::Agent(Err("port \"x\" is unknown".into())), ..check(address, None) };
    let outcome = Prober::default().probe(&unknown, LONG).await;
    assert_eq!((outcome.status, &*outcome.output), (Status::Failure, "nomad: port \"x\" is unknown"));
}

//
#[tokio::test]
async fn of_a_failure_the_beginning_of_the_body_is_kept() {
    let body = "x".repeat(100 << 10);
    let outcome = answered(format!("HTTP/1.1 500 X\r\ncontent-length: {}\r\n\r\n{body}", body.len())).await;
    assert_eq!((outcome.status, outcome.code, outcome.output.len()), (Status::Failure, 500, 3 << 10));
    let outcome = answered("HTTP/1.1 503 X\r\ncontent-length: 4\r\n\r\ndown").await;
    assert_eq!(&*outcome.output, "down");
    let outcome = answered(b"HTTP/1.1 503 X\r\ncontent-length: 2\r\n\r\n\xff\xfe".to_vec()).await;
    assert_eq!(&*outcome.output, "\u{fffd}\u{fffd}", "what is not text is shown as such");
}

#[tokio::test]
async fn garbage_and_endless_heads_are_failures() {
    let outcome = answered("220 mail.example ESMTP\r\n").await;
    assert_eq!((outcome.status, outcome.code), (Status::Failure, 0), "{}", outcome.output);
    let head = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(1 << 20));
    let outcome = answered(head).await;
    assert_eq!((outcome.status, outcome.code), (Status::Failure, 0), "{}", outcome.output);
    let outcome = answered("").await;
    assert_eq!(outcome.status, Status::Failure, "the connection was closed");
}

/// The body never ends; the agent reads no more than it keeps, and closes the connection.
#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_head(&mut stream).await;
        stream.write_all(b"HTTP/1.1 500 X\r\n\r\n").await.unwrap();
        let mut sent = 0usize;
        while stream.write_all(&[b'x'; 64 << 10]).await.is_ok() {
            sent += 64 << 10;
        }
        sent
    });
    let outcome = probe(address, Some(get("/"))).await;
    assert_eq!((outcome.code, outcome.output.len()), (500, 3 << 10));
    assert!(served.await.unwrap() < 100 << 20, "the connection was closed");
}

#[tokio::test]
async fn a_service_that_never_answers_fails_at_the_timeout() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let limit = Duration::from_millis(50);
    let outcome = Prober::default().probe(&check(address, Some(get("/"))), limit).await;
    let expected = format!("nomad: no answer from {address} within 50ms");
    assert_eq!((outcome.status, &*outcome.output), (Status::Failure, &*expected));
}

/// A service with TLS and a certificate that nobody trusts.
async fn tls_service() -> (SocketAddr, JoinHandle<()>) {
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(certified.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(tokio_rustls::rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certified.cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let served = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            // Fails if the probe refuses the certificate.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            read_head(&mut stream).await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.shutdown().await;
        }
    });
    (address, served)
}

//
#[tokio::test]
async fn certificates_are_verified_unless_the_job_says_otherwise() {
    let (address, served) = tls_service().await;
    let https = |verify| HttpRequest { tls: Some(Tls { verify, server_name: Text::default() }), ..get("/") };
    let outcome = probe(address, Some(https(true))).await;
    assert_eq!(outcome.status, Status::Failure);
    assert!(
        outcome.output.starts_with(&format!("nomad: no TLS connection to {address}: ")),
        "{}",
        outcome.output
    );
    let outcome = probe(address, Some(https(false))).await;
    assert_eq!((outcome.status, &*outcome.output), (Status::Success, "nomad: http ok"));
    served.abort();
}

#[tokio::test]
async fn a_namespace_that_is_gone_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gone = Probe { address, namespace: Some("/nonexistent/namespace".into()), request: None };
    let outcome = Prober::default()
        .probe(&Check { runner: Runner::Agent(Ok(gone)), ..check(address, None) }, LONG)
        .await;
    assert!(
        outcome.output.starts_with(&format!("nomad: cannot connect to {address}: ")),
        "{}",
        outcome.output
    );
}
