//! `drover sim-nodes`: thousands of simulated agents in one process, for benchmarks and tests. They send the messages of
//! agents and run nothing: an allocation is pending, runs after a delay, and stops when it is told to. Commands on the
//! standard input make nodes fail, lose their connection, flap and recover.

mod condition;
mod heartbeats;
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
use wire::node::{GetAllocs, GetWork, Heartbeat, NodeResponse, Register, Report, ReportAccepted, WorkIndex};
use wire::{RefusalKind, Role, Subject};

use self::condition::{Condition, Conditions};
use self::heartbeats::HeartbeatThread;
use self::node::{Fetched, SimNode, Wake, Work, WorkAllocs};
use crate::health::{self, Parts};
use crate::process::{self, Process};

/// The timeout of requests.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout of heartbeats, as in agents.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum delay of a late or repeated report.
const REPORT_DELAY_MAX: Duration = Duration::from_secs(3);
/// Heartbeats wait for the end of such an interval, so that those of many nodes are one write to the connection. Only
/// simulated nodes share a connection.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(20);
/// The pause of a node after a failed request.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// How many wakes that contain work may be queued for a node.
const QUEUED_WAKES_MAX: usize = 16;
/// How many nodes may register at once.
const REGISTERING_MAX: usize = 256;

/// Simulates many nodes in one process, for benchmarks.
///
/// Lines on standard input are commands. `fail 5%` makes healthy nodes lose power, `disconnect 500` disconnects them,
/// `flap 5% 3000` disconnects them for half of every three seconds, and `recover` makes all nodes healthy.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The number of nodes.
    #[arg(long, default_value_t = 1_000, value_name = "COUNT")]
    pub(crate) count: u32,
    /// The datacenter of the nodes.
    #[arg(long, default_value = "dc1")]
    pub(crate) datacenter: String,
    /// The CPU capacity of each node, in MHz.
    #[arg(long, default_value_t = 64_000, value_name = "MHZ")]
    pub(crate) cpu: u32,
    /// The memory of each node, in MB.
    #[arg(long, default_value_t = 262_144, value_name = "MB")]
    pub(crate) memory: u32,
    /// How long an allocation is pending before it runs, in milliseconds.
    #[arg(long, default_value_t = 1_000, value_name = "MS")]
    pub(crate) start_ms: u32,
    /// The percentage of reports that arrive late, after newer ones.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100), value_name = "PERCENT")]
    pub(crate) late_reports: u8,
    /// The percentage of reports that arrive twice.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100), value_name = "PERCENT")]
    pub(crate) doubled_reports: u8,
    /// A number that distinguishes these nodes from those of other sim-nodes processes. The same seed gives the same nodes.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u32,
    #[command(flatten)]
    pub(crate) telemetry: telemetry::Args,
    #[command(flatten)]
    pub(crate) bus: bus::Args,
}

impl Args {
    /// The settings of the process. Its readiness depends on nothing.
    pub(crate) fn process(&self) -> process::Settings {
        let (telemetry, health) = (self.telemetry.clone(), health::Args::default());
        process::Settings {
            name: "sim-nodes",
            parts: Parts::NONE,
            stops_children: false,
            leave: process::Leave::default(),
            telemetry,
            health,
        }
    }
}

/// Simulates nodes until the process is stopped.
pub(crate) async fn run(mut process: Process, args: Args) -> anyhow::Result<()> {
    let connecting =
        async { Bus::connect(&args.bus, Role::SimNodes).await.context("cannot connect to NATS") };
    let bus = process.unless_stopped(connecting).await?;
    let heartbeat_thread = HeartbeatThread::start(&args.bus).await?;
    let mut nodes = JoinSet::new();
    let mut wakes = HashMap::new();
    let mut conditions = Conditions::default();
    let registering = Arc::new(Semaphore::new(REGISTERING_MAX));
    let intervals_from = Instant::now();
    for number in 0..args.count {
        let (sender, receiver) = WakeSender::new();
        let agent = Agent::new(&bus, &heartbeat_thread, &args, number, intervals_from, receiver);
        let condition = conditions.add();
        wakes.insert(agent.id, sender);
        nodes.spawn(agent.run(condition, Arc::clone(&registering)));
    }
    tracing::info!(nodes = args.count, "simulating nodes");
    tokio::select! {
        result = forward_wakes(&bus, &wakes) => result,
        () = conditions.execute_commands() => Ok(()),
        () = process.stop.cancelled() => Ok(()),
    }
}

