//! `drover alloc stop`: stops an allocation, which the scheduler then replaces.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;

use super::resolve;
use crate::cli::monitor::Until;
use crate::cli::{Session, flags};

/// Stops an allocation; a new one replaces it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// An allocation id or a prefix of one.
    alloc: String,
    /// Return once the stop is requested, without following it.
    #[arg(long)]
    detach: bool,
    /// Stop without the tasks' shutdown delay.
    #[arg(long)]
    no_shutdown_delay: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

#[derive(Deserialize)]
struct Stopped {
    #[serde(rename = "EvalID")]
    eval_id: String,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let id = resolve(&session.client, &args.alloc).await?;
    let path = format!("/v1/allocation/{id}/stop?no_shutdown_delay={}", args.no_shutdown_delay);
    let stopped: Stopped = session.client.put(&path, &json!({})).await?;
    if args.detach {
        session.output.line(&stopped.eval_id);
        return Ok(ExitCode::SUCCESS);
    }
    session.follow(&stopped.eval_id, Until::Scheduled, args.verbose).await
}
