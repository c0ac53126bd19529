//! Attacks on NATS: by clients without credentials, with those of a node, and with those of a service. What each may
//! send and receive is tested in `integration`; here they send as much and as oddly as they may.

use std::time::Duration;

use model::NodeId;
use model::node::Secret;
use nats_auth::Credentials;
use nats_auth::limits::{NODE_PAYLOAD_MAX, NODE_SUBSCRIPTIONS_MAX, SERVICE_PAYLOAD_MAX};
use serde_json::json;
use tests::harness::api::{array, text};
use tests::harness::raw_nats::{RawNats, Received};
use tests::harness::{AGENT, jobs};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use wire::command::Command;
use wire::feed::GetHead;
use wire::node::Heartbeat;
use wire::{Inbox, Role, Subject, Wire as _};

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect};
use crate::scene::Scene;
use crate::socket::{Socket, ask};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "nats-without-credentials",
        does: "50 clients log in to NATS without credentials",
        expected: "none is let in",
        size: Size::Quick,
        run: |scene| Box::pin(without_credentials(scene)),
    },
    Attack {
        name: "nats-garbage",
        does: "lines that are no protocol of NATS, lengths of 10^20, requests of HTTP, 1 MiB without a line break",
        expected: "the connection is closed",
        size: Size::Full,
        run: |scene| Box::pin(garbage(scene)),
    },
    Attack {
        name: "nats-silent-connections",
        does: "1,000 connections to NATS say nothing",
        expected: "nothing",
        size: Size::Full,
        run: |scene| Box::pin(silent_connections(scene)),
    },
    Attack {
        name: "unreadable-messages",
        does: "unknown kinds, versions and deadlines; bodies that are cut off, 100,000 deep, or lie about their length",
        expected: "a refusal; nobody ends",
        size: Size::Full,
        run: |scene| Box::pin(unreadable_messages(scene)),
    },
    Attack {
        name: "largest-messages",
        does: "30 messages as large as NATS permits to services and nodes, and larger ones",
        expected: "a refusal; larger ones end the connection",
        size: Size::Full,
        run: |scene| Box::pin(largest_messages(scene)),
    },
    Attack {
        name: "heartbeat-flood",
        does: "a node sends 100,000 unreadable heartbeats and 20,000 reports",
        expected: "others are served; the node stays ready",
        size: Size::Full,
        run: |scene| Box::pin(heartbeat_flood(scene)),
    },
    Attack {
        name: "guessed-secret",
        does: "with the node's credentials, 1,000 heartbeats with guessed secrets and higher boots",
        expected: "a refusal each; the node stays ready",
        size: Size::Full,
        run: |scene| Box::pin(guessed_secret(scene)),
    },
    Attack {
        name: "subscription-flood",
        does: "a node subscribes more often than it may",
        expected: "an error",
        size: Size::Full,
        run: |scene| Box::pin(subscription_flood(scene)),
    },
    Attack {
        name: "slow-subscriber",
        does: "a scheduler's credentials subscribe to all changes 20 times and read nothing, beside 500 registrations",
        expected: "nothing",
        size: Size::Full,
        run: |scene| Box::pin(slow_subscriber(scene)),
    },
];

/// A sender that NATS permits everything, so that services receive it.
const ANYBODY: Role = Role::Observer;

/// Does what blocks on a thread of its own.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(work).await.expect("the attacker does not panic")
}

/// The credentials of a service.
fn of_service(scene: &Scene, role: Role) -> Credentials {
    let file = scene.cluster.nats.credentials(role).expect("the credentials can be written");
    let text =
        std::fs::read_to_string(file.expect("NATS uses credentials")).expect("the credentials can be read");
    Credentials::read(&text).expect("the credentials can be parsed")
}

