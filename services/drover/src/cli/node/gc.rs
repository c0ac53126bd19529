//! `drover node gc`: removes the files of all allocations of a node that have ended.

use std::process::ExitCode;

use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Removes the files of all allocations of a node that have ended.
///
/// The servers keep what they know of the allocations. Nodes remove such files by themselves when they have too many.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a node, or a prefix of it.
    node: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.node, false).await?;
        session.client.put_empty_with("/v1/client/gc", &[("node_id", &id)]).await?;
        Ok(ExitCode::SUCCESS)
    }
}
