//! `drover operator …`, as far as it speaks to the API.

pub(crate) mod api;
pub(crate) mod keyring;
pub(crate) mod metrics;
pub(crate) mod scheduler;

use std::process::ExitCode;

/// What operators look at and set.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Sends the API a request of one's own
    Api(api::Args),
    /// Prints what the server that answers has counted
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

/// Does what was said.
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
