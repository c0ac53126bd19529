//! `drover job run`: registers a job, and follows it until its tasks run or its deployment has ended.

use std::process::ExitCode;

use api_types::{Evaluation, JobRegisterRequest, JobRegisterResponse};

use super::file::{JobFile, Loaded};
use crate::cli::client::Error;
use crate::cli::monitor::Until;
use crate::cli::object::indented;
use crate::cli::page::Page;
use crate::cli::{Session, flags};

/// Registers a job, and follows it until its tasks run; a service job, until its deployment has ended.
///
/// Exits with 0 if everything runs, 2 if some allocations could not be placed, and 1 on failure. For a service job, exits
/// with 0 if its deployment succeeded, and 1 if it did not.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    #[command(flatten)]
    file: JobFile,
    /// Return once the job is registered.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
    /// Print the job as JSON, without registering it.
    #[arg(long)]
    output: bool,
    /// Register only if the job has this modify index; 0 if the job must not exist.
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// Priority of the evaluation, from 1 to 100. By default, that of the job.
    #[arg(long, value_name = "PRIORITY", default_value_t = 0)]
    eval_priority: i64,
    /// Keep the counts of registered groups.
    #[arg(long)]
    preserve_counts: bool,
    /// Keep the resources of registered tasks.
    #[arg(long)]
    preserve_resources: bool,
    /// Overrides policies, which are not built.
    #[arg(long, hide = true)]
    policy_override: bool,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let Loaded { job, submission } = match args.file.load(&args.api).await {
        Ok(loaded) => loaded,
        Err(failure) => return session.refuse(failure),
    };
    if args.output {
        let job = serde_json::json!({ "Job": job });
        session.output.line(&indented(&job));
        return Ok(ExitCode::SUCCESS);
    }
    let request = JobRegisterRequest {
        submission: Some(submission),
        job: Some(job),
        enforce_index: args.check_index.map(|_| true),
        job_modify_index: args.check_index,
        preserve_counts: Some(args.preserve_counts),
        preserve_resources: Some(args.preserve_resources),
        eval_priority: Some(args.eval_priority),
        policy_override: Some(args.policy_override),
        ..JobRegisterRequest::default()
    };
    let registered = session.client.put("/v1/jobs", &request).await;
    let registered: JobRegisterResponse = registered.map_err(|error| {
        let is_conflict =
            matches!(&error, Error::Refused { text, .. } if text.contains("Enforcing job modify index"));
        let error = anyhow::Error::from(error);
        if is_conflict { error.context("Job not updated") } else { error.context("Error submitting job") }
    })?;
    if let Some(warnings) = registered.warnings.filter(|warnings| !warnings.is_empty()) {
        let mut page = Page::default();
        page.bold("Job Warnings:");
        page.line(format!("{warnings}\n"));
        session.output.page(&page);
    }
    let eval = registered.eval_id.unwrap_or_default();
    if eval.is_empty() {
        session.output.line("Job registration successful");
        return Ok(ExitCode::SUCCESS);
    }
    if args.detach {
        session.output.line("Job registration successful");
        session.output.line(&format!("Evaluation ID: {eval}"));
        if args.verbose {
            let eval: Evaluation = session.client.get(&format!("/v1/evaluation/{eval}"), &[]).await?;
            if let Some(trace) = eval.trace_id {
                session.output.line(&format!("Trace ID = {trace}"));
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    session.follow(&eval, Until::Running, args.verbose).await
}
