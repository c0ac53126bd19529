//! `drover job tag …`: gives versions of a job a name, and removes it.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::{ApiCommand, Session, WithApi};
use crate::command::commands;

commands! {
    /// Gives versions of jobs a name, so that they are kept.
    Command {
        Apply(WithApi<Apply>),
        Unset(WithApi<Unset>),
    }
}

const FAILED: &str = "Error tagging job version";

/// Gives a version of a job a name. The version is kept until it loses the name.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Apply {
    /// The id of a job, or a prefix of it.
    job: String,
    /// The name. It belongs to one version of the job at most.
    #[arg(long)]
    name: Option<String>,
    /// A description of the version.
    #[arg(long)]
    description: Option<String>,
    /// The number of the version. Without it, the current version gets the name.
    #[arg(long, value_name = "VERSION")]
    version: Option<u64>,
}

/// Removes a name from a version of a job.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Unset {
    /// The id of a job, or a prefix of it.
    job: String,
    /// The name.
    #[arg(long)]
    name: Option<String>,
}

impl ApiCommand for Apply {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Self { job, name, description, version } = self;
        let name = given(name)?;
        let job = resolve(&session.client, &job).await?;
        let namespace = [("namespace", job.namespace.as_str())];
        // The output has the number, so that of the current version is looked up.
        let version = match version {
            Some(version) => version,
            None => {
                let path = format!("/v1/job/{}", escaped(&job.id));
                let current: api_types::Job = session.client.get(&path, &namespace).await?;
                current.version.unwrap_or_default()
            }
        };
        let body = json!({ "Version": version, "Description": description.unwrap_or_default() });
        let path = tag_path(&job.id, &name);
        let _: Value = session.client.put_with(&path, &namespace, &body).await.context(FAILED)?;
        session.output.line(&format!("Job version {version} tagged with name \"{name}\""));
        Ok(ExitCode::SUCCESS)
    }
}

impl ApiCommand for Unset {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let Self { job, name } = self;
        let name = given(name)?;
        let job = resolve(&session.client, &job).await?;
        let namespace = [("namespace", job.namespace.as_str())];
        let _: Value = session.client.delete(&tag_path(&job.id, &name), &namespace).await.context(FAILED)?;
        session.output.line(&format!("Tag \"{name}\" removed from job \"{}\"", job.id));
        Ok(ExitCode::SUCCESS)
    }
}

/// The name of a tag, which both commands require.
fn given(name: Option<String>) -> anyhow::Result<String> {
    name.filter(|name| !name.is_empty()).context("A version tag name is required")
}

fn tag_path(job: &str, name: &str) -> String {
    format!("/v1/job/{}/versions/{}/tag", escaped(job), escaped(name))
}
