//! Every process shuts down within seconds after SIGTERM, in order, whatever its clients do; and a standby takes over
//! at once.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use reqwest::Method;
use tests::harness::api::{Api, text};
use tests::harness::{AGENT, Cluster, SERVICES, free_address, jobs, pause};
use tokio::task::JoinSet;

use crate::BINARY;

/// The longest time that a process may take to shut down.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);
/// Longer than the test takes, so that the test fails if a standby waits for a lease to expire.
const LEASE_MS: &str = "300000";

/// A list whose filter takes as long as its limit of steps allows: quantifiers over the attributes of nodes, inside each
/// other.
fn slow_list() -> String {
    let quantifiers: String =
        ('a'..='l').map(|name| format!("any%20Attributes%20as%20{name}%20%7B%20")).collect();
    format!("/v1/nodes?filter={quantifiers}a%20==%20none{}", "%20%7D".repeat(12))
}

/// Registers jobs one after another and ignores the answers, until it is dropped.
fn load(api: &Api) -> JoinSet<()> {
    let mut clients = JoinSet::new();
    for client in 0..4 {
        let api = api.clone();
        clients.spawn(async move {
            for round in 0_u64.. {
                let job = jobs::mock_service(&format!("load-{client}-{}", round % 8), 2);
                // The API may be the process that shuts down.
                let _ = api.try_put("/v1/jobs", &job).await;
                pause().await;
            }
        });
    }
    clients
}

