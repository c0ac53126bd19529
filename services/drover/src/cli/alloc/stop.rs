//! `drover alloc stop`: stops an allocation, which the scheduler then replaces.

use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;

use super::resolve;
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session};

/// Stops an allocation, so that a new one replaces it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of an allocation, or a prefix of it.
    alloc: String,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Stop the tasks without their shutdown delay.
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

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.alloc, self.verbose).await?;
        let path = format!("/v1/allocation/{id}/stop?no_shutdown_delay={}", self.no_shutdown_delay);
        let stopped: Stopped = session.client.put(&path, &json!({})).await?;
        if self.detach {
            session.output.line(&stopped.eval_id);
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&stopped.eval_id, Until::Scheduled, self.verbose).await
    }
}
