//! `drover sim-nodes`: thousands of simulated agents in one process, for benchmarks and tests. They say what agents say, and
//! run nothing: an allocation is pending, runs after a moment, and stops when it is told to. Commands on the standard input
//! let shares of them fail, be cut off, flap and recover.

mod fate;
mod heart;
mod job;
mod node;
mod spec;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bus::{Bus, RequestError};
use model::node::Secret;
use model::{AllocId, Index, Nanos, NodeId, Timestamp};
use telemetry::clock;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use wire::node::{AskAllocs, AskWork, Heartbeat, NodeAnswer, Register, Report, Reported, WorkIndex};
use wire::{RefusalKind, Role, Subject};

use self::fate::{Fate, Fates};
use self::heart::Heart;
use self::node::{Asked, SimNode, Wake, Work, WorkAllocs};
use crate::health::{self, Parts};
use crate::process::{self, Process};

/// How long a request may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How long the answer to a heartbeat may take, as with agents.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(2);
/// A report that is late, or comes once more, does so within this time.
const LATE_MAX: Duration = Duration::from_secs(3);
/// Heartbeats wait for the end of such a while, so that those of many nodes are one write: they share a connection, which no
/// agents do.
const BEAT: Duration = Duration::from_millis(20);
/// How long a node waits after a request that failed.
const RETRY: Duration = Duration::from_secs(1);
/// How many wakes that bring the work wait for a node.
const NEWS_MAX: usize = 16;
/// How many nodes register at once.
const REGISTERING: usize = 256;

/// Simulates many nodes in one process.
///
/// Lines on the standard input are commands: `fail 5%` and `disconnect 500` befall so many nodes that fare well, `flap 5%
/// 3000` cuts nodes off for half of every three seconds, `recover` ends all that.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) telemetry: telemetry::Args,
    #[command(flatten)]
    pub(crate) bus: bus::Args,
    /// How many nodes there are.
    #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
    pub(crate) count: u32,
    /// The datacenter that they are in.
    #[arg(long, default_value = "dc1")]
    pub(crate) datacenter: String,
    /// What each has of compute, in MHz.
    #[arg(long, default_value_t = 64_000, value_name = "MHZ")]
    pub(crate) cpu: u32,
    /// What each has of memory, in MB.
    #[arg(long, default_value_t = 262_144, value_name = "MB")]
    pub(crate) memory: u32,
    /// How long an allocation is pending before it runs, in milliseconds.
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    pub(crate) start_ms: u32,
    /// How many reports of a hundred come late, after newer ones.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100), value_name = "PERCENT")]
    pub(crate) late_reports: u8,
    /// How many reports of a hundred come twice.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100), value_name = "PERCENT")]
    pub(crate) doubled_reports: u8,
    /// Tells these nodes apart from those of other such processes; the same number makes the same nodes.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u32,
}

impl Args {
    /// The process that the nodes are simulated in; nobody waits for it to be ready.
    pub(crate) fn process(&self) -> process::Settings {
        let (telemetry, health) = (self.telemetry.clone(), health::Args::default());
        process::Settings { name: "sim-nodes", parts: Parts::NONE, stops_children: false, telemetry, health }
    }
}

/// Simulates nodes until the process is to stop.
pub(crate) async fn run(process: Process, args: Args) -> anyhow::Result<()> {
    let bus = Bus::connect(&args.bus, Role::SimNodes).await.context("cannot connect to NATS")?;
    let heart = Heart::start(&args.bus).await?;
    let mut nodes = JoinSet::new();
    let mut wakes = HashMap::new();
    let mut fates = Fates::default();
    let registering = Arc::new(Semaphore::new(REGISTERING));
    let first_beat = Instant::now();
    for number in 0..args.count {
        let (wake, woken) = Wakes::new();
        let agent = Agent::new(&bus, &heart, &args, number, first_beat, woken);
        let fate = fates.add();
        wakes.insert(agent.id, wake);
        nodes.spawn(agent.live(fate, Arc::clone(&registering)));
    }
    tracing::info!(nodes = args.count, "simulating nodes");
    tokio::select! {
        result = forward_wakes(&bus, &wakes) => result,
        () = fates.follow_orders() => Ok(()),
        () = process.stop.cancelled() => Ok(()),
    }
}