/// Receives the wakes of all nodes on one subscription, and forwards each to its node. Only the credentials of servers
/// allow this subscription.
async fn forward_wakes(bus: &Bus, wakes: &HashMap<NodeId, WakeSender>) -> anyhow::Result<()> {
    let mut messages = bus.serve(Subject::EVERY_AGENT_WAKE).await?;
    while let Some(message) = messages.next().await {
        let Some(sender) = Subject::agent_of(message.subject()).and_then(|node| wakes.get(&node)) else {
            continue;
        };
        if let Ok(wake) = message.body::<Wake>() {
            let work_index = wake.work_index;
            if wake.news.is_some() && work_index.is_newer_than(*sender.index.borrow()) {
                // If the queue is full, the node fetches the work instead.
                let _ = sender.with_work.try_send(wake);
            }
            sender.index.send_if_modified(|known| known.advance_to(work_index));
        }
    }
    anyhow::bail!("the connection to NATS is closed")
}

/// The sending half of a node's wakes.
struct WakeSender {
    index: watch::Sender<WorkIndex>,
    /// Wakes that contain work.
    with_work: mpsc::Sender<Wake>,
}

/// The receiving half of a node's wakes.
struct WakeReceiver {
    index: watch::Receiver<WorkIndex>,
    with_work: mpsc::Receiver<Wake>,
}

impl WakeSender {
    fn new() -> (Self, WakeReceiver) {
        let (index, index_receiver) = watch::channel(WorkIndex::default());
        let (with_work, receiver) = mpsc::channel(QUEUED_WAKES_MAX);
        (Self { index, with_work }, WakeReceiver { index: index_receiver, with_work: receiver })
    }
}

/// One simulated agent.
struct Agent {
    bus: Bus,
    heartbeat_thread: HeartbeatThread,
    id: NodeId,
    secret: Secret,
    register: Register,
    is_registered: bool,
    start: Nanos,
    /// The start of the heartbeat intervals of all nodes.
    intervals_from: Instant,
    node: SimNode,
    wakes: WakeReceiver,
    /// The allocations of the report that is being sent.
    reporting: Vec<AllocId>,
    late_reports: f64,
    doubled_reports: f64,
}

impl Agent {
    fn new(
        bus: &Bus,
        heartbeat_thread: &HeartbeatThread,
        args: &Args,
        number: u32,
        intervals_from: Instant,
        wakes: WakeReceiver,
    ) -> Self {
        let register = spec::register(args, number);
        let start = Nanos(i64::from(args.start_ms) * Nanos::MILLISECOND.0);
        Self {
            bus: bus.clone(),
            heartbeat_thread: heartbeat_thread.clone(),
            id: register.id,
            secret: register.spec.secret_id.clone(),
            register,
            is_registered: false,
            start,
            intervals_from,
            node: SimNode::new(start, clock::now()),
            wakes,
            reporting: Vec::new(),
            late_reports: f64::from(args.late_reports) / 100.0,
            doubled_reports: f64::from(args.doubled_reports) / 100.0,
        }
    }

    /// Runs the agent whenever its condition allows. Never returns.
    async fn run(mut self, mut condition: watch::Receiver<Condition>, registering: Arc<Semaphore>) {
        loop {
            let now = *condition.borrow_and_update();
            match now {
                Condition::Healthy => tokio::select! {
                    () = self.run_healthy(&registering) => {}
                    _ = condition.changed() => {}
                },
                Condition::Failed => {
                    self.restart();
                    let _ = condition.changed().await;
                }
                Condition::Disconnected => drop(condition.changed().await),
            }
        }
    }

    /// Forgets all allocations and increments the boot number, as after a power failure.
    fn restart(&mut self) {
        self.node = SimNode::new(self.start, clock::now());
        self.reporting.clear();
        self.is_registered = false;
        Arc::make_mut(&mut self.register.spec).boot += 1;
    }

    /// Registers if necessary; then sends heartbeats, works and reports until it must register again. May be cancelled at
    /// any await.
    async fn run_healthy(&mut self, registering: &Semaphore) {
        let unreported = std::mem::take(&mut self.reporting);
        self.node.report_again(&unreported, clock::now());
        if !self.is_registered {
            let permit = registering.acquire().await;
            let registered: Result<NodeResponse, _> =
                self.request(Subject::NodeRegister(self.id), &self.register).await;
            drop(permit);
            if let Err(error) = registered {
                tracing::debug!(error = telemetry::chain(&error), node.id = %self.id, "not registered");
                return tokio::time::sleep(RETRY_PAUSE).await;
            }
            self.is_registered = true;
        }
        let (answers, answered) = watch::channel(None);
        let all_reported = Arc::new(Notify::new());
        // Heartbeats stop when this is dropped.
        let mut heartbeats = self.heartbeat_thread.spawn(self.heartbeats(answers, Arc::clone(&all_reported)));
        tokio::select! {
            _ = heartbeats.join_next() => self.is_registered = false,
            () = self.work(answered, &all_reported) => {}
        }
    }

