//! The attackers' neighbours: clients that read and register jobs all the time, at a fixed rate. Each request counts
//! from the moment at which it was due, so that a server that stands still for a while is slow for all requests of
//! that time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use telemetry::clock;
use tests::harness::api::Api;
use tests::harness::jobs;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

/// Number of clients that read, each on a connection of its own, so that every thread of the server has some.
const READERS: usize = 6;
/// Interval between two requests of a reader, and between two registrations.
const READ_INTERVAL: Duration = Duration::from_millis(40);
const WRITE_INTERVAL: Duration = Duration::from_millis(100);
/// How long a request may take before it counts as failed.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Number of jobs that are registered again and again.
const JOBS: u64 = 12;
/// The member of a job's metadata that tells its registrations apart.
const MARK: &str = "mark";

/// Clients that run until this is dropped.
pub(crate) struct Neighbour {
    api: Api,
    records: Arc<Records>,
    _clients: JoinSet<()>,
}

#[derive(Default)]
struct Records {
    requests: Mutex<Requests>,
    /// The mark of the last acknowledged registration of each job.
    acknowledged: Mutex<BTreeMap<String, u64>>,
}

/// What became of the requests of some time.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    /// How long each took.
    times: Vec<Duration>,
    /// Why some failed.
    pub(crate) failures: Vec<String>,
}

impl Requests {
    pub(crate) fn count(&self) -> usize {
        self.times.len()
    }

    /// The time within which 99 of 100 requests were answered; zero if there were none.
    pub(crate) fn p99(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        let index = (times.len() * 99).div_ceil(100).saturating_sub(1);
        times.get(index).copied().unwrap_or_default()
    }
}

impl Neighbour {
    /// Starts the clients of the API at `host`.
    pub(crate) fn start(host: &str) -> Self {
        let records = Arc::new(Records::default());
        let mut clients = JoinSet::new();
        for reader in 0..READERS {
            let api = Api::new(host.to_owned());
            clients.spawn(read(api, Arc::clone(&records), reader));
        }
        let api = Api::new(host.to_owned());
        clients.spawn(write(api.clone(), Arc::clone(&records)));
        Self { api, records, _clients: clients }
    }

    /// Waits until each job was registered once.
    pub(crate) async fn wait_until_settled(&self) {
        tests::harness::wait_until(
            "the neighbour has registered its jobs",
            async || (lock(&self.records.acknowledged).len() as u64 == JOBS).then_some(()),
            || format!("{:?}", lock(&self.records.requests).failures),
        )
        .await;
    }

    /// The requests since the last call.
    pub(crate) fn take_requests(&self) -> Requests {
        std::mem::take(&mut lock(&self.records.requests))
    }

    /// Checks that every acknowledged registration is still there. The error names those that are lost.
    pub(crate) async fn check_acknowledged(&self) -> Result<(), String> {
        let acknowledged = lock(&self.records.acknowledged).clone();
        let mut lost = Vec::new();
        for (id, mark) in acknowledged {
            let found = self.api.try_get(&format!("/v1/job/{id}")).await;
            match found.as_ref().map(mark_of) {
                Ok(Some(found)) if found >= mark => {}
                Ok(found) => lost.push(format!("{id} has the mark {found:?} instead of {mark}")),
                Err(error) => lost.push(format!("{id}: {error}")),
            }
        }
        if lost.is_empty() {
            Ok(())
        } else {
            Err(format!("acknowledged writes are lost: {}", lost.join("; ")))
        }
    }
}

fn mark_of(job: &Value) -> Option<u64> {
    job["Meta"][MARK].as_str()?.parse().ok()
}

/// Reads the list of jobs and one job in turns.
async fn read(api: Api, records: Arc<Records>, reader: usize) {
    let paths = ["/v1/jobs?per_page=50", "/v1/job/steady-agent"];
    let mut due = interval(READ_INTERVAL);
    for round in reader.. {
        let path = paths[round % paths.len()];
        let due = due.tick().await.into_std();
        record(&records, path, due, timeout(TIMEOUT, api.try_get(path)).await.ok());
    }
}

/// Registers the jobs in turns, each time with the next mark.
async fn write(api: Api, records: Arc<Records>) {
    let mut due = interval(WRITE_INTERVAL);
    for mark in 0_u64.. {
        let id = format!("neighbour-{}", mark % JOBS);
        let mut job = jobs::mock_service(&id, 0);
        job["Job"]["Meta"] = json!({ MARK: mark.to_string() });
        let due = due.tick().await.into_std();
        let answer = timeout(TIMEOUT, api.try_put("/v1/jobs", &job)).await.ok();
        if let Some(Ok(_)) = &answer {
            lock(&records.acknowledged).insert(id.clone(), mark);
        }
        record(&records, &format!("registering {id}"), due, answer);
    }
}

fn record(records: &Records, what: &str, due: Instant, answer: Option<Result<Value, String>>) {
    let mut requests = lock(&records.requests);
    requests.times.push(clock::monotonic().saturating_duration_since(due));
    match answer {
        Some(Ok(_)) => {}
        Some(Err(error)) => requests.failures.push(format!("{what}: {error}")),
        None => requests.failures.push(format!("{what}: no answer within {TIMEOUT:?}")),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_99th_of_100_counts() {
    let requests = |millis: &[u64]| {
        let times = millis.iter().copied().map(Duration::from_millis).collect();
        Requests { times, failures: Vec::new() }.p99()
    };
    let hundred: Vec<u64> = (1..=100).rev().collect();
    assert_eq!(requests(&hundred), Duration::from_millis(99));
    assert_eq!(requests(&[7]), Duration::from_millis(7));
    assert_eq!(requests(&[]), Duration::ZERO);
}
