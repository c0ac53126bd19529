//! `drover namespace list`: lists namespaces.

use std::process::ExitCode;

use api_types::Namespace;
use serde_json::Value;

use super::{LIST, table};
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session};

/// Lists namespaces.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        if self.object.is_requested() {
            let namespaces: Value = session.client.get(LIST, &[]).await?;
            self.object.print(session.output, &namespaces)?;
            return Ok(ExitCode::SUCCESS);
        }
        let namespaces: Vec<Namespace> = session.client.get(LIST, &[]).await?;
        let mut page = Page::default();
        table(&mut page, &namespaces);
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}
