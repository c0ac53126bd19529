//! The command line of the binary: its commands, with the arguments of each.

use crate::cli::{
    agent_info, agent_monitor, alloc, completion, config, deployment, eval, fmt, health, job, man, node,
    server, status, system,
};
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
    /// Registers, shows and stops jobs
    Job {
        #[command(subcommand)]
        command: job::Command,
    },
    /// Shows allocations, their logs and their files
    Alloc {
        #[command(subcommand)]
        command: alloc::Command,
    },
    /// Shows evaluations
    Eval {
        #[command(subcommand)]
        command: eval::Command,
    },
    /// Shows deployments, and fails them
    Deployment {
        #[command(subcommand)]
        command: deployment::Command,
    },
    /// Shows nodes, and sets whether they may get new work
    Node {
        #[command(subcommand)]
        command: node::Command,
    },
    /// Shows the servers
    Server {
        #[command(subcommand)]
        command: server::Command,
    },
    /// Shows the object with a given id, of any kind
    Status(status::Args),
    /// Shows statistics of the server that answers
    AgentInfo(agent_info::Args),
    /// Follows the log of a server or a node
    Monitor(agent_monitor::Args),
    /// Formats job files
    Fmt(fmt::Args),
    /// The same as `job init`
    #[command(hide = true)]
    Init(job::init::Args),
    /// The same as `job plan`
    #[command(hide = true)]
    Plan(job::plan::Args),
    /// The same as `job validate`
    #[command(hide = true)]
    Validate(job::validate::Args),
    /// The same as `job run`
    #[command(hide = true)]
    Run(job::run::Args),
    /// The same as `job stop`
    #[command(hide = true)]
    Stop(job::stop::Args),
    /// The same as `job inspect`
    #[command(hide = true)]
    Inspect(job::inspect::Args),
    /// The same as `alloc logs`
    #[command(hide = true)]
    Logs(alloc::logs::Args),
    /// The same as `alloc fs`
    #[command(hide = true)]
    Fs(alloc::fs::Args),
    /// The same as `alloc status`
    #[command(hide = true)]
    AllocStatus(alloc::status::Args),
    /// The same as `eval status`
    #[command(hide = true)]
    EvalStatus(eval::status::Args),
    /// The same as `node status`
    #[command(hide = true)]
    NodeStatus(node::Args),
    /// The same as `server members`
    #[command(hide = true)]
    ServerMembers(server::Members),
    /// Maintains the state of the cluster
    System {
        #[command(subcommand)]
        command: system::Command,
    },
    /// Manages the cluster's settings, database and certificates
    Operator {
        #[command(subcommand)]
        command: operator::Command,
    },
    /// Checks configuration files
    Config {
        #[command(subcommand)]
        command: config::Command,
    },
    /// Checks whether a service process is live and ready
    Health(health::Args),
    /// Prints a shell script that completes commands and flags
    Completion(completion::Args),
    /// Writes the manual pages
    #[command(hide = true)]
    Man(man::Args),
    /// Prints the version
    Version,

    /// Serves the HTTP API
    Api(Service<api::Args>),
    /// Leases evaluations to scheduler workers; one is active, others stand by
    EvalBroker(Service<eval_broker::Args>),
    /// Runs scheduler workers
    Scheduler(Service<scheduler::Args>),
    /// Writes the cluster's state; one is active, others stand by
    PlanApplier(Service<plan_applier::Args>),
    /// Tracks the health of nodes and sends agents their work; one is active, others stand by
    NodeTracker(Service<node_tracker::Args>),
    /// Drives rolling updates of jobs; one is active, others stand by
    DeploymentWatcher(Service<deployment_watcher::Args>),
    /// Runs tasks on this machine
    Agent(Box<agent_command::Args>),
    /// Runs a whole cluster in one process
    Dev(dev::Args),
    /// Runs one task for an agent
    #[command(hide = true)]
    Executor(agent::executor::Args),
    /// Simulates many nodes in one process, for benchmarks
    SimNodes(sim_nodes::Args),
}