/// All wakes come on one subscription, which only servers' credentials allow.
async fn forward_wakes(bus: &Bus, wakes: &HashMap<NodeId, Wakes>) -> anyhow::Result<()> {
    let mut messages = bus.serve(Subject::EVERY_AGENT_WAKE).await?;
    while let Some(message) = messages.next().await {
        let Some(wake) = Subject::agent_of(message.subject()).and_then(|node| wakes.get(&node)) else {
            continue;
        };
        if let Ok(told) = message.body::<Wake>() {
            let work_index = told.work_index;
            if told.news.is_some() && work_index.is_news_to(*wake.index.borrow()) {
                // What finds no room is asked for.
                let _ = wake.news.try_send(told);
            }
            wake.index.send_if_modified(|known| known.hear(work_index));
        }
    }
    anyhow::bail!("the connection to NATS is closed")
}

/// Wakes on their way to a node.
struct Wakes {
    index: watch::Sender<WorkIndex>,
    news: mpsc::Sender<Wake>,
}

/// The node's end of it.
struct Woken {
    index: watch::Receiver<WorkIndex>,
    news: mpsc::Receiver<Wake>,
}

impl Wakes {
    fn new() -> (Self, Woken) {
        let (index, heard) = watch::channel(WorkIndex::default());
        let (news, told) = mpsc::channel(NEWS_MAX);
        (Self { index, news }, Woken { index: heard, news: told })
    }
}

/// One simulated agent.
struct Agent {
    bus: Bus,
    heart: Heart,
    id: NodeId,
    secret: Secret,
    register: Register,
    is_registered: bool,
    start: Nanos,
    /// A moment from which on the heartbeats of all are counted.
    first_beat: Instant,
    node: SimNode,
    woken: Woken,
    /// What it says just now.
    reporting: Vec<AllocId>,
    late_reports: f64,
    doubled_reports: f64,
}

impl Agent {
    fn new(bus: &Bus, heart: &Heart, args: &Args, number: u32, first_beat: Instant, woken: Woken) -> Self {
        let register = spec::register(args, number);
        let start = Nanos(i64::from(args.start_ms) * Nanos::MILLISECOND.0);
        Self {
            bus: bus.clone(),
            heart: heart.clone(),
            id: register.id,
            secret: register.spec.secret_id.clone(),
            register,
            is_registered: false,
            start,
            first_beat,
            node: SimNode::new(start, clock::now()),
            woken,
            reporting: Vec::new(),
            late_reports: f64::from(args.late_reports) / 100.0,
            doubled_reports: f64::from(args.doubled_reports) / 100.0,
        }
    }

    /// Does what agents do whenever it fares well, for ever.
    async fn live(mut self, mut fate: watch::Receiver<Fate>, registering: Arc<Semaphore>) {
        loop {
            let now = *fate.borrow_and_update();
            match now {
                Fate::Well => tokio::select! {
                    () = self.act(&registering) => {}
                    _ = fate.changed() => {}
                },
                Fate::Failed => {
                    self.begin_anew();
                    let _ = fate.changed().await;
                }
                Fate::CutOff => drop(fate.changed().await),
            }
        }
    }

    /// Nothing runs any more, and its agent will be in its next boot.
    fn begin_anew(&mut self) {
        self.node = SimNode::new(self.start, clock::now());
        self.reporting.clear();
        self.is_registered = false;
        Arc::make_mut(&mut self.register.spec).boot += 1;
    }

    /// Registers if need be, and beats, works and reports until it has to register again. May be cut off at any moment.
    async fn act(&mut self, registering: &Semaphore) {
        let unsaid = std::mem::take(&mut self.reporting);
        self.node.again(&unsaid, clock::now());
        if !self.is_registered {
            let permit = registering.acquire().await;
            let registered: Result<NodeAnswer, _> =
                self.request(Subject::NodeRegister(self.id), &self.register).await;
            drop(permit);
            if let Err(error) = registered {
                tracing::debug!(error = telemetry::chain(&error), node.id = %self.id, "not registered");
                return tokio::time::sleep(RETRY).await;
            }
            self.is_registered = true;
        }
        let (answers, answered) = watch::channel(None);
        let all_reported = Arc::new(Notify::new());
        // Ends when it is dropped.
        let mut beating = self.heart.beat(self.beats(answers, Arc::clone(&all_reported)));
        tokio::select! {
            _ = beating.join_next() => self.is_registered = false,
            () = self.work(answered, &all_reported) => {}
        }
    }

