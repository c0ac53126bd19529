//! Which nodes are there, what they should run, and what they report (`spec/nodes-and-deployments.md` N-1 to N-8).
//!
//! One process is active, by leave of the applier. It keeps no promise of its own: what nodes say becomes commands, what
//! they ask is answered from the replica, and the heartbeats' timers, which only it has, begin anew with whoever is
//! active next. What follows from a node that is missed or a report the applier works out.

mod actor;
mod gather;
mod heartbeats;
mod measure;
#[cfg(test)]
mod scene;
mod serve;
mod wake;
mod work;

use std::sync::Arc;

use actix::Actor;
use anyhow::Context as _;
use bus::Bus;
use bus::lease::Lease;
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::Replica;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::actor::{NodeTracker, Retire};
use crate::gather::Gather;
use crate::heartbeats::{Heartbeats, Settings};
use crate::serve::Server;

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
    /// How long nodes have to be heard of after another process has become active, in milliseconds.
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

/// Tracks nodes whenever this process holds the tracker's lease, until `stop`.
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
    let settings = args.settings();
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(&bus, Singleton::NodeTracker, process) => lease,
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            ended = be_active(settings, &bus, &replica, &lease) => ended?,
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Takes up the nodes that the replica holds, and serves agents until this is dropped.
async fn be_active(
    settings: Settings,
    bus: &Bus,
    replica: &Arc<Replica>,
    lease: &Lease,
) -> anyhow::Result<()> {
    let (missed, to_report) = mpsc::channel(1);
    let timers = NodeTracker::new(Heartbeats::new(settings), missed).start();
    let _retire = Retire(timers.clone());

    // Dropping the set ends them all.
    let mut tasks = JoinSet::new();
    let gather = Gather::start(bus, lease.epoch, &mut tasks);
    tasks.spawn(actor::follow(replica.follow(), timers.clone()));
    let (epoch, shared) = (lease.epoch, Arc::clone(replica));
    tasks.spawn(actor::report_missed(to_report, bus.clone(), shared, epoch, timers.clone()));
    tasks.spawn(wake::follow(replica.follow(), bus.clone()));

    let serving = "cannot serve agents";
    let server =
        Server { bus: bus.clone(), replica: Arc::clone(replica), epoch: lease.epoch, timers, gather };
    let registrations = bus.serve(Subject::EVERY_NODE_REGISTER).await.context(serving)?;
    let heartbeats = bus.serve(Subject::EVERY_NODE_HEARTBEAT).await.context(serving)?;
    let work = bus.serve(Subject::EVERY_NODE_WORK).await.context(serving)?;
    let reports = bus.serve(Subject::EVERY_NODE_REPORT).await.context(serving)?;
    tasks.spawn(server.clone().each(registrations, Server::register));
    tasks.spawn(server.clone().each(heartbeats, Server::heartbeat));
    tasks.spawn(server.clone().each(work, Server::work));
    tasks.spawn(server.each(reports, Server::report));
    let _ = tasks.join_next().await;
    // Each of them goes on until the connection or the actor is gone for good.
    anyhow::bail!("the node-tracker stopped serving")
}

#[cfg(test)]
mod tests;
