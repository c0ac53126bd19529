//! `drover alloc signal`: sends a signal to tasks of an allocation.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Sends a signal to all running tasks of an allocation, or to one task.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of an allocation, or a prefix of it.
    alloc: String,
    /// Signal only the task with this name.
    task: Option<String>,
    /// The same as the argument TASK.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// The name of the signal, such as `SIGHUP`.
    #[arg(short = 's', value_name = "SIGNAL", default_value = "SIGKILL")]
    signal: String,
    /// Print whole ids in errors.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.alloc, self.verbose).await?;
        let body = json!({ "Task": self.task.or(self.task_flag), "Signal": self.signal });
        let _: Value = session.client.put(&format!("/v1/client/allocation/{id}/signal"), &body).await?;
        Ok(ExitCode::SUCCESS)
    }
}
