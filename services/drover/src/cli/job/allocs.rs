//! `drover job allocs`: lists the allocations of a job.

use std::process::ExitCode;

use api_types::AllocListStub;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, flags, format, tables};

/// Lists the allocations of a job.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    /// The id of a job, or a prefix of it.
    job: String,
    /// Also show allocations of earlier jobs with the same id.
    #[arg(long)]
    all: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let job = resolve(&session.client, &self.job).await?;
        let path = format!("/v1/job/{}/allocations", escaped(&job.id));
        let all = if self.all { "true" } else { "false" };
        let query = [("namespace", job.namespace.as_str()), ("all", all)];
        if self.show.object.is_requested() {
            let allocs: Value = session.client.get(&path, &query).await?;
            self.show.object.print(session.output, &allocs)?;
            return Ok(ExitCode::SUCCESS);
        }
        let allocs: Vec<AllocListStub> = session.client.get(&path, &query).await?;
        let mut page = Page::default();
        tables::allocs(&mut page, &allocs, format::now(), self.show.verbose);
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}
