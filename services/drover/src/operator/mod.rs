//! `drover operator …`: commands for the database and the secrets of a cluster, whether it runs or not, and commands that use
//! the API.

mod accept_database;
mod certificates;
mod directory;
mod init;
mod nats;
pub(crate) mod postgres;
mod report;
mod tls;

use std::io::Write as _;
use std::process::ExitCode;

use anyhow::Context as _;

use crate::command::commands;
use crate::process::fail;

commands! {
    /// Manages the cluster's settings, database and certificates.
    Command {
        AcceptDatabase(accept_database::Args),
        Init(init::Args),
        #[command(subcommand)]
        Tls(tls::Command),
        #[command(subcommand)]
        Nats(nats::Command),
        #[command(subcommand)]
        Postgres(postgres::Command),
        #[command(flatten)]
        WithApi(Box<crate::cli::operator::Command>),
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
