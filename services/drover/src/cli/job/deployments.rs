//! `drover job deployments`: lists the deployments of a job.

use std::process::ExitCode;

use api_types::Deployment;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::deployment::{list, status};
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, flags};

/// Lists the deployments of a job, the newest first.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// The id of a job, or a prefix of it.
    job: String,
    /// Also show deployments of earlier jobs with the same id.
    #[arg(long, conflicts_with = "latest")]
    all: bool,
    /// Show the latest deployment.
    #[arg(long)]
    latest: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let path = format!("/v1/job/{}", escaped(&job.id));
        let (path, all) = match self.latest {
            true => (format!("{path}/deployment"), "false"),
            false => (format!("{path}/deployments"), if self.all { "true" } else { "false" }),
        };
        let query = [("namespace", job.namespace.as_str()), ("all", all)];
        if self.show.object.is_requested() {
            let found: Value = session.client.get(&path, &query).await?;
            self.show.object.print(session.output, &found)?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut page = Page::default();
        if self.latest {
            match session.client.get::<Option<Deployment>>(&path, &query).await? {
                Some(latest) => status::show(&mut page, &latest, self.show.verbose),
                None => page.line("No deployment found"),
            }
        } else {
            let mut found: Vec<Deployment> = session.client.get(&path, &query).await?;
            found.reverse();
            match found.is_empty() {
                true => page.line("No deployments found"),
                false => list::table(&mut page, &found, self.show.verbose),
            }
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}
