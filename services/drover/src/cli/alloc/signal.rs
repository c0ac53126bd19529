//! `drover alloc signal`: sends tasks of an allocation a signal.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::whole;
use crate::cli::{Session, flags};

/// Sends the running tasks of an allocation a signal, or one of them.
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
    /// The signal's name.
    #[arg(short = 's', value_name = "SIGNAL", default_value = "SIGKILL")]
    signal: String,
    /// Whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = whole(&session.client, &args.alloc).await?;
    let body = json!({ "Task": args.task.or(args.task_flag), "Signal": args.signal });
    let _: Value = session.client.put(&format!("/v1/client/allocation/{id}/signal"), &body).await?;
    Ok(ExitCode::SUCCESS)
}
