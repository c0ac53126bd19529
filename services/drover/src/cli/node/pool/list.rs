//! `drover node pool list`: lists node pools.

use std::process::ExitCode;

use api_types::NodePool;
use serde_json::Value;

use super::{LIST, table};
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session};

/// Lists node pools.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
    #[command(flatten)]
    paging: Paging,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let paging = self.paging.query();
        let query: Vec<_> = paging.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if self.object.is_requested() {
            let (pools, next): (Value, _) = session.client.get_page(LIST, &query).await?;
            self.object.print(session.output, &pools)?;
            paging::report_next(session.output, next.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        let (pools, next): (Vec<NodePool>, _) = session.client.get_page(LIST, &query).await?;
        let mut page = Page::default();
        table(&mut page, &pools);
        if let Some(token) = next {
            paging::print_next(&mut page, &token);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}
