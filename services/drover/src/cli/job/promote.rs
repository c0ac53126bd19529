//! `drover job promote`: promotes the canaries of a job's latest deployment.

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::Deployment;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::deployment::promote::Options;
use crate::cli::{ApiCommand, Session, format};

/// Promotes the canaries of a job's latest deployment, and follows the deployment to its end.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    #[command(flatten)]
    options: Options,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let path = format!("/v1/job/{}/deployment", escaped(&job.id));
        let namespace = [("namespace", job.namespace.as_str())];
        let latest: Option<Deployment> = session.client.get(&path, &namespace).await?;
        let latest = latest.with_context(|| format!("Job \"{}\" has no deployment to promote", job.id))?;
        self.options.promote_of_job(&session, &format::text(latest.id.as_ref()), &job.id).await
    }
}
