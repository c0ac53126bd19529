//! Users who register, change, stop and purge jobs, each its own, one thing after the other. What was acknowledged is
//! remembered, and has to be so from then on, whoever is asked.

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

/// How many write at the same time.
const WRITERS: u64 = 4;
/// How many jobs each has.
const JOBS: usize = 3;
/// The most allocations of a job, and the most memory of one, in MB.
const COUNT_MAX: usize = 3;
pub(crate) const MEMORY_MB_MAX: u32 = 80;
/// The memory that all jobs of all writers take at most, in MB.
pub(crate) const ALL_MEMORY_MB: u32 = WRITERS as u32 * JOBS as u32 * COUNT_MAX as u32 * MEMORY_MB_MAX;
/// One read of so many after a write makes sure that it is seen.
const READ_BACK: u32 = 3;

/// All writers, and what they were told. Between the rounds they rest.
pub(crate) struct Stream {
    writers: Vec<Writer>,
}

/// The writers at work.
pub(crate) struct Flowing {
    said: Arc<Said>,
    tasks: JoinSet<Writer>,
}

/// What the writers have been told so far.
struct Said {
    is_enough: AtomicBool,
    acknowledged: AtomicUsize,
    failed: AtomicUsize,
    last: Mutex<Instant>,
    silence: Mutex<Duration>,
}

/// What came of a stream's round.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Flowed {
    /// Writes that were acknowledged.
    pub(crate) acknowledged: usize,
    /// Attempts that failed, and were made again.
    pub(crate) failed: usize,
    /// The longest that nobody was told anything good.
    pub(crate) silence: Duration,
}

struct Writer {
    apis: Vec<Api>,
    chance: StdRng,
    jobs: Vec<Job>,
    said: Arc<Said>,
}

/// A job and what its writer was told last.
struct Job {
    id: String,
    wanted: Wanted,
    /// Counts the registrations, to tell them apart.
    round: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// It was purged, or never was.
    Gone,
    Stopped,
    Runs(Shape),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shape {
    count: usize,
    memory_mb: u32,
    /// Stands in the environment of its task.
    mark: u32,
}

impl Stream {
    /// Writers to these APIs; what they do follows from the seed.
    pub(crate) fn new(apis: &[Api], seed: u64) -> Self {
        let writer = |number| Writer {
            apis: apis.to_vec(),
            chance: StdRng::seed_from_u64(seed ^ (number << 32)),
            jobs: (0..JOBS).map(|job| Job::new(format!("job-{number}-{job}"))).collect(),
            said: Arc::new(Said::new()),
        };
        Self { writers: (1..=WRITERS).map(writer).collect() }
    }

    /// Has them write.
    pub(crate) fn flow(self) -> Flowing {
        let said = Arc::new(Said::new());
        let mut tasks = JoinSet::new();
        for mut writer in self.writers {
            writer.said = Arc::clone(&said);
            tasks.spawn(writer.write());
        }
        Flowing { said, tasks }
    }

    /// What is not yet as it was acknowledged and should therefore come to be.
    pub(crate) fn still_wanting(&self, state: &State) -> Result<(), String> {
        for job in self.writers.iter().flat_map(|writer| &writer.jobs) {
            job.is_so_in(state)
                .map_err(|wrong| format!("{} {wrong}; acknowledged was {:?}", job.id, job.wanted))?;
        }
        match state.live_evals().next() {
            Some(eval) => Err(format!("an evaluation waits: {eval:?}")),
            None => Ok(()),
        }
    }
}

impl Flowing {
    pub(crate) fn acknowledged(&self) -> usize {
        self.said.acknowledged.load(Ordering::Relaxed)
    }

    /// Lets each bring to an end what it has begun.
    pub(crate) async fn rest(self) -> (Stream, Flowed) {
        let Self { said, mut tasks } = self;
        said.is_enough.store(true, Ordering::Relaxed);
        let mut writers = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            writers.push(ended.expect("what writers were told is so"));
        }
        writers.sort_by(|one, other| one.jobs[0].id.cmp(&other.jobs[0].id));
        let flowed = Flowed {
            acknowledged: said.acknowledged.load(Ordering::Relaxed),
            failed: said.failed.load(Ordering::Relaxed),
            silence: *said.silence.lock().unwrap_or_else(PoisonError::into_inner),
        };
        (Stream { writers }, flowed)
    }
}

