//! `drover job run`: registers a job, and follows it until its tasks run or its deployment has ended.

use std::process::ExitCode;

use api_types::{Evaluation, JobRegisterRequest, JobRegisterResponse};

use super::children::{next_launch, schedule};
use super::file::{JobFile, Loaded};
use crate::cli::client::Error;
use crate::cli::monitor::Until;
use crate::cli::object::indented;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Registers a job, and follows it until its tasks run or its deployment ends.
///
/// Exits with 0 if everything runs, with 2 if some allocations could not be placed, and with 1 for errors. If the job has a
/// deployment, exits with 0 if the deployment succeeds, and with 1 if it does not.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  \
    drover job run web.nomad.hcl\n  \
    drover job run -detach -var image=web:2 web.nomad.hcl\n  \
    drover job run -check-index 7 web.nomad.hcl")]
pub(crate) struct Args {
    #[command(flatten)]
    file: JobFile,
    /// Print the id of the evaluation, and do not follow it.
    #[arg(long)]
    detach: bool,
    /// Print whole ids.
    #[arg(long)]
    verbose: bool,
    /// Print the job as JSON, and do not register it.
    #[arg(long, conflicts_with_all = ["detach", "check_index", "eval_priority", "preserve_counts",
        "preserve_resources", "policy_override"])]
    output: bool,
    /// Register the job only if its modify index is this. 0 stands for a job that does not exist.
    #[arg(long, value_name = "INDEX")]
    check_index: Option<u64>,
    /// The priority of the evaluation, from 1 to 100. 0 stands for the priority of the job.
    #[arg(long, value_name = "PRIORITY", default_value_t = 0)]
    eval_priority: i64,
    /// Keep the counts of the task groups that are registered.
    #[arg(long)]
    preserve_counts: bool,
    /// Keep the resources of the tasks that are registered.
    #[arg(long)]
    preserve_resources: bool,
    /// Overrides policies, which are not built.
    #[arg(long, hide = true)]
    policy_override: bool,
}

impl ApiCommand for Args {
    async fn run(self, mut session: Session) -> anyhow::Result<ExitCode> {
        let Loaded { job, submission } = match self.file.load(&mut session.client).await {
            Ok(loaded) => loaded,
            Err(failure) => return session.refuse(failure),
        };
        if self.output {
            let job = serde_json::json!({ "Job": job });
            session.output.line(&indented(&job));
            return Ok(ExitCode::SUCCESS);
        }
        let schedule = schedule(&job);
        let request = JobRegisterRequest {
            submission: Some(submission),
            job: Some(job),
            enforce_index: self.check_index.map(|_| true),
            job_modify_index: self.check_index,
            preserve_counts: Some(self.preserve_counts),
            preserve_resources: Some(self.preserve_resources),
            eval_priority: Some(self.eval_priority),
            policy_override: Some(self.policy_override),
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
            if let Some(next) = schedule.and_then(|schedule| next_launch(&schedule, format::now())) {
                session.output.line(&format!("Approximate next launch time: {next}"));
            }
            return Ok(ExitCode::SUCCESS);
        }
        if self.detach {
            session.output.line("Job registration successful");
            session.output.line(&format!("Evaluation ID: {eval}"));
            if self.verbose {
                let eval: Evaluation = session.client.get(&format!("/v1/evaluation/{eval}"), &[]).await?;
                if let Some(trace) = eval.trace_id {
                    session.output.line(&format!("Trace ID = {trace}"));
                }
            }
            return Ok(ExitCode::SUCCESS);
        }
        session.follow(&eval, Until::Running, self.verbose).await
    }
}
