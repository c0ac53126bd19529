//! `drover alloc restart`: restarts tasks of an allocation.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Restarts all running tasks of an allocation, or one task.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of an allocation, or a prefix of it.
    alloc: String,
    /// Restart only the task with this name.
    task: Option<String>,
    /// The same as the argument TASK.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// Also restart tasks that have ended.
    #[arg(long, conflicts_with_all = ["task", "task_flag"])]
    all_tasks: bool,
    /// Print whole ids in errors.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.alloc, self.verbose).await?;
        let body = json!({ "TaskName": self.task.or(self.task_flag), "AllTasks": self.all_tasks });
        let _: Value = session.client.put(&format!("/v1/client/allocation/{id}/restart"), &body).await?;
        Ok(ExitCode::SUCCESS)
    }
}