impl Said {
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
        while !self.said.is_enough.load(Ordering::Relaxed) {
            let place = self.chance.random_range(0..self.jobs.len());
            let wanted = self.next(&self.jobs[place].wanted.clone(), self.jobs[place].round);
            self.jobs[place].round += 1;
            self.bring_about(place, wanted).await;
            self.said.acknowledge();
            self.jobs[place].wanted = wanted;
            if self.chance.random_ratio(1, READ_BACK) {
                self.read_back(place).await;
            }
        }
        self
    }

    /// What becomes of a job next.
    fn next(&mut self, now: &Wanted, mark: u32) -> Wanted {
        let chance = &mut self.chance;
        let shape = |shape: Shape| Wanted::Runs(Shape { mark, ..shape });
        let fresh = Shape {
            count: chance.random_range(1..=COUNT_MAX),
            memory_mb: chance.random_range(1..=4) * MEMORY_MB_MAX / 4,
            mark,
        };
        match (*now, chance.random_range(0..10)) {
            (Wanted::Gone, _) | (Wanted::Stopped, 0..=5) => shape(fresh),
            (Wanted::Stopped, _) | (Wanted::Runs(_), 0) => Wanted::Gone,
            (Wanted::Runs(_), 1) => Wanted::Stopped,
            // Another count, other resources, or only another environment.
            (Wanted::Runs(old), 2..=4) => Wanted::Runs(Shape { count: fresh.count, ..old }),
            (Wanted::Runs(old), 5..=6) => shape(Shape { memory_mb: fresh.memory_mb, ..old }),
            (Wanted::Runs(old), _) => shape(old),
        }
    }

    /// Asks for it, again and again until that is acknowledged.
    async fn bring_about(&mut self, place: usize, wanted: Wanted) {
        let (id, begun) = (self.jobs[place].id.clone(), clock::monotonic());
        let mut refused = String::new();
        for attempt in 0.. {
            assert!(begun.elapsed() < TIMEOUT, "in vain asked for {id} to be {wanted:?}: {refused}");
            let api = &self.apis[self.chance.random_range(0..self.apis.len())];
            let request = match wanted {
                Wanted::Runs(shape) => api.request(Method::PUT, "/v1/jobs").json(&shape.job(&id)),
                Wanted::Stopped => api.request(Method::DELETE, &format!("/v1/job/{id}")),
                Wanted::Gone => api.request(Method::DELETE, &format!("/v1/job/{id}?purge=true")),
            };
            match request.send().await {
                Ok(answer) if answer.status().is_success() => return,
                // An attempt that failed may have done it.
                Ok(answer) if wanted == Wanted::Gone && answer.status() == 404 && attempt > 0 => return,
                Ok(answer) => {
                    let status = answer.status();
                    refused = format!("{status}: {}", answer.text().await.unwrap_or_default());
                    assert!(status.is_server_error(), "{id} cannot be {wanted:?}: {refused}");
                }
                Err(error) => refused = error.to_string(),
            }
            self.said.failed.fetch_add(1, Ordering::Relaxed);
            pause().await;
        }
    }

    /// Whoever is asked shows what was acknowledged, unless it says that it cannot tell.
    async fn read_back(&mut self, place: usize) {
        let api = &self.apis[self.chance.random_range(0..self.apis.len())];
        let Job { id, wanted, .. } = &self.jobs[place];
        let Ok(answer) = api.request(Method::GET, &format!("/v1/job/{id}")).send().await else { return };
        let status = answer.status();
        let Ok(body) = answer.text().await else { return };
        if status.is_server_error() {
            return;
        }
        let found: Value = serde_json::from_str(&body).unwrap_or_default();
        let group = &found["TaskGroups"][0];
        let is_so = match wanted {
            Wanted::Gone => status == 404,
            Wanted::Stopped => found["Stop"] == true,
            Wanted::Runs(shape) => {
                found["Stop"] == false
                    && group["Count"] == shape.count
                    && text(&group["Tasks"][0]["Env"], "MARK") == shape.mark.to_string()
            }
        };
        assert!(is_so, "{} shows {id} as {status}: {body}; acknowledged was {wanted:?}", api.host());
    }
}

impl Shape {
    fn job(self, id: &str) -> Value {
        let mut job = jobs::mock_service(id, self.count);
        // A rollout may fail where tasks and nodes do, and everything acknowledged is to come true.
        job["Job"]["TaskGroups"][0]["Update"] = json!({ "MaxParallel": 0 });
        let task = &mut job["Job"]["TaskGroups"][0]["Tasks"][0];
        task["Env"] = json!({ "MARK": self.mark.to_string() });
        task["Resources"]["MemoryMB"] = self.memory_mb.into();
        job
    }
}

impl Job {
    fn new(id: String) -> Self {
        Self { id, wanted: Wanted::Gone, round: 0 }
    }

    fn is_so_in(&self, state: &State) -> Result<(), String> {
        let key = JobKey::new("default", self.id.as_str());
        let job = state.job(&key);
        let (Wanted::Stopped | Wanted::Runs(_)) = self.wanted else {
            let is_gone = job.is_none() && state.allocs_of_job(&key).len() == 0;
            return if is_gone { Ok(()) } else { Err(format!("is still there: {job:?}")) };
        };
        let job = job.ok_or("is not there")?;
        let Wanted::Runs(shape) = self.wanted else {
            let ended = state.allocs_of_job(&key).all(|alloc| alloc.client_status().is_terminal());
            return if job.spec.stop && ended { Ok(()) } else { Err("is not stopped".to_owned()) };
        };
        let group = &job.spec.task_groups[0];
        let mark = group.tasks[0].env.get("MARK").map(|mark| mark.to_string());
        if job.spec.stop || group.count as usize != shape.count || mark != Some(shape.mark.to_string()) {
            return Err(format!("is another: {job:?}"));
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
