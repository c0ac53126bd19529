//! Attacks by connections: many, slow, half-closed, silent, or left in the middle.

use std::time::Duration;

use serde_json::json;
use tests::harness::api::Api;
use tests::harness::jobs;
use tokio::time::interval;

use crate::attack::{Attack, Outcome, Size, at_once, ensure};
use crate::scene::Scene;
use crate::socket::{Socket, request};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "slow-heads",
        does: "500 connections send one byte of a header a second (slow loris)",
        expected: "each is closed within ten seconds",
        size: Size::Full,
        run: |scene| Box::pin(slow_heads(scene)),
    },
    Attack {
        name: "slow-bodies",
        does: "300 connections announce a body of 100,000 bytes, send four a second, and leave",
        expected: "nothing; the connections are closed when they have left",
        size: Size::Full,
        run: |scene| Box::pin(slow_bodies(scene)),
    },
    Attack {
        name: "silent-connections",
        does: "2,000 connections send nothing",
        expected: "each is closed within ten seconds",
        size: Size::Full,
        run: |scene| Box::pin(silent_connections(scene)),
    },
    Attack {
        name: "half-closed",
        does: "500 clients send a blocking query and end their sending side",
        expected: "each connection is closed within two seconds",
        size: Size::Full,
        run: |scene| Box::pin(half_closed(scene)),
    },
    Attack {
        name: "idle-queries",
        does: "10,000 blocking queries wait while 1,000 jobs a second are registered",
        expected: "every registration is acknowledged and kept",
        size: Size::Full,
        run: |scene| Box::pin(idle_queries(scene)),
    },
    Attack {
        name: "connection-churn",
        does: "5,000 connections are opened, send half a line, and are closed",
        expected: "nothing",
        size: Size::Full,
        run: |scene| Box::pin(connection_churn(scene)),
    },
    Attack {
        name: "left-in-the-middle",
        does: "400 clients ask for a long list and reset the connection after its first bytes",
        expected: "nothing; no list is rendered on",
        size: Size::Full,
        run: |scene| Box::pin(left_in_the_middle(scene)),
    },
    Attack {
        name: "pipelining",
        does: "8 connections send 2,000 requests each before they read",
        expected: "2,000 answers each",
        size: Size::Full,
        run: |scene| Box::pin(pipelining(scene)),
    },
];

/// Time within which the server closes a connection that has sent no whole request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A query that no change answers.
const BLOCKING: &str = "/v1/namespaces?index=1000000000&wait=5m";

async fn open(scene: &Scene, count: usize) -> Vec<Socket> {
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        sockets.push(scene.socket().await);
    }
    sockets
}

/// Sends something on every connection.
async fn send_all(sockets: &mut [Socket], bytes: &[u8]) {
    for socket in sockets {
        // The server may have closed it, as it should sooner or later.
        socket.send(bytes).await;
    }
}

async fn expect_closed(sockets: Vec<Socket>, within: Duration) -> Outcome {
    let end = telemetry::clock::monotonic() + within;
    for mut socket in sockets {
        let left = end.saturating_duration_since(telemetry::clock::monotonic());
        let is_closed = socket.is_closed_within(left.max(Duration::from_millis(100))).await;
        ensure(is_closed, || format!("a connection is still open after {within:?}"))?;
    }
    Ok(())
}

