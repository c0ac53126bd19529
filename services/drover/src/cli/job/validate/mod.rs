//! `drover job validate`: checks a job file without changing the cluster.

pub(crate) mod problems;

use std::process::ExitCode;

use anyhow::Context as _;
use api_types::JobRegisterRequest;
use serde::Deserialize;

use super::file::{Failure, JobFile, as_json};
use crate::cli::object::indented;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session};

/// Checks a job file and the job in it.
///
/// The file is checked here, and the job by the server. Exits with 1 if there are errors, and with 0 if there are only
/// warnings.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "Examples:\n  drover job validate web.nomad.hcl")]
pub(crate) struct Args {
    #[command(flatten)]
    file: JobFile,
    /// Print errors in the file as JSON.
    #[arg(long)]
    json_output: bool,
}

/// The server's response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Validated {
    validation_errors: Option<Vec<String>>,
    error: Option<String>,
    warnings: Option<String>,
}

impl ApiCommand for Args {
    async fn run(self, mut session: Session) -> anyhow::Result<ExitCode> {
        let loaded = match self.file.load(&mut session.client).await {
            Ok(loaded) => loaded,
            Err(Failure::Invalid(error)) if self.json_output => {
                session.output.line(&indented(&as_json(&error)));
                return Ok(ExitCode::FAILURE);
            }
            Err(failure) => return session.refuse(failure),
        };
        let request = JobRegisterRequest { job: Some(loaded.job), ..JobRegisterRequest::default() };
        let validated: Validated =
            session.client.put("/v1/validate/job", &request).await.context("Error validating job")?;
        let mut page = Page::default();
        if let Some(warnings) = validated.warnings.filter(|warnings| !warnings.is_empty()) {
            page.bold("Job Warnings:");
            page.line(format!("{warnings}\n"));
        }
        let problems = validated.validation_errors.unwrap_or_default();
        let error = validated.error.unwrap_or_default();
        if problems.is_empty() && error.is_empty() {
            page.bold("Job validation successful");
            session.output.page(&page);
            return Ok(ExitCode::SUCCESS);
        }
        session.output.page(&page);
        let problems = if problems.is_empty() { vec![error] } else { problems };
        let lines = problems.iter().flat_map(|problem| problems::flat(problem));
        let lines: Vec<String> = lines.map(|line| format!("* {line}")).collect();
        session.output.error(&format!("Job validation errors:\n{}", lines.join("\n")));
        Ok(ExitCode::FAILURE)
    }
}
