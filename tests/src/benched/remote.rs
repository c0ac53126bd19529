//! Whatever speaks the API, by its address: seen as a client sees it, by blocking queries.
#![allow(clippy::print_stderr, reason = "who gave a wrong address is told so")]

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use telemetry::clock;
use tokio::task::JoinSet;

use super::http::Pool;
use super::registrar::{Kind, Registrar, idle};
use super::{PATIENCE, Placed, Streamed};

/// How many jobs are stopped at once.
const STOPPING: usize = 32;
/// How long the other side holds an answer back while nothing changes.
const WAIT: &str = "5s";

/// A cluster that others have started.
#[derive(Debug, Clone)]
pub struct Remote {
    api: String,
    client: reqwest::Client,
    registrar: Registrar,
    /// Tells its jobs from those of earlier runs.
    run: u64,
    /// The ids of jobs that run there because of us.
    begun: Arc<Mutex<Vec<String>>>,
}

impl Remote {
    /// The cluster that `ADDR` in the environment names, as `http://host:port`.
    pub fn wanted() -> Option<Self> {
        let api = std::env::var("ADDR").ok().filter(|address| !address.is_empty())?;
        let api = api.trim_end_matches('/').to_owned();
        let client = reqwest::Client::new();
        let registrar = Registrar::new(Pool::default(), vec![api.clone()]);
        let run = clock::now().0.unsigned_abs() / 1_000_000;
        Some(Self { api, client, registrar, run, begun: Arc::default() })
    }

    /// Its address, as a URL.
    pub fn api(&self) -> &str {
        &self.api
    }

    /// How many nodes can take work; ends the process if it does not say.
    pub async fn nodes(&self) -> u64 {
        let answer = self.client.get(format!("{}/v1/nodes", self.api)).send().await;
        let answer = match answer.and_then(reqwest::Response::error_for_status) {
            Ok(answer) => answer.json::<Vec<Value>>().await,
            Err(error) => Err(error),
        };
        let nodes = answer.unwrap_or_else(|error| {
            eprintln!("Nobody speaks the API at ADDR={}: {}", self.api, telemetry::chain(&error));
            std::process::exit(1);
        });
        nodes.iter().filter(|node| node["Status"] == "ready").count() as u64
    }

    /// Stops all jobs that were begun.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn end(self) {
        let begun = std::mem::take(&mut *self.begun.lock().unwrap_or_else(PoisonError::into_inner));
        for some in begun.chunks(STOPPING) {
            let mut stopping = JoinSet::new();
            for id in some {
                let (registrar, id) = (self.registrar.clone(), id.clone());
                stopping.spawn(async move { registrar.stop(&id).await });
            }
            stopping.join_all().await;
        }
    }

    async fn register(&self, id: &str, count: u64) {
        self.registrar.register(id, count).await;
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).push(id.to_owned());
    }

    /// Gives it jobs of a kind from now on.
    pub fn set_kind(&mut self, kind: Kind) {
        self.registrar = self.registrar.clone().of(kind);
    }

    /// The id of a job of this run.
    pub fn id(&self, name: &str) -> String {
        format!("bench-{}-{name}", self.run)
    }

    /// Registers a job and waits until all of it runs; from the moment `since`.
    ///
    /// # Panics
    /// If it is refused, or does not come to run.
    pub async fn place(&self, name: &str, count: u64, since: Instant) -> Placed {
        let id = self.id(name);
        self.register(&id, count).await;
        let registered = since.elapsed();
        let placed = self.until(&id, count, &["Starting", "Running"]).await - since;
        let running = self.until(&id, count, &["Running"]).await - since;
        Placed { registered, placed, running }
    }

    /// Has so many jobs in flight, from when they are sent until all of each is placed, for as long as it is to last.
    ///
    /// # Panics
    /// If one is refused, or does not come to be placed.
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
                    times.push(remote.until(&id, count, &["Starting", "Running"]).await - sent);
                }
                times
            });
        }
        let times = clients.join_all().await.concat();
        Streamed { times, elapsed: began.elapsed() }
    }

    /// Registers a job that runs nothing, or a new version of it. When that was acknowledged.
    ///
    /// # Panics
    /// If it is refused.
    pub async fn change(&self, name: &str, version: u64) -> Instant {
        let registered = self.registrar.try_register(&idle(&self.id(name), version)).await;
        registered.unwrap_or_else(|refused| panic!("the job is refused: {refused}"));
        clock::monotonic()
    }

    /// Waits until so many of a job's allocations are in these states together. When that was.
    async fn until(&self, id: &str, count: u64, states: &[&str]) -> Instant {
        let (began, mut index) = (clock::monotonic(), 0);
        loop {
            let (newer, summary) = self.get(&format!("/v1/job/{id}/summary"), index).await;
            let group = &summary["Summary"]["group"];
            if states.iter().filter_map(|state| group[state].as_u64()).sum::<u64>() >= count {
                return clock::monotonic();
            }
            assert!(began.elapsed() < PATIENCE, "in vain waited for {id}: {summary}");
            index = newer;
        }
    }

    /// What stands at a path, once it is newer than an index, and the index that it is of.
    async fn get(&self, path: &str, index: u64) -> (u64, Value) {
        let url = format!("{}{path}?index={index}&wait={WAIT}", self.api);
        let answer = self.client.get(url).send().await;
        let answer = answer.and_then(reqwest::Response::error_for_status).expect("the server answers");
        let index = answer.headers().get("X-Nomad-Index").and_then(|value| value.to_str().ok()?.parse().ok());
        (index.unwrap_or_default(), answer.json().await.expect("the answer is JSON"))
    }
}
