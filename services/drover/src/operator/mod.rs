//! `drover operator …`: what operators do to the database and the files of a cluster, whether it runs or not, and what they
//! do over the API.

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

/// What can be done.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Accepts a database that lost acknowledged writes, or was moved, as it is now
    AcceptDatabase(accept_database::Args),
    /// Makes all secrets of a cluster in a directory: certificates, credentials, passwords
    Init(init::Args),
    /// Makes certificates for the servers, and renews them
    Tls {
        #[command(subcommand)]
        command: tls::Command,
    },
    /// Makes identities for NATS: who may speak to whom
    Nats {
        #[command(subcommand)]
        command: nats::Command,
    },
    /// Sees to the roles of the database
    Postgres {
        #[command(subcommand)]
        command: postgres::Command,
    },
    #[command(flatten)]
    OverApi(Box<crate::cli::operator::Command>),
}

/// Does what was said.
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

/// Runs `work` and prints what it answers.
fn run_async(work: impl Future<Output = anyhow::Result<String>>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.context("cannot make a runtime").and_then(|runtime| runtime.block_on(work)) {
        Ok(said) => {
            let _ = writeln!(std::io::stdout(), "{said}");
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}
