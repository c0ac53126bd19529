//! `drover alloc exec`: runs a command in a task.

use std::process::ExitCode;

use api_types::Allocation;

use super::choose_task;
use super::selection::Selection;
use crate::cli::exec::Connection;
use crate::cli::{ApiCommand, Session};

/// Runs a command in a task, and ends with its exit code.
///
/// Everything behind the allocation belongs to the command.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  \
    drover alloc exec 1a2b3c4d /bin/sh\n  \
    drover alloc exec -task app 1a2b3c4d ps -e")]
pub(crate) struct Args {
    #[command(flatten)]
    selection: Selection,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
    /// The name of the task. It may be left out if the allocation has only one.
    #[arg(long, value_name = "TASK")]
    task: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = self.selection.find(&session.client, false).await?;
        let alloc: Allocation = session.client.get(&format!("/v1/allocation/{id}"), &[]).await?;
        let task = choose_task(&alloc, self.task.as_deref(), false)?;
        let command = serde_json::to_string(&self.command)?;
        let query = [("task", task.as_str()), ("command", command.as_str())];
        self.connection.run(&session, &format!("/v1/client/allocation/{id}/exec"), &query).await
    }
}
