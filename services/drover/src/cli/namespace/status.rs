//! `drover namespace status`: shows a namespace.

use std::process::ExitCode;

use api_types::Namespace;
use serde_json::Value;

use super::resolve;
use crate::cli::client::escaped;
use crate::cli::object::Object;
use crate::cli::page::Page;
use crate::cli::{ApiCommand, Session, format};

/// Shows a namespace.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of a namespace, or a prefix of it.
    #[arg(value_name = "NAMESPACE")]
    name: String,
    #[command(flatten)]
    object: Object,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let name = resolve(&session.client, &self.name).await?;
        let path = format!("/v1/namespace/{}", escaped(&name));
        if self.object.is_requested() {
            let found: Value = session.client.get(&path, &[]).await?;
            self.object.print(session.output, &found)?;
            return Ok(ExitCode::SUCCESS);
        }
        let found: Namespace = session.client.get(&path, &[]).await?;
        session.output.page(&page(&found));
        Ok(ExitCode::SUCCESS)
    }
}

fn page(namespace: &Namespace) -> Page {
    let capabilities = namespace.capabilities.clone().unwrap_or_default();
    // A list of what is enabled that is empty enables everything.
    let enabled = |names: Option<Vec<String>>| match names.unwrap_or_default() {
        names if names.is_empty() => "*".to_owned(),
        names => names.join(","),
    };
    let disabled = |names: Option<Vec<String>>| names.unwrap_or_default().join(",");
    let mut page = Page::default();
    page.block(&[
        ("Name", format::text(namespace.name.as_ref())),
        ("Description", format::text(namespace.description.as_ref())),
        ("Quota", format::text(namespace.quota.as_ref())),
        ("Enabled Drivers", enabled(capabilities.enabled_task_drivers)),
        ("Disabled Drivers", disabled(capabilities.disabled_task_drivers)),
        ("Enabled Network Modes", enabled(capabilities.enabled_network_modes)),
        ("Disabled Network Modes", disabled(capabilities.disabled_network_modes)),
    ]);
    let meta = namespace.meta.iter().flatten();
    let meta: Vec<(&str, String)> = meta.map(|(name, value)| (name.as_str(), value.clone())).collect();
    if !meta.is_empty() {
        page.title("Metadata");
        page.block(&meta);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_namespace_allows_is_shown() {
        // cli.md 10.1.
        let namespace = Namespace {
            name: Some("team".to_owned()),
            meta: Some([("a".to_owned(), "1".to_owned())].into()),
            ..Namespace::default()
        };
        let text = page(&namespace).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Name                   = team");
        assert_eq!(lines[2], "Quota                  = <none>");
        assert_eq!(lines[3], "Enabled Drivers        = *");
        assert_eq!(lines[4], "Disabled Drivers       = <none>");
        assert_eq!(lines[7..], ["", "Metadata", "a = 1"]);
    }
}
