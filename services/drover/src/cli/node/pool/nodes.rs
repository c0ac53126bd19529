//! `drover node pool nodes`: lists the nodes of a node pool.

use std::process::ExitCode;

use api_types::NodeListStub;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::page::Page;
use crate::cli::paging::{self, Paging};
use crate::cli::{ApiCommand, Session, flags, format};

/// Lists the nodes of a node pool.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    show: flags::Show,
    #[command(flatten)]
    paging: Paging,
    /// The name of a node pool, or a prefix of it.
    #[arg(value_name = "NODE_POOL")]
    pool: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let name = resolve(&session.client, &self.pool).await?;
        let path = format!("/v1/node/pool/{}/nodes", escaped(&name));
        let paging = self.paging.query();
        let query: Vec<_> = paging.iter().map(|(name, value)| (*name, value.as_str())).collect();
        if self.show.object.is_requested() {
            let (nodes, next): (Value, _) = session.client.get_page(&path, &query).await?;
            self.show.object.print(session.output, &nodes)?;
            paging::report_next(session.output, next.as_deref());
            return Ok(ExitCode::SUCCESS);
        }
        let (nodes, next): (Vec<NodeListStub>, _) = session.client.get_page(&path, &query).await?;
        let mut page = page(&nodes, self.show.verbose);
        if let Some(token) = next {
            paging::print_next(&mut page, &token);
        }
        session.output.page(&page);
        Ok(ExitCode::SUCCESS)
    }
}

fn page(nodes: &[NodeListStub], verbose: bool) -> Page {
    let mut page = Page::default();
    if nodes.is_empty() {
        page.line("No nodes");
        return page;
    }
    let rows = nodes.iter().map(|node| {
        [
            format::id(node.id.as_ref(), verbose),
            format::text(node.datacenter.as_ref()),
            format::text(node.name.as_ref()),
            format::text(node.node_class.as_ref()),
            node.drain.unwrap_or_default().to_string(),
            format::text(node.scheduling_eligibility.as_ref()),
            format::text(node.status.as_ref()),
        ]
    });
    page.table(&["ID", "DC", "Name", "Class", "Drain", "Eligibility", "Status"], rows);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_pool_are_listed() {
        // cli.md 10.3.
        let node = NodeListStub {
            id: Some("0a1b2c3d-0000-4000-8000-000000000000".to_owned()),
            datacenter: Some("dc1".to_owned()),
            name: Some("worker".to_owned()),
            drain: Some(false),
            scheduling_eligibility: Some("eligible".to_owned()),
            status: Some("ready".to_owned()),
            ..NodeListStub::default()
        };
        let text = page(&[node], false).to_string();
        let row: Vec<&str> = text.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(row, ["0a1b2c3d", "dc1", "worker", "<none>", "false", "eligible", "ready"]);
        assert_eq!(page(&[], false).to_string(), "No nodes\n");
    }
}
