//! `drover job plan`: shows what registering a job would change, without changing it.
//!
//! Scripts depend on the exit codes (`docs/rules/cli.md` §3): 0 if no allocation changes, 1 if some do, 255 for errors.

mod show;

use std::process::ExitCode;

use api_types::JobRegisterRequest;
use serde::Serialize;
use serde_json::Value;

use self::show::{Planned, Shown};
use super::file::{JobFile, Loaded};
use crate::cli::client::escaped;
use crate::cli::object::{format_with_template, indented};
use crate::cli::reasons::Places;
use crate::cli::{ApiCommand, Session, format};

/// The exit code if allocations would change.
const EXIT_CHANGES: u8 = 1;
/// The exit code for errors, also in the arguments.
pub(crate) const EXIT_ERROR: u8 = 255;

/// Shows what registering a job would change.
///
/// Exits with 0 if no allocation would change, with 1 if some would, and with 255 for errors.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  \
    drover job plan web.nomad.hcl\n  \
    drover job plan -var image=web:2 web.nomad.hcl")]
pub(crate) struct Args {
    #[command(flatten)]
    file: JobFile,
    /// Whether to show the differences from the registered job.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1,
        require_equals = true, default_missing_value = "true")]
    diff: bool,
    /// Also show task groups and tasks that are unchanged, and all fields of those that are new.
    #[arg(long, conflicts_with_all = ["json_output", "template"])]
    verbose: bool,
    /// Print the API's response as JSON.
    #[arg(long)]
    json_output: bool,
    /// Print the API's response, formatted with this Go template.
    #[arg(short, value_name = "TEMPLATE", conflicts_with = "json_output")]
    template: Option<String>,
    /// Overrides policies, which are not built.
    #[arg(long, hide = true)]
    policy_override: bool,
}

/// The request to the server.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Request {
    #[serde(flatten)]
    job: JobRegisterRequest,
    diff: bool,
    /// Whether the response has all reasons of failed placements. The response that is printed whole is Nomad's.
    reasons: bool,
}

impl ApiCommand for Args {
    const EXIT_ERROR: u8 = EXIT_ERROR;

    async fn run(self, mut session: Session) -> anyhow::Result<ExitCode> {
        let Loaded { job, .. } = match self.file.load(&mut session.client).await {
            Ok(loaded) => loaded,
            Err(failure) => {
                session.refuse(failure)?;
                return Ok(ExitCode::from(EXIT_ERROR));
            }
        };
        let id = job.id.clone().unwrap_or_default();
        let everywhere = matches!(job.r#type.as_deref(), Some("system" | "sysbatch"));
        let job = JobRegisterRequest {
            job: Some(job),
            policy_override: Some(self.policy_override),
            ..JobRegisterRequest::default()
        };
        let path = format!("/v1/job/{}/plan", escaped(&id));
        let reasons = self.template.is_none() && !self.json_output;
        let request = Request { job, diff: self.diff, reasons };
        let answer: Result<Value, _> = session.client.put(&path, &request).await;
        let answer = answer.map_err(|error| anyhow::Error::from(error).context("Error during plan"))?;
        let shown = match &self.template {
            Some(template) => Some(format_with_template(template, &answer)?),
            None => self.json_output.then(|| indented(&answer)),
        };
        let planned: Planned = api_types::decode::from_slice(answer.to_string().as_bytes())?;
        match shown {
            Some(text) => session.output.line(&text),
            None => {
                let now = format::now();
                let shown = Shown { diff: self.diff, verbose: self.verbose, everywhere, now };
                let places = if planned.lacks_places() { session.places().await } else { Places::default() };
                session.output.page(&planned.page(shown, &places, &self.file.for_shell()));
            }
        }
        Ok(ExitCode::from(if planned.changes_allocations() { EXIT_CHANGES } else { 0 }))
    }
}
