//! Does every process end within seconds when it is told to, in order and whatever its clients do, and does a standby take
//! over at once?

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::Method;
use tests::harness::api::{Api, text};
use tests::harness::{AGENT, Cluster, SERVICES, free_address, jobs, pause};
use tokio::task::JoinSet;

use crate::BINARY;

/// How long a process may take to end.
const ENDED_WITHIN: Duration = Duration::from_secs(5);
/// Longer than the test takes: whoever waits for a lease to run out waits in vain.
const LEASE_MS: &str = "300000";

/// Registers jobs one after another, whatever the answer, until it is dropped.
fn load(api: &Api) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..4 {
        let api = api.clone();
        clients.spawn(async move {
            for round in 0_u64.. {
                let job = jobs::pretending(&format!("load-{client}-{}", round % 8), 2);
                // The API may be the one that ends.
                let _ = api.try_put("/v1/jobs", &job).await;
                pause().await;
            }
        });
    }
    clients
}

/// A connection on which so much of a request was sent.
fn sent(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("somebody listens");
    stream.write_all(request.as_bytes()).expect("and reads");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_answers_its_clients_and_ends() {
    let health = free_address();
    let mut cluster = Cluster::start_of(BINARY, &[], &["plan-applier", "eval-broker", "node-tracker"]).await;
    cluster.spawn("deployment-watcher");
    cluster.spawn("scheduler");
    cluster.spawn(AGENT);
    cluster.spawn_with("api", &[("DROVER_HEALTH_ADDR", health.clone())]);
    cluster.until("the API answers", async |cluster| cluster.api.try_get("/v1/nodes").await.ok()).await;
    cluster.api.put("/v1/jobs", &jobs::service("chatty", "echo hello; sleep 600")).await;
    let alloc = cluster.until_alloc("chatty", "running").await;
    let log = format!("/v1/client/fs/logs/{}?task=task&type=stdout&follow=true", text(&alloc, "ID"));

    let _load = load(&cluster.api);
    let host = cluster.api.host().to_owned();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: it\r\n\r\n");
    let mut query = sent(&host, &get("/v1/nodes?index=1000000000&wait=10m"));
    let mut events = sent(&host, &get("/v1/event/stream?topic=Deployment"));
    let mut logs = sent(&host, &get(&log));
    let mut monitor = sent(&host, &get("/v1/agent/monitor?log_level=info"));
    let mut idle = sent(&host, &get("/v1/status/leader"));
    let mut upload = sent(&host, "PUT /v1/jobs HTTP/1.1\r\nHost: it\r\nContent-Length: 100000\r\n\r\n{");
    let mut half_open = sent(&host, "GET /v1/jo");
    // Each stream has begun when something of it has come.
    let mut first = [0; 1];
    for stream in [&mut events, &mut logs, &mut monitor, &mut idle] {
        stream.read_exact(&mut first).expect("it begins");
    }

    let ready = reqwest::get(format!("http://{health}/ready")).await.expect("it answers");
    assert_eq!(ready.status().as_u16(), 200);
    cluster.signal("api", nix::sys::signal::Signal::SIGTERM);
    // The slow upload holds the API up long enough for this to be seen.
    let not_ready = async |_: &Cluster| {
        let answer = reqwest::get(format!("http://{health}/ready")).await.ok()?;
        let status = answer.status().as_u16();
        let body = answer.text().await.ok()?;
        (status == 503 && body.contains("the process is ending")).then_some(())
    };
    cluster.until("the API says that it ends", not_ready).await;
    let (status, time) = cluster.end("api").await;
    assert!(status.success(), "{status:?}\n{}", cluster.last_words());
    assert!(time < ENDED_WITHIN, "{time:?}\n{}", cluster.last_words());

    let rest = |stream: &mut TcpStream| {
        let mut rest = Vec::new();
        // Some are cut off.
        let _ = stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    };
    let answered = rest(&mut query);
    assert!(answered.starts_with("HTTP/1.1 200 OK"), "a blocking query is answered early: {answered}");
    for stream in [&mut events, &mut logs, &mut monitor] {
        let told = rest(stream);
        assert!(told.ends_with("0\r\n\r\n"), "a stream is closed in order: {told}");
    }
    rest(&mut upload);
    rest(&mut half_open);
    rest(&mut idle);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_ends_in_order_under_load_and_its_standby_goes_on() {
    // Nobody answers there: what a collector does that hangs.
    let collector = std::net::TcpListener::bind("127.0.0.1:0").expect("there are ports");
    let collector = format!("http://{}", collector.local_addr().expect("it listens"));
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector), ("DROVER_APPLIER_LEASE_MS", LEASE_MS.to_owned())];
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_of(BINARY, &environment, &names).await;
    let _load = load(&cluster.api);
    for service in SERVICES {
        let standby = format!("{service}@2");
        if service != "api" {
            cluster.spawn_connected(&standby).await;
        }
        let (status, time) = cluster.end(service).await;
        assert!(status.success(), "{service}: {status:?}\n{}", cluster.last_words());
        assert!(time < ENDED_WITHIN, "{service}: {time:?}\n{}", cluster.last_words());
        if service == "api" {
            cluster.spawn(service);
        }
        let job = format!("after-{service}");
        cluster
            .until(&format!("the API takes a job without {service}"), async |cluster| {
                cluster.api.try_put("/v1/jobs", &jobs::pretending(&job, 1)).await.ok()
            })
            .await;
        cluster.until_alloc(&job, "running").await;
    }
    let (status, time) = cluster.end(AGENT).await;
    assert!(status.success() && time < ENDED_WITHIN, "{status:?} {time:?}\n{}", cluster.last_words());
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_end_while_nats_and_postgresql_hang() {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_of(BINARY, &[], &names).await;
    let load = load(&cluster.api);
    let answered = cluster.api.send(Method::PUT, "/v1/jobs", jobs::pretending("one", 1).to_string()).await;
    assert_eq!(answered.0, 200, "{}", answered.1);
    let paused = (cluster.nats.pause(), cluster.postgres.pause());
    for name in names {
        let (status, time) = cluster.end(name).await;
        assert!(status.success(), "{name}: {status:?}\n{}", cluster.last_words());
        assert!(time < ENDED_WITHIN, "{name}: {time:?}\n{}", cluster.last_words());
    }
    drop((paused, load));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_its_tasks_says_so_before_it_ends() {
    let stops = [("DROVER_STOP_TASKS_ON_EXIT", "true".to_owned())];
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_of(BINARY, &stops, &names).await;
    cluster.api.put("/v1/jobs", &jobs::service("one", "sleep 600")).await;
    let alloc = cluster.until_alloc("one", "running").await;
    let (status, time) = cluster.end(AGENT).await;
    assert!(status.success() && time < ENDED_WITHIN, "{status:?} {time:?}\n{}", cluster.last_words());
    let path = format!("/v1/allocation/{}", text(&alloc, "ID"));
    cluster
        .until("the servers know that the task has ended", async |cluster| {
            let alloc = cluster.api.try_get(&path).await.ok()?;
            (alloc.pointer("/TaskStates/task/State")? == "dead").then_some(())
        })
        .await;
}