/// The id of the cluster's node, and new credentials for it.
async fn of_node(scene: &Scene) -> (NodeId, Credentials) {
    let nodes = scene.cluster.api.get("/v1/nodes").await;
    let node = array(&nodes).iter().find(|node| text(node, "Name") == AGENT).expect("the node is registered");
    let id = text(node, "ID").parse().expect("the id is valid");
    let issuer = scene.cluster.nats.issuer().expect("NATS uses credentials");
    let now_secs = telemetry::clock::now().as_secs();
    (id, issuer.node("attacker", id, &mut rand::random, now_secs))
}

fn connect(url: &str, credentials: &Credentials) -> RawNats {
    RawNats::connect(url, Some(credentials)).expect("the credentials are accepted")
}

/// Header lines of a message of a kind.
fn headers(kind: &str) -> String {
    format!("Drover-Kind: {kind}\r\nDrover-Version: 1\r\nDrover-Deadline-Ms: 2000\r\n")
}

async fn expect_node_ready(scene: &Scene, node: NodeId) -> Result<(), String> {
    let found = scene.get(&format!("/v1/node/{node}")).await.json();
    ensure(text(&found, "Status") == "ready", || format!("the node is {:?}", text(&found, "Status")))
}

async fn without_credentials(scene: &Scene) -> Outcome {
    let url = scene.cluster.nats.url();
    let accepted = blocking(move || (0..50).filter(|_| RawNats::connect(&url, None).is_ok()).count()).await;
    ensure(accepted == 0, || format!("{accepted} clients were let in"))?;
    Ok(())
}

fn nats_host(scene: &Scene) -> String {
    scene.cluster.nats.url().trim_start_matches("nats://").to_owned()
}

async fn garbage(scene: &Scene) -> Outcome {
    let host = nats_host(scene);
    let long = vec![b'a'; 1 << 20];
    let cases: [&[u8]; 7] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"CONNECT {{{{{{\r\nPING\r\n",
        b"CONNECT {}\r\nPUB a 99999999999999999999\r\n",
        b"PUB a -1\r\n\r\n",
        b"\x16\x03\x01\x00\x31\x01\x00\x00\x2d\x03\x03",
        b"SUB > 1\r\nPING\r\n",
        &long,
    ];
    for bytes in cases {
        let mut socket = Socket::open(&host).await;
        socket.send(bytes).await;
        let is_closed = socket.is_closed_within(Duration::from_secs(10)).await;
        let shown: String = String::from_utf8_lossy(bytes).chars().take(40).collect();
        ensure(is_closed, || format!("NATS keeps the connection of {shown:?}"))?;
    }
    Ok(())
}

async fn silent_connections(scene: &Scene) -> Outcome {
    let host = nats_host(scene);
    let mut sockets = Vec::new();
    for _ in 0..1_000 {
        sockets.push(Socket::open(&host).await);
    }
    sleep(Duration::from_secs(1)).await;
    Ok(())
}

/// Bodies that are no message.
fn unreadable_bodies() -> Vec<Vec<u8>> {
    const DEPTH: usize = 100_000;
    vec![
        Vec::new(),
        b"\xc1 garbage".to_vec(),
        // A map of one member that ends in its name, and one in its value.
        b"\x81\xa2id".to_vec(),
        b"\x81\xa2id\xd9\xff".to_vec(),
        // A list, a map, bytes, a text and an extension of 2^32-1 elements.
        b"\xdd\xff\xff\xff\xff".to_vec(),
        b"\xdf\xff\xff\xff\xff\xa1a\xc0".to_vec(),
        b"\xc6\xff\xff\xff\xff".to_vec(),
        b"\xdb\xff\xff\xff\xff".to_vec(),
        b"\xc9\xff\xff\xff\xff\x01".to_vec(),
        // Lists and maps in each other.
        vec![0x91; DEPTH],
        b"\x81\xa1a".repeat(DEPTH),
        b"\xdd\xff\xff\xff\xff".repeat(DEPTH / 10),
        // A number that is none, text that is no text, and a member twice.
        b"\xcb\x7f\xf8\0\0\0\0\0\0".to_vec(),
        b"\xa4\xff\xfe\xfd\xfc".to_vec(),
        b"\x82\xa2id\xc0\xa2id\xc0".to_vec(),
    ]
}

