//! Attacks by streams that a client begins and does not read: events, the log of the server, logs of tasks.

use std::time::Duration;

use serde_json::json;
use tests::harness::jobs;
use tokio::time::{interval, sleep, timeout};

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect};
use crate::scene::Scene;
use crate::socket::{Socket, ask, get, request};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "unread-events",
        does: "100 event streams that nobody reads, beside 1,000 registrations",
        expected: "nothing of it stays in memory",
        size: Size::Full,
        run: |scene| Box::pin(unread_events(scene)),
    },
    Attack {
        name: "events-from-the-start",
        does: "100 event streams with `?index=1`, which begin as early as they can",
        expected: "a stream, or an error",
        size: Size::Full,
        run: |scene| Box::pin(events_from_the_start(scene)),
    },
    Attack {
        name: "too-many-events",
        does: "1,500 event streams at once",
        expected: "512 streams, then 429; readers of lists are served",
        size: Size::Full,
        run: |scene| Box::pin(too_many_events(scene)),
    },
    Attack {
        name: "odd-topics",
        does: "topics that do not exist, 5,000 topics, indexes that are no numbers",
        expected: "a stream, or an error",
        size: Size::Full,
        run: |scene| Box::pin(odd_topics(scene)),
    },
    Attack {
        name: "unread-monitors",
        does: "200 streams of the server's log at the level trace that nobody reads",
        expected: "a stream, or 429",
        size: Size::Full,
        run: |scene| Box::pin(unread_monitors(scene)),
    },
    Attack {
        name: "log-followers",
        does: "300 clients follow the output of a task that prints nothing",
        expected: "another file of the node is read within a second",
        size: Size::Full,
        run: |scene| Box::pin(log_followers(scene)),
    },
    Attack {
        name: "unread-logs",
        does: "50 clients follow a task that prints without end, and read nothing",
        expected: "another file of the node is read within a second",
        size: Size::Full,
        run: |scene| Box::pin(unread_logs(scene)),
    },
];

/// Opens streams and leaves them unread.
async fn open_unread(scene: &Scene, count: usize, path: &str) -> Vec<Socket> {
    let host = scene.host();
    let request = request(&host, "GET", path, "", b"");
    let mut sockets = Vec::with_capacity(count);
    for _ in 0..count {
        let mut socket = Socket::open_narrow(&host).await;
        socket.send(&request).await;
        sockets.push(socket);
    }
    sockets
}

async fn unread_events(scene: &Scene) -> Outcome {
    let streams = open_unread(scene, 100, "/v1/event/stream?topic=*").await;
    let host = scene.host();
    let failures = at_once(10, |writer| {
        let host = host.clone();
        async move {
            let mut failures = 0;
            for round in 0..100 {
                let mut job = jobs::mock_service(&format!("eventful-{writer}"), 0);
                job["Job"]["Meta"] = json!({ "round": round.to_string(), "long": "e".repeat(10_000) });
                let body = job.to_string();
                let answer = ask(&host, "PUT", "/v1/jobs", body.as_bytes()).await;
                failures += usize::from(answer.status != 200);
            }
            failures
        }
    })
    .await;
    drop(streams);
    let failed: usize = failures.iter().sum();
    ensure(failed == 0, || format!("{failed} registrations failed"))?;
    Ok(())
}

async fn events_from_the_start(scene: &Scene) -> Outcome {
    let mut streams = open_unread(scene, 100, "/v1/event/stream?index=1").await;
    sleep(Duration::from_secs(3)).await;
    for stream in &mut streams {
        let begin = stream.read_bytes(12).await;
        let begin = String::from_utf8_lossy(&begin).into_owned();
        ensure(begin.starts_with("HTTP/1.1 200") || begin.starts_with("HTTP/1.1 4"), || {
            format!("got {begin:?}")
        })?;
    }
    Ok(())
}

