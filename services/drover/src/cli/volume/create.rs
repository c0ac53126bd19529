//! `drover volume create`: creates a host volume by a plugin.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use api_types::HostVolume;
use serde::{Deserialize, Serialize};

use super::specification;
use crate::cli::client::Client;
use crate::cli::{ApiCommand, Session, format};

/// Body of a request, and of its response.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct VolumeBody {
    pub(super) volume: HostVolume,
    pub(super) policy_override: bool,
}

/// Creates a volume.
///
/// Waits until the volume is ready.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The file with the volume's specification; `-` is standard input.
    file: String,
    /// The id of a volume to update.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Do not wait until the volume is ready.
    #[arg(long)]
    detach: bool,
    /// Overrides Sentinel policies of Nomad Enterprise. Drover has none.
    #[arg(long)]
    policy_override: bool,
    /// Show whole ids.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let mut volume = specification::read(&self.file)?;
        volume.id = self.id.or(volume.id);
        let body = VolumeBody { volume, policy_override: self.policy_override };
        let created: VolumeBody =
            session.client.put("/v1/volume/host/create", &body).await.context("Error creating volume")?;
        let (id, name) =
            (format::text(created.volume.id.as_ref()), format::text(created.volume.name.as_ref()));
        let text = format!("Created host volume {name} with ID {id}");
        if self.detach {
            session.output.line(&text);
            return Ok(ExitCode::SUCCESS);
        }
        session.output.line(&format!("==> {text}"));
        let shown = format::id(Some(&id), self.verbose);
        session
            .output
            .line(&format!("==> {}: Monitoring volume \"{shown}\"...", format::moment(format::now())));
        wait(&session.client, &id).await.context("Error monitoring volume")?;
        session.output.line(&format!("==> {}: Volume \"{name}\" ready", format::moment(format::now())));
        Ok(ExitCode::SUCCESS)
    }
}

/// Waits until a volume is ready.
async fn wait(client: &Client, id: &str) -> anyhow::Result<()> {
    let path = format!("/v1/volume/host/{id}");
    let mut index = 0;
    loop {
        let (volume, next): (HostVolume, u64) = client.wait(&path, index).await?;
        match volume.state.as_deref() {
            Some("ready") => return Ok(()),
            Some("unavailable") => bail!("the volume is unavailable"),
            Some(_) | None => index = next,
        }
    }
}
