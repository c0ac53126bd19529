//! The evaluation broker: queues evaluations, leases them to scheduler workers, and tracks blocked evaluations.
//!
//! One process is active, under a lease that the applier grants; the others wait for that lease and keep their replicas
//! up to date. All decisions are in [`Broker`], the core, based on the change feed and on the workers' requests; this
//! module contains the service around it. The broker holds no state that must survive it: the state contains all
//! evaluations and the unblock records, and the applier refuses the plan of a second worker. Periodic jobs are not
//! launched yet.

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

use actix::Actor;
use anyhow::Context as _;
use bus::Bus;
use bus::lease::Lease;
use model::cluster::Singleton;
use model::{Nanos, ProcessId};
use state::{FollowEvent, Replica, Scope, Table};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use wire::Subject;

use crate::actor::{EvalBroker, StopOnDrop};
use crate::core::Broker;
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
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(&bus, &replica, Singleton::EvalBroker, process) => lease,
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            ended = run_active(settings, &bus, &replica, &lease) => ended?,
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// Restores the broker from the replica and serves workers, until this future is dropped.
async fn run_active(settings: Settings, bus: &Bus, replica: &Replica, lease: &Lease) -> anyhow::Result<()> {
    let mut follower = replica.follow();
    let (FollowEvent::Reset(state) | FollowEvent::Step(state::Step { after: state, .. })) =
        follower.next().await;
    let (writes, to_write) = mpsc::channel(1);
    let broker = Broker::restore(settings, state, bus.contact().cluster_now());
    let broker = EvalBroker::new(broker, settings, bus.clone(), lease.epoch, writes).start();
    let _stop_on_drop = StopOnDrop(broker.clone());

    let serving = "cannot serve workers";
    let dequeues = bus.serve(Subject::Dequeue.to_string()).await.context(serving)?;
    let lease_actions = bus.serve(Subject::EvalLease.to_string()).await.context(serving)?;
    let (answers, undelivered) = bus.answers().await.context(serving)?;
    // Dropping the set aborts the tasks.
    let mut tasks = JoinSet::new();
    // Runs on the actor's thread, so that the thread is not woken from outside for each change.
    tasks.spawn_local(actor::follow(follower, broker.clone()));
    tasks.spawn(actor::write(to_write, bus.clone(), broker.clone()));
    tasks.spawn_local(serve::dequeues(dequeues, answers, broker.clone()));
    tasks.spawn(serve::undelivered(undelivered, broker.clone()));
    tasks.spawn(serve::lease_actions(lease_actions, broker));
    let _ = tasks.join_next().await;
    // A task ends only if the connection is closed for good or the actor has stopped.
    anyhow::bail!("the evaluation broker stopped serving")
}
