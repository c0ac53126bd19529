//! Who registers the jobs that benchmarks run: small services whose tasks only sleep.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::http::Pool;

/// How long to wait before something that failed is tried again.
const RETRY: Duration = Duration::from_millis(10);
/// Statuses from here on speak of the server and not of what it was asked.
const SERVER_ERRORS: u16 = 500;

/// Somebody who registers jobs, also beside others.
#[derive(Debug, Clone)]
pub struct Registrar {
    pool: Pool,
    apis: Vec<String>,
    kind: Kind,
}

/// What becomes of jobs once they are placed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Kind {
    /// Their allocations run, which is all that nodes report of them (design §10).
    #[default]
    Plain,
    /// Each has a deployment besides, for which nodes report ten seconds later that allocations are healthy.
    Deployed,
}

impl Registrar {
    /// Asks these APIs, each as `http://host:port`, one after the other.
    pub(super) fn new(pool: Pool, apis: Vec<String>) -> Self {
        Self { pool, apis, kind: Kind::default() }
    }

    /// The same, who registers jobs of a kind.
    pub fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    /// Registers a service at whichever API answers; returns when it is acknowledged.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn register(&self, id: &str, count: u64) {
        let registered = self.try_register(&service(id, count, self.kind)).await;
        registered.unwrap_or_else(|refused| panic!("the job is refused: {refused}"));
    }

    /// Asks one API after the other, until one of them takes the job.
    ///
    /// # Errors
    /// Why one of them refuses it.
    pub async fn try_register(&self, job: &Value) -> Result<(), String> {
        let body = job.to_string();
        for api in self.apis.iter().cycle() {
            match self.pool.tell(api, "PUT", "/v1/jobs", body.as_bytes()).await {
                Ok(Ok(())) => break,
                Ok(Err((status, why))) if status < SERVER_ERRORS => return Err(why),
                Ok(Err(_)) | Err(_) => sleep(RETRY).await,
            }
        }
        Ok(())
    }

    /// Stops a job.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn stop(&self, id: &str) {
        let stopped = self.pool.tell(&self.apis[0], "DELETE", &format!("/v1/job/{id}"), &[]).await;
        let refused = stopped.expect("the API is there").err();
        assert_eq!(refused, None, "the job is stopped");
    }
}

/// A service whose one group has so many small allocations. Their driver is the one that only pretends, or `DRIVER` in the
/// environment, for which they sleep.
pub(super) fn service(id: &str, count: u64, kind: Kind) -> Value {
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

/// A version of a batch job that runs nothing, and differs from every other version.
pub(super) fn idle(id: &str, version: u64) -> Value {
    // Batch jobs may say nothing of updates.
    let mut job = service(id, 0, Kind::Deployed);
    (job["Job"]["Type"], job["Job"]["Meta"]) = (json!("batch"), json!({ "version": version.to_string() }));
    job
}