    /// Works and reports, as long as the node is registered.
    async fn work(&mut self, mut answered: watch::Receiver<Option<NodeResponse>>, all_reported: &Notify) {
        let mut reported_since = None;
        loop {
            let mut report_all = None;
            let due = self.node.poll_timeout().map(until);
            tokio::select! {
                Ok(()) = answered.changed() => {
                    let answer = answered.borrow_and_update().clone();
                    if let Some(NodeResponse { report_all: since, work_index, .. }) = answer {
                        report_all = since;
                        self.fetch_work(work_index).await;
                    }
                }
                changed = self.wakes.index.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    let index = *self.wakes.index.borrow_and_update();
                    while let Ok(wake) = self.wakes.with_work.try_recv() {
                        self.node.apply_wake(wake, clock::now());
                    }
                    self.fetch_work(index).await;
                }
                () = maybe_sleep(due) => {}
            }
            if self.report(report_all).await && reported_since != report_all {
                // As agents do, once for each request for all allocations: the next heartbeat makes the node ready.
                reported_since = report_all;
                all_reported.notify_one();
            }
        }
    }

    /// Sends heartbeats until the node must register again, whatever else it does. Sends the first one, which makes the node
    /// ready, at once.
    fn heartbeats(
        &self,
        answers: watch::Sender<Option<NodeResponse>>,
        send_now: Arc<Notify>,
    ) -> impl Future<Output = ()> + use<> {
        let beat = Heartbeat { id: self.id, secret: self.secret.clone(), boot: self.register.spec.boot };
        let (bus, intervals_from) = (self.heartbeat_thread.bus().clone(), self.intervals_from);
        async move {
            loop {
                let answer: Result<NodeResponse, _> =
                    bus.request(Subject::NodeHeartbeat(beat.id), &beat, HEARTBEAT_TIMEOUT).await;
                let pause = match answer {
                    Ok(answer) => {
                        let ttl = Duration::from_millis(answer.ttl_ms.into());
                        answers.send_replace(Some(answer));
                        ttl
                    }
                    Err(RequestError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => return,
                    Err(_) => RETRY_PAUSE,
                };
                let intervals =
                    (intervals_from.elapsed() + pause).div_duration_f64(HEARTBEAT_INTERVAL).ceil();
                tokio::select! {
                    () = tokio::time::sleep_until(intervals_from + HEARTBEAT_INTERVAL.mul_f64(intervals)) => {}
                    () = send_now.notified() => {}
                }
            }
        }
    }

    /// Fetches the changed work, if any.
    async fn fetch_work(&mut self, index: WorkIndex) {
        while index.is_newer_than(self.node.index()) {
            let (secret, since) = (self.secret.clone(), self.node.index());
            let ask = GetWork { id: self.id, secret, since, seen: index };
            let Ok(work) = self.request::<_, Work>(Subject::NodeWork(self.id), &ask).await else { return };
            let mut fetched = self.node.apply(&work, clock::now());
            while let Fetched::More(allocs) = fetched {
                let ask = GetAllocs { id: self.id, secret: self.secret.clone(), allocs, seen: work.index };
                let more = self.request::<_, WorkAllocs>(Subject::NodeWork(self.id), &ask).await;
                let Ok(more) = more else { return };
                fetched = self.node.apply_more(&more, clock::now());
            }
            self.node.advance_to(work.index);
        }
    }

    /// Reports the allocations that are due, or all if `all_since` is set. Returns whether the servers received all allocations.
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
            self.request::<_, ReportAccepted>(Subject::NodeReport(self.id), &report).await.is_ok()
        };
        let reported = std::mem::take(&mut self.reporting);
        if !arrived {
            self.node.report_again(&reported, clock::now() + Nanos::SECOND);
        }
        arrived && is_of_all
    }

    /// Sends a report late, in a task that nothing waits for.
    fn report_later(&self, report: Report) {
        let (bus, subject) = (self.bus.clone(), Subject::NodeReport(self.id));
        tokio::spawn(async move {
            tokio::time::sleep(REPORT_DELAY_MAX.mul_f64(rand::random())).await;
            let _ = bus.request::<_, ReportAccepted>(subject, &report, REQUEST_TIMEOUT).await;
        });
    }

    async fn request<Q: wire::Wire, A: wire::Wire>(
        &self,
        subject: Subject,
        body: &Q,
    ) -> Result<A, RequestError> {
        self.bus.request(subject, body, REQUEST_TIMEOUT).await
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
