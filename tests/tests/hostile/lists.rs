//! Attacks by long lists and by the cache of responses.

use std::time::Duration;

use tests::harness::jobs;
use tokio::time::sleep;

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect};
use crate::scene::Scene;
use crate::socket::{Answer, Socket, get, request};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "pretty-long-list",
        does: "16 clients ask for 2,000 jobs with 4 MB of metadata, indented (`?pretty`)",
        expected: "the list, or 503",
        size: Size::Full,
        run: |scene| Box::pin(pretty_long_list(scene)),
    },
    Attack {
        name: "compressed-long-list",
        does: "16 clients ask for the same list, compressed",
        expected: "the list, or 503",
        size: Size::Full,
        run: |scene| Box::pin(compressed_long_list(scene)),
    },
    Attack {
        name: "unread-lists",
        does: "200 clients ask for the same list and read nothing for five seconds",
        expected: "nothing of it stays in memory",
        size: Size::Full,
        run: |scene| Box::pin(unread_lists(scene)),
    },
    Attack {
        name: "unique-queries",
        does: "22,000 requests with unique queries of 60,000 bytes, 1.3 GB, against the cache of responses",
        expected: "an answer each",
        size: Size::Full,
        run: |scene| Box::pin(unique_queries(scene)),
    },
    Attack {
        name: "unique-short-queries",
        does: "40,000 requests with unique short queries",
        expected: "an answer each",
        size: Size::Full,
        run: |scene| Box::pin(unique_short_queries(scene)),
    },
    Attack {
        name: "woken-lists",
        does: "300 blocking queries of the long list, which each registration wakes",
        expected: "an answer each, or an error",
        size: Size::Full,
        run: |scene| Box::pin(woken_lists(scene)),
    },
];

/// The long list.
const LONG_LIST: &str = "/v1/jobs?meta=true";

/// The same request, `count` times at once.
async fn same(scene: &Scene, count: usize, path: &str, headers: &str) -> Vec<Answer> {
    let host = scene.host();
    let request = request(&host, "GET", path, headers, b"");
    at_once(count, |_| {
        let (host, request) = (host.clone(), request.clone());
        async move { Socket::open(&host).await.exchange(&request).await }
    })
    .await
}

async fn pretty_long_list(scene: &mut Scene) -> Outcome {
    scene.make_crowd().await?;
    for answer in same(scene, 16, &format!("{LONG_LIST}&pretty"), "").await {
        expect("an indented list", &answer, &[200, 503])?;
        let is_whole = answer.status != 200 || answer.text().trim_end().ends_with(']');
        ensure(is_whole, || format!("the list ends early, after {} bytes", answer.body.len()))?;
    }
    Ok(())
}

async fn compressed_long_list(scene: &mut Scene) -> Outcome {
    scene.make_crowd().await?;
    for answer in same(scene, 16, LONG_LIST, "Accept-Encoding: gzip\r\n").await {
        expect("a compressed list", &answer, &[200, 503])?;
    }
    Ok(())
}

async fn unread_lists(scene: &mut Scene) -> Outcome {
    scene.make_crowd().await?;
    let host = scene.host();
    let mut sockets = Vec::new();
    for number in 0..200 {
        let mut socket = Socket::open_narrow(&host).await;
        let path = format!("{LONG_LIST}&pretty&unique={}", number % 20);
        socket.send(&request(&host, "GET", &path, "", b"")).await;
        sockets.push(socket);
    }
    sleep(Duration::from_secs(5)).await;
    Ok(())
}

/// Sends requests with unique queries from eight clients, one after another on a connection of each.
async fn ask_unique(scene: &Scene, count: usize, padding: usize) -> Outcome {
    const CLIENTS: usize = 8;
    let host = scene.host();
    let padding = "u".repeat(padding);
    let failures = at_once(CLIENTS, |client| {
        let (host, padding) = (host.clone(), padding.clone());
        async move {
            let mut socket = Socket::open(&host).await;
            for number in (client..count).step_by(CLIENTS) {
                let path = format!("/v1/jobs?per_page=1&unique={number}{padding}");
                let answer = socket.exchange(&request(&host, "GET", &path, "", b"")).await;
                if ![200, 414, 431, 503].contains(&answer.status) {
                    return Some(answer.summary());
                }
                if answer.header("connection") == "close" {
                    socket = Socket::open(&host).await;
                }
            }
            None
        }
    })
    .await;
    let failures: Vec<String> = failures.into_iter().flatten().collect();
    ensure(failures.is_empty(), || failures.join("; "))?;
    Ok(())
}

async fn unique_queries(scene: &Scene) -> Outcome {
    ask_unique(scene, 22_000, 60_000).await
}

async fn unique_short_queries(scene: &Scene) -> Outcome {
    ask_unique(scene, 40_000, 0).await
}

async fn woken_lists(scene: &mut Scene) -> Outcome {
    scene.make_crowd().await?;
    let host = scene.host();
    let index = scene.get("/v1/jobs?per_page=1").await.header("x-nomad-index").to_owned();
    let registering = async {
        for number in 0..20 {
            scene.register(&jobs::mock_service(&format!("waking-{number}"), 0)).await;
            sleep(Duration::from_millis(50)).await;
        }
    };
    let waiting = at_once(300, |_| {
        let (host, path) = (host.clone(), format!("{LONG_LIST}&index={index}&wait=5s"));
        async move { get(&host, &path).await }
    });
    let (answers, ()) = tokio::join!(waiting, registering);
    for answer in answers {
        expect("a blocking query of a long list", &answer, &[200, 429, 503])?;
    }
    Ok(())
}
