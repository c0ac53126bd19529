//! `drover node pool info`: shows a node pool.

use std::process::ExitCode;

use api_types::NodePool;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Shows a node pool.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    #[command(flatten)]
    object: Object,
    /// The name of a node pool, or a prefix of it.
    #[arg(value_name = "NODE_POOL")]
    pool: String,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let name = resolve(&session.client, &self.pool).await?;
        let path = format!("/v1/node/pool/{}", escaped(&name));
        if self.object.is_requested() {
            let pool: Value = session.client.get(&path, &[]).await?;
            self.object.print(session.output, &pool)?;
            return Ok(ExitCode::SUCCESS);
        }
        let pool: NodePool = session.client.get(&path, &[]).await?;
        session.output.page(&page(&pool));
        Ok(ExitCode::SUCCESS)
    }
}

fn page(pool: &NodePool) -> Page {
    let mut page = Page::default();
    page.block(&[
        ("Name", format::text(pool.name.as_ref())),
        ("Description", format::text(pool.description.as_ref())),
        ("Node Identity TTL", format::span(pool.node_identity_ttl.unwrap_or_default())),
    ]);
    page.line("");
    let meta = pool.meta.iter().flatten();
    let meta: Vec<(&str, String)> = meta.map(|(name, value)| (name.as_str(), value.clone())).collect();
    if meta.is_empty() {
        page.line("No metadata");
    } else {
        page.bold("Metadata");
        page.block(&meta);
    }
    page.line("");
    let Some(settings) = &pool.scheduler_configuration else {
        page.line("No scheduler configuration");
        return page;
    };
    page.bold("Scheduler Configuration");
    let oversubscription = settings.memory_oversubscription_enabled;
    page.block(&[
        ("Scheduler Algorithm", format::text(settings.scheduler_algorithm.as_ref())),
        (
            "Memory Oversubscription Enabled",
            oversubscription.map(|enabled| enabled.to_string()).unwrap_or_default(),
        ),
    ]);
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_says_what_it_lacks() {
        // cli.md 10.3.
        let pool = NodePool {
            name: Some("gpu".to_owned()),
            node_identity_ttl: Some(86_400_000_000_000),
            ..NodePool::default()
        };
        let text = page(&pool).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "Name              = gpu",
            "Description       = <none>",
            "Node Identity TTL = 24h0m0s",
            "",
            "No metadata",
            "",
            "No scheduler configuration",
        ];
        assert_eq!(lines, expected);
    }
}
