//! Tracks nodes: answers registrations, heartbeats, requests for work and reports (`docs/rules/nodes-and-deployments.md` N-1 to
//! N-8).
//!
//! One process at a time is active, under a lease that the plan applier grants. It keeps no state of its own that must
//! survive: messages of nodes become commands, and requests are answered from the replica. The standbys receive the
//! heartbeats, too, so that the next active process knows which nodes are silent. The applier works out the consequences of
//! missed heartbeats and reports.

mod actor;
mod batch;
pub mod core;
mod directory;
mod listen;
mod metrics;
mod refusals;
mod serve;
#[cfg(test)]
mod testing;
mod wake;
pub mod work;
mod work_trace;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use anyhow::Context as _;
use bus::lease::Lease;
use bus::{Batched, Bus};
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{Replica, Scope, Table};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::actor::{Activate, NodeTracker, StandBy, StopOnDrop};
use crate::batch::Batcher;
use crate::core::{Heartbeats, Settings};
use crate::directory::WAITING_MAX;
use crate::listen::Standby;
use crate::serve::{REQUESTS_MAX, Server};

/// The tables that the tracker reads.
pub const SCOPE: Scope = Scope::ALL
    .without(&[
        Table::JobSummaries,
        Table::JobSubmissions,
        Table::Evals,
        Table::Deployments,
        Table::Unblocked,
    ])
    .without_lists();

/// How long the process batches feed changes under load. It is also the minimum interval between wakes.
pub const FEED_BATCH_DELAY: Duration = Duration::from_millis(20);

/// Settings of the node-tracker.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "node-tracker")]
#[command(next_help_heading = "Node tracker")]
pub struct Args {
    /// Minimum time between two heartbeats of a node, in milliseconds; up to a quarter of it is added at random.
    #[arg(
        long,
        env = "DROVER_MIN_HEARTBEAT_TTL_MS",
        default_value_t = 5_000,
        value_parser = clap::value_parser!(u32).range(100..),
        value_name = "MS"
    )]
    pub min_heartbeat_ttl_ms: u32,
    /// How late a heartbeat may be before it counts as missed, in milliseconds.
    #[arg(long, env = "DROVER_HEARTBEAT_GRACE_MS", default_value_t = 5_000, value_name = "MS")]
    pub heartbeat_grace_ms: u32,
    /// Maximum number of heartbeats a second, of all nodes together; with more nodes each one waits longer.
    #[arg(
        long,
        env = "DROVER_MAX_HEARTBEATS_PER_SECOND",
        default_value_t = 2_000,
        value_parser = clap::value_parser!(u32).range(1..),
        value_name = "COUNT"
    )]
    pub max_heartbeats_per_second: u32,
    /// Minimum time to live granted to nodes when the process starts or was cut off from NATS, in milliseconds.
    #[arg(long, env = "DROVER_FAILOVER_HEARTBEAT_TTL_MS", default_value_t = 15_000, value_name = "MS")]
    pub failover_heartbeat_ttl_ms: u32,
}

impl Args {
    fn settings(&self) -> Settings {
        let millis = |millis: u32| Nanos(i64::from(millis) * Nanos::MILLISECOND.0);
        Settings {
            ttl_min: millis(self.min_heartbeat_ttl_ms),
            grace: millis(self.heartbeat_grace_ms),
            per_second_max: self.max_heartbeats_per_second,
            failover_ttl: millis(self.failover_heartbeat_ttl_ms),
        }
    }
}

/// Heartbeats that arrive within this time are handled together: with ten thousand nodes two arrive each millisecond.
const HEARTBEAT_BATCH_INTERVAL: Duration = Duration::from_millis(50);

/// The error if serving the tracker's subjects fails.
const CANNOT_SERVE: &str = "cannot serve agents";

