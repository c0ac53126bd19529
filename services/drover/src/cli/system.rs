//! `drover system …`.

use std::process::ExitCode;

use super::{Session, flags};

/// What the cluster keeps.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Has everything forgotten that nobody needs any more
    Gc(Args),
}

/// Has everything forgotten that nobody needs any more, whatever its age.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
}

pub(crate) async fn collect_garbage(session: Session, _: Args) -> anyhow::Result<ExitCode> {
    session.client.order("/v1/system/gc").await?;
    Ok(ExitCode::SUCCESS)
}
