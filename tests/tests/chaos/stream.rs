//! Users that register, change, stop and purge jobs. Each has jobs of its own, and sends one request after another.
//! Acknowledged changes are recorded, and must be visible at every API from then on.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use model::JobKey;
use model::alloc::ClientStatus;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use reqwest::Method;
use serde_json::{Value, json};
use state::State;
use telemetry::clock;
use tests::harness::api::{Api, text};
use tests::harness::invariants::live_allocs;
use tests::harness::{TIMEOUT, jobs, pause};
use tokio::task::JoinSet;

/// Number of users that write at the same time.
const WRITERS: u64 = 4;
/// Number of jobs of each user.
const JOBS: usize = 3;
/// The highest count of a job, and the most memory of an allocation, in MB.
const COUNT_MAX: usize = 3;
pub(crate) const MEMORY_MB_MAX: u32 = 80;
/// The most memory that all jobs together take, in MB.
pub(crate) const ALL_MEMORY_MB: u32 = WRITERS as u32 * JOBS as u32 * COUNT_MAX as u32 * MEMORY_MB_MAX;
/// The shortest time after which a failed task may be started elsewhere.
const RESCHEDULED_AFTER_NANOS: i64 = 5_000_000_000;
/// One of this many writes is followed by a read that verifies it.
const READ_BACK: u32 = 3;

/// All writers, with the acknowledged state of their jobs. Between rounds they do not run.
pub(crate) struct Stream {
    writers: Vec<Writer>,
}

/// The writers while they run.
pub(crate) struct RunningStream {
    progress: Arc<Progress>,
    tasks: JoinSet<Writer>,
}

/// The progress of the running writers.
struct Progress {
    is_enough: AtomicBool,
    acknowledged: AtomicUsize,
    failed: AtomicUsize,
    last: Mutex<Instant>,
    silence: Mutex<Duration>,
}

/// Statistics of one round of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct StreamStats {
    /// Number of acknowledged writes.
    pub(crate) acknowledged: usize,
    /// Number of failed attempts, which were repeated.
    pub(crate) failed: usize,
    /// The longest time without an acknowledgement.
    pub(crate) silence: Duration,
}

struct Writer {
    apis: Vec<Api>,
    rng: StdRng,
    jobs: Vec<Job>,
    progress: Arc<Progress>,
}

/// A job and its last acknowledged state.
struct Job {
    id: String,
    desired: Desired,
    /// Number of registrations, which tells them apart.
    round: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Desired {
    /// Purged, or never registered.
    Gone,
    Stopped,
    Runs(Shape),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    count: usize,
    memory_mb: u32,
    /// A value in the environment of the task.
    mark: u32,
}

impl Stream {
    /// Creates writers for these APIs. Their choices follow from the seed.
    pub(crate) fn new(apis: &[Api], seed: u64) -> Self {
        let writer = |number| Writer {
            apis: apis.to_vec(),
            rng: StdRng::seed_from_u64(seed ^ (number << 32)),
            jobs: (0..JOBS).map(|job| Job::new(format!("job-{number}-{job}"))).collect(),
            progress: Arc::new(Progress::new()),
        };
        Self { writers: (1..=WRITERS).map(writer).collect() }
    }

    /// Starts the writers.
    pub(crate) fn start(self) -> RunningStream {
        let progress = Arc::new(Progress::new());
        let mut tasks = JoinSet::new();
        for mut writer in self.writers {
            writer.progress = Arc::clone(&progress);
            tasks.spawn(writer.write());
        }
        RunningStream { progress, tasks }
    }

    /// Checks that the state is as acknowledged. The error names the difference.
    pub(crate) fn check_converged(&self, state: &State) -> Result<(), String> {
        for job in self.writers.iter().flat_map(|writer| &writer.jobs) {
            job.check_in(state).map_err(|difference| {
                format!("{} {difference}; acknowledged is {:?}", job.id, job.desired)
            })?;
        }
        match state.live_evals().next() {
            Some(eval) => Err(format!("an evaluation is pending: {eval:?}")),
            None => Ok(()),
        }
    }
}

impl RunningStream {
    pub(crate) fn acknowledged(&self) -> usize {
        self.progress.acknowledged.load(Ordering::Relaxed)
    }