/// Tracks nodes whenever this process holds the tracker's lease, and stands by otherwise, until `stop`.
///
/// Must be called on a thread of an actix system.
///
/// # Errors
/// If a subject cannot be served.
pub async fn run(
    args: Args,
    bus: Bus,
    replica: Arc<Replica>,
    process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let served = bus.serve_batched(Subject::EVERY_NODE_HEARTBEAT, HEARTBEAT_BATCH_INTERVAL).await;
    let Batched { requests: heartbeats, reconnections, echo_monitor } = served.context(CANNOT_SERVE)?;
    let timers = NodeTracker::new(Heartbeats::new(args.settings()), echo_monitor).start();
    let _stop_on_drop = StopOnDrop(timers.clone());
    let (active, server_receiver) = watch::channel(None);
    let standby = Standby { replica: Arc::clone(&replica), timers: timers.clone() };
    let mut tasks = JoinSet::new();
    tasks.spawn(listen::receive(heartbeats, server_receiver, standby));
    // Runs on the actor's own thread, so that no change has to wake another thread.
    tasks.spawn_local(actor::follow(replica.follow(), timers.clone()));
    tasks.spawn(actor::follow_connection(reconnections, timers.clone()));
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(&bus, &replica, Singleton::NodeTracker, process) => lease,
            _ = tasks.join_next() => return Err(stopped_serving()),
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            result = be_active(&bus, &replica, &lease, &timers, &active) => result?,
            _ = tasks.join_next() => return Err(stopped_serving()),
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Takes over the nodes in the replica, and serves agents until this future is dropped.
async fn be_active(
    bus: &Bus,
    replica: &Arc<Replica>,
    lease: &Lease,
    timers: &Addr<NodeTracker>,
    active: &watch::Sender<Option<Server>>,
) -> anyhow::Result<()> {
    let _active = Active { timers, active };
    // Dropping the set aborts its tasks.
    let mut tasks = JoinSet::new();
    let epoch = lease.epoch;
    let (missed, missed_receiver) = mpsc::channel(1);
    timers.send(Activate(replica.snapshot(), missed)).await.context(CANNOT_SERVE)?;
    tasks.spawn(actor::report_missed(
        missed_receiver,
        bus.clone(),
        Arc::clone(replica),
        epoch,
        timers.clone(),
    ));
    tasks.spawn(wake::follow(replica.follow(), bus.clone()));

    let batcher = Batcher::start(bus, epoch, &mut tasks);
    let (replica, timers) = (Arc::clone(replica), timers.clone());
    let server = Server::new(bus.clone(), replica, epoch, timers, batcher);
    active.send_replace(Some(server.clone()));
    let registrations = bus.serve(Subject::EVERY_NODE_REGISTER).await.context(CANNOT_SERVE)?;
    let work = bus.serve(Subject::EVERY_NODE_WORK).await.context(CANNOT_SERVE)?;
    let reports = bus.serve(Subject::EVERY_NODE_REPORT).await.context(CANNOT_SERVE)?;
    let services = bus.serve(Subject::EVERY_NODE_SERVICES).await.context(CANNOT_SERVE)?;
    let directory = bus.serve(Subject::EVERY_NODE_DIRECTORY).await.context(CANNOT_SERVE)?;
    let drains = bus.serve(Subject::EVERY_NODE_DRAIN).await.context(CANNOT_SERVE)?;
    let [register_server, work_server, report_server] = [server.clone(), server.clone(), server.clone()];
    let [directory_server, drain_server] = [server.clone(), server.clone()];
    tasks.spawn(registrations.each(REQUESTS_MAX, move |request| register_server.clone().register(request)));
    tasks.spawn(work.each(REQUESTS_MAX, move |request| work_server.clone().work(request)));
    tasks.spawn(reports.each(REQUESTS_MAX, move |request| report_server.clone().report(request)));
    tasks.spawn(services.each(REQUESTS_MAX, move |request| server.clone().services(request)));
    tasks.spawn(directory.each(WAITING_MAX, move |request| directory_server.clone().directory(request)));
    tasks.spawn(drains.each(REQUESTS_MAX, move |request| drain_server.clone().drain(request)));
    let _ = tasks.join_next().await;
    Err(stopped_serving())
}

/// The tasks end only when the connection or the actor is gone for good.
fn stopped_serving() -> anyhow::Error {
    anyhow::anyhow!("the node-tracker stopped serving unexpectedly")
}

/// Marks this process as active until dropped.
struct Active<'a> {
    timers: &'a Addr<NodeTracker>,
    active: &'a watch::Sender<Option<Server>>,
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        self.active.send_replace(None);
        self.timers.do_send(StandBy);
    }
}

#[cfg(test)]
mod tests;
