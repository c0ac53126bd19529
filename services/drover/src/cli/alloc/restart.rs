//! `drover alloc restart`: restarts tasks of an allocation.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::resolve;
use crate::cli::{Session, flags};

/// Restarts all running tasks of an allocation, or one task.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// An allocation id or a prefix of one.
    alloc: String,
    /// Restart only this task.
    task: Option<String>,
    /// Restart only this task, as a flag.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// Restart tasks that have ended, too.
    #[arg(long, conflicts_with_all = ["task", "task_flag"])]
    all_tasks: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = resolve(&session.client, &args.alloc).await?;
    let body = json!({ "TaskName": args.task.or(args.task_flag), "AllTasks": args.all_tasks });
    let _: Value = session.client.put(&format!("/v1/client/allocation/{id}/restart"), &body).await?;
    Ok(ExitCode::SUCCESS)
}
