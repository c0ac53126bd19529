//! `drover job eval`: creates an evaluation of a job.

use std::process::ExitCode;

use api_types::JobRegisterResponse;
use serde_json::json;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::monitor::Until;
use crate::cli::{ApiCommand, Session, format};

/// Creates an evaluation of a job, and follows it until it is complete.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a job, or a prefix of it.
    job: String,
    /// Reschedule failed allocations at once, even if their reschedule policy forbids or delays it.
    #[arg(long)]
    force_reschedule: bool,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let body = json!({
            "JobID": job.id,
            "Namespace": job.namespace,
            "EvalOptions": { "ForceReschedule": self.force_reschedule },
        });
        let path = format!("/v1/job/{}/evaluate", escaped(&job.id));
        let namespace = [("namespace", job.namespace.as_str())];
        let made: JobRegisterResponse = session.client.put_with(&path, &namespace, &body).await?;
        let eval = made.eval_id.unwrap_or_default();
        if self.detach {
            session.output.line(&format!("Created eval ID: \"{}\"", format::id(Some(&eval), self.verbose)));
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&eval, Until::Running, self.verbose).await
    }
}
