//! Drives rolling updates of jobs: advances, replaces or fails deployments by the health of their allocations and their
//! progress deadlines (N-14). Drains nodes (N-10).
//!
//! One process at a time is active, under a lease that the plan applier grants. The others wait for the lease with warm
//! replicas. The core, [`Watcher`](core::Watcher), decides when to check which deployment, [`rollout`] decides the next step
//! of one deployment from a state, and the applier verifies each step against the newest state, and writes what follows from
//! it, such as the return to an older version. The scheduler creates deployments, places their batches and marks them
//! successful.
//!
//! Two more cores run under the same lease: [`drains`] moves the allocations of draining nodes (N-13), and [`launches`]
//! launches periodic jobs (N-23).

mod actor;
mod agenda;
mod core;
mod drains;
mod launches;
mod metrics;
mod rollout;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bus::Bus;
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{Replica, Scope, Table};
use tokio_util::sync::CancellationToken;

pub use crate::actor::Deployments;
pub use crate::core::Settings;
pub use crate::drains::Drains;
pub use crate::launches::Launches;

/// The tables that the watcher reads.
pub const SCOPE: Scope = Scope::of(&[
    Table::Jobs,
    Table::JobSummaries,
    Table::Evals,
    Table::Allocs,
    Table::Deployments,
    Table::Nodes,
    Table::Leases,
]);

/// How long the process batches feed changes under load. It is short compared with the time for which changes to a
/// deployment are batched anyway.
pub const FEED_BATCH_DELAY: Duration = Duration::from_millis(50);

/// Settings of the deployment watcher.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "deployment-watcher")]
#[command(next_help_heading = "Deployment watcher")]
pub struct Args {
    /// How long changes to a deployment, or to a job on draining nodes, are batched before it is checked, in milliseconds.
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
    let settings =
        Settings { batch_delay: Nanos(i64::from(args.deployment_gather_ms) * Nanos::MILLISECOND.0) };
    singleton::run(Singleton::DeploymentWatcher, &bus, &replica, process, &stop, async |lease| {
        let deployments = |state, now| Deployments::new(settings, state, now);
        let mut deployments = singleton::start(&bus, &replica, lease.epoch, deployments).await;
        let drains = |state, now| Drains::new(settings.batch_delay, state, now);
        let mut drains = singleton::start(&bus, &replica, lease.epoch, drains).await;
        let launches = |state, _| Launches::new(state);
        let mut launches = singleton::start(&bus, &replica, lease.epoch, launches).await;
        // The tasks end only when their actor has stopped.
        tokio::select! {
            () = deployments.ended() => anyhow::bail!("the deployment watcher stopped unexpectedly"),
            () = drains.ended() => anyhow::bail!("the drainer stopped unexpectedly"),
            () = launches.ended() => anyhow::bail!("the launcher of periodic jobs stopped unexpectedly"),
        }
    })
    .await
}
