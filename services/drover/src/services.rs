//! One service in its own process: the arguments that all services share, and the start of each service.

use std::time::Duration;

use agent::{DataDir, Presence};
use anyhow::Context as _;
use bus::Bus;
use state::Scope;
use wire::Role;

use crate::address::reachable;
use crate::health::{self, Parts, probe};
use crate::process::{self, Process};

/// How a service connects to NATS and the database, and how it reports logs, metrics and health.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(crate) struct Infra {
    #[command(flatten)]
    pub(crate) telemetry: telemetry::Args,
    #[command(flatten)]
    pub(crate) health: health::Args,
    #[command(flatten)]
    pub(crate) bus: bus::Args,
    #[command(flatten)]
    pub(crate) store: store::Args,
}

impl Infra {
    /// The settings of the process of the service `name`.
    pub(crate) fn process(&self, name: &'static str, parts: Parts) -> process::Settings {
        let Self { telemetry, health, .. } = self.clone();
        process::Settings {
            name,
            parts,
            stops_children: false,
            leave: process::Leave::default(),
            telemetry,
            health,
        }
    }
}

/// The arguments of one service: its own and those that all services share.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Service<A: clap::Args> {
    #[command(flatten)]
    pub(crate) infra: Infra,
    #[command(flatten)]
    pub(crate) own: A,
}

/// The plan applier. It migrates the schema of the database before it follows the feed, which needs the schema.
pub(crate) async fn plan_applier(
    mut process: Process,
    args: Service<plan_applier::Args>,
) -> anyhow::Result<()> {
    let Service { infra, own } = args;
    let cluster = process.connect(&infra.bus, Role::PlanApplier, plan_applier::SCOPE).await?;
    let prepared = process.unless_stopped(prepared_database(&infra.store)).await?;
    let (bus, replica) = (cluster.bus.clone(), cluster.replica.clone());
    let run = plan_applier::run(own, prepared, bus, replica, process.id, process.stop.clone());
    process.start("plan-applier", run);
    process.follow(&cluster, &infra.store, Duration::ZERO).await?;
    process.wait().await
}

/// Waits for the plan applier's database, and migrates its schema.
pub(crate) async fn prepared_database(store: &store::Args) -> anyhow::Result<plan_applier::Prepared> {
    plan_applier::prepare(store).await.context("cannot use the database")
}

macro_rules! followers {
    ($($service:ident, $name:literal, $role:expr, $batch_window:expr;)+) => {$(
        pub(crate) async fn $service(
            mut process: Process,
            args: Service<$service::Args>,
        ) -> anyhow::Result<()> {
            let cluster = process.connect(&args.infra.bus, $role, $service::SCOPE).await?;
            process.follow(&cluster, &args.infra.store, $batch_window).await?;
            let run = $service::run(args.own, cluster.bus, cluster.replica, process.id, process.stop.clone());
            process.start($name, run);
            process.wait().await
        }
    )+};
}

followers! {
    eval_broker, "eval-broker", Role::EvalBroker, Duration::ZERO;
    scheduler, "scheduler", Role::Scheduler, Duration::ZERO;
    node_tracker, "node-tracker", Role::NodeTracker, node_tracker::FEED_BATCH_DELAY;
    deployment_watcher, "deployment-watcher", Role::DeploymentWatcher, deployment_watcher::FEED_BATCH_DELAY;
}

/// The HTTP API. It binds its address before anything else, so that an address in use is reported at once.
pub(crate) async fn api(mut process: Process, args: Service<api::Args>) -> anyhow::Result<()> {
    let server = api::Server::bind(args.own)?;
    let cluster = process.connect(&args.infra.bus, Role::Api, Scope::ALL).await?;
    process.follow(&cluster, &args.infra.store, Duration::ZERO).await?;
    let contact = cluster.bus.contact();
    tokio::spawn(probe::api(process.health.clone(), reachable(server.addr())));
    let run = server.run(cluster.bus, cluster.replica, contact, process.id, process.stop.clone());
    process.start("api", run);
    process.wait().await
}

/// The agent. It needs NATS only, and continues to run earlier tasks without it.
pub(crate) async fn agent(mut process: Process, nats: bus::Args, args: agent::Args) -> anyhow::Result<()> {
    let data_dir = DataDir::open(&args).await?;
    let node = data_dir.node_id(nats.node()?)?;
    let presence = Presence::default();
    process.health.set_presence(presence.clone());
    let health = process.health.clone();
    let connecting = async move {
        let bus = Bus::connect_agent(&nats, node).await?;
        health.set_bus(bus.clone());
        Ok(bus)
    };
    let run =
        agent::run_connecting(args, data_dir, connecting, presence, process.stop.clone(), process.leaving());
    process.start("agent", run);
    process.wait().await
}

#[cfg(test)]
mod tests {
    use store::roles::Role;

    use super::*;

    /// A role of the database may read exactly what the service's replica keeps. The order of lists does not affect rights.
    #[test]
    fn each_role_may_read_the_tables_that_its_service_keeps() {
        for (role, scope) in [
            (Role::PlanApplier, plan_applier::SCOPE),
            (Role::Api, Scope::ALL),
            (Role::EvalBroker, eval_broker::SCOPE),
            (Role::Scheduler, scheduler::SCOPE),
            (Role::NodeTracker, node_tracker::SCOPE),
            (Role::DeploymentWatcher, deployment_watcher::SCOPE),
        ] {
            assert_eq!(role.scope().without_lists(), scope.without_lists(), "{role:?}");
        }
    }
}
