//! Drives rolling updates of jobs: advances, replaces or fails deployments by the health of their allocations and their
//! progress deadlines (N-14).
//!
//! One process at a time is active, under a lease that the plan applier grants. The others wait for the lease with warm
//! replicas. The core, [`Watcher`], decides when to check which deployment, [`rollout`] decides the next step of one
//! deployment from a state, and the applier verifies each step against the newest state, and writes what follows from it,
//! such as the return to an older version. The scheduler creates deployments, places their batches and marks them successful.

mod actor;
mod agenda;
mod core;
mod metrics;
mod rollout;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use bus::Bus;
use bus::lease::Lease;
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{FollowEvent, Replica, Scope, Table};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actor::{DeploymentWatcher, StopOnDrop};
use crate::core::{Settings, Watcher};

/// The tables that the watcher reads.
pub const SCOPE: Scope =
    Scope::of(&[Table::Jobs, Table::Evals, Table::Allocs, Table::Deployments, Table::Nodes, Table::Leases]);

/// How long the process batches feed changes under load. It is short compared with the time for which changes to a
/// deployment are batched anyway.
pub const FEED_BATCH_DELAY: Duration = Duration::from_millis(50);

/// Settings of the deployment watcher.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "deployment-watcher")]
#[command(next_help_heading = "Deployment watcher")]
pub struct Args {
    /// How long changes to a deployment are batched before the deployment is checked, in milliseconds.
    #[arg(
        long,
        env = "DROVER_DEPLOYMENT_GATHER_MS",
        default_value_t = 250,
        value_parser = clap::value_parser!(u32).range(1..=60_000),
        value_name = "MS"
    )]
    pub deployment_gather_ms: u32,
}

/// Watches deployments whenever this process holds the watcher's lease, until `stop`.
///
/// Must be called on a thread of an actix system.
///
/// # Errors
/// If one of the watcher's tasks ends unexpectedly.
pub async fn run(
    args: Args,
    bus: Bus,
    replica: Arc<Replica>,
    process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let batch_delay = Nanos(i64::from(args.deployment_gather_ms) * Nanos::MILLISECOND.0);
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(&bus, &replica, Singleton::DeploymentWatcher, process) => lease,
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            result = be_active(Settings { batch_delay }, &bus, &replica, &lease) => result?,
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Starts a watcher from the replica's state, and runs it until it stops or this future is dropped.
async fn be_active(settings: Settings, bus: &Bus, replica: &Replica, lease: &Lease) -> anyhow::Result<()> {
    let mut follower = replica.follow();
    let (FollowEvent::Reset(state) | FollowEvent::Step(state::Step { after: state, .. })) =
        follower.next().await;
    let (writes, write_receiver) = mpsc::channel(1);
    let contact = bus.contact();
    let watcher = Watcher::restore(settings, state, contact.cluster_now());
    let watcher = DeploymentWatcher::new(watcher, settings, lease.epoch, contact, writes).start();
    let _stop_on_drop = StopOnDrop(watcher.clone());

    // Dropping the set aborts its tasks.
    let mut tasks = JoinSet::new();
    // Runs on the actor's own thread, so that no change has to wake another thread.
    tasks.spawn_local(actor::follow(follower, watcher.clone()));
    tasks.spawn(actor::write(write_receiver, bus.clone(), watcher));
    let _ = tasks.join_next().await;
    // The tasks end only when the actor has stopped.
    anyhow::bail!("the deployment watcher stopped unexpectedly")
}
