//! Is anything that was acknowledged lost when a process is killed while jobs are being registered? Does everything that was
//! asked for come to run, and nothing twice?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tests::harness::api::{Api, array, text};
use tests::harness::{AGENT, Cluster, jobs, pause};
use tokio::task::JoinSet;

use crate::BINARY;

/// How many register jobs at the same time.
const WRITERS: usize = 4;
/// How many jobs are acknowledged before the kill; and after it, before it is enough.
const JOBS: usize = 20;
/// How many allocations a job asks for.
const COUNT: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_the_plan_applier() {
    nothing_is_lost_with_each_of("plan-applier").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_the_eval_broker() {
    nothing_is_lost_with_each_of("eval-broker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_the_node_tracker() {
    nothing_is_lost_with_each_of("node-tracker").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_a_scheduler() {
    nothing_is_lost_with_each_of("scheduler").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_the_api() {
    nothing_is_lost_when("api", async |cluster| {
        cluster.kill9("api");
        cluster.spawn("api");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a defect: on a loaded machine an allocation may stay pending after its agent was killed as it began"]
async fn nothing_is_lost_with_the_agent() {
    nothing_is_lost_when("agent", async |cluster| {
        cluster.kill9(AGENT);
        cluster.spawn(AGENT);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_nats() {
    nothing_is_lost_when("nats", async |cluster| {
        cluster.nats.kill9().await.expect("nats-server can be killed");
        cluster.nats.restart().await.expect("nats-server starts again");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_postgres() {
    nothing_is_lost_when("postgres", async |cluster| {
        cluster.postgres.kill9().await.expect("PostgreSQL can be killed");
        cluster.postgres.restart().await.expect("PostgreSQL starts again");
    })
    .await;
}

async fn nothing_is_lost_when(what: &str, happens: impl AsyncFnOnce(&mut Cluster)) {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let mut jobs = BTreeMap::new();
    register_while(&mut cluster, what, &mut jobs, happens).await;
    assert_nothing_is_lost(&mut cluster, &jobs).await;
}

/// Kills both of two processes of a service, one after the other. The one that is left takes over, or goes on alone.
async fn nothing_is_lost_with_each_of(service: &str) {
    let mut cluster = Cluster::start(BINARY, &[]).await;
    let second = cluster.spawn_second(service).await;
    let mut jobs = BTreeMap::new();
    register_while(&mut cluster, "first", &mut jobs, async |cluster| cluster.kill9(service)).await;
    cluster.spawn(service);
    register_while(&mut cluster, "second", &mut jobs, async |cluster| cluster.kill9(&second)).await;
    assert_nothing_is_lost(&mut cluster, &jobs).await;
}

/// Has jobs registered before, while and after something happens, and waits until all that was ever asked for runs.
async fn register_while(
    cluster: &mut Cluster,
    what: &str,
    jobs: &mut BTreeMap<String, u64>,
    happens: impl AsyncFnOnce(&mut Cluster),
) {
    let writers = Writers::start(&cluster.api, what).await;
    writers.until_acknowledged(cluster, JOBS).await;
    happens(cluster).await;
    writers.until_acknowledged(cluster, writers.acknowledged() + JOBS).await;
    jobs.extend(writers.stop().await);
    let wanted = jobs.len() * COUNT;
    cluster
        .until("all allocations run", async |cluster| {
            let allocs = cluster.api.try_get("/v1/allocations").await.ok()?;
            let running =
                array(&allocs).iter().filter(|alloc| text(alloc, "ClientStatus") == "running").count();
            (running >= wanted).then_some(())
        })
        .await;
}

async fn assert_nothing_is_lost(cluster: &mut Cluster, jobs: &BTreeMap<String, u64>) {
    cluster
        .until("no evaluation waits", async |cluster| {
            let evals = cluster.api.try_get("/v1/evaluations").await.ok()?;
            array(&evals).iter().all(|eval| text(eval, "Status") == "complete").then_some(())
        })
        .await;

    // Whatever runs, ran or was to run is listed: what was placed twice would stand here as well.
    let allocs = cluster.api.get("/v1/allocations").await;
    let mut names: Vec<&str> = array(&allocs).iter().map(|alloc| text(alloc, "Name")).collect();
    names.sort_unstable();
    let mut wanted: Vec<String> =
        (0..COUNT).flat_map(|place| jobs.keys().map(move |job| format!("{job}.group[{place}]"))).collect();
    wanted.sort_unstable();
    assert_eq!(names, wanted);

    // A registration that was sent again, because its answer was lost, is still one registration.
    for (job, index) in jobs {
        let found = cluster.api.get(&format!("/v1/job/{job}")).await;
        assert_eq!((&found["Version"], &found["JobModifyIndex"]), (&0.into(), &(*index).into()), "{job}");
    }

    let gaps = "select max(changes.index) - min(changes.index) + 1 - count(*), max(head.index) - max(changes.index) \
                from changes, head";
    assert_eq!(cluster.sql(gaps), ["0|0"]);
    cluster.assert_alive();
}

/// Several who register jobs, one after the other, until it is enough.
struct Writers {
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
}

struct Shared {
    api: Api,
    /// What the ids of its jobs begin with.
    prefix: String,
    next: AtomicUsize,
    is_enough: AtomicBool,
    /// Jobs with the index at which each was registered.
    acknowledged: Mutex<BTreeMap<String, u64>>,
}

impl Writers {
    async fn start(api: &Api, prefix: &str) -> Self {
        // Says why, should jobs be refused whatever is killed.
        api.put("/v1/jobs", &jobs::pretending("empty", 0)).await;
        let shared = Arc::new(Shared {
            api: api.clone(),
            prefix: prefix.to_owned(),
            next: AtomicUsize::new(0),
            is_enough: AtomicBool::new(false),
            acknowledged: Mutex::default(),
        });
        let mut tasks = JoinSet::new();
        for _ in 0..WRITERS {
            let shared = Arc::clone(&shared);
            tasks.spawn(async move {
                while !shared.is_enough.load(Ordering::Relaxed) {
                    shared.register().await;
                }
            });
        }
        Self { shared, tasks }
    }

    fn acknowledged(&self) -> usize {
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    async fn until_acknowledged(&self, cluster: &Cluster, count: usize) {
        cluster.until("jobs are registered", async |_| (self.acknowledged() >= count).then_some(())).await;
    }

    /// Lets each finish what it has begun.
    async fn stop(mut self) -> BTreeMap<String, u64> {
        self.shared.is_enough.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.expect("writers do not panic");
        }
        self.shared.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    /// Registers a job, again and again until that is acknowledged.
    async fn register(&self) {
        let id = format!("{}-{}", self.prefix, self.next.fetch_add(1, Ordering::Relaxed));
        let job = jobs::pretending(&id, COUNT);
        let answer = loop {
            match self.api.try_put("/v1/jobs", &job).await {
                Ok(answer) => break answer,
                Err(_) => pause().await,
            }
        };
        let index = answer["JobModifyIndex"].as_u64().expect("an index");
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).insert(id, index);
    }
}
