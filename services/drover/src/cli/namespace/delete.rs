//! `drover namespace delete`: deletes a namespace.

use std::process::ExitCode;

use anyhow::Context as _;
use reqwest::Method;

use crate::cli::client::escaped;
use crate::cli::{ApiCommand, Session};

/// Deletes a namespace. It must not have anything in it.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of a namespace.
    #[arg(value_name = "NAMESPACE")]
    name: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/namespace/{}", escaped(&self.name));
        session.client.send_empty(Method::DELETE, &path).await.context("Error deleting namespace")?;
        session.output.line(&format!("Successfully deleted namespace \"{}\"!", self.name));
        Ok(ExitCode::SUCCESS)
    }
}
