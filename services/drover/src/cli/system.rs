//! `drover system …`: maintenance of the cluster's state.

use std::process::ExitCode;

use super::{ApiCommand, Session, WithApi};
use crate::command::commands;

commands! {
    /// Maintains the state of the cluster.
    Command {
        Gc(WithApi<Gc>),
        #[command(subcommand)]
        Reconcile(Reconcile),
    }
}

commands! {
    /// Computes derived parts of the state again.
    Reconcile {
        Summaries(WithApi<Summaries>),
    }
}

/// Collects garbage: deletes objects that are no longer needed.
///
/// Deletes jobs, evaluations and deployments that have ended, and nodes that are down, whatever their age.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Gc {}

impl ApiCommand for Gc {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        session.client.put_empty("/v1/system/gc").await?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Computes the summaries of all jobs again, from their allocations.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Summaries {}

impl ApiCommand for Summaries {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        session.client.put_empty("/v1/system/reconcile/summaries").await?;
        Ok(ExitCode::SUCCESS)
    }
}