async fn unreadable_messages(scene: &Scene) -> Outcome {
    let (node, _) = of_node(scene).await;
    let (url, credentials) = (scene.cluster.nats.url(), of_service(scene, ANYBODY));
    let subjects = [
        Subject::Command(ANYBODY),
        Subject::GetHead,
        Subject::RenewLease(ANYBODY),
        Subject::Dequeue,
        Subject::EvalLease,
        Subject::NodeRegister(node),
        Subject::NodeHeartbeat(node),
        Subject::NodeWork(node),
        Subject::NodeReport(node),
        Subject::AgentFiles(node),
        Subject::AgentTasks(node),
        Subject::AgentStats(node),
        Subject::AgentWake(node),
    ];
    let refusals = blocking(move || {
        let mut client = connect(&url, &credentials);
        let long = "k".repeat(10_000);
        let mut refusals = 0;
        for subject in subjects {
            let inbox = format!("{}.odd", Inbox::of(ANYBODY, &subject));
            client.subscribe_to(&inbox, "");
            let subject = subject.to_string();
            for body in unreadable_bodies() {
                for kind in [
                    Command::KIND,
                    GetHead::KIND,
                    Heartbeat::KIND,
                    "node.report",
                    "nothing",
                    "",
                    long.as_str(),
                ] {
                    client.publish(&subject, &inbox, &headers(kind), &body);
                }
                client.publish(&subject, &inbox, "", &body);
            }
            for lines in [
                "Drover-Kind: nothing\r\nDrover-Version: 65536\r\n",
                "Drover-Version: -1\r\nDrover-Deadline-Ms: -1\r\n",
                "Drover-Deadline-Ms: 18446744073709551616\r\nDrover-Request-Id: odd\r\n",
                "traceparent: 00-odd\r\nDrover-Database: odd\r\n",
            ] {
                client.publish(&subject, &inbox, lines, b"\x80");
            }
            refusals += refusals_in(&client.flush());
        }
        // The last answers are on their way.
        std::thread::sleep(Duration::from_secs(1));
        refusals + refusals_in(&client.flush())
    })
    .await;
    ensure(refusals >= subjects.len(), || {
        format!("{refusals} refusals of messages on {} subjects", subjects.len())
    })?;
    expect_node_ready(scene, node).await?;
    Ok(())
}

fn refusals_in(received: &[Received]) -> usize {
    let is_refusal = |received: &&Received| match received {
        Received::Message { text, .. } => text.contains("Drover-Kind: refusal"),
        Received::Error(_) | Received::Pong | Received::End => false,
    };
    received.iter().filter(is_refusal).count()
}

async fn largest_messages(scene: &Scene) -> Outcome {
    let (node, of_node) = of_node(scene).await;
    let (url, of_service) = (scene.cluster.nats.url(), of_service(scene, ANYBODY));
    let errors = blocking(move || {
        let size = |limit: i64| usize::try_from(limit).expect("the limit fits into usize");
        let cases = [
            (of_service, Subject::Command(ANYBODY), Command::KIND, size(SERVICE_PAYLOAD_MAX)),
            (of_node, Subject::NodeReport(node), "node.report", size(NODE_PAYLOAD_MAX)),
        ];
        cases.map(|(credentials, subject, kind, limit)| {
            let mut client = connect(&url, &credentials);
            let (subject, headers) = (subject.to_string(), headers(kind));
            // Nested as deep as it is long, and room for the headers.
            let body = vec![0x91; limit - 1_024];
            for _ in 0..30 {
                client.publish(&subject, "", &headers, &body);
            }
            let before = client.errors();
            client.publish(&subject, "", &headers, &vec![0x91; limit + 1]);
            (before, client.errors())
        })
    })
    .await;
    for (before, after) in errors {
        ensure(before.is_empty(), || format!("messages of the permitted size: {before:?}"))?;
        let is_refused =
            after.iter().any(|error| error.contains("Maximum Payload") || error.contains("closed"));
        ensure(is_refused, || format!("a message that is too large: {after:?}"))?;
    }
    Ok(())
}

