//! How new versions of jobs take over: whether what was placed becomes healthy, and in time (N-14).
//!
//! One process is active, by leave of the applier; the others wait for its lease with their replicas warm. What is to come
//! of a deployment [`rollout`] finds in a state, [`watcher`] knows when to look, and the applier judges what was found by
//! the newest state. When a deployment begins, what its next batch is and when it has succeeded the scheduler decides.
//! Promotion, pauses and the way back to an older version are not built yet.

mod actor;
mod agenda;
mod measure;
mod rollout;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::Arc;
use std::time::Duration;

use actix::Actor;
use bus::Bus;
use bus::lease::Lease;
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{Followed, Replica, Scope, Table};
use telemetry::clock;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actor::{DeploymentWatcher, Retire};
use crate::watcher::{Settings, Watcher};

/// What the watcher reads of the state.
pub const SCOPE: Scope =
    Scope::of(&[Table::Jobs, Table::Evals, Table::Allocs, Table::Deployments, Table::Nodes, Table::Leases]);

/// How long it gathers changes under load: a part of the time for which what happens to a deployment is gathered anyway.
pub const GATHERED: Duration = Duration::from_millis(50);

/// Settings of the watcher.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "deployment-watcher")]
#[command(next_help_heading = "Deployment watcher")]
pub struct Args {
    /// How long what happens to a deployment is gathered before it is looked at, in milliseconds.
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
/// If the watcher's tasks end by themselves.
pub async fn run(
    args: Args,
    bus: Bus,
    replica: Arc<Replica>,
    process: ProcessId,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let gather = Nanos(i64::from(args.deployment_gather_ms) * Nanos::MILLISECOND.0);
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(&bus, &replica, Singleton::DeploymentWatcher, process) => lease,
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            ended = be_active(Settings { gather }, &bus, &replica, &lease) => ended?,
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Takes up what the replica holds, and follows it until this is dropped.
async fn be_active(settings: Settings, bus: &Bus, replica: &Replica, lease: &Lease) -> anyhow::Result<()> {
    let mut follower = replica.follow();
    let (Followed::Reset(state) | Followed::Step(state::Step { after: state, .. })) = follower.next().await;
    let (writes, to_write) = mpsc::channel(1);
    let watcher = Watcher::restore(settings, state, clock::now());
    let watcher = DeploymentWatcher::new(watcher, settings, lease.epoch, writes).start();
    let _retire = Retire(watcher.clone());

    // Dropping the set ends them all.
    let mut tasks = JoinSet::new();
    // On the actor's own thread, which would else have to be woken for each change.
    tasks.spawn_local(actor::follow(follower, watcher.clone()));
    tasks.spawn(actor::write(to_write, bus.clone(), watcher));
    let _ = tasks.join_next().await;
    // Each of them goes on until the actor is gone for good.
    anyhow::bail!("the deployment watcher stopped")
}
