//! What do users see while NATS or PostgreSQL is away, or has no room to write? Stale reads go on and say how old they
//! are; writes fail in time, and clearly; and all is well again when the servers are, without anybody being started anew.

use std::time::Duration;

use reqwest::Method;
use serde_json::Value;
use telemetry::clock;
use tests::harness::invariants::{self, History};
use tests::harness::{Cluster, jobs};

use crate::BINARY;
use crate::steady::Steady;

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
/// Within which a write is answered, whatever the answer: the API waits five seconds for an applier.
const ANSWERED_WITHIN: Duration = Duration::from_secs(9);
/// An API that has not heard of an applier for so long does not know of one.
const KNOWN_FOR: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_nats_was_away() {
    let mut day = Day::begin().await;
    let paused = day.cluster.nats.pause();
    day.assert_out("nats-stopped").await;
    drop(paused);
    day.assert_well("nats-stopped").await;

    day.cluster.nats.kill9().await.expect("nats-server can be killed");
    day.assert_out("nats-gone").await;
    day.cluster.nats.restart().await.expect("nats-server starts again");
    day.assert_well("nats-gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_postgres_was_away() {
    let mut day = Day::begin().await;
    let paused = day.cluster.postgres.pause();
    day.assert_out("postgres-stopped").await;
    drop(paused);
    day.assert_well("postgres-stopped").await;

    day.cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
    day.assert_out("postgres-gone").await;
    day.cluster.postgres.restart().await.expect("PostgreSQL starts again");
    day.assert_well("postgres-gone").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_recovers_when_the_disk_was_full() {
    let mut day = Day::begin().await;
    day.cluster.alter(DISK_FULL).await;
    day.assert_refused("disk-full").await;
    // Nobody has been deposed, and what is asked for is what the database has.
    assert_eq!(day.status("/v1/job/disk-full").await, 404);
    assert_eq!(day.status("/v1/job/steady-agent").await, 200);
    day.cluster.alter("drop function full_disk cascade").await;
    day.assert_well("disk-full").await;
}

/// Refuses what is committed as a server does that has no room for it.
const DISK_FULL: &str = "
    create function full_disk() returns trigger language plpgsql as
        $$ begin raise exception 'could not extend file: no space left on device' using errcode = '53100'; end $$;
    create trigger full_disk before insert on changes for each row execute function full_disk()";

/// A cluster, with a task that is to run all day.
struct Day {
    cluster: Cluster,
    steady: Steady,
    history: History,
}

impl Day {
    async fn begin() -> Self {
        let cluster = Cluster::start_processes(BINARY, &[], &PROCESSES).await;
        let steady = Steady::start(&cluster, &["agent"]).await;
        let history = History::new(&cluster).await;
        Self { cluster, steady, history }
    }

    /// Nothing can be written, and all that can be read is old; which is said.
    async fn assert_out(&self, what: &str) {
        self.stale_read().await;
        self.assert_refused(&format!("{what}-in-vain")).await;
        // Nor can an applier prove that it is one, so that nobody hears of any.
        let unknown = async |_: &Cluster| (!self.stale_read().await).then_some(());
        self.cluster.wait_until("no applier is known", unknown).await;
        assert_eq!(self.status("/v1/job/steady-agent").await, 500, "what may be old is not shown as new");
    }

    /// A job cannot be registered, which is said in time, and why.
    async fn assert_refused(&self, job: &str) {
        let began = clock::monotonic();
        let (status, text) = self.register(job).await;
        let took = began.elapsed();
        println!("{job}: answered {status} after {:.1} s: {text}", took.as_secs_f64());
        assert_eq!(status, 500, "{text}");
        assert!(took < ANSWERED_WITHIN, "answered after {took:?}");
        assert!(!text.is_empty(), "whoever could not write is told why");
    }

    /// What could be written before can be written again, and nobody was started anew for it.
    async fn assert_well(&mut self, what: &str) {
        let began = clock::monotonic();
        let registered = async |_: &Cluster| (self.register(what).await.0 == 200).then_some(());
        self.cluster.wait_until("a job can be registered", registered).await;
        self.cluster.wait_for_alloc(what, "running").await;
        println!("{what}: all is well after {:.1} s", began.elapsed().as_secs_f64());
        // Whoever has just found his way back to NATS hears of the applier with its next beat.
        let known = async |_: &Cluster| self.stale_read().await.then_some(());
        self.cluster.wait_until("the applier is known", known).await;

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

    /// A read that need not be new is answered at once, and says how old the answer may be. Whether it says that there
    /// is an applier.
    async fn stale_read(&self) -> bool {
        let began = clock::monotonic();
        let request = self.cluster.api.request(Method::GET, "/v1/job/steady-agent?stale");
        let answer = request.send().await.expect("stale reads are always answered");
        assert!(began.elapsed() < Duration::from_secs(1), "a stale read took {:?}", began.elapsed());
        assert_eq!(answer.status(), 200);
        let header =
            |name: &str| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let known = header("X-Nomad-KnownLeader").expect("it is said") == "true";
        let ago = header("X-Nomad-LastContact").and_then(|text| text.parse().ok()).map(Duration::from_millis);
        let ago = ago.expect("a number of milliseconds");
        assert_eq!(known, ago < KNOWN_FOR, "heard of {ago:?} ago");
        let job: Value = answer.json().await.expect("JSON");
        assert_eq!(job["ID"], "steady-agent");
        known
    }
}