/// Opens a connection and sends a part of a request.
fn send_part(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("the API accepts connections");
    stream.write_all(request.as_bytes()).expect("the API reads");
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_answers_its_clients_and_ends() {
    let health = free_address();
    let mut cluster =
        Cluster::start_processes(BINARY, &[], &["plan-applier", "eval-broker", "node-tracker"]).await;
    cluster.spawn("deployment-watcher");
    cluster.spawn("scheduler");
    cluster.spawn(AGENT);
    cluster.spawn_with("api", &[("DROVER_HEALTH_ADDR", health.clone())]);
    cluster.wait_until("the API answers", async |cluster| cluster.api.try_get("/v1/nodes").await.ok()).await;
    cluster.api.put("/v1/jobs", &jobs::service("chatty", "echo hello; sleep 600")).await;
    let alloc = cluster.wait_for_alloc("chatty", "running").await;
    let log = format!("/v1/client/fs/logs/{}?task=task&type=stdout&follow=true", text(&alloc, "ID"));

    let _load = load(&cluster.api);
    let host = cluster.api.host().to_owned();
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let mut query = send_part(&host, &get("/v1/nodes?index=1000000000&wait=10m"));
    let mut events = send_part(&host, &get("/v1/event/stream?topic=Deployment"));
    let mut logs = send_part(&host, &get(&log));
    let mut monitor = send_part(&host, &get("/v1/agent/monitor?log_level=info"));
    let mut idle = send_part(&host, &get("/v1/status/leader"));
    let mut upload =
        send_part(&host, "PUT /v1/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n{");
    let mut half_open = send_part(&host, "GET /v1/jo");
    let mut lists = [(); 8].map(|()| send_part(&host, &get(&slow_list())));
    // Each stream has begun when its first byte has arrived.
    let mut first = [0; 1];
    for stream in [&mut events, &mut logs, &mut monitor, &mut idle] {
        stream.read_exact(&mut first).expect("the stream begins");
    }

    let ready = reqwest::get(format!("http://{health}/ready")).await.expect("the health endpoint answers");
    assert_eq!(ready.status().as_u16(), 200);
    cluster.signal("api", nix::sys::signal::Signal::SIGTERM);
    // The slow upload delays the shutdown long enough to observe this.
    let not_ready = async |_: &Cluster| {
        let response = reqwest::get(format!("http://{health}/ready")).await.ok()?;
        let status = response.status().as_u16();
        let body = response.text().await.ok()?;
        (status == 503 && body.contains("the process is ending")).then_some(())
    };
    cluster.wait_until("the API reports its shutdown", not_ready).await;
    let (status, time) = cluster.terminate("api").await;
    assert!(status.success(), "{status:?}\n{}", cluster.log_tails());
    assert!(time < SHUTDOWN_MAX, "{time:?}\n{}", cluster.log_tails());

    let read_rest = |stream: &mut TcpStream| {
        let mut rest = Vec::new();
        // Some connections are cut off.
        let _ = stream.read_to_end(&mut rest);
        String::from_utf8_lossy(&rest).into_owned()
    };
    let answered = read_rest(&mut query);
    assert!(answered.starts_with("HTTP/1.1 200 OK"), "a blocking query must be answered early: {answered}");
    for stream in [&mut events, &mut logs, &mut monitor] {
        let received = read_rest(stream);
        assert!(received.ends_with("0\r\n\r\n"), "a stream must be closed cleanly: {received}");
    }
    read_rest(&mut upload);
    read_rest(&mut half_open);
    read_rest(&mut idle);
    lists.iter_mut().for_each(|list| drop(read_rest(list)));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_service_ends_in_order_under_load_and_its_standby_goes_on() {
    // A collector that hangs: nothing accepts connections at this address.
    let collector = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port exists");
    let collector = format!("http://{}", collector.local_addr().expect("a bound socket has an address"));
    let environment =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", collector), ("DROVER_APPLIER_LEASE_MS", LEASE_MS.to_owned())];
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_processes(BINARY, &environment, &names).await;
    let _load = load(&cluster.api);
    for service in SERVICES {
        let standby = format!("{service}@2");
        if service != "api" {
            cluster.spawn_connected(&standby).await;
        }
        let (status, time) = cluster.terminate(service).await;
        assert!(status.success(), "{service}: {status:?}\n{}", cluster.log_tails());
        assert!(time < SHUTDOWN_MAX, "{service}: {time:?}\n{}", cluster.log_tails());
        if service == "api" {
            cluster.spawn(service);
        }
        let job = format!("after-{service}");
        cluster
            .wait_until(&format!("the API accepts a job without {service}"), async |cluster| {
                cluster.api.try_put("/v1/jobs", &jobs::mock_service(&job, 1)).await.ok()
            })
            .await;
        cluster.wait_for_alloc(&job, "running").await;
    }
    let (status, time) = cluster.terminate(AGENT).await;
    assert!(status.success() && time < SHUTDOWN_MAX, "{status:?} {time:?}\n{}", cluster.log_tails());
    cluster.assert_alive();
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_end_while_nats_and_postgresql_hang() {
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_processes(BINARY, &[], &names).await;
    let load = load(&cluster.api);
    let answered = cluster.api.send(Method::PUT, "/v1/jobs", jobs::mock_service("one", 1).to_string()).await;
    assert_eq!(answered.0, 200, "{}", answered.1);
    let paused = (cluster.nats.pause(), cluster.postgres.pause());
    for name in names {
        let (status, time) = cluster.terminate(name).await;
        assert!(status.success(), "{name}: {status:?}\n{}", cluster.log_tails());
        assert!(time < SHUTDOWN_MAX, "{name}: {time:?}\n{}", cluster.log_tails());
    }
    drop((paused, load));
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_wait_at_their_start_end_in_order() {
    let mut cluster = Cluster::start_processes(BINARY, &[], &[]).await;
    let nobody = free_address();
    let nats = ("DROVER_NATS_URL", format!("nats://{nobody}"), "cannot connect to NATS");
    let url = format!("postgres://drover_plan_applier@{nobody}/drover");
    let database = ("DROVER_DATABASE_URL", url, "waiting for the database");
    let mut cases: Vec<_> = SERVICES.iter().flat_map(|name| [(*name, &nats), (*name, &database)]).collect();
    cases.push((AGENT, &nats));
    for (name, (variable, value, words)) in cases {
        cluster.spawn_with(name, &[(variable, value.clone())]);
        cluster.wait_until_logged(name, words).await;
        let (status, time) = cluster.terminate(name).await;
        let log = cluster.log_text(name);
        assert!(status.success(), "{name}: {status:?}\n{log}");
        assert!(time < SHUTDOWN_MAX, "{name}: {time:?}\n{log}");
        assert!(!log.contains("did not shut down"), "{name}:\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_ends_its_tasks_says_so_before_it_ends() {
    let environment = [("DROVER_STOP_TASKS_ON_EXIT", "true".to_owned())];
    let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
    let mut cluster = Cluster::start_processes(BINARY, &environment, &names).await;
    cluster.api.put("/v1/jobs", &jobs::service("one", "sleep 600")).await;
    let alloc = cluster.wait_for_alloc("one", "running").await;
    let (status, time) = cluster.terminate(AGENT).await;
    assert!(status.success() && time < SHUTDOWN_MAX, "{status:?} {time:?}\n{}", cluster.log_tails());
    let path = format!("/v1/allocation/{}", text(&alloc, "ID"));
    cluster
        .wait_until("the servers know that the task is dead", async |cluster| {
            let alloc = cluster.api.try_get(&path).await.ok()?;
            (alloc.pointer("/TaskStates/task/State")? == "dead").then_some(())
        })
        .await;
}
