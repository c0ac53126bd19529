//! The command line for users and their scripts: commands that use a cluster's HTTP API only (`docs/rules/cli.md`). Scripts depend
//! on their names, flags, columns and exit codes.

pub(crate) mod agent_info;
pub(crate) mod agent_monitor;
pub(crate) mod alloc;
mod client;
pub(crate) mod completion;
pub(crate) mod config;
mod confirm;
pub(crate) mod deployment;
pub(crate) mod eval;
pub(crate) mod flags;
pub(crate) mod fmt;
mod follow;
mod format;
pub(crate) mod health;
pub(crate) mod job;
pub(crate) mod man;
mod monitor;
pub(crate) mod node;
pub(crate) mod object;
pub(crate) mod operator;
mod output;
mod page;
mod paging;
mod prefix;
mod reasons;
pub(crate) mod server;
pub(crate) mod status;
pub(crate) mod system;
mod tables;
pub(crate) mod usage;

use std::io::Write as _;
use std::process::ExitCode;

use client::Client;
pub(crate) use output::Output;

/// The client of the API and the output, which every command needs.
pub(crate) struct Session {
    client: Client,
    output: Output,
}

/// Runs a command to completion. An error is printed to standard error, with exit code 1.
pub(crate) fn run<F: Future<Output = anyhow::Result<ExitCode>>>(
    flags: flags::Api,
    command: impl FnOnce(Session) -> F,
) -> ExitCode {
    let output = Output::new(flags.colours());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("the runtime starts");
    let result = runtime.block_on(async {
        let client = Client::new(&flags)?;
        command(Session { client, output }).await
    });
    ended(output, result)
}

/// Runs a command that does not use the API.
pub(crate) fn run_here(
    flags: &flags::Api,
    command: impl FnOnce(Output) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let output = Output::new(flags.colours());
    ended(output, command(output))
}

fn ended(output: Output, result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        output.error(&format!("{error:#}"));
        ExitCode::FAILURE
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
