//! `drover namespace …`: commands for namespaces.

mod apply;
mod delete;
mod inspect;
mod list;
mod status;

use anyhow::bail;
use api_types::Namespace;

use super::client::Client;
use super::page::Page;
use super::{WithApi, format};
use crate::command::commands;

const LIST: &str = "/v1/namespaces";

commands! {
    /// Shows, creates and deletes namespaces.
    Command {
        Apply(WithApi<apply::Args>),
        Delete(WithApi<delete::Args>),
        Inspect(WithApi<inspect::Args>),
        List(WithApi<list::Args>),
        Status(WithApi<status::Args>),
    }
}

/// Finds the name of the namespace with this name, or of the only one with this prefix.
async fn resolve(client: &Client, prefix: &str) -> anyhow::Result<String> {
    choose(client.get(LIST, &[("prefix", prefix)]).await?, prefix)
}

fn choose(found: Vec<Namespace>, prefix: &str) -> anyhow::Result<String> {
    if found.iter().any(|namespace| namespace.name.as_deref() == Some(prefix)) {
        return Ok(prefix.to_owned());
    }
    match &found[..] {
        [] => bail!("Error retrieving namespaces: Namespace \"{prefix}\" matched no namespaces"),
        [only] => Ok(format::text(only.name.as_ref())),
        several => {
            let mut page = Page::default();
            table(&mut page, several);
            bail!("Prefix matched multiple namespaces\n\n{}", page.to_string().trim_end())
        }
    }
}

fn table(page: &mut Page, namespaces: &[Namespace]) {
    let rows = namespaces.iter().map(|namespace| {
        [format::text(namespace.name.as_ref()), format::text(namespace.description.as_ref())]
    });
    page.table(&["Name", "Description"], rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Namespace {
        Namespace { name: Some(name.to_owned()), ..Namespace::default() }
    }

    #[test]
    fn a_whole_name_wins_over_a_prefix() {
        // cli.md 10.1.
        let choose = |names: &[&str], prefix: &str| {
            let found = names.iter().map(|name| named(name)).collect();
            choose(found, prefix).map_err(|error| error.to_string())
        };
        assert_eq!(choose(&["team", "team-a"], "team"), Ok("team".to_owned()));
        assert_eq!(choose(&["team-a"], "te"), Ok("team-a".to_owned()));
        let none = "Error retrieving namespaces: Namespace \"x\" matched no namespaces";
        assert_eq!(choose(&[], "x"), Err(none.to_owned()));
        let several = choose(&["team-a", "team-b"], "team").unwrap_err();
        assert!(several.starts_with("Prefix matched multiple namespaces\n\nName"), "{several}");
    }
}
