//! `drover job revert`: returns to an older version of a job.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use api_types::{Job, JobRegisterResponse};
use serde::Deserialize;
use serde_json::json;

use super::{ResolvedJob, resolve};
use crate::cli::client::{Client, escaped};
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session};

/// Registers an older version of a job again, as a new version, and follows the evaluation.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover job revert web 2")]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// The number of a version, or its tag.
    version: String,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

/// The API's response with the versions of a job.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Versions {
    versions: Vec<Job>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let version = match self.version.parse::<u64>() {
            Ok(version) => version,
            Err(_) => version_with_tag(&session.client, &job, &self.version).await?,
        };
        let body = json!({ "JobID": job.id, "JobVersion": version, "Namespace": job.namespace });
        let path = format!("/v1/job/{}/revert", escaped(&job.id));
        let namespace = [("namespace", job.namespace.as_str())];
        let reverted = session.client.put_with(&path, &namespace, &body).await;
        let reverted: JobRegisterResponse = reverted.context("Error retrieving job versions")?;
        if let Some(warnings) = reverted.warnings.filter(|warnings| !warnings.is_empty()) {
            session.output.line(&format!("Job Warnings:\n{warnings}\n"));
        }
        let eval = reverted.eval_id.unwrap_or_default();
        if self.detach || eval.is_empty() {
            session.output.line(&format!("Evaluation ID: {eval}"));
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&eval, Until::Running, self.verbose).await
    }
}

/// The number of the version with a tag.
async fn version_with_tag(client: &Client, job: &ResolvedJob, tag: &str) -> anyhow::Result<u64> {
    let path = format!("/v1/job/{}/versions", escaped(&job.id));
    let found = client.get(&path, &[("namespace", job.namespace.as_str())]).await;
    let Versions { versions } = found.context("Error retrieving job versions")?;
    let is_tagged =
        |version: &&Job| version.version_tag.as_ref().is_some_and(|found| found.name.as_deref() == Some(tag));
    let version = versions.iter().find(is_tagged).and_then(|version| version.version);
    version.ok_or_else(|| anyhow!("version tag {tag} not found for job {}", job.id))
}
