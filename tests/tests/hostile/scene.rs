//! The cluster that is attacked, and what attacks need of it.

use std::time::Duration;

use serde_json::{Value, json};
use tests::harness::api::{array, text};
use tests::harness::steady::SteadyTasks;
use tests::harness::{AGENT, Cluster, SERVICES, jobs};
use tokio::time::sleep;

use crate::attack::{Failure, at_once, ensure, expect};
use crate::socket::{Answer, Socket, ask, get, request};

/// The binary under test.
const BINARY: &str = env!("CARGO_BIN_EXE_drover-under-test");
/// Prefix of the ids of jobs that are no attacker's.
const OTHERS: [&str; 3] = ["steady-", "neighbour-", CROWD];
/// Prefix of the ids of jobs that make lists long.
pub(crate) const CROWD: &str = "crowd-";
/// Number of these jobs, and the bytes of metadata of each.
const CROWD_JOBS: usize = 2_000;
const CROWD_META_BYTES: usize = 2_000;
/// How many of them are registered at the same time.
const CROWD_WRITERS: usize = 16;
/// How long a condition may take to become true, and how often it is checked.
const WAIT_MAX: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The cluster, with a task that runs all the time.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    steady: SteadyTasks,
    has_crowd: bool,
}

impl Scene {
    pub(crate) async fn start() -> Self {
        let names: Vec<&str> = SERVICES.into_iter().chain([AGENT]).collect();
        // Attacks register more than this machine may have.
        let sizes = [("DROVER_MEMORY_TOTAL_MB", "100000"), ("DROVER_CPU_TOTAL_COMPUTE", "100000")];
        let sizes = sizes.map(|(name, value)| (name, value.to_owned()));
        let cluster = Cluster::start_processes(BINARY, &sizes, &names).await;
        let steady = SteadyTasks::start(&cluster, &[AGENT]).await;
        Self { cluster, steady, has_crowd: false }
    }

    /// Address and port of the API.
    pub(crate) fn host(&self) -> String {
        self.cluster.api.host().to_owned()
    }

    /// A connection to the API.
    pub(crate) async fn socket(&self) -> Socket {
        Socket::open(self.cluster.api.host()).await
    }

    /// Sends a request on a connection of its own, and waits for the answer.
    pub(crate) async fn ask(&self, method: &str, path: &str, body: &[u8]) -> Answer {
        ask(self.cluster.api.host(), method, path, body).await
    }

    /// The same with these header lines, each ended by a line break.
    pub(crate) async fn ask_with(&self, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
        let request = request(self.cluster.api.host(), method, path, headers, body);
        self.socket().await.exchange(&request).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        get(self.cluster.api.host(), path).await
    }

    /// Tries to register a job.
    pub(crate) async fn register(&self, job: &Value) -> Answer {
        self.ask("PUT", "/v1/jobs", job.to_string().as_bytes()).await
    }

    /// Whether there is a job of this id.
    pub(crate) async fn has_job(&self, id: &str) -> bool {
        self.get(&format!("/v1/job/{}", escaped(id))).await.status == 200
    }

    /// Registers a job and waits until its allocation runs. Returns the allocation's id.
    pub(crate) async fn run_job(&self, job: &Value) -> Result<String, Failure> {
        expect("registering the job", &self.register(job).await, &[200])?;
        let id = job["Job"]["ID"].as_str().unwrap_or_default();
        let path = format!("/v1/job/{}/allocations", escaped(id));
        self.wait_until(&format!("{id} runs"), async || {
            let allocs = self.get(&path).await.json();
            let is_running = |alloc: &&Value| text(alloc, "ClientStatus") == "running";
            array(&allocs).iter().find(is_running).map(|alloc| text(alloc, "ID").to_owned())
        })
        .await
    }

    /// The response of one of the routes of files, with the path of a file and further parameters.
    pub(crate) async fn file(&self, call: &str, alloc: &str, path: &str, further: &str) -> Answer {
        self.get(&format!("/v1/client/fs/{call}/{alloc}?path={}{further}", escaped(path))).await
    }

    /// Waits until a task has written the file `ready` beside its logs.
    pub(crate) async fn wait_until_ready(&self, alloc: &str) -> Result<(), Failure> {
        self.wait_until("the task is ready", async || {
            let answer = self.file("stat", alloc, "alloc/data/ready", "").await;
            (answer.status == 200).then_some(())
        })
        .await
    }

    /// Waits until `look` returns a value.
    pub(crate) async fn wait_until<T>(
        &self,
        what: &str,
        look: impl AsyncFn() -> Option<T>,
    ) -> Result<T, Failure> {
        let end = telemetry::clock::monotonic() + WAIT_MAX;
        loop {
            if let Some(found) = look().await {
                return Ok(found);
            }
            ensure(telemetry::clock::monotonic() < end, || format!("timed out waiting until {what}"))?;
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops and purges a job, if there is one.
    pub(crate) async fn purge(&self, namespace: &str, id: &str) {
        let path = format!("/v1/job/{}?purge=true&namespace={}", escaped(id), escaped(namespace));
        self.ask("DELETE", &path, b"").await;
    }

    /// Purges the jobs of attackers. Returns the ids of those that remain.
    pub(crate) async fn purge_attackers(&self) -> Vec<String> {
        for job in self.attackers_jobs().await {
            self.purge(text(&job, "Namespace"), text(&job, "ID")).await;
        }
        self.attackers_jobs().await.iter().map(|job| text(job, "ID").to_owned()).collect()
    }

    async fn attackers_jobs(&self) -> Vec<Value> {
        let jobs = self.get("/v1/jobs?namespace=*").await.json();
        let is_attackers = |job: &&Value| !OTHERS.iter().any(|prefix| text(job, "ID").starts_with(prefix));
        array(&jobs).iter().filter(is_attackers).cloned().collect()
    }

    /// Registers so many jobs with so much metadata that lists are long.
    pub(crate) async fn make_crowd(&mut self) -> Result<(), Failure> {
        if self.has_crowd {
            return Ok(());
        }
        let host = self.host();
        let failures = at_once(CROWD_WRITERS, |writer| {
            let host = host.clone();
            async move {
                let mut failures = 0;
                for number in (writer..CROWD_JOBS).step_by(CROWD_WRITERS) {
                    let mut job = jobs::mock_service(&format!("{CROWD}{number}"), 0);
                    job["Job"]["Meta"] = json!({ "long": "m".repeat(CROWD_META_BYTES) });
                    let answer = ask(&host, "PUT", "/v1/jobs", job.to_string().as_bytes()).await;
                    failures += usize::from(answer.status != 200);
                }
                failures
            }
        })
        .await;
        let failed: usize = failures.iter().sum();
        ensure(failed == 0, || format!("{failed} of {CROWD_JOBS} jobs of the crowd were refused"))?;
        self.has_crowd = true;
        Ok(())
    }

    /// Asserts that the steady task has run all the while.
    ///
    /// # Panics
    /// If it has not.
    pub(crate) async fn assert_steady(&self) {
        self.steady.assert_never_stopped(&self.cluster).await;
    }
}

/// Percent-encodes everything that has a meaning in a path or a query.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => escaped.push(char::from(byte)),
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}
