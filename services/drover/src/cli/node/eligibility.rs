//! `drover node eligibility`: sets whether a node may get new work.

use std::process::ExitCode;

use anyhow::ensure;
use serde_json::Value;

use super::{own, resolve};
use crate::cli::{ApiCommand, Session};

/// Sets whether a node may get new work. Its running allocations are not affected.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The id of a node, or a prefix of it. Without it, -self is required.
    #[arg(required_unless_present = "own")]
    node: Option<String>,
    /// Let the node get new work. Either this flag or -disable is required.
    #[arg(long)]
    enable: bool,
    /// Do not let the node get new work. Either this flag or -enable is required.
    #[arg(long)]
    disable: bool,
    /// The node of the agent that answers the request.
    #[arg(long = "self", conflicts_with = "node")]
    own: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        ensure!(self.enable != self.disable, "Either the '-enable' or '-disable' flag must be set");
        let id = match &self.node {
            Some(prefix) => resolve(&session.client, prefix, false).await?,
            None => own(&session.client).await?,
        };
        let eligibility = if self.enable { "eligible" } else { "ineligible" };
        let body = serde_json::json!({ "NodeID": id, "Eligibility": eligibility });
        let _: Value = session.client.put(&format!("/v1/node/{id}/eligibility"), &body).await?;
        session
            .output
            .line(&format!("Node \"{id}\" scheduling eligibility set: {eligibility} for scheduling"));
        Ok(ExitCode::SUCCESS)
    }
}
