//! Registers the jobs of benchmarks: small services whose tasks only sleep.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::http::Pool;

/// How long to wait before a failed attempt is repeated.
const RETRY: Duration = Duration::from_millis(10);
/// Status codes from here on are errors of the server, not of the request.
const SERVER_ERRORS: u16 = 500;

/// Registers jobs. Several registrars can work concurrently.
#[derive(Debug, Clone)]
pub struct Registrar {
    pool: Pool,
    apis: Vec<String>,
    kind: Kind,
}

/// The operation on the jobs after they are placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Their allocations run, and nodes report nothing else of them (`docs/architecture/agents.md`).
    #[default]
    Plain,
    /// Each job also has a deployment, for which nodes report ten seconds later that its allocations are healthy.
    Deployed,
}

impl Registrar {
    /// Uses these APIs in turn, each given as `http://host:port`.
    pub(super) fn new(pool: Pool, apis: Vec<String>) -> Self {
        Self { pool, apis, kind: Kind::default() }
    }

    /// Registers jobs of the given kind from now on.
    pub fn with_kind(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Registers a service job at an API that answers. Returns when the registration is acknowledged.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn register(&self, id: &str, count: u64) {
        let registered = self.try_register(&service_job(id, count, self.kind)).await;
        registered.unwrap_or_else(|refused| panic!("the job is refused: {refused}"));
    }

    /// Tries one API after another until one of them accepts the job.
    ///
    /// # Errors
    /// The reason if an API refuses the job.
    pub async fn try_register(&self, job: &Value) -> Result<(), String> {
        let body = job.to_string();
        for api in self.apis.iter().cycle() {
            match self.pool.request(api, "PUT", "/v1/jobs", body.as_bytes()).await {
                Ok(Ok(())) => break,
                Ok(Err((status, reason))) if status < SERVER_ERRORS => return Err(reason),
                Ok(Err(_)) | Err(_) => sleep(RETRY).await,
            }
        }
        Ok(())
    }

    /// Registers a parameterized batch job with one small allocation for each dispatch.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn register_parameterized(&self, id: &str) {
        // Batch jobs may not have an update block.
        let mut job = service_job(id, 1, Kind::Deployed);
        (job["Job"]["Type"], job["Job"]["ParameterizedJob"]) = (json!("batch"), json!({}));
        let registered = self.try_register(&job).await;
        registered.unwrap_or_else(|refused| panic!("the job is refused: {refused}"));
    }

    /// Dispatches a parameterized job, with a token unless it is empty. Returns when the dispatch is acknowledged.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn dispatch(&self, parent: &str, token: &str) {
        let path = format!("/v1/job/{parent}/dispatch?idempotency_token={token}");
        let dispatched = self.pool.request(&self.apis[0], "PUT", &path, b"{}").await;
        let refused = dispatched.expect("the API answers").err();
        assert_eq!(refused, None, "the job is dispatched");
    }

    /// Stops a job.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn stop(&self, id: &str) {
        let stopped = self.pool.request(&self.apis[0], "DELETE", &format!("/v1/job/{id}"), &[]).await;
        let refused = stopped.expect("the API answers").err();
        assert_eq!(refused, None, "the job is stopped");
    }
}

/// A service job with one group of `count` small allocations. Their driver is the mock driver, or else the driver that
/// `DRIVER` in the environment names, whose tasks run `sleep`.
pub(super) fn service_job(id: &str, count: u64, kind: Kind) -> Value {
    let driver = std::env::var("DRIVER").ok().filter(|driver| !driver.is_empty());
    let config = match driver {
        Some(_) => json!({ "command": "/bin/sleep", "args": ["3600"] }),
        None => json!({ "run_for": "1h" }),
    };
    let task = json!({
        "Name": "task",
        "Driver": driver.unwrap_or_else(|| "mock_driver".to_owned()),
        "Config": config,
        "Resources": { "CPU": 100, "MemoryMB": 64 },
    });
    let mut group = json!({ "Name": "group", "Count": count, "Tasks": [task] });
    if kind == Kind::Plain {
        group["Update"] = json!({ "MaxParallel": 0 });
    }
    json!({ "Job": { "ID": id, "Name": id, "Type": "service", "Datacenters": ["*"], "TaskGroups": [group] } })
}

/// A version of a batch job without allocations. It differs from every other version.
pub(super) fn idle_job(id: &str, version: u64) -> Value {
    // Batch jobs may not have an update block.
    let mut job = service_job(id, 0, Kind::Deployed);
    (job["Job"]["Type"], job["Job"]["Meta"]) = (json!("batch"), json!({ "version": version.to_string() }));
    job
}
