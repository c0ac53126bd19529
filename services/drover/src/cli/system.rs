//! `drover system …`: maintenance of the cluster's state.

use std::process::ExitCode;

use super::{Session, flags};

/// Maintains the state of the cluster.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Collects garbage: deletes jobs, evaluations, deployments and nodes that are not needed any more
    Gc(Args),
}

/// Collects garbage: deletes jobs, evaluations, deployments and nodes that are not needed any more, whatever their age.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
}

pub(crate) async fn collect_garbage(session: Session, _: Args) -> anyhow::Result<ExitCode> {
    session.client.put_empty("/v1/system/gc").await?;
    Ok(ExitCode::SUCCESS)
}
