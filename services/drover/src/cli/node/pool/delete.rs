//! `drover node pool delete`: deletes a node pool.

use std::process::ExitCode;

use anyhow::Context as _;
use reqwest::Method;

use crate::cli::client::escaped;
use crate::cli::{ApiCommand, Session};

/// Deletes a node pool. It must have neither nodes nor jobs.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of a node pool.
    #[arg(value_name = "NODE_POOL")]
    pool: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/node/pool/{}", escaped(&self.pool));
        session.client.send_empty(Method::DELETE, &path).await.context("Error deleting node pool")?;
        session.output.line(&format!("Successfully deleted node pool \"{}\"!", self.pool));
        Ok(ExitCode::SUCCESS)
    }
}
