//! The commands of `drover operator …` that use the API.

pub(crate) mod api;
pub(crate) mod keyring;
pub(crate) mod metrics;
pub(crate) mod scheduler;

use std::process::ExitCode;

/// Commands for operators.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Sends an arbitrary request to the API
    Api(api::Args),
    /// Prints the metrics of the cluster
    Metrics(metrics::Args),
    /// Shows the keys that the cluster signs with
    Root {
        #[command(subcommand)]
        command: keyring::Root,
    },
    /// Shows and changes the scheduler's settings
    Scheduler {
        #[command(subcommand)]
        command: scheduler::Command,
    },
}

/// Runs the command.
pub(crate) fn run(command: Command) -> ExitCode {
    match command {
        Command::Api(args) => super::run(args.api.clone(), |session| api::run(session, args)),
        Command::Metrics(args) => super::run(args.api.clone(), |session| metrics::run(session, args)),
        Command::Root { command: keyring::Root::Keyring { command: keyring::Command::List(args) } } => {
            super::run(args.api.clone(), |session| keyring::list(session, args))
        }
        Command::Scheduler { command: scheduler::Command::GetConfig(args) } => {
            super::run(args.api.clone(), |session| scheduler::get(session, args))
        }
        Command::Scheduler { command: scheduler::Command::SetConfig(args) } => {
            super::run(args.api.clone(), |session| scheduler::set(session, args))
        }
    }
}
