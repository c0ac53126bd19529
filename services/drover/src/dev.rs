//! `drover dev`: a whole cluster in one process, with a private PostgreSQL and nats-server.

use std::path::{Path, PathBuf};

use agent::LimitArgs;

use crate::cluster::{self, Servers, Setup};
use crate::health::{self, Parts};
use crate::process::{self, Process};

/// Disk usage, in percent, above which allocations that have ended are removed.
const GC_PERCENT_MAX: f64 = 99.0;
/// Interval at which allocations that have ended are removed, in milliseconds.
const GC_INTERVAL_MS: u32 = 10 * 60 * 1_000;

/// Runs a whole cluster in one process: PostgreSQL, NATS, every service, and an agent.
///
/// Ctrl-C stops everything that was started. The state stays in the data directory unless -ephemeral is given.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The directory for the files of the cluster.
    #[arg(long, env = "DROVER_DATA_DIR", default_value = ".drover")]
    data_dir: PathBuf,
    /// Keep all files in a temporary directory, and delete it when the process ends.
    #[arg(long)]
    ephemeral: bool,
    #[command(flatten)]
    pub(crate) telemetry: telemetry::Args,
    #[command(flatten)]
    health: health::Args,
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
    /// The settings of the process.
    pub(crate) fn process(&self) -> process::Settings {
        let parts = Parts { agent: true, ..Parts::SERVERS };
        let (telemetry, health) = (self.telemetry.clone(), self.health.clone());
        process::Settings {
            name: "dev",
            parts,
            stops_children: true,
            leave: process::Leave::default(),
            telemetry,
            health,
        }
    }
}

/// Runs the cluster until the process is stopped.
pub(crate) async fn run(process: Process, args: Args) -> anyhow::Result<()> {
    let is_ephemeral = args.ephemeral;
    let temporary = if is_ephemeral { Some(tempfile::tempdir()?) } else { None };
    let dir = temporary.as_ref().map_or(args.data_dir.as_path(), |dir| dir.path()).to_owned();
    let Args { mut api, plan_applier, eval_broker, node_tracker, deployment_watcher, scheduler, .. } = args;
    // Metrics of each node and allocation are cheap here: there is one node, and it has few tasks.
    (api.publish_node_metrics, api.publish_allocation_metrics) = (true, true);
    let agent = Some(agent_args(&dir, &api));
    let servers =
        Some(Servers { api, plan_applier, eval_broker, node_tracker, deployment_watcher, scheduler });
    let setup = Setup {
        dir,
        nats: None,
        database: None,
        servers,
        agent,
        is_advertised: false,
        is_dev: true,
        is_ephemeral,
    };
    Box::pin(cluster::run(process, setup)).await
}

/// The arguments of an agent for one developer's machine. Its tasks stop with it. It hardly removes ended allocations for
/// disk space: on a nearly full disk, logs would disappear as soon as a task ends.
pub(crate) fn agent_args(dir: &Path, api: &api::Args) -> agent::Args {
    // If the API listens on the loopback interface only, tasks need no address that other machines can reach.
    let network_interface = api.http_addr.ip().is_loopback().then(|| agent::LOOPBACK.to_owned());
    agent::Args {
        network_interface,
        data_dir: dir.join("agent"),
        raw_exec: true,
        mock_driver: true,
        stop_tasks_on_exit: true,
        gc_disk_percent_max: GC_PERCENT_MAX,
        gc_inodes_percent_max: GC_PERCENT_MAX,
        limits: LimitArgs { alloc_gc_interval_ms: GC_INTERVAL_MS, ..LimitArgs::default() },
        ..agent::Args::default()
    }
}
