//! `drover deployment unblock`: lets a deployment go on that waits for other regions.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::change::{change, follow};
use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Lets a deployment go on that waits for other regions. With one region, no deployment waits.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a deployment, or a prefix of it.
    deployment: String,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.deployment, self.verbose).await?;
        let unblocked = change(&session.client, "unblock", &id, json!({})).await;
        let unblocked = unblocked.context("Error unblocking deployment")?;
        session.output.line(&format!("Deployment \"{id}\" unblocked"));
        // With one region, nothing changes, and so nothing is evaluated.
        if unblocked.eval_id.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
        follow(&session, &unblocked.eval_id, self.detach, self.verbose).await
    }
}
