//! `drover node …`: commands for nodes.

pub(crate) mod drain;
mod draining;
mod eligibility;
mod gc;
mod meta;
mod pool;
pub(crate) mod status;

use anyhow::Context as _;
use api_types::NodeListStub;
use serde_json::Value;

use super::WithApi;
use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use crate::command::commands;

commands! {
    /// Shows nodes, drains them, sets whether they may get new work, and removes what has ended on them.
    Command {
        Status(WithApi<status::Args>),
        Drain(WithApi<drain::Args>),
        Eligibility(WithApi<eligibility::Args>),
        Gc(WithApi<gc::Args>),
        #[command(subcommand)]
        Meta(meta::Command),
        #[command(subcommand)]
        Pool(pool::Command),
    }
}

/// Finds the id of the node with this prefix. With `verbose`, an error about several matches shows their whole ids.
pub(super) async fn resolve(client: &Client, prefix: &str, verbose: bool) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/nodes",
        plural: "nodes",
        not_found: "No node(s) with prefix \"{}\" found",
        id: |node: &NodeListStub| node.id.as_ref(),
        table: |nodes, verbose| {
            let mut page = Page::default();
            status::table(&mut page, nodes, &status::Extras::default(), verbose);
            page
        },
    };
    resolve_id(client, &kind, prefix, verbose).await
}

/// The id of the node of the agent that answers.
async fn own(client: &Client) -> anyhow::Result<String> {
    let agent: Value = client.get("/v1/agent/self", &[]).await?;
    let id = agent.pointer("/stats/client/node_id").and_then(Value::as_str);
    id.map(str::to_owned).context("the agent that answers has no node of its own: give the id of a node")
}
