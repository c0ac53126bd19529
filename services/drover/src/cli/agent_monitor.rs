//! `drover monitor`: follows the log of a server or a node.

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::{ApiCommand, Session, node};

const MONITOR: &str = "/v1/agent/monitor";

/// Follows the log of a server or a node until it is interrupted.
///
/// Without -node-id and -server-id, follows the log of the server that answers the request.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// Show lines of this level and more severe ones: trace, debug, info, warn or error.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Print each line as JSON.
    #[arg(long)]
    json: bool,
    /// Add to each line the place in the source code that wrote it.
    #[arg(long)]
    log_include_location: bool,
    /// Follow the log of the node with this id, or with this prefix of it.
    #[arg(long, value_name = "NODE", conflicts_with = "server_id")]
    node_id: Option<String>,
    /// Follow the log of the server with this name. `leader` stands for the leader.
    #[arg(long, value_name = "SERVER")]
    server_id: Option<String>,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let node = match &self.node_id {
            Some(prefix) => Some(node::resolve(&session.client, prefix, false).await?),
            None => None,
        };
        let yes = |wanted: bool| if wanted { "true" } else { "false" };
        let mut query = vec![
            ("log_level", self.log_level.as_str()),
            ("log_json", yes(self.json)),
            ("log_include_location", yes(self.log_include_location)),
            ("plain", "true"),
        ];
        query.extend(node.as_deref().map(|node| ("node_id", node)));
        query.extend(self.server_id.as_deref().map(|server| ("server_id", server)));
        let mut lines = session.client.stream(MONITOR, &query).await?;
        while let Some(piece) = lines.chunk().await.context("the connection to the API was lost")? {
            session.output.raw(&piece);
        }
        bail!("the API ended the log stream: it is shutting down")
    }
}