async fn too_many_events(scene: &Scene) -> Outcome {
    const STREAMS_MAX: usize = 512;
    let mut streams = open_unread(scene, 1_500, "/v1/event/stream?topic=Node").await;
    let mut refused = 0;
    for stream in &mut streams {
        // A stream that has begun sends its head with the first event or heartbeat.
        let Ok(begin) = timeout(Duration::from_millis(20), stream.read_bytes(12)).await else { continue };
        refused += usize::from(begin.starts_with(b"HTTP/1.1 429"));
    }
    let expected = streams.len() - STREAMS_MAX;
    ensure(refused >= expected, || format!("{refused} streams were refused; expected at least {expected}"))?;
    let answer = get(&scene.host(), "/v1/jobs?per_page=1").await;
    expect("a list beside many streams", &answer, &[200])?;
    Ok(())
}

async fn odd_topics(scene: &Scene) -> Outcome {
    let many = "topic=Job:a&".repeat(5_000);
    for query in [
        "topic=Nothing",
        "topic=",
        "topic=:",
        "topic=*:*:*",
        "topic=Job:%00",
        "index=x",
        "index=-1",
        &many[..],
    ] {
        let mut socket = scene.socket().await;
        socket.send(&request(&scene.host(), "GET", &format!("/v1/event/stream?{query}"), "", b"")).await;
        // The answer, or the beginning of the stream.
        let begin = timeout(Duration::from_millis(100), socket.read_bytes(12)).await.unwrap_or_default();
        let begin = String::from_utf8_lossy(&begin).into_owned();
        ensure(!begin.starts_with("HTTP/1.1 500"), || format!("{query}: {begin}"))?;
    }
    Ok(())
}

async fn unread_monitors(scene: &Scene) -> Outcome {
    let monitors = open_unread(scene, 200, "/v1/agent/monitor?log_level=trace").await;
    sleep(Duration::from_secs(3)).await;
    drop(monitors);
    Ok(())
}

/// Reads a file of an allocation five times, and expects each answer within a second.
async fn expect_files_served(scene: &Scene, alloc: &str) -> Outcome {
    let mut due = interval(Duration::from_millis(200));
    for _ in 0..5 {
        due.tick().await;
        let reading = scene.file("stat", alloc, "alloc/data/ready", "");
        match timeout(Duration::from_secs(1), reading).await {
            Ok(answer) => expect("a file beside those who follow logs", &answer, &[200])?,
            Err(_) => return Err("a file was not read within a second".to_owned().into()),
        }
    }
    Ok(())
}

async fn log_followers(scene: &Scene) -> Outcome {
    let script = "touch \"$NOMAD_ALLOC_DIR/data/ready\"; sleep 600";
    let alloc = scene.run_job(&jobs::service("quiet", script)).await?;
    scene.wait_until_ready(&alloc).await?;
    let path = format!("/v1/client/fs/logs/{alloc}?task=task&type=stdout&follow=true");
    let followers = open_unread(scene, 300, &path).await;
    sleep(Duration::from_secs(1)).await;
    let served = expect_files_served(scene, &alloc).await;
    drop(followers);
    served
}

async fn unread_logs(scene: &Scene) -> Outcome {
    let script = "touch \"$NOMAD_ALLOC_DIR/data/ready\"; \
                  while :; do seq 1 20000; sleep 0.05; done";
    let alloc = scene.run_job(&jobs::service("chatty", script)).await?;
    scene.wait_until_ready(&alloc).await?;
    let path = format!("/v1/client/fs/logs/{alloc}?task=task&type=stdout&follow=true");
    let mut followers = open_unread(scene, 50, &path).await;
    let served = expect_files_served(scene, &alloc).await;
    let begin = followers.swap_remove(0).read_bytes(12).await;
    ensure(begin.starts_with(b"HTTP/1.1 200"), || format!("got {:?}", String::from_utf8_lossy(&begin)))?;
    drop(followers);
    served
}
