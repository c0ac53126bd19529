//! The command line for users and their scripts: commands that use a cluster's HTTP API or files only (`docs/rules/cli.md`).
//! Scripts depend on their names, flags, columns and exit codes.

mod advice;
mod agent_info;
mod agent_monitor;
mod alloc;
mod block;
mod chosen;
mod client;
mod cluster;
pub(crate) mod completion;
pub(crate) mod config;
mod confirm;
mod deployment;
mod eval;
mod exec;
mod failures;
pub(crate) mod flags;
mod fmt;
mod follow;
mod format;
mod health;
mod help;
pub(crate) mod job;
mod lines;
pub(crate) mod man;
mod measured;
mod mistakes;
mod monitor;
mod namespace;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod operator;
mod output;
mod page;
mod paging;
mod prefix;
mod progress;
mod reasons;
mod scaling;
mod server;
mod service;
mod spec;
mod status;
mod system;
mod tables;
pub(crate) mod usage;
mod volume;

#[cfg(test)]
mod compatibility;
#[cfg(test)]
mod tests;

use std::io::Write as _;
use std::process::ExitCode;

use client::Client;
use output::Output;

use crate::command::{Run, commands};

commands! {
    /// The commands for users.
    Command {
        #[command(subcommand)]
        Job(job::Command),
        #[command(subcommand)]
        Alloc(alloc::Command),
        #[command(subcommand)]
        Eval(eval::Command),
        #[command(subcommand)]
        Deployment(deployment::Command),
        #[command(subcommand)]
        Node(node::Command),
        #[command(subcommand)]
        Namespace(namespace::Command),
        #[command(subcommand)]
        Scaling(scaling::Command),
        #[command(subcommand)]
        Server(server::Command),
        #[command(subcommand)]
        Cluster(cluster::Command),
        #[command(subcommand)]
        Service(service::Command),
        #[command(subcommand)]
        Volume(volume::Command),
        Status(WithApi<status::Args>),
        AgentInfo(WithApi<agent_info::Args>),
        Monitor(WithApi<agent_monitor::Args>),
        Fmt(fmt::Args),
        #[command(subcommand)]
        System(system::Command),
        #[command(subcommand)]
        Config(config::Command),
        Health(health::Args),
        /// The same as `job init`
        #[command(hide = true)]
        Init(job::init::Args),
        /// The same as `job plan`
        #[command(hide = true)]
        Plan(WithApi<job::plan::Args>),
        /// The same as `job validate`
        #[command(hide = true)]
        Validate(WithApi<job::validate::Args>),
        /// The same as `job run`
        #[command(hide = true)]
        Run(WithApi<job::run::Args>),
        /// The same as `job start`
        #[command(hide = true)]
        Start(WithApi<job::start::Args>),
        /// The same as `job stop`
        #[command(hide = true)]
        Stop(WithApi<job::stop::Args>),
        /// The same as `job inspect`
        #[command(hide = true)]
        Inspect(WithApi<job::inspect::Args>),
        /// The same as `job action`
        #[command(hide = true)]
        Action(WithApi<job::action::Args>),
        /// The same as `alloc exec`
        #[command(hide = true)]
        Exec(WithApi<alloc::exec::Args>),
        /// The same as `alloc logs`
        #[command(hide = true)]
        Logs(WithApi<alloc::logs::Args>),
        /// The same as `alloc fs`
        #[command(hide = true)]
        Fs(WithApi<alloc::fs::Args>),
        /// The same as `alloc status`
        #[command(hide = true)]
        AllocStatus(WithApi<alloc::status::Args>),
        /// The same as `eval status`
        #[command(hide = true)]
        EvalStatus(WithApi<eval::status::Args>),
        /// The same as `node status`
        #[command(hide = true)]
        NodeStatus(WithApi<node::status::Args>),
        /// The same as `node drain`
        #[command(hide = true)]
        NodeDrain(WithApi<node::drain::Args>),
        /// The same as `server members`
        #[command(hide = true)]
        ServerMembers(WithApi<server::Members>),
    }
}

/// The client of the API and the output, for commands that use the API.
pub(crate) struct Session {
    client: Client,
    output: Output,
}

/// The arguments of a command that uses the API.
pub(crate) trait ApiCommand {
    /// The exit code if the command fails.
    const EXIT_ERROR: u8 = 1;

    /// Runs the command, and returns its exit code. The caller prints the error.
    async fn run(self, session: Session) -> anyhow::Result<ExitCode>;
}

// The arguments of a command that uses the API: its own, and those that say how to reach the API. This is no doc comment,
// because the parser would print it as the help of every command.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct WithApi<A: clap::Args> {
    #[command(flatten)]
    api: flags::Api,
    // The command's own flags do not stand under the heading of the flags above.
    #[command(flatten, next_help_heading = None)]
    own: A,
}

impl<A: clap::Args + ApiCommand> Run for WithApi<A> {
    fn run(self) -> ExitCode {
        let Self { api, own } = self;
        let output = Output::new(api.colours.choice());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("the runtime starts");
        let result = runtime.block_on(async {
            let client = Client::new(&api)?;
            own.run(Session { client, output }).await
        });
        finish(output, result, ExitCode::from(A::EXIT_ERROR))
    }
}

/// Runs a command that does not use the API.
fn run_here(
    colours: &flags::ColourFlags,
    command: impl FnOnce(Output) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let output = Output::new(colours.choice());
    finish(output, command(output), ExitCode::FAILURE)
}

/// The exit code of a command. Prints its error to standard error.
fn finish(output: Output, result: anyhow::Result<ExitCode>, exit_error: ExitCode) -> ExitCode {
    result.unwrap_or_else(|error| {
        output.error(&format!("{error:#}"));
        if let Some(advice) = advice::advice(&error) {
            output.error(&advice);
        }
        exit_error
    })
}

impl Session {
    /// Reports why a job file cannot be used.
    fn refuse(&self, failure: job::file::Failure) -> anyhow::Result<ExitCode> {
        match failure {
            job::file::Failure::Other(error) => Err(error.context("Error getting job struct")),
            job::file::Failure::Invalid(error) => {
                self.output.report(|colours| job::file::render(&error, colours));
                Ok(ExitCode::FAILURE)
            }
        }
    }
}

/// Prints the version.
pub(crate) fn version() -> ExitCode {
    let _ = writeln!(std::io::stdout(), "Drover v{}", env!("CARGO_PKG_VERSION"));
    ExitCode::SUCCESS
}
