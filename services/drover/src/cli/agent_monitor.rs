//! `drover monitor`: follows the log of a server or a node.

use std::process::ExitCode;

use anyhow::{Context as _, bail};

use super::{Session, flags, node};

const MONITOR: &str = "/v1/agent/monitor";

/// Follows the log of the process that answers, until it is interrupted.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) api: flags::Api,
    /// The lowest level to show: trace, debug, info, warn or error.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: String,
    /// Print each line as JSON.
    #[arg(long)]
    json: bool,
    /// Add to each line the place in the source code that it comes from.
    #[arg(long)]
    log_include_location: bool,
    /// Show the log of this node. A node id or a prefix of one.
    #[arg(long, value_name = "NODE", conflicts_with = "server_id")]
    node_id: Option<String>,
    /// Show the log of the server with this name; `leader` for the leader.
    #[arg(long, value_name = "SERVER")]
    server_id: Option<String>,
}

pub(crate) async fn run(session: Session, args: Args) -> anyhow::Result<ExitCode> {
    let node = match &args.node_id {
        Some(prefix) => Some(node::resolve(&session, prefix).await?),
        None => None,
    };
    let yes = |wanted: bool| if wanted { "true" } else { "false" };
    let mut query = vec![
        ("log_level", args.log_level.as_str()),
        ("log_json", yes(args.json)),
        ("log_include_location", yes(args.log_include_location)),
        ("plain", "true"),
    ];
    query.extend(node.as_deref().map(|node| ("node_id", node)));
    query.extend(args.server_id.as_deref().map(|server| ("server_id", server)));
    let mut lines = session.client.stream(MONITOR, &query).await?;
    while let Some(piece) = lines.chunk().await.context("the connection to the API was lost")? {
        session.output.raw(&piece);
    }
    bail!("the API ended the log stream: it is shutting down")
}
