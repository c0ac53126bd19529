//! Registers jobs in spite of failures, and remembers which of them were acknowledged.

use std::time::Duration;

use serde_json::{Value, json};
use telemetry::clock::monotonic as now;
use tests::harness::api::{Api, array, text};
use tests::harness::pause;

/// How long one request may take before it is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a job may take until it is placed.
const PLACED_WITHIN: Duration = Duration::from_secs(10);

/// Registers jobs of one short task.
#[derive(Debug)]
pub(crate) struct Registrar {
    api: Api,
    /// Ids of the jobs that were acknowledged.
    acknowledged: Vec<String>,
}

impl Registrar {
    pub(crate) fn new(api: Api) -> Self {
        Self { api, acknowledged: Vec::new() }
    }

    /// Number of acknowledged jobs.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.len()
    }

    /// Registers the next job. Repeats the request until it is acknowledged.
    pub(crate) async fn register(&mut self) -> String {
        let id = format!("drill-{:04}", self.acknowledged.len());
        let job = short(&id);
        // Registering a job twice has the same effect as once.
        while self.in_time(self.api.try_put("/v1/jobs", &job)).await.is_none() {
            pause().await;
        }
        self.acknowledged.push(id.clone());
        id
    }

    /// Registers a job and waits until it is placed. Returns how long both took.
    ///
    /// # Panics
    /// If that takes too long.
    pub(crate) async fn place(&mut self, explain: impl Fn() -> String) -> Duration {
        let begun = now();
        let id = self.register().await;
        let path = format!("/v1/job/{id}/allocations");
        loop {
            let placed = self.in_time(self.api.try_get(&path)).await;
            if placed.is_some_and(|allocs| !array(&allocs).is_empty()) {
                return now() - begun;
            }
            assert!(
                now() - begun < PLACED_WITHIN,
                "{id} is not placed after {PLACED_WITHIN:?}\n{}",
                explain()
            );
            pause().await;
        }
    }

    /// Returns acknowledged jobs that the API does not list, that have no allocation, or none that is complete.
    pub(crate) async fn lost(&self) -> Option<Lost> {
        let jobs = self.all("/v1/jobs?prefix=drill-").await?;
        let allocs = self.all("/v1/allocations").await?;
        let listed = |id: &str| jobs.iter().any(|job| text(job, "ID") == id);
        let of =
            |id: &str| -> Vec<&Value> { allocs.iter().filter(|alloc| text(alloc, "JobID") == id).collect() };
        let is_complete = |id: &str| of(id).iter().any(|alloc| text(alloc, "ClientStatus") == "complete");
        let which = |is_lost: &dyn Fn(&str) -> bool| -> Vec<String> {
            self.acknowledged.iter().filter(|id| is_lost(id)).cloned().collect()
        };
        Some(Lost {
            jobs: which(&|id| !listed(id)),
            placements: which(&|id| of(id).is_empty()),
            runs: which(&|id| !is_complete(id)),
        })
    }

    /// Reads a whole list.
    async fn all(&self, path: &str) -> Option<Vec<Value>> {
        let list = self.in_time(self.api.try_get(path)).await?;
        list.as_array().cloned()
    }

    /// Returns the response, if it is successful and in time.
    async fn in_time(&self, request: impl Future<Output = Result<Value, String>>) -> Option<Value> {
        tokio::time::timeout(REQUEST_TIMEOUT, request).await.ok()?.ok()
    }
}

/// Acknowledged jobs of which something is missing.
#[derive(Debug)]
pub(crate) struct Lost {
    /// Jobs that are not listed.
    pub(crate) jobs: Vec<String>,
    /// Jobs that were never placed.
    pub(crate) placements: Vec<String>,
    /// Jobs of which no task has completed.
    pub(crate) runs: Vec<String>,
}

/// A batch job with one task that exits at once.
fn short(id: &str) -> Value {
    json!({ "Job": {
        "ID": id,
        "Type": "batch",
        "Datacenters": ["*"],
        "TaskGroups": [{
            "Name": "group",
            "EphemeralDisk": { "SizeMB": 10 },
            "Tasks": [{
                "Name": "task",
                "Driver": "raw_exec",
                "Config": { "command": "/bin/true" },
                "Resources": { "CPU": 1, "MemoryMB": 10 },
                "LogConfig": { "MaxFiles": 1, "MaxFileSizeMB": 1 },
            }],
        }],
    } })
}
