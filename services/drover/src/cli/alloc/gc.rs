//! `drover alloc gc`: removes the files of an allocation that has ended from its node.

use std::process::ExitCode;

use super::resolve;
use crate::cli::{ApiCommand, Session};

/// Removes the files of an allocation that has ended from its node.
///
/// The servers keep what they know of the allocation. Nodes remove such files by themselves when they have too many.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of an allocation, or a prefix of it.
    alloc: String,
    /// Print whole ids in errors.
    #[arg(long)]
    verbose: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let id = resolve(&session.client, &self.alloc, self.verbose).await?;
        session.client.put_empty(&format!("/v1/client/allocation/{id}/gc")).await?;
        Ok(ExitCode::SUCCESS)
    }
}
