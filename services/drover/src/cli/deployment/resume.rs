//! `drover deployment resume`: resumes a deployment that is paused.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::change::{change, follow};
use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Resumes a deployment that is paused, and follows it to its end.
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
        let resumed = change(&session.client, "pause", &id, json!({ "Pause": false })).await;
        let resumed = resumed.context("Error resuming deployment")?;
        session.output.line(&format!("Deployment \"{id}\" resumed"));
        if !self.detach {
            session.output.line("");
        }
        follow(&session, &resumed.eval_id, self.detach, self.verbose).await
    }
}