    /// Stops the writers after their current request.
    pub(crate) async fn finish(self) -> (Stream, StreamStats) {
        let Self { progress, mut tasks } = self;
        progress.is_enough.store(true, Ordering::Relaxed);
        let mut writers = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            writers.push(ended.expect("writers do not panic"));
        }
        writers.sort_by(|one, other| one.jobs[0].id.cmp(&other.jobs[0].id));
        let stats = StreamStats {
            acknowledged: progress.acknowledged.load(Ordering::Relaxed),
            failed: progress.failed.load(Ordering::Relaxed),
            silence: *progress.silence.lock().unwrap_or_else(PoisonError::into_inner),
        };
        (Stream { writers }, stats)
    }
}

impl Progress {
    fn new() -> Self {
        Self {
            is_enough: AtomicBool::new(false),
            acknowledged: AtomicUsize::new(0),
            failed: AtomicUsize::new(0),
            last: Mutex::new(clock::monotonic()),
            silence: Mutex::default(),
        }
    }

    fn acknowledge(&self) {
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        let now = clock::monotonic();
        let before = std::mem::replace(&mut *self.last.lock().unwrap_or_else(PoisonError::into_inner), now);
        let mut silence = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        *silence = silence.max(now - before);
    }
}

impl Writer {
    async fn write(mut self) -> Self {
        while !self.progress.is_enough.load(Ordering::Relaxed) {
            let index = self.rng.random_range(0..self.jobs.len());
            let desired = self.next(&self.jobs[index].desired.clone(), self.jobs[index].round);
            self.jobs[index].round += 1;
            self.apply_until_acknowledged(index, desired).await;
            self.progress.acknowledge();
            self.jobs[index].desired = desired;
            if self.rng.random_ratio(1, READ_BACK) {
                self.read_back(index).await;
            }
        }
        self
    }

    /// Chooses the next state of a job.
    fn next(&mut self, now: &Desired, mark: u32) -> Desired {
        let rng = &mut self.rng;
        let shape = |shape: Shape| Desired::Runs(Shape { mark, ..shape });
        let fresh = Shape {
            count: rng.random_range(1..=COUNT_MAX),
            memory_mb: rng.random_range(1..=4) * MEMORY_MB_MAX / 4,
            mark,
        };
        match (*now, rng.random_range(0..10)) {
            (Desired::Gone, _) | (Desired::Stopped, 0..=5) => shape(fresh),
            (Desired::Stopped, _) | (Desired::Runs(_), 0) => Desired::Gone,
            (Desired::Runs(_), 1) => Desired::Stopped,
            // Changes the count, the resources, or only the environment.
            (Desired::Runs(old), 2..=4) => Desired::Runs(Shape { count: fresh.count, ..old }),
            (Desired::Runs(old), 5..=6) => shape(Shape { memory_mb: fresh.memory_mb, ..old }),
            (Desired::Runs(old), _) => shape(old),
        }
    }

    /// Sends the request until it is acknowledged.
    async fn apply_until_acknowledged(&mut self, index: usize, desired: Desired) {
        let (id, begun) = (self.jobs[index].id.clone(), clock::monotonic());
        let mut refused = String::new();
        for attempt in 0.. {
            assert!(begun.elapsed() < TIMEOUT, "timed out requesting {desired:?} for {id}: {refused}");
            let api = &self.apis[self.rng.random_range(0..self.apis.len())];
            let request = match desired {
                Desired::Runs(shape) => api.request(Method::PUT, "/v1/jobs").json(&shape.job(&id)),
                Desired::Stopped => api.request(Method::DELETE, &format!("/v1/job/{id}")),
                Desired::Gone => api.request(Method::DELETE, &format!("/v1/job/{id}?purge=true")),
            };
            match request.send().await {
                Ok(response) if response.status().is_success() => return,
                // An earlier attempt that failed may have purged the job.
                Ok(response) if desired == Desired::Gone && response.status() == 404 && attempt > 0 => return,
                Ok(response) => {
                    let status = response.status();
                    refused = format!("{status}: {}", response.text().await.unwrap_or_default());
                    assert!(status.is_server_error(), "{desired:?} was refused for {id}: {refused}");
                }
                Err(error) => refused = error.to_string(),
            }
            self.progress.failed.fetch_add(1, Ordering::Relaxed);
            pause().await;
        }
    }