async fn slow_heads(scene: &Scene) -> Outcome {
    let mut sockets = open(scene, 500).await;
    send_all(&mut sockets, b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ").await;
    let mut due = interval(Duration::from_secs(1));
    for _ in 0..HEAD_WITHIN.as_secs() {
        due.tick().await;
        send_all(&mut sockets, b"a").await;
    }
    expect_closed(sockets, Duration::from_secs(1)).await
}

async fn slow_bodies(scene: &Scene) -> Outcome {
    let mut sockets = open(scene, 300).await;
    let head = b"PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{";
    send_all(&mut sockets, head).await;
    let mut due = interval(Duration::from_millis(250));
    for _ in 0..16 {
        due.tick().await;
        send_all(&mut sockets, b" ").await;
    }
    Ok(())
}

async fn silent_connections(scene: &Scene) -> Outcome {
    let sockets = open(scene, 2_000).await;
    expect_closed(sockets, HEAD_WITHIN).await
}

async fn half_closed(scene: &Scene) -> Outcome {
    let mut sockets = open(scene, 500).await;
    send_all(&mut sockets, &request(&scene.host(), "GET", BLOCKING, "", b"")).await;
    for socket in &mut sockets {
        socket.end_sending().await;
    }
    expect_closed(sockets, Duration::from_secs(2)).await
}

async fn idle_queries(scene: &Scene) -> Outcome {
    /// Number of clients that write, the interval of each, and how often each writes: 1,000 a second for five seconds.
    const WRITERS: usize = 40;
    const INTERVAL: Duration = Duration::from_millis(40);
    const WRITES: u64 = 125;
    let mut queries = open(scene, 10_000).await;
    send_all(&mut queries, &request(&scene.host(), "GET", BLOCKING, "", b"")).await;
    let host = scene.host();
    let failures = at_once(WRITERS, |writer| {
        let api = Api::new(host.clone());
        async move {
            let id = format!("storm-{writer}");
            let mut due = interval(INTERVAL);
            let mut acknowledged = None;
            for mark in 0..WRITES {
                due.tick().await;
                let mut job = jobs::mock_service(&id, 0);
                job["Job"]["Meta"] = json!({ "mark": mark.to_string() });
                match api.try_put("/v1/jobs", &job).await {
                    Ok(_) => acknowledged = Some(mark.to_string()),
                    Err(error) => return Some(format!("{id}: {error}")),
                }
            }
            let found = api.try_get(&format!("/v1/job/{id}")).await.unwrap_or_default();
            let is_kept = found["Meta"]["mark"].as_str() == acknowledged.as_deref();
            (!is_kept).then(|| format!("{id}: acknowledged was {acknowledged:?}, found {}", found["Meta"]))
        }
    })
    .await;
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    ensure(failures.is_empty(), || failures.join("; "))?;
    // The queries still wait.
    let mut first = queries.swap_remove(0);
    let is_closed = first.is_closed_within(Duration::from_millis(100)).await;
    ensure(!is_closed, || "a blocking query was cut off".to_owned())?;
    Ok(())
}

async fn connection_churn(scene: &Scene) -> Outcome {
    let host = scene.host();
    at_once(20, |_| {
        let host = host.clone();
        async move {
            for _ in 0..250 {
                Socket::open(&host).await.send(b"GET /v1/jo").await;
            }
        }
    })
    .await;
    Ok(())
}

async fn left_in_the_middle(scene: &mut Scene) -> Outcome {
    scene.make_crowd().await?;
    let host = scene.host();
    let request = request(&host, "GET", "/v1/jobs?meta=true", "", b"");
    at_once(20, |_| {
        let (host, request) = (host.clone(), request.clone());
        async move {
            for _ in 0..20 {
                let mut socket = Socket::open_narrow(&host).await;
                socket.send(&request).await;
                // What remains unread makes the kernel reset the connection.
                socket.read_bytes(1).await;
            }
        }
    })
    .await;
    Ok(())
}

async fn pipelining(scene: &Scene) -> Outcome {
    const REQUESTS: usize = 2_000;
    let host = scene.host();
    let one = request(&host, "GET", "/v1/status/leader", "", b"");
    let last = request(&host, "GET", "/v1/status/leader", "Connection: close\r\n", b"");
    let all = [one.repeat(REQUESTS - 1), last].concat();
    let counts = at_once(8, |_| {
        let (host, all) = (host.clone(), all.clone());
        async move {
            let mut socket = Socket::open(&host).await;
            socket.send(&all).await;
            let received = socket.read_bytes(usize::MAX).await;
            String::from_utf8_lossy(&received).matches("HTTP/1.1 200").count()
        }
    })
    .await;
    ensure(counts.iter().all(|count| *count == REQUESTS), || {
        format!("{counts:?} answers to {REQUESTS} requests")
    })?;
    Ok(())
}
