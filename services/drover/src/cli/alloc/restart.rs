//! `drover alloc restart`: has tasks of an allocation begin anew.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::whole;
use crate::cli::{Session, flags};

/// Has the running tasks of an allocation begin anew, or one of them.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// The allocation: its id, or the beginning of it.
    alloc: String,
    /// One task.
    task: Option<String>,
    /// One task, said with a flag.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// Tasks that have ended, too.
    #[arg(long, conflicts_with_all = ["task", "task_flag"])]
    all_tasks: bool,
    /// Whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = whole(&session.client, &args.alloc).await?;
    let body = json!({ "TaskName": args.task.or(args.task_flag), "AllTasks": args.all_tasks });
    let _: Value = session.client.put(&format!("/v1/client/allocation/{id}/restart"), &body).await?;
    Ok(ExitCode::SUCCESS)
}
