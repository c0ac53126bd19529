//! An API that ends, stops or is killed while requests are in flight. It is a second one, so that neighbours go on at
//! the first.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tests::harness::jobs;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::attack::{Attack, Failure, Outcome, Size, ensure, expect};
use crate::scene::Scene;
use crate::socket::{Socket, ask, get, request};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "sigterm-in-flight",
        does: "SIGTERM while 100 queries, streams, uploads and half requests are open and 16 clients write",
        expected: "the process ends by itself within five seconds; what it acknowledged is there",
        size: Size::Full,
        run: |scene| Box::pin(sigterm_in_flight(scene)),
    },
    Attack {
        name: "sigkill-in-flight",
        does: "SIGKILL in the same situation",
        expected: "what it acknowledged is there",
        size: Size::Full,
        run: |scene| Box::pin(sigkill_in_flight(scene)),
    },
    Attack {
        name: "sigstop-in-flight",
        does: "SIGSTOP for three seconds in the same situation, and then SIGCONT",
        expected: "it goes on; what it acknowledged is there",
        size: Size::Full,
        run: |scene| Box::pin(sigstop_in_flight(scene)),
    },
];

/// The second API.
const SECOND: &str = "api@2";
/// The longest time that it may take to shut down.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);
const WRITERS: usize = 16;

/// Clients of the second API. They leave when this is dropped.
struct Load {
    host: String,
    _open: Vec<Socket>,
    writers: JoinSet<()>,
    /// The ids of the jobs whose registration was acknowledged.
    acknowledged: Arc<Mutex<Vec<String>>>,
}

impl Load {
    /// Starts the second API and its clients.
    async fn start(scene: &mut Scene, name: &str) -> Result<Self, Failure> {
        scene.cluster.spawn(SECOND);
        let first = scene.host();
        let hosts: Vec<String> = scene.cluster.apis().iter().map(|api| api.host().to_owned()).collect();
        let host = hosts.into_iter().find(|host| *host != first).expect("there is a second API");
        let answers = async || scene.cluster.apis().last()?.try_get("/v1/nodes").await.ok();
        scene.wait_until("the second API answers", answers).await?;
        let mut open = Vec::new();
        for bytes in [
            request(&host, "GET", "/v1/nodes?index=1000000000&wait=5m", "", b""),
            request(&host, "GET", "/v1/event/stream", "", b""),
            format!("PUT /v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100000\r\n\r\n{{").into_bytes(),
            b"GET /v1/jo".to_vec(),
        ] {
            for _ in 0..25 {
                let mut socket = Socket::open(&host).await;
                socket.send(&bytes).await;
                open.push(socket);
            }
        }
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(host.clone(), format!("{name}-{writer}"), Arc::clone(&acknowledged)));
        }
        // Everybody is busy by then.
        sleep(Duration::from_secs(1)).await;
        Ok(Self { host, _open: open, writers, acknowledged })
    }

    /// Ends the clients, and checks that every acknowledged job is there.
    async fn check(mut self, scene: &Scene) -> Outcome {
        self.writers.shutdown().await;
        let acknowledged =
            std::mem::take(&mut *self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner));
        ensure(!acknowledged.is_empty(), || "nothing was acknowledged".to_owned())?;
        for id in acknowledged {
            ensure(scene.has_job(&id).await, || format!("{id} was acknowledged and is lost"))?;
        }
        Ok(())
    }
}

/// Registers jobs, a new one each time, until it is aborted or the API is gone.
async fn write(host: String, name: String, acknowledged: Arc<Mutex<Vec<String>>>) {
    for round in 0_u32.. {
        let id = format!("{name}-{round}");
        let mut job = jobs::mock_service(&id, 0);
        job["Job"]["Meta"] = json!({ "round": round.to_string() });
        if tokio::net::TcpStream::connect(&host).await.is_err() {
            return;
        }
        let answer = ask(&host, "PUT", "/v1/jobs", job.to_string().as_bytes()).await;
        if answer.status == 200 {
            acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn sigterm_in_flight(scene: &mut Scene) -> Outcome {
    let load = Load::start(scene, "sigterm").await?;
    let (status, took) = scene.cluster.terminate(SECOND).await;
    ensure(status.success() && took < SHUTDOWN_MAX, || format!("it ended with {status} after {took:?}"))?;
    load.check(scene).await
}

async fn sigkill_in_flight(scene: &mut Scene) -> Outcome {
    let load = Load::start(scene, "sigkill").await?;
    scene.cluster.kill9(SECOND);
    load.check(scene).await
}

async fn sigstop_in_flight(scene: &mut Scene) -> Outcome {
    let load = Load::start(scene, "sigstop").await?;
    scene.cluster.signal(SECOND, Signal::SIGSTOP);
    sleep(Duration::from_secs(3)).await;
    scene.cluster.signal(SECOND, Signal::SIGCONT);
    let answer = get(&load.host, "/v1/jobs?per_page=1").await;
    let outcome = load.check(scene).await;
    scene.cluster.kill9(SECOND);
    expect("a list after it went on", &answer, &[200])?;
    outcome
}
