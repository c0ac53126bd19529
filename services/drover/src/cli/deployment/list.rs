//! `drover deployment list`: lists deployments.

use std::process::ExitCode;

use api_types::Deployment;
use serde_json::Value;

use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, flags, format};

/// Lists deployments.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// Show only deployments that match this filter expression, such as `Status == running`.
    #[arg(long, value_name = "EXPRESSION")]
    filter: Option<String>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let query: Vec<_> = self.filter.iter().map(|filter| ("filter", filter.as_str())).collect();
        if self.show.object.is_requested() {
            let deployments: Value = session.client.get("/v1/deployments", &query).await?;
            self.show.object.print(session.output, &deployments)?;
            return Ok(ExitCode::SUCCESS);
        }
        let deployments: Vec<Deployment> = session.client.get("/v1/deployments", &query).await?;
        let mut page = Page::default();
        if deployments.is_empty() {
            page.line("No deployments found");
        } else {
            table(&mut page, &deployments, self.show.verbose);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

pub(in crate::cli) fn table(page: &mut Page, deployments: &[Deployment], verbose: bool) {
    let rows = deployments.iter().map(|deployment| {
        [
            format::id(deployment.id.as_ref(), verbose),
            format::text(deployment.job_id.as_ref()),
            deployment.job_version.unwrap_or_default().to_string(),
            format::text(deployment.status.as_ref()),
            format::text(deployment.status_description.as_ref()),
        ]
    });
    page.table(&["ID", "Job ID", "Job Version", "Status", "Description"], rows);
}
