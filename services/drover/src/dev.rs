//! `drover dev`: a whole cluster in one process, with a PostgreSQL and a nats-server of its own.

use std::path::{Path, PathBuf};

use crate::cluster::{self, Servers, Setup};
use crate::health::{self, Parts};
use crate::process::{self, Process};

/// How full the disk may be before allocations that have ended are removed, in percent.
const GC_PERCENT_MAX: f64 = 99.0;

/// Runs a whole cluster in one process: PostgreSQL, NATS, every service, and an agent.
///
/// Ctrl-C stops everything that was started. The state is kept unless it is to be ephemeral.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) telemetry: telemetry::Args,
    #[command(flatten)]
    health: health::Args,
    /// Where the cluster's files are kept.
    #[arg(long, env = "DROVER_DATA_DIR", default_value = ".drover")]
    data_dir: PathBuf,
    /// Keep nothing: the files go with the process.
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    api: api::Args,
    #[command(flatten)]
    plan_applier: plan_applier::Args,
    #[command(flatten)]
    eval_broker: eval_broker::Args,
    #[command(flatten)]
    node_tracker: node_tracker::Args,
    #[command(flatten)]
    deployment_watcher: deployment_watcher::Args,
    #[command(flatten)]
    scheduler: scheduler::Args,
}

impl Args {
    /// The process that everything runs in.
    pub(crate) fn process(&self) -> process::Settings {
        let parts = Parts { agent: true, ..Parts::SERVERS };
        let (telemetry, health) = (self.telemetry.clone(), self.health.clone());
        process::Settings { name: "dev", parts, ends_others: true, telemetry, health }
    }
}

/// Runs it until the process is to stop.
pub(crate) async fn run(process: Process, args: Args) -> anyhow::Result<()> {
    let temporary = if args.ephemeral { Some(tempfile::tempdir()?) } else { None };
    let dir = temporary.as_ref().map_or(args.data_dir.as_path(), |dir| dir.path()).to_owned();
    let Args { mut api, plan_applier, eval_broker, node_tracker, deployment_watcher, scheduler, .. } = args;
    // The machine is this one, and its tasks are few.
    (api.publish_node_metrics, api.publish_allocation_metrics) = (true, true);
    let agent = Some(agent_args(&dir, &api));
    let servers =
        Some(Servers { api, plan_applier, eval_broker, node_tracker, deployment_watcher, scheduler });
    let setup = Setup { dir, nats: None, database: None, servers, agent, is_advertised: false, is_dev: true };
    cluster::run(process, setup).await
}

/// An agent for one machine and one person: its tasks end with it. The disk is that person's business: on a rather full
/// one, logs would go as soon as a task has ended.
pub(crate) fn agent_args(dir: &Path, api: &api::Args) -> agent::Args {
    // Where nobody else can reach the cluster, its tasks need no address for others.
    let network_interface = api.http_addr.ip().is_loopback().then(|| agent::LOOPBACK.to_owned());
    agent::Args {
        network_interface,
        data_dir: dir.join("agent"),
        raw_exec: true,
        mock_driver: true,
        stop_tasks_on_exit: true,
        gc_disk_percent_max: GC_PERCENT_MAX,
        gc_inodes_percent_max: GC_PERCENT_MAX,
        ..agent::Args::default()
    }
}
