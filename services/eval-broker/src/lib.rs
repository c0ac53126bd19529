//! The evaluation broker: queues evaluations, leases them to scheduler workers, and tracks blocked evaluations.
//!
//! One process is active, under a lease that the applier grants; the others wait for that lease and keep their replicas
//! up to date. All decisions are in [`Broker`], the core, based on the change feed and on the workers' requests; this
//! module contains the service around it. The broker holds no state that must survive it: the state contains all
//! evaluations and the unblock records, and the applier refuses the plan of a second worker.

mod actor;
mod blocked;
pub mod core;
mod metrics;
#[cfg(test)]
mod properties;
mod queue;
mod serve;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod waiters;

use std::sync::Arc;

use anyhow::Context as _;
use bus::Bus;
use bus::lease::Lease;
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{Replica, Scope, Table};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::actor::Serving;
pub use crate::queue::{Finished, Settings};

/// The part of the state that the broker reads.
pub const SCOPE: Scope =
    Scope::of(&[Table::Jobs, Table::Evals, Table::Unblocked, Table::SchedulerConfig, Table::Leases]);

/// Settings of the broker.
#[derive(Debug, Clone, clap::Args)]
#[group(id = "eval-broker")]
#[command(next_help_heading = "Evaluation broker")]
pub struct Args {
    /// Lease of a worker on an evaluation, in milliseconds. If the worker does not renew it, another worker gets the
    /// evaluation.
    #[arg(
        long,
        env = "DROVER_EVAL_LEASE_MS",
        default_value_t = 2_000,
        value_parser = clap::value_parser!(u32).range(100..),
        value_name = "MS"
    )]
    pub eval_lease_ms: u32,
    /// Number of failed deliveries after which an evaluation fails.
    #[arg(
        long,
        env = "DROVER_EVAL_DELIVERY_LIMIT",
        default_value_t = 3,
        value_parser = clap::value_parser!(u8).range(1..),
        value_name = "COUNT"
    )]
    pub eval_delivery_limit: u8,
}

/// Runs the broker until `stop`. It is active while this process holds the broker's lease.
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
    let settings = Settings {
        lease: Nanos(i64::from(args.eval_lease_ms) * Nanos::MILLISECOND.0),
        delivery_limit: args.eval_delivery_limit,
    };
    singleton::run(Singleton::EvalBroker, &bus, &replica, process, &stop, async |lease| {
        run_active(settings, &bus, &replica, lease).await
    })
    .await
}

/// Restores the broker from the replica and serves workers, until this future is dropped.
async fn run_active(settings: Settings, bus: &Bus, replica: &Replica, lease: &Lease) -> anyhow::Result<()> {
    let restore = |state, now| Serving::new(settings, bus.clone(), state, now);
    let mut running = singleton::start(bus, replica, lease.epoch, restore).await;
    let broker = running.address();

    let serving = "cannot serve workers";
    let dequeues = bus.serve(Subject::Dequeue.to_string()).await.context(serving)?;
    let lease_actions = bus.serve(Subject::EvalLease.to_string()).await.context(serving)?;
    let (answers, undelivered) = bus.answers().await.context(serving)?;
    // Dropping the set aborts the tasks.
    let mut tasks = JoinSet::new();
    // Runs on the actor's thread, so that the thread is not woken from outside for each request.
    tasks.spawn_local(serve::dequeues(dequeues, answers, broker.clone()));
    tasks.spawn(serve::undelivered(undelivered, broker.clone()));
    tasks.spawn(serve::lease_actions(lease_actions, broker));
    tokio::select! {
        () = running.ended() => {}
        _ = tasks.join_next() => {}
    }
    // A task ends only if the connection is closed for good or the actor has stopped.
    anyhow::bail!("the evaluation broker stopped serving")
}
