//! The command line of the binary: its commands, with the arguments of each.

use crate::cli::{self, completion, man};
use crate::services::Service;
use crate::{agent_command, dev, operator, sim_nodes};

/// Drover runs jobs on many machines and keeps them running.
#[derive(Debug, clap::Parser)]
#[command(
    name = "drover",
    version,
    disable_version_flag = true,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    /// Print the version.
    #[arg(short, long, action = clap::ArgAction::Version)]
    version: (),
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The command to run.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    User(Box<cli::Command>),
    #[command(subcommand)]
    Operator(operator::Command),
    Completion(completion::Args),
    #[command(hide = true)]
    Man(man::Args),
    /// Prints the version
    Version,

    /// Serves the HTTP API
    Api(Service<api::Args>),
    /// Leases evaluations to scheduler workers. One instance is active, others stand by
    EvalBroker(Service<eval_broker::Args>),
    /// Runs scheduler workers
    Scheduler(Service<scheduler::Args>),
    /// Writes the state of the cluster. One instance is active, others stand by
    PlanApplier(Service<plan_applier::Args>),
    /// Tracks the health of nodes, and sends agents their work. One instance is active, others stand by
    NodeTracker(Service<node_tracker::Args>),
    /// Drives rolling updates of jobs. One instance is active, others stand by
    DeploymentWatcher(Service<deployment_watcher::Args>),
    Agent(Box<agent_command::Args>),
    Dev(dev::Args),
    /// Runs one task for an agent
    #[command(hide = true)]
    Executor(agent::executor::Args),
    SimNodes(sim_nodes::Args),
}
