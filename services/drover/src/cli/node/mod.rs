//! `drover node …`: commands for nodes.

mod eligibility;
mod gc;
mod meta;
mod pool;
pub(crate) mod status;

use api_types::NodeListStub;

use super::WithApi;
use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use crate::command::commands;

commands! {
    /// Shows nodes, sets whether they may get new work, and removes what has ended on them.
    Command {
        Status(WithApi<status::Args>),
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
