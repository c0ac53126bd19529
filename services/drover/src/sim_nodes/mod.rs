//! `drover sim-nodes`: thousands of simulated agents in one process, for benchmarks and tests. They say what agents say, and
//! run nothing: an allocation is pending, runs after a moment, and stops when it is told to.

mod node;
mod spec;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use bus::{Bus, RequestError};
use model::node::Secret;
use model::{Index, Nanos, NodeId, Timestamp};
use telemetry::clock;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use wire::node::{
    AskAllocs, AskWork, Heartbeat, NodeAnswer, Register, Report, Reported, Wake, Work, WorkAllocs,
};
use wire::{RefusalKind, Subject};

use self::node::{Asked, SimNode};
use crate::process::Process;

/// How long a request may take.
const WITHIN: Duration = Duration::from_secs(10);
/// How long a node waits after a request that failed.
const RETRY: Duration = Duration::from_secs(1);
/// How many nodes register at once.
const REGISTERING: usize = 256;

/// Simulates many nodes in one process.
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
    /// Tells these nodes apart from those of other such processes; the same number makes the same nodes.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u32,
}

/// Simulates nodes until the process is to stop.
pub(crate) async fn run(process: Process, args: Args) -> anyhow::Result<()> {
    let bus = Bus::connect(&args.bus, "sim-nodes").await.context("cannot connect to NATS")?;
    let mut nodes = JoinSet::new();
    let mut wakes = HashMap::new();
    let registering = Arc::new(Semaphore::new(REGISTERING));
    for number in 0..args.count {
        let (wake, woken) = watch::channel(Index::ZERO);
        let agent = Agent::new(&bus, &args, number, woken);
        wakes.insert(agent.id, wake);
        nodes.spawn(agent.live(Arc::clone(&registering)));
    }
    tracing::info!(nodes = args.count, "simulating nodes");
    tokio::select! {
        result = forward_wakes(&bus, &wakes) => result,
        () = process.stop.cancelled() => Ok(()),
    }
}

/// All wakes come on one subscription, which only servers' credentials allow.
async fn forward_wakes(bus: &Bus, wakes: &HashMap<NodeId, watch::Sender<Index>>) -> anyhow::Result<()> {
    let mut messages = bus.serve(Subject::EVERY_AGENT_WAKE).await?;
    while let Some(message) = messages.next().await {
        let Some(wake) = Subject::agent_of(message.subject()).and_then(|node| wakes.get(&node)) else {
            continue;
        };
        if let Ok(Wake { work_index }) = message.body() {
            wake.send_if_modified(|known| {
                let news = work_index > *known;
                *known = work_index.max(*known);
                news
            });
        }
    }
    anyhow::bail!("the connection to NATS is closed")
}

/// One simulated agent.
struct Agent {
    bus: Bus,
    id: NodeId,
    secret: Secret,
    register: Register,
    node: SimNode,
    woken: watch::Receiver<Index>,
}

impl Agent {
    fn new(bus: &Bus, args: &Args, number: u32, woken: watch::Receiver<Index>) -> Self {
        let register = spec::register(args, number);
        let start = Nanos(i64::from(args.start_ms) * Nanos::MILLISECOND.0);
        Self {
            bus: bus.clone(),
            id: register.id,
            secret: register.spec.secret_id.clone(),
            register,
            node: SimNode::new(start),
            woken,
        }
    }

    /// Registers, beats, works and reports for ever.
    async fn live(mut self, registering: Arc<Semaphore>) {
        loop {
            let permit = registering.acquire().await;
            let registered = self.request(Subject::NodeRegister(self.id), &self.register).await;
            drop(permit);
            match registered {
                Ok(answer) => self.serve(answer).await,
                Err(error) => {
                    tracing::debug!(error = telemetry::chain(&error), node.id = %self.id, "not registered");
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }

    /// Returns when the node has to register again.
    async fn serve(&mut self, answer: NodeAnswer) {
        // Its first heartbeat makes it ready, and is due at once.
        let mut next_beat = clock::monotonic();
        let mut report_all = answer.report_all;
        loop {
            let due = self.node.poll_timeout().map(until);
            tokio::select! {
                () = tokio::time::sleep_until(next_beat.into()) => {
                    let beat = Heartbeat { id: self.id, secret: self.secret.clone(), boot: self.register.spec.boot };
                    let answer: Result<NodeAnswer, _> = self.request(Subject::NodeHeartbeat(self.id), &beat).await;
                    match answer {
                        Ok(answer) => {
                            next_beat = clock::monotonic() + Duration::from_millis(answer.ttl_ms.into());
                            report_all = answer.report_all;
                            self.work_to(answer.work_index).await;
                        }
                        Err(RequestError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => return,
                        Err(_) => next_beat = clock::monotonic() + RETRY,
                    }
                }
                changed = self.woken.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    let index = *self.woken.borrow_and_update();
                    self.work_to(index).await;
                }
                () = maybe_sleep(due) => {}
            }
            self.report(report_all.take()).await;
        }
    }

    /// Fetches what changed, if anything did.
    async fn work_to(&mut self, index: Index) {
        while self.node.index() < index {
            let ask = AskWork { id: self.id, secret: self.secret.clone(), since: self.node.index() };
            let Ok(work) = self.request::<_, Work>(Subject::NodeWork(self.id), &ask).await else { return };
            let mut asked = self.node.take(&work, clock::now());
            while let Asked::More(allocs) = asked {
                let ask = AskAllocs { id: self.id, secret: self.secret.clone(), allocs };
                let more = self.request::<_, WorkAllocs>(Subject::NodeWork(self.id), &ask).await;
                let Ok(more) = more else { return };
                asked = self.node.take_more(&more, clock::now());
            }
            self.node.reached(work.index);
        }
    }

    /// Reports what has become due; all of it if `all_since` is set.
    async fn report(&mut self, all_since: Option<Index>) {
        let allocs = self.node.due(clock::now(), all_since.is_some());
        if allocs.is_empty() && all_since.is_none() {
            return;
        }
        let ids: Vec<_> = allocs.iter().map(|alloc| alloc.id).collect();
        let boot = self.register.spec.boot;
        let report = Report { id: self.id, secret: self.secret.clone(), boot, all_since, allocs };
        if self.request::<_, Reported>(Subject::NodeReport(self.id), &report).await.is_err() {
            self.node.again(&ids, clock::now() + Nanos::SECOND);
        }
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
