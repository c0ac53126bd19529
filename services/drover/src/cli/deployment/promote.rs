//! `drover deployment promote`: promotes the canaries of a deployment.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::change::{Changed, change, follow};
use super::resolve;
use crate::cli::client::{Client, Error};
use crate::cli::{ApiCommand, Session};

/// Promotes the canaries of a deployment, and follows it until the new version has replaced the old one.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover deployment promote 1a2b3c4d")]
pub(crate) struct Args {
    /// The id of a deployment, or a prefix of it.
    deployment: String,
    #[command(flatten)]
    options: Options,
}

/// The flags of a promotion.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(in crate::cli) struct Options {
    /// Promote only this task group. May be given several times.
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.deployment, self.options.verbose).await?;
        let promoted = promote(&session.client, &id, &self.options.group).await;
        let promoted = promoted.context("Error promoting deployment")?;
        self.options.follow(&session, &promoted).await
    }
}

/// Promotes these groups of a deployment, or all of them if none is named.
async fn promote(client: &Client, id: &str, groups: &[String]) -> Result<Changed, Error> {
    let chosen: Value = if groups.is_empty() { json!({ "All": true }) } else { json!({ "Groups": groups }) };
    change(client, "promote", id, chosen).await
}

impl Options {
    async fn follow(&self, session: &Session, promoted: &Changed) -> anyhow::Result<ExitCode> {
        follow(session, &promoted.eval_id, self.detach, self.verbose).await
    }

    /// Promotes the canaries of a job's deployment, and follows the deployment.
    pub(in crate::cli) async fn promote_of_job(
        &self,
        session: &Session,
        id: &str,
        job: &str,
    ) -> anyhow::Result<ExitCode> {
        let promoted = promote(&session.client, id, &self.group).await;
        let promoted =
            promoted.with_context(|| format!("Error promoting deployment \"{id}\" for job \"{job}\""))?;
        self.follow(session, &promoted).await
    }
}
