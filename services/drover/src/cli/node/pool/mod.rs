//! `drover node pool …`: commands for node pools.

mod apply;
mod delete;
mod info;
mod init;
mod jobs;
mod list;
mod nodes;

use anyhow::bail;
use api_types::NodePool;

use crate::cli::client::Client;
use crate::cli::page::Page;
use crate::cli::{WithApi, format};
use crate::command::commands;

const LIST: &str = "/v1/node/pools";

commands! {
    /// Shows, creates and deletes node pools.
    Command {
        Apply(WithApi<apply::Args>),
        Delete(WithApi<delete::Args>),
        Info(WithApi<info::Args>),
        Init(init::Args),
        Jobs(WithApi<jobs::Args>),
        List(WithApi<list::Args>),
        Nodes(WithApi<nodes::Args>),
    }
}

/// Finds the name of the node pool with this name, or of the only one with this prefix (`docs/rules/cli.md` 1.4).
async fn resolve(client: &Client, prefix: &str) -> anyhow::Result<String> {
    choose(client.get(LIST, &[("prefix", prefix)]).await?, prefix)
}

fn choose(found: Vec<NodePool>, prefix: &str) -> anyhow::Result<String> {
    if found.iter().any(|pool| pool.name.as_deref() == Some(prefix)) {
        return Ok(prefix.to_owned());
    }
    match &found[..] {
        [] => bail!("Error retrieving node pool: No node pool with prefix \"{prefix}\" found"),
        [only] => Ok(format::text(only.name.as_ref())),
        several => {
            let mut page = Page::default();
            table(&mut page, several);
            bail!("Prefix matched multiple node pools\n\n{}", page.to_string().trim_end())
        }
    }
}

fn table(page: &mut Page, pools: &[NodePool]) {
    let rows =
        pools.iter().map(|pool| [format::text(pool.name.as_ref()), format::text(pool.description.as_ref())]);
    page.table(&["Name", "Description"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_name_wins_over_a_prefix() {
        // cli.md 1.4.
        let choose = |names: &[&str], prefix: &str| {
            let pool = |name: &&str| NodePool { name: Some((*name).to_owned()), ..NodePool::default() };
            choose(names.iter().map(pool).collect(), prefix).map_err(|error| error.to_string())
        };
        assert_eq!(choose(&["gpu", "gpu-a"], "gpu"), Ok("gpu".to_owned()));
        assert_eq!(choose(&["gpu-a"], "g"), Ok("gpu-a".to_owned()));
        let none = "Error retrieving node pool: No node pool with prefix \"x\" found";
        assert_eq!(choose(&[], "x"), Err(none.to_owned()));
        let several = choose(&["gpu-a", "gpu-b"], "gpu").unwrap_err();
        assert!(several.starts_with("Prefix matched multiple node pools\n\nName"), "{several}");
    }
}
