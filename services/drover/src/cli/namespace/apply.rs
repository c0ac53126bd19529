//! `drover namespace apply`: creates or changes a namespace.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use api_types::Namespace;

use crate::cli::client::{Client, Error, escaped};
use crate::cli::spec::{self, Form, Key};
use crate::cli::{ApiCommand, Session};

const TEXT: Form = Form::Text;
const KEYS: &[Key] = &[
    Key { name: "name", api: "Name", form: TEXT },
    Key { name: "description", api: "Description", form: TEXT },
    Key { name: "quota", api: "Quota", form: TEXT },
    Key { name: "meta", api: "Meta", form: Form::Map },
    Key { name: "capabilities", api: "Capabilities", form: Form::Block(CAPABILITIES) },
    Key { name: "node_pool_config", api: "NodePoolConfiguration", form: Form::Block(NAMES) },
    Key { name: "vault", api: "VaultConfiguration", form: Form::Block(NAMES) },
    Key { name: "consul", api: "ConsulConfiguration", form: Form::Block(NAMES) },
];
const CAPABILITIES: &[Key] = &[
    Key { name: "enabled_task_drivers", api: "EnabledTaskDrivers", form: Form::Texts },
    Key { name: "disabled_task_drivers", api: "DisabledTaskDrivers", form: Form::Texts },
    Key { name: "enabled_network_modes", api: "EnabledNetworkModes", form: Form::Texts },
    Key { name: "disabled_network_modes", api: "DisabledNetworkModes", form: Form::Texts },
];
/// Node pools or clusters, which a namespace may use.
const NAMES: &[Key] = &[
    Key { name: "default", api: "Default", form: TEXT },
    Key { name: "allowed", api: "Allowed", form: Form::Texts },
    Key { name: "denied", api: "Denied", form: Form::Texts },
];

/// Creates or changes a namespace. What is not given stays as it is.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// The name of a namespace, or a file with its specification; `-` is standard input.
    #[arg(value_name = "NAME_OR_FILE")]
    name_or_file: String,
    /// The description.
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// The quota that limits the namespace.
    #[arg(long, value_name = "QUOTA")]
    quota: Option<String>,
    /// Read the specification as JSON in the API's form instead of HCL.
    #[arg(long)]
    json: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let file = &self.name_or_file;
        let is_file = file == "-" || Path::new(file).is_file();
        ensure!(is_file || !self.json, "Failed to read file \"{file}\": there is no such file");
        let mut namespace = match is_file {
            true => specified(file, self.json)?,
            false => existing(&session.client, file).await?,
        };
        namespace.description = self.description.or(namespace.description);
        namespace.quota = self.quota.or(namespace.quota);
        let applied = session.client.put_object("/v1/namespace", &namespace).await;
        applied.context("Error applying namespace")?;
        let name = namespace.name.unwrap_or_default();
        session.output.line(&format!("Successfully applied namespace \"{name}\"!"));
        Ok(ExitCode::SUCCESS)
    }
}

/// The namespace that a file specifies.
fn specified(file: &str, is_json: bool) -> anyhow::Result<Namespace> {
    let text = spec::read(file)?;
    let parsed: anyhow::Result<Namespace> = match is_json {
        true => spec::from_json(&text),
        false => spec::parse(file, &text).and_then(|body| spec::object(&body, KEYS)),
    };
    let namespace = parsed.context("Failed to parse input content")?;
    ensure!(namespace.name.as_ref().is_some_and(|name| !name.is_empty()), "Namespace name required");
    Ok(namespace)
}

/// The namespace with this name as it is, or a new one.
async fn existing(client: &Client, name: &str) -> anyhow::Result<Namespace> {
    const NOT_FOUND: u16 = 404;
    match client.get::<Namespace>(&format!("/v1/namespace/{}", escaped(name)), &[]).await {
        Ok(namespace) => Ok(namespace),
        Err(Error::Refused { status: NOT_FOUND, .. }) => {
            Ok(Namespace { name: Some(name.to_owned()), ..Namespace::default() })
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_specification_sets_what_a_namespace_allows() {
        let text = br#"name = "team"
            description = "ours"
            capabilities { disabled_task_drivers = ["raw_exec"] }
            node_pool_config { default = "gpu" }"#;
        let body = spec::parse("team.hcl", text).unwrap();
        let namespace: Namespace = spec::object(&body, KEYS).unwrap();
        assert_eq!(namespace.description.as_deref(), Some("ours"));
        let drivers = namespace.capabilities.unwrap().disabled_task_drivers.unwrap();
        assert_eq!(drivers, ["raw_exec"]);
        assert_eq!(namespace.node_pool_configuration.unwrap().default.as_deref(), Some("gpu"));
    }
}
