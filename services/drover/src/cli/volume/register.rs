//! `drover volume register`: makes an existing directory of a node a host volume.

use std::process::ExitCode;

use anyhow::Context as _;

use super::create::VolumeBody;
use super::specification;
use crate::cli::{ApiCommand, Session, format};

/// Makes an existing directory of a node a volume. The specification has node_id and host_path.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The file with the volume's specification; `-` is standard input.
    file: String,
    /// The id of a volume to update.
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Overrides Sentinel policies of Nomad Enterprise. Drover has none.
    #[arg(long)]
    policy_override: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let mut volume = specification::read(&self.file)?;
        volume.id = self.id.or(volume.id);
        let body = VolumeBody { volume, policy_override: self.policy_override };
        let registered: VolumeBody = session
            .client
            .put("/v1/volume/host/register", &body)
            .await
            .context("Error registering volume")?;
        let volume = registered.volume;
        let (id, name) = (format::text(volume.id.as_ref()), format::text(volume.name.as_ref()));
        session.output.line(&format!("Registered host volume {name} with ID {id}"));
        Ok(ExitCode::SUCCESS)
    }
}
