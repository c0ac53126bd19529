//! `drover deployment fail`: fails a deployment.

use std::process::ExitCode;

use serde_json::Value;

use super::resolve;
use crate::cli::{ApiCommand, Session, format};

/// Fails a deployment, so that it places no more allocations.
///
/// Follows the deployment to its end, and then exits with 1, because it did not succeed.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a deployment, or a prefix of it.
    deployment: String,
    /// Do not follow the deployment, and exit with 0.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.deployment, self.verbose).await?;
        let _: Value = session.client.put(&format!("/v1/deployment/fail/{id}"), &Value::Null).await?;
        session.output.line(&format!("Deployment \"{}\" failed", format::id(Some(&id), self.verbose)));
        if self.detach {
            return Ok(ExitCode::SUCCESS);
        }
        session.follow_deployment(&id, self.verbose).await
    }
}
