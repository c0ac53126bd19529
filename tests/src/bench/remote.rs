//! An existing cluster at an address, measured as a client sees it, by blocking queries.
#![allow(clippy::print_stderr, reason = "a wrong address is reported to the user")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::clock;
use tokio::task::JoinSet;

use super::http::Pool;
use super::registrar::{Kind, Registrar, idle_job};
use super::{JobTimes, Streamed, TIMEOUT};

/// How many jobs are stopped at once.
const STOPPING: usize = 32;
/// How long the server may hold a response back while nothing changes.
const WAIT: &str = "5s";

/// A cluster that was started by others.
#[derive(Debug, Clone)]
pub struct Remote {
    api: String,
    client: reqwest::Client,
    registrar: Registrar,
    /// Tells the jobs of this run from those of earlier runs.
    run: u64,
    /// Ids of the jobs that this run has registered.
    registered_ids: Arc<Mutex<Vec<String>>>,
}

impl Remote {
    /// Returns the cluster that `ADDR` in the environment names, as `http://host:port`.
    pub fn from_env() -> Option<Self> {
        let api = std::env::var("ADDR").ok().filter(|address| !address.is_empty())?;
        let api = api.trim_end_matches('/').to_owned();
        let client = reqwest::Client::new();
        let registrar = Registrar::new(Pool::default(), vec![api.clone()]);
        let run = clock::now().0.unsigned_abs() / 1_000_000;
        Some(Self { api, client, registrar, run, registered_ids: Arc::default() })
    }

    /// The URL of the API.
    pub fn api(&self) -> &str {
        &self.api
    }

    /// Returns how many nodes are ready. Ends the process if the API does not answer.
    pub async fn nodes(&self) -> u64 {
        let answer = self.client.get(format!("{}/v1/nodes", self.api)).send().await;
        let answer = match answer.and_then(reqwest::Response::error_for_status) {
            Ok(answer) => answer.json::<Vec<Value>>().await,
            Err(error) => Err(error),
        };
        let nodes = answer.unwrap_or_else(|error| {
            eprintln!("no API answers at ADDR={}: {}", self.api, telemetry::chain(&error));
            std::process::exit(1);
        });
        nodes.iter().filter(|node| node["Status"] == "ready").count() as u64
    }

    /// Stops all jobs that were registered.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn end(self) {
        let registered_ids =
            std::mem::take(&mut *self.registered_ids.lock().unwrap_or_else(PoisonError::into_inner));
        for chunk in registered_ids.chunks(STOPPING) {
            let mut stopping = JoinSet::new();
            for id in chunk {
                let (registrar, id) = (self.registrar.clone(), id.clone());
                stopping.spawn(async move { registrar.stop(&id).await });
            }
            stopping.join_all().await;
        }
    }

    async fn register(&self, id: &str, count: u64) {
        self.registrar.register(id, count).await;
        self.registered_ids.lock().unwrap_or_else(PoisonError::into_inner).push(id.to_owned());
    }

    /// Registers jobs of the given kind from now on.
    pub fn set_kind(&mut self, kind: Kind) {
        self.registrar = self.registrar.clone().with_kind(kind);
    }

    /// The id of a job of this run.
    pub fn id(&self, name: &str) -> String {
        format!("bench-{}-{name}", self.run)
    }

    /// Registers a job and waits until all of it runs. Times are counted from `since`.
    ///
    /// # Panics
    /// If the job is refused, or does not run in time.
    pub async fn place(&self, name: &str, count: u64, since: Instant) -> JobTimes {
        let id = self.id(name);
        self.register(&id, count).await;
        let registered = since.elapsed();
        let placed = self.wait_until_placed(&id, count, &["Starting", "Running"]).await - since;
        let running = self.wait_until_placed(&id, count, &["Running"]).await - since;
        JobTimes { registered, placed, running }
    }

    /// Keeps `in_flight` jobs in flight for the given length of time; a job is in flight from its registration until
    /// all of it is placed.
    ///
    /// # Panics
    /// If a job is refused, or is not placed in time.
    pub async fn stream(&self, name: &str, count: u64, in_flight: usize, length: Duration) -> Streamed {
        let began = clock::monotonic();
        let mut clients = JoinSet::new();
        for client in 0..in_flight {
            let (remote, name) = (self.clone(), name.to_owned());
            clients.spawn(async move {
                let mut times = Vec::new();
                while began.elapsed() < length {
                    let id = remote.id(&format!("{name}-{client}-{}", times.len()));
                    let sent = clock::monotonic();
                    remote.register(&id, count).await;
                    times.push(remote.wait_until_placed(&id, count, &["Starting", "Running"]).await - sent);
                }
                times
            });
        }
        let times = clients.join_all().await.concat();
        Streamed { times, elapsed: began.elapsed() }
    }

    /// Registers a job without allocations, or a new version of it. Returns when that was acknowledged.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change(&self, name: &str, version: u64) -> Instant {
        let registered = self.registrar.try_register(&idle_job(&self.id(name), version)).await;
        registered.unwrap_or_else(|refused| panic!("the job is refused: {refused}"));
        clock::monotonic()
    }

    /// Waits until `count` of a job's allocations are in these states together. Returns when they were.
    async fn wait_until_placed(&self, id: &str, count: u64, states: &[&str]) -> Instant {
        let (began, mut index) = (clock::monotonic(), 0);
        loop {
            let (newer, summary) = self.get(&format!("/v1/job/{id}/summary"), index).await;
            let group = &summary["Summary"]["group"];
            if states.iter().filter_map(|state| group[state].as_u64()).sum::<u64>() >= count {
                return clock::monotonic();
            }
            assert!(began.elapsed() < TIMEOUT, "timed out waiting for {id}: {summary}");
            index = newer;
        }
    }

    /// Reads a path once it is newer than an index. Returns the index of the response and its content.
    async fn get(&self, path: &str, index: u64) -> (u64, Value) {
        let url = format!("{}{path}?index={index}&wait={WAIT}", self.api);
        let answer = self.client.get(url).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status).expect("the API answers");
        let index = answer.headers().get("X-Nomad-Index").and_then(|value| value.to_str().ok()?.parse().ok());
        (index.unwrap_or_default(), answer.json().await.expect("the answer is JSON"))
    }
}
