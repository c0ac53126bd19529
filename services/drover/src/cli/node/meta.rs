//! `drover node meta …`: shows and changes the metadata of nodes.

use std::collections::BTreeMap;
use std::process::ExitCode;

use anyhow::ensure;
use serde::Deserialize;
use serde_json::{Value, json};

use super::resolve;
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, WithApi};
use crate::command::commands;

const META: &str = "/v1/client/metadata";

commands! {
    /// Shows and changes the metadata of nodes.
    Command {
        Apply(WithApi<Apply>),
        Read(WithApi<Read>),
    }
}

/// Changes the metadata of a node.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Apply {
    /// The id of a node, or a prefix of it. Without it, the node of the agent that is asked.
    #[arg(long, value_name = "NODE")]
    node_id: Option<String>,
    /// Keys to remove, separated by commas.
    #[arg(long, value_name = "KEYS", value_delimiter = ',')]
    unset: Vec<String>,
    /// Values to set. A key alone gets an empty value.
    #[arg(value_name = "KEY=VALUE")]
    pairs: Vec<String>,
}

/// Shows the metadata of a node.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Read {
    /// The id of a node, or a prefix of it. Without it, the node of the agent that is asked.
    #[arg(long, value_name = "NODE")]
    node_id: Option<String>,
    #[command(flatten)]
    object: Object,
}

/// The API's response.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct NodeMeta {
    meta: BTreeMap<String, String>,
    dynamic: Option<BTreeMap<String, Option<String>>>,
    r#static: Option<BTreeMap<String, String>>,
}

/// The whole id of the node that a flag names; empty for the node of the agent that is asked.
async fn node(session: &Session, prefix: Option<&str>) -> anyhow::Result<String> {
    match prefix {
        Some(prefix) => resolve(&session.client, prefix, false).await,
        None => Ok(String::new()),
    }
}

impl ApiCommand for Apply {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let changes = changes(&self.unset, &self.pairs);
        ensure!(!changes.is_empty(), "Must specify -unset or at least 1 key=value pair");
        let node = node(&session, self.node_id.as_deref()).await?;
        let _: Value = session.client.post(META, &json!({ "NodeID": node, "Meta": changes })).await?;
        Ok(ExitCode::SUCCESS)
    }
}

impl ApiCommand for Read {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let node = node(&session, self.node_id.as_deref()).await?;
        let query = [("node_id", node.as_str())];
        if self.object.is_requested() {
            let found: Value = session.client.get(META, &query).await?;
            self.object.print(session.output, &found)?;
            return Ok(ExitCode::SUCCESS);
        }
        let found: NodeMeta = session.client.get(META, &query).await?;
        session.output.page(&page(&found));
        Ok(ExitCode::SUCCESS)
    }
}

/// The new values by key; `None` removes the key.
fn changes<'a>(unset: &'a [String], pairs: &'a [String]) -> BTreeMap<&'a str, Option<&'a str>> {
    let unset = unset.iter().filter(|key| !key.is_empty()).map(|key| (key.as_str(), None));
    let set = pairs.iter().map(|pair| match pair.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (pair.as_str(), Some("")),
    });
    unset.chain(set).collect()
}

fn page(found: &NodeMeta) -> Page {
    let mut page = Page::default();
    let pairs = |meta: &BTreeMap<String, String>| -> Vec<(String, String)> {
        meta.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let dynamic = found.dynamic.iter().flatten();
    let dynamic = dynamic.map(|(key, value)| (key.clone(), value.clone().unwrap_or_default())).collect();
    let statics = found.r#static.as_ref().map(pairs).unwrap_or_default();
    for (title, pairs) in
        [("All Meta", pairs(&found.meta)), ("Dynamic Meta", dynamic), ("Static Meta", statics)]
    {
        if !pairs.is_empty() {
            page.title(title);
            let pairs: Vec<_> = pairs.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
            page.block(&pairs);
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_set_and_removed() {
        // cli.md §7.
        let texts = |texts: &[&str]| -> Vec<String> { texts.iter().map(|text| (*text).to_owned()).collect() };
        let (unset, pairs) = (texts(&["a", ""]), texts(&["b=1", "c", "d=x=y"]));
        let expected = [("a", None), ("b", Some("1")), ("c", Some("")), ("d", Some("x=y"))];
        assert_eq!(changes(&unset, &pairs), BTreeMap::from(expected));
        assert!(changes(&[], &[]).is_empty());
    }

    #[test]
    fn the_parts_of_the_metadata_are_shown() {
        let found = NodeMeta {
            meta: [("a".to_owned(), "1".to_owned())].into(),
            dynamic: Some([("a".to_owned(), Some("1".to_owned())), ("b".to_owned(), None)].into()),
            r#static: Some([("b".to_owned(), "2".to_owned())].into()),
        };
        let text = page(&found).to_string();
        let lines: Vec<&str> = text.lines().collect();
        let expected =
            ["All Meta", "a = 1", "", "Dynamic Meta", "a = 1", "b = <none>", "", "Static Meta", "b = 2"];
        assert_eq!(lines, expected);
    }
}
