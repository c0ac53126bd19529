//! `drover deployment …`: commands for deployments.

mod change;
mod fail;
pub(super) mod list;
mod pause;
pub(super) mod promote;
mod resume;
pub(crate) mod rollout;
pub(crate) mod status;
mod unblock;

use api_types::Deployment;

use super::WithApi;
use super::client::Client;
use super::page::Page;
use super::prefix::{Kind, resolve_id};
use crate::command::commands;

commands! {
    /// Shows deployments, and pauses, promotes or fails them.
    Command {
        Fail(WithApi<fail::Args>),
        List(WithApi<list::Args>),
        Pause(WithApi<pause::Args>),
        Promote(WithApi<promote::Args>),
        Resume(WithApi<resume::Args>),
        Status(WithApi<status::Args>),
        // No deployment waits for other regions, because there are none.
        #[command(hide = true)]
        Unblock(WithApi<unblock::Args>),
    }
}

/// Finds the id of the deployment with this prefix. With `verbose`, an error about several matches shows their whole ids.
async fn resolve(client: &Client, prefix: &str, verbose: bool) -> anyhow::Result<String> {
    let kind = Kind {
        list: "/v1/deployments",
        plural: "deployments",
        not_found: "No deployment(s) with prefix or id \"{}\" found",
        id: |deployment: &Deployment| deployment.id.as_ref(),
        table: |deployments, verbose| {
            let mut page = Page::default();
            list::table(&mut page, deployments, verbose);
            page
        },
    };
    resolve_id(client, &kind, prefix, verbose).await
}
