//! `drover job eval`: creates an evaluation of a job.

use std::process::ExitCode;

use api_types::JobRegisterResponse;
use serde_json::json;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::monitor::Until;
use crate::cli::{Session, flags, format};

/// Creates an evaluation of a job, and follows it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// A job id or a prefix of one.
    job: String,
    /// Reschedule failed allocations at once, even if their reschedule policy forbids or delays it.
    #[arg(long)]
    force_reschedule: bool,
    /// Return once the evaluation is created.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let job = resolve(&session.client, &args.job).await?;
    let body = json!({
        "JobID": job.id,
        "Namespace": job.namespace,
        "EvalOptions": { "ForceReschedule": args.force_reschedule },
    });
    let path = format!("/v1/job/{}/evaluate", escaped(&job.id));
    let namespace = [("namespace", job.namespace.as_str())];
    let made: JobRegisterResponse = session.client.put_with(&path, &namespace, &body).await?;
    let eval = made.eval_id.unwrap_or_default();
    if args.detach {
        session.output.line(&format!("Created eval ID: \"{}\"", format::id(Some(&eval), args.verbose)));
        return Ok(ExitCode::SUCCESS);
    }
    session.follow(&eval, Until::Running, args.verbose).await
}
