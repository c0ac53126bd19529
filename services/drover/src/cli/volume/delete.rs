//! `drover volume delete`: deletes a host volume.

use std::process::ExitCode;

use anyhow::Context as _;
use serde_json::Value;

use super::{HOST, check_type, choose, list};
use crate::cli::{ApiCommand, Session};

/// Deletes a volume with its data. A directory that was only registered stays.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a volume, or a prefix of it.
    volume: String,
    /// The type of the volume.
    #[arg(long, value_name = "TYPE", default_value = HOST)]
    r#type: String,
    /// Delete the volume even if its node does not answer.
    #[arg(long)]
    force: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        check_type(&self.r#type)?;
        let found = list(&session.client, &self.volume, "", "").await?;
        let id = choose(&found, &self.volume, true).context("Could not find existing volume to delete")?;
        let force = self.force.to_string();
        let path = format!("/v1/volume/host/{id}");
        let deleted = session.client.delete::<Value>(&path, &[("force", force.as_str())]).await;
        deleted.context("Error deleting volume")?;
        session.output.line(&format!("Successfully deleted volume \"{id}\"!"));
        Ok(ExitCode::SUCCESS)
    }
}
