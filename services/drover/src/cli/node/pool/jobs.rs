//! `drover node pool jobs`: lists the jobs of a node pool.

use std::process::ExitCode;

use api_types::JobListStub;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::job::status;
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session};

/// Lists the jobs of a node pool.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
    #[command(flatten)]
    paging: Paging,
    /// The name of a node pool, or a prefix of it.
    #[arg(value_name = "NODE_POOL")]
    pool: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let name = resolve(&session.client, &self.pool).await?;
        let path = format!("/v1/node/pool/{}/jobs", escaped(&name));
        let paging = self.paging.query();
        let query: Vec<_> = paging.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if self.object.is_requested() {
            let (jobs, next): (Value, _) = session.client.get_page(&path, &query).await?;
            self.object.print(session.output, &jobs)?;
            paging::report_next(session.output, next.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        let (jobs, next): (Vec<JobListStub>, _) = session.client.get_page(&path, &query).await?;
        let mut page = Page::default();
        match jobs.is_empty() {
            true => page.line("No jobs"),
            false => status::table(&mut page, &jobs, session.client.namespace() == Some("*")),
        }
        if let Some(token) = next {
            paging::print_next(&mut page, &token);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}
