//! `drover deployment fail`: fails a deployment.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::json;

use super::change::{change, follow};
use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Fails a deployment, so that it places no more allocations.
///
/// Follows the deployment to its end, and then exits with 1, because it did not succeed. If the job returns to an older
/// version, follows the deployment of that version, too.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a deployment, or a prefix of it.
    deployment: String,
    /// Print the id of the evaluation, do not follow the deployment, and exit with 0.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.deployment, self.verbose).await?;
        let failed = change(&session.client, "fail", &id, json!({})).await;
        let failed = failed.context("Error failing deployment")?;
        let reverted = failed.reverted_job_version;
        let reverted = reverted.map(|version| format!(". Auto-reverted to job version {version}."));
        session.output.line(&format!("Deployment \"{id}\" failed{}", reverted.unwrap_or_default()));
        if self.detach {
            return follow(&session, &failed.eval_id, true, self.verbose).await;
        }
        session.output.line("");
        session.follow_deployment(&id, self.verbose).await
    }
}
