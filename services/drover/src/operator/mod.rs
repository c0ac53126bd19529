//! `drover operator …`: commands for the database and the secrets of a cluster, whether it runs or not, and commands that use
//! the API.

mod accept_database;
mod certificates;
mod directory;
mod init;
mod nats;
mod postgres;
mod report;
mod tls;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::process::fail;

/// The sub-commands.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Continues with a database that lost acknowledged writes, or was moved, as it is now
    AcceptDatabase(accept_database::Args),
    /// Creates all secrets of a cluster in a directory: certificates, credentials, passwords
    Init(init::Args),
    /// Creates the servers' certificates, and renews them
    Tls {
        #[command(subcommand)]
        command: tls::Command,
    },
    /// Creates identities for NATS, which decide who may send and receive which messages
    Nats {
        #[command(subcommand)]
        command: nats::Command,
    },
    /// Prints and checks the roles of the database
    Postgres {
        #[command(subcommand)]
        command: postgres::Command,
    },
    #[command(flatten)]
    OverApi(Box<crate::cli::operator::Command>),
}

/// Runs the command.
pub(crate) fn run(command: Command) -> ExitCode {
    match command {
        Command::AcceptDatabase(args) => run_async(accept_database::run(&args)),
        Command::Init(args) => init::run(&args),
        Command::Tls { command } => tls::run(command),
        Command::Nats { command } => nats::run(&command),
        Command::Postgres { command } => postgres::run(&command),
        Command::OverApi(command) => crate::cli::operator::run(*command),
    }
}

/// Runs `work` to completion and prints its result.
fn run_async(work: impl Future<Output = anyhow::Result<String>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.context("cannot start the runtime").and_then(|runtime| runtime.block_on(work)) {
        Ok(text) => {
            let _ = writeln!(std::io::stdout(), "{text}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}