async fn heartbeat_flood(scene: &Scene) -> Outcome {
    let (node, credentials) = of_node(scene).await;
    let url = scene.cluster.nats.url();
    blocking(move || {
        let mut client = connect(&url, &credentials);
        for (subject, kind, count) in [
            (Subject::NodeHeartbeat(node), Heartbeat::KIND, 100_000),
            (Subject::NodeReport(node), "node.report", 20_000),
        ] {
            let (subject, headers) = (subject.to_string(), headers(kind));
            for _ in 0..count {
                client.publish(&subject, "", &headers, b"\xc1");
            }
        }
        client.flush();
    })
    .await;
    expect_node_ready(scene, node).await?;
    Ok(())
}

async fn guessed_secret(scene: &Scene) -> Outcome {
    let (node, credentials) = of_node(scene).await;
    let url = scene.cluster.nats.url();
    let accepted = blocking(move || {
        let mut client = connect(&url, &credentials);
        let inbox = format!("{}.guess", Inbox::Node(node));
        client.subscribe_to(&inbox, "");
        let subject = Subject::NodeHeartbeat(node).to_string();
        for guess in 0..1_000_u32 {
            let secret = Secret(format!("guess-{guess}").into());
            let beat = wire::encode(&Heartbeat { id: node, secret, boot: u32::MAX - guess });
            client.publish(&subject, &inbox, &headers(Heartbeat::KIND), &beat);
        }
        let mut answers = client.flush();
        std::thread::sleep(Duration::from_secs(1));
        answers.extend(client.flush());
        answers.len() - refusals_in(&answers)
    })
    .await;
    ensure(accepted == 0, || format!("{accepted} guesses were not refused"))?;
    expect_node_ready(scene, node).await?;
    Ok(())
}

async fn subscription_flood(scene: &Scene) -> Outcome {
    let (node, credentials) = of_node(scene).await;
    let url = scene.cluster.nats.url();
    let errors = blocking(move || {
        let mut client = connect(&url, &credentials);
        for number in 0..NODE_SUBSCRIPTIONS_MAX + 100 {
            client.subscribe_to(&format!("{}.{number}", Inbox::Node(node)), "");
        }
        client.errors()
    })
    .await;
    let is_refused = errors.iter().any(|error| error.contains("maximum subscriptions exceeded"));
    ensure(is_refused, || format!("too many subscriptions: {errors:?}"))?;
    Ok(())
}

async fn slow_subscriber(scene: &Scene) -> Outcome {
    let (url, credentials) = (scene.cluster.nats.url(), of_service(scene, Role::Scheduler));
    let subscribers = blocking(move || {
        let subscribe = |_| {
            let mut client = connect(&url, &credentials);
            client.subscribe_to(&Subject::Changes.to_string(), "");
            client
        };
        (0..20).map(subscribe).collect::<Vec<_>>()
    })
    .await;
    let host = scene.host();
    let answers = at_once(5, |writer| {
        let host = host.clone();
        async move {
            let mut answers = Vec::new();
            for round in 0..100 {
                let mut job = jobs::mock_service(&format!("changing-{writer}"), 0);
                job["Job"]["Meta"] = json!({ "round": round.to_string(), "long": "c".repeat(100_000) });
                answers.push(ask(&host, "PUT", "/v1/jobs", job.to_string().as_bytes()).await);
            }
            answers
        }
    })
    .await;
    drop(subscribers);
    for answer in answers.into_iter().flatten() {
        expect("a registration beside slow subscribers", &answer, &[200])?;
    }
    Ok(())
}