    /// Asserts that an API shows the acknowledged state of a job, unless it reports an error of the server.
    async fn read_back(&mut self, index: usize) {
        let api = &self.apis[self.rng.random_range(0..self.apis.len())];
        let Job { id, desired, .. } = &self.jobs[index];
        let Ok(response) = api.request(Method::GET, &format!("/v1/job/{id}")).send().await else { return };
        let status = response.status();
        let Ok(body) = response.text().await else { return };
        if status.is_server_error() {
            return;
        }
        let found: Value = serde_json::from_str(&body).unwrap_or_default();
        let group = &found["TaskGroups"][0];
        let is_as_acknowledged = match desired {
            Desired::Gone => status == 404,
            Desired::Stopped => found["Stop"] == true,
            Desired::Runs(shape) => {
                found["Stop"] == false
                    && group["Count"] == shape.count
                    && text(&group["Tasks"][0]["Env"], "MARK") == shape.mark.to_string()
            }
        };
        assert!(
            is_as_acknowledged,
            "{} shows {id} as {status}: {body}; acknowledged is {desired:?}",
            api.host()
        );
    }
}

impl Shape {
    fn job(self, id: &str) -> Value {
        let mut job = jobs::mock_service(id, self.count);
        // A rollout may fail when tasks and nodes fail, but every acknowledged change must take effect.
        job["Job"]["TaskGroups"][0]["Update"] = json!({ "MaxParallel": 0 });
        // A task that cannot be started on a full disk is soon started elsewhere.
        job["Job"]["TaskGroups"][0]["RestartPolicy"] = json!({ "Attempts": 0, "Mode": "fail" });
        job["Job"]["TaskGroups"][0]["ReschedulePolicy"] =
            json!({ "Delay": RESCHEDULED_AFTER_NANOS, "DelayFunction": "constant", "Unlimited": true });
        let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
        task["Env"] = json!({ "MARK": self.mark.to_string() });
        task["Resources"]["MemoryMB"] = self.memory_mb.into();
        job
    }
}

impl Job {
    fn new(id: String) -> Self {
        Self { id, desired: Desired::Gone, round: 0 }
    }

    fn check_in(&self, state: &State) -> Result<(), String> {
        let key = JobKey::new("default", self.id.as_str());
        let job = state.job(&key);
        let (Desired::Stopped | Desired::Runs(_)) = self.desired else {
            let is_gone = job.is_none() && state.allocs_of_job(&key).len() == 0;
            return if is_gone { Ok(()) } else { Err(format!("still exists: {job:?}")) };
        };
        let job = job.ok_or("does not exist")?;
        let Desired::Runs(shape) = self.desired else {
            let ended = state.allocs_of_job(&key).all(|alloc| alloc.client_status().is_terminal());
            return if job.spec.stop && ended { Ok(()) } else { Err("is not stopped".to_owned()) };
        };
        let group = &job.spec.task_groups[0];
        let mark = group.tasks[0].env.get("MARK").map(|mark| mark.to_string());
        if job.spec.stop || group.count as usize != shape.count || mark != Some(shape.mark.to_string()) {
            return Err(format!("differs: {job:?}"));
        }
        let live = live_allocs(state, &key, &group.name);
        let run = live.iter().all(|alloc| {
            alloc.client_status() == ClientStatus::Running && alloc.common().job == job.version_key()
        });
        if run && live.len() == shape.count {
            Ok(())
        } else {
            Err(format!("does not run as it should: {live:?}"))
        }
    }
}