    /// Works and reports, as long as it is registered.
    async fn work(&mut self, mut answered: watch::Receiver<Option<NodeAnswer>>, all_reported: &Notify) {
        let mut reported_since = None;
        loop {
            let mut report_all = None;
            let due = self.node.poll_timeout().map(until);
            tokio::select! {
                Ok(()) = answered.changed() => {
                    let answer = answered.borrow_and_update().clone();
                    if let Some(NodeAnswer { report_all: asked, work_index, .. }) = answer {
                        report_all = asked;
                        self.work_to(work_index).await;
                    }
                }
                changed = self.woken.index.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    let index = *self.woken.index.borrow_and_update();
                    while let Ok(wake) = self.woken.news.try_recv() {
                        self.node.take_news(wake, clock::now());
                    }
                    self.work_to(index).await;
                }
                () = maybe_sleep(due) => {}
            }
            if self.report(report_all).await && reported_since != report_all {
                // As agents do, once for each time of asking: this one makes it ready.
                reported_since = report_all;
                all_reported.notify_one();
            }
        }
    }

    /// Beats, whatever else it does, until it has to register again. The first one makes it ready, and is due at once.
    fn beats(
        &self,
        answers: watch::Sender<Option<NodeAnswer>>,
        hurry: Arc<Notify>,
    ) -> impl Future<Output = ()> + use<> {
        let beat = Heartbeat { id: self.id, secret: self.secret.clone(), boot: self.register.spec.boot };
        let (bus, first_beat) = (self.heart.bus().clone(), self.first_beat);
        async move {
            loop {
                let answer: Result<NodeAnswer, _> =
                    bus.request(Subject::NodeHeartbeat(beat.id), &beat, HEARTBEAT_WITHIN).await;
                let pause = match answer {
                    Ok(answer) => {
                        let ttl = Duration::from_millis(answer.ttl_ms.into());
                        answers.send_replace(Some(answer));
                        ttl
                    }
                    Err(RequestError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => return,
                    Err(_) => RETRY,
                };
                let beats = (first_beat.elapsed() + pause).div_duration_f64(BEAT).ceil();
                tokio::select! {
                    () = tokio::time::sleep_until(first_beat + BEAT.mul_f64(beats)) => {}
                    () = hurry.notified() => {}
                }
            }
        }
    }

    /// Fetches what changed, if anything did.
    async fn work_to(&mut self, index: WorkIndex) {
        while index.is_news_to(self.node.index()) {
            let (secret, since) = (self.secret.clone(), self.node.index());
            let ask = AskWork { id: self.id, secret, since, seen: index };
            let Ok(work) = self.request::<_, Work>(Subject::NodeWork(self.id), &ask).await else { return };
            let mut asked = self.node.take(&work, clock::now());
            while let Asked::More(allocs) = asked {
                let ask = AskAllocs { id: self.id, secret: self.secret.clone(), allocs, seen: work.index };
                let more = self.request::<_, WorkAllocs>(Subject::NodeWork(self.id), &ask).await;
                let Ok(more) = more else { return };
                asked = self.node.take_more(&more, clock::now());
            }
            self.node.reached(work.index);
        }
    }

    /// Reports what has become due; all of it if `all_since` is set. Whether the servers have heard of all.
    async fn report(&mut self, all_since: Option<Index>) -> bool {
        let is_of_all = all_since.is_some();
        let allocs = self.node.due(clock::now(), is_of_all);
        if allocs.is_empty() && !is_of_all {
            return false;
        }
        self.reporting = allocs.iter().map(|alloc| alloc.id).collect();
        let boot = self.register.spec.boot;
        let report = Report { id: self.id, secret: self.secret.clone(), boot, all_since, allocs };
        if rand::random_bool(self.doubled_reports) {
            self.report_later(report.clone());
        }
        let arrived = if rand::random_bool(self.late_reports) {
            self.report_later(report);
            false
        } else {
            self.request::<_, Reported>(Subject::NodeReport(self.id), &report).await.is_ok()
        };
        let reported = std::mem::take(&mut self.reporting);
        if !arrived {
            self.node.again(&reported, clock::now() + Nanos::SECOND);
        }
        arrived && is_of_all
    }

    /// Has a report arrive late. Nobody waits for it, and nothing holds it up.
    fn report_later(&self, report: Report) {
        let (bus, subject) = (self.bus.clone(), Subject::NodeReport(self.id));
        tokio::spawn(async move {
            tokio::time::sleep(LATE_MAX.mul_f64(rand::random())).await;
            let _ = bus.request::<_, Reported>(subject, &report, WITHIN).await;
        });
    }

    async fn request<Q: wire::Wire, A: wire::Wire>(
        &self,
        subject: Subject,
        body: &Q,
    ) -> Result<A, RequestError> {
        self.bus.request(subject, body, WITHIN).await
    }
}

fn until(moment: Timestamp) -> Duration {
    Duration::from_nanos((moment - clock::now()).0.max(0).unsigned_abs())
}

async fn maybe_sleep(duration: Option<Duration>) {
    match duration {
        Some(duration) => tokio::time::sleep(duration).await,
        None => std::future::pending().await,
    }
}
