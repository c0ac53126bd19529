//! The API while NATS or PostgreSQL is unavailable or cannot write. Stale reads continue and report how old they
//! are. Writes fail in time with a clear message. When the servers are back, everything recovers without restarting a
//! process.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use telemetry::clock;
use tests::harness::invariants::{self, History};
use tests::harness::steady::SteadyTasks;
use tests::harness::{Cluster, jobs};

use crate::BINARY;

const PROCESSES: [&str; 8] = [
    "plan-applier",
    "plan-applier@2",
    "eval-broker",
    "node-tracker",
    "deployment-watcher",
    "scheduler",
    "api",
    "agent",
];
/// The time within which a write is answered, whatever the answer. The API waits five seconds for an applier.
const ANSWERED_WITHIN: Duration = Duration::from_secs(9);
/// An API that has received nothing from an applier for this long reports that it knows of none.
const KNOWN_FOR: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_nats_was_away() {
    let mut scene = Scene::begin().await;
    let paused = scene.cluster.nats.pause();
    scene.assert_unavailable("nats-stopped").await;
    drop(paused);
    scene.assert_recovered("nats-stopped").await;

    scene.cluster.nats.kill9().await.expect("nats-server can be killed");
    scene.assert_unavailable("nats-gone").await;
    scene.cluster.nats.restart().await.expect("nats-server starts again");
    scene.assert_recovered("nats-gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_postgres_was_away() {
    let mut scene = Scene::begin().await;
    let paused = scene.cluster.postgres.pause();
    scene.assert_unavailable("postgres-stopped").await;
    drop(paused);
    scene.assert_recovered("postgres-stopped").await;

    scene.cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
    scene.assert_unavailable("postgres-gone").await;
    scene.cluster.postgres.restart().await.expect("PostgreSQL starts again");
    scene.assert_recovered("postgres-gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_the_disk_was_full() {
    let mut scene = Scene::begin().await;
    scene.cluster.alter(DISK_FULL).await;
    scene.assert_refused("disk-full").await;
    // No applier was deposed, and reads show what the database holds.
    assert_eq!(scene.status("/v1/job/disk-full").await, 404);
    assert_eq!(scene.status("/v1/job/steady-agent").await, 200);
    scene.cluster.alter("drop function full_disk cascade").await;
    scene.assert_recovered("disk-full").await;
}

/// Makes commits fail as on a server whose disk is full.
const DISK_FULL: &str = "
    create function full_disk() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: no space left on device' using errcode = '53100'; end $$;
    create trigger full_disk before insert on changes for each row execute function full_disk()";

/// A cluster with a task that must run all the time.
struct Scene {
    cluster: Cluster,
    steady: SteadyTasks,
    history: History,
}

impl Scene {
    async fn begin() -> Self {
        let cluster = Cluster::start_processes(BINARY, &[], &PROCESSES).await;
        let steady = SteadyTasks::start(&cluster, &["agent"]).await;
        let history = History::new(&cluster).await;
        Self { cluster, steady, history }
    }

    /// Asserts that writes are refused, that reads are stale, and that responses say so.
    async fn assert_unavailable(&self, what: &str) {
        self.stale_read().await;
        self.assert_refused(&format!("{what}-refused")).await;
        // Without confirmed epochs no applier announces itself, so the APIs lose sight of it.
        let is_unknown = async |_: &Cluster| (!self.stale_read().await).then_some(());
        self.cluster.wait_until("no applier is known", is_unknown).await;
        assert_eq!(
            self.status("/v1/job/steady-agent").await,
            500,
            "a default read fails while the state may be stale"
        );
    }

    /// Asserts that a registration is refused in time, and with a reason.
    async fn assert_refused(&self, job: &str) {
        let began = clock::monotonic();
        let (status, text) = self.register(job).await;
        let took = began.elapsed();
        println!("{job}: answered {status} after {:.1} s: {text}", took.as_secs_f64());
        assert_eq!(status, 500, "{text}");
        assert!(took < ANSWERED_WITHIN, "answered after {took:?}");
        assert!(!text.is_empty(), "the refusal gives a reason");
    }

    /// Asserts that writes succeed again, and that no process was restarted.
    async fn assert_recovered(&mut self, what: &str) {
        let began = clock::monotonic();
        let registered = async |_: &Cluster| (self.register(what).await.0 == 200).then_some(());
        self.cluster.wait_until("a job can be registered", registered).await;
        self.cluster.wait_for_alloc(what, "running").await;
        println!("{what}: recovered after {:.1} s", began.elapsed().as_secs_f64());
        // A process that has just reconnected to NATS learns of the applier with the next announcement of the head.
        let is_known = async |_: &Cluster| self.stale_read().await.then_some(());
        self.cluster.wait_until("the applier is known", is_known).await;

        self.history.wait_until_settled(&self.cluster).await;
        self.history.assert_one_writer(&self.cluster);
        self.history.assert_tables(&self.cluster).await;
        invariants::assert_apis_agree_with_sql(&self.cluster).await;
        self.steady.assert_never_stopped(&self.cluster).await;
        self.cluster.assert_alive();
    }

    async fn register(&self, id: &str) -> (u16, String) {
        self.cluster.api.send(Method::PUT, "/v1/jobs", jobs::mock_service(id, 1).to_string()).await
    }

    async fn status(&self, path: &str) -> u16 {
        self.cluster.api.send(Method::GET, path, "").await.0
    }

    /// Makes a stale read. Asserts that the response arrives within a second and states its age. Returns whether
    /// it reports an applier.
    async fn stale_read(&self) -> bool {
        let began = clock::monotonic();
        let request = self.cluster.api.request(Method::GET, "/v1/job/steady-agent?stale");
        let response = request.send().await.expect("stale reads are always answered");
        assert!(began.elapsed() < Duration::from_secs(1), "a stale read took {:?}", began.elapsed());
        assert_eq!(response.status(), 200);
        let header = |name: &str| {
            response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
        };
        let known = header("X-Nomad-KnownLeader").expect("the response has the header") == "true";
        let last_contact =
            header("X-Nomad-LastContact").and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let last_contact = last_contact.expect("the header is a number of milliseconds");
        assert_eq!(known, last_contact < KNOWN_FOR, "last contact was {last_contact:?} ago");
        let job: Value = response.json().await.expect("the response is JSON");
        assert_eq!(job["ID"], "steady-agent");
        known
    }
}
