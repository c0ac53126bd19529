//! `drover alloc signal`: sends a signal to tasks of an allocation.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::resolve;
use crate::cli::{Session, flags};

/// Sends a signal to all running tasks of an allocation, or to one task.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// An allocation id or a prefix of one.
    alloc: String,
    /// Signal only this task.
    task: Option<String>,
    /// Signal only this task, as a flag.
    #[arg(long = "task", value_name = "TASK", conflicts_with = "task")]
    task_flag: Option<String>,
    /// The name of the signal.
    #[arg(short = 's', value_name = "SIGNAL", default_value = "SIGKILL")]
    signal: String,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = resolve(&session.client, &args.alloc).await?;
    let body = json!({ "Task": args.task.or(args.task_flag), "Signal": args.signal });
    let _: Value = session.client.put(&format!("/v1/client/allocation/{id}/signal"), &body).await?;
    Ok(ExitCode::SUCCESS)
}
