//! Which nodes are there, what they should run, and what they report (`spec/nodes-and-deployments.md` N-1 to N-8).
//!
//! One process is active, by leave of the applier. It keeps no promise of its own: what nodes say becomes commands, and what
//! they ask is answered from the replica. The others overhear the heartbeats, so that whoever is active next knows which
//! nodes are silent. What follows from a node that is missed or a report the applier works out.

mod actor;
mod gather;
mod hand_out;
pub mod heartbeats;
mod listen;
mod measure;
#[cfg(test)]
mod scene;
mod serve;
mod wake;
pub mod work;

use std::sync::Arc;
use std::time::Duration;

use actix::{Actor, Addr};
use anyhow::Context as _;
use bus::lease::Lease;
use bus::{Bus, Gathered};
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{Replica, Scope, Table};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::actor::{Activate, NodeTracker, Retire, StandBy};
use crate::gather::Gather;
use crate::heartbeats::{Heartbeats, Settings};
use crate::listen::Standby;
use crate::serve::{REQUESTS_MAX, Server};

/// What the tracker reads of the state.
pub const SCOPE: Scope = Scope::ALL
    .without(&[
        Table::JobSummaries,
        Table::JobSubmissions,
        Table::Evals,
        Table::Deployments,
        Table::Unblocked,
    ])
    .without_lists();

/// How long it gathers changes under load: agents are not woken more often than that either.
pub const GATHERED: Duration = Duration::from_millis(20);

/// Settings of the node-tracker.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "node-tracker")]
#[command(next_help_heading = "Node tracker")]
pub struct Args {
    /// The shortest time from one heartbeat of a node to the next, in milliseconds; up to a quarter is added.
    #[arg(
        long,
        env = "DROVER_MIN_HEARTBEAT_TTL_MS",
        default_value_t = 5_000,
        value_parser = clap::value_parser!(u32).range(100..),
        value_name = "MS"
    )]
    pub min_heartbeat_ttl_ms: u32,
    /// How late a heartbeat may be before the node is missed, in milliseconds.
    #[arg(long, env = "DROVER_HEARTBEAT_GRACE_MS", default_value_t = 5_000, value_name = "MS")]
    pub heartbeat_grace_ms: u32,
    /// How many heartbeats a second are wanted at most, of all nodes together; with more nodes each waits longer.
    #[arg(
        long,
        env = "DROVER_MAX_HEARTBEATS_PER_SECOND",
        default_value_t = 2_000,
        value_parser = clap::value_parser!(u32).range(1..),
        value_name = "COUNT"
    )]
    pub max_heartbeats_per_second: u32,
    /// How long nodes have at least that a process knows nothing of but that they are there, in milliseconds: when it
    /// starts, and when it was cut off.
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

/// Heartbeats within so long are looked at together: with ten thousand nodes two come each millisecond.
const HEARTBEATS_EVERY: Duration = Duration::from_millis(50);

/// What cannot be done without a connection.
const SERVING: &str = "cannot serve agents";

/// Tracks nodes whenever this process holds the tracker's lease, and overhears them otherwise, until `stop`.
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
    let gathered = bus.serve_gathered(Subject::EVERY_NODE_HEARTBEAT, HEARTBEATS_EVERY).await;
    let Gathered { requests: heartbeats, reconnections, hearing } = gathered.context(SERVING)?;
    let timers = NodeTracker::new(Heartbeats::new(args.settings()), hearing).start();
    let _retire = Retire(timers.clone());
    let (active, whether_active) = watch::channel(None);
    let standby = Standby { replica: Arc::clone(&replica), timers: timers.clone() };
    let mut tasks = JoinSet::new();
    tasks.spawn(listen::hear(heartbeats, whether_active, standby));
    // On the actor's own thread, which would else have to be woken for each change.
    tasks.spawn_local(actor::follow(replica.follow(), timers.clone()));
    tasks.spawn(actor::follow_connection(reconnections, timers.clone()));
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(&bus, &replica, Singleton::NodeTracker, process) => lease,
            _ = tasks.join_next() => return Err(stopped_serving()),
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            ended = be_active(&bus, &replica, &lease, &timers, &active) => ended?,
            _ = tasks.join_next() => return Err(stopped_serving()),
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Takes up the nodes that the replica holds, and serves agents until this is dropped.
async fn be_active(
    bus: &Bus,
    replica: &Arc<Replica>,
    lease: &Lease,
    timers: &Addr<NodeTracker>,
    active: &watch::Sender<Option<Server>>,
) -> anyhow::Result<()> {
    let _active = Active { timers, active };
    // Dropping the set ends them all.
    let mut tasks = JoinSet::new();
    let epoch = lease.epoch;
    let (missed, of_missed) = mpsc::channel(1);
    timers.send(Activate(replica.snapshot(), missed)).await.context(SERVING)?;
    tasks.spawn(actor::report_missed(of_missed, bus.clone(), Arc::clone(replica), epoch, timers.clone()));
    tasks.spawn(wake::follow(replica.follow(), bus.clone()));

    let gather = Gather::start(bus, epoch, &mut tasks);
    let (replica, timers) = (Arc::clone(replica), timers.clone());
    let server = Server::new(bus.clone(), replica, epoch, timers, gather);
    active.send_replace(Some(server.clone()));
    let registrations = bus.serve(Subject::EVERY_NODE_REGISTER).await.context(SERVING)?;
    let work = bus.serve(Subject::EVERY_NODE_WORK).await.context(SERVING)?;
    let reports = bus.serve(Subject::EVERY_NODE_REPORT).await.context(SERVING)?;
    let [to_register, to_work, to_report] = [server.clone(), server.clone(), server];
    tasks.spawn(registrations.each(REQUESTS_MAX, move |request| to_register.clone().register(request)));
    tasks.spawn(work.each(REQUESTS_MAX, move |request| to_work.clone().work(request)));
    tasks.spawn(reports.each(REQUESTS_MAX, move |request| to_report.clone().report(request)));
    let _ = tasks.join_next().await;
    Err(stopped_serving())
}

/// Each part goes on until the connection or the actor is gone for good.
fn stopped_serving() -> anyhow::Error {
    anyhow::anyhow!("the node-tracker stopped serving")
}

/// While it lives this process is the active one.
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
