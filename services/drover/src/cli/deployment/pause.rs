//! `drover deployment pause`: pauses a deployment.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::change::change;
use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Pauses a deployment, so that it places no more allocations until it is resumed.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a deployment, or a prefix of it.
    deployment: String,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.deployment, self.verbose).await?;
        let paused = change(&session.client, "pause", &id, json!({ "Pause": true })).await;
        paused.context("Error pausing deployment")?;
        session.output.line(&format!("Deployment \"{id}\" paused"));
        Ok(ExitCode::SUCCESS)
    }
}
