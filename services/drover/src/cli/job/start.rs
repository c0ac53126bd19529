//! `drover job start`: starts a stopped job again.

use std::process::ExitCode;

use anyhow::ensure;
use api_types::JobRegisterResponse;
use serde_json::{Value, json};

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session};

/// Starts a stopped job again: registers its last version as a new one, and follows the evaluation.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let found = resolve(&session.client, &self.job).await?;
        let namespace = [("namespace", found.namespace.as_str())];
        let mut job: Value =
            session.client.get(&format!("/v1/job/{}", escaped(&found.id)), &namespace).await?;
        ensure!(job["Stop"] == true, "Job \"{}\" has not been stopped", found.id);
        job["Stop"] = Value::Bool(false);
        // Nobody may have changed the job in between.
        let body = json!({ "EnforceIndex": true, "JobModifyIndex": job["JobModifyIndex"], "Job": job });
        let started: JobRegisterResponse = session.client.put_with("/v1/jobs", &namespace, &body).await?;
        let eval = started.eval_id.unwrap_or_default();
        if self.detach || eval.is_empty() {
            session.output.line(&format!("Evaluation ID: {eval}"));
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&eval, Until::Running, self.verbose).await
    }
}
