//! `drover service delete`: deletes a registration.

use std::process::ExitCode;

use anyhow::Context as _;

use crate::cli::client::escaped;
use crate::cli::{ApiCommand, Session};

/// Deletes the registration of an instance of a service.
///
/// As long as the instance runs, its agent registers it again with its next heartbeat.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of the service.
    service: String,
    /// The id of the registration, as `service info -verbose` shows it.
    id: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let path = format!("/v1/service/{}/{}", escaped(&self.service), escaped(&self.id));
        session.client.delete_empty(&path).await.context("Error deleting service registration")?;
        session.output.line("Successfully deleted service registration");
        Ok(ExitCode::SUCCESS)
    }
}
