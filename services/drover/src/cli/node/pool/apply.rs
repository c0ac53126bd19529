//! `drover node pool apply`: creates or changes a node pool.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow};
use api_types::NodePool;
use hcl1::{Body, Item, Kind};

use crate::cli::spec::{self, Form, Key};
use crate::cli::{ApiCommand, Session};

const KEYS: &[Key] = &[
    Key { name: "description", api: "Description", form: Form::Text },
    Key { name: "meta", api: "Meta", form: Form::Map },
    Key { name: "node_identity_ttl", api: "NodeIdentityTTL", form: Form::Text },
    Key { name: "scheduler_config", api: "SchedulerConfiguration", form: Form::Block(SCHEDULER) },
];
const SCHEDULER: &[Key] = &[
    Key { name: "scheduler_algorithm", api: "SchedulerAlgorithm", form: Form::Text },
    Key { name: "memory_oversubscription_enabled", api: "MemoryOversubscriptionEnabled", form: Form::Bool },
];

/// Creates or changes a node pool.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(crate) struct Args {
    /// A file with the specification; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: String,
    /// Read the specification as JSON in the API's form instead of HCL.
    #[arg(long)]
    json: bool,
}

impl ApiCommand for Args {
    async fn run(self, session: Session) -> anyhow::Result<ExitCode> {
        let text = spec::read(&self.file)?;
        let parsed: anyhow::Result<NodePool> = match self.json {
            true => spec::from_json(&text),
            false => spec::parse(&self.file, &text).and_then(|body| specified(&body)),
        };
        let pool = parsed.context("Failed to parse input content")?;
        let applied = session.client.put_object("/v1/node/pools", &pool).await;
        applied.context("Error applying node pool")?;
        let name = pool.name.unwrap_or_default();
        session.output.line(&format!("Successfully applied node pool \"{name}\"!"));
        Ok(ExitCode::SUCCESS)
    }
}

/// The node pool in a file: one block `node_pool "name" { … }`.
fn specified(body: &Body) -> anyhow::Result<NodePool> {
    let missing = || anyhow!("one block node_pool with a name is expected");
    let [Item { key, value, .. }] = &body.items[..] else { return Err(missing()) };
    let Kind::Body(labelled) = &value.kind else { return Err(missing()) };
    let [Item { key: name, value, .. }] = &labelled.items[..] else { return Err(missing()) };
    let (Kind::Body(body), "node_pool") = (&value.kind, key.as_str()) else { return Err(missing()) };
    let pool: NodePool = spec::object(body, KEYS)?;
    Ok(NodePool { name: Some(name.clone()), ..pool })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::node::pool::init::HCL;

    #[test]
    fn the_example_is_a_specification() {
        let body = spec::parse("pool.nomad.hcl", HCL.as_bytes()).unwrap();
        let pool = specified(&body).unwrap();
        assert_eq!(pool.name.as_deref(), Some("example"));
        assert_eq!(pool.description.as_deref(), Some("Example node pool"));
        assert!(pool.meta.unwrap().contains_key("environment"));
    }

    #[test]
    fn a_file_has_one_node_pool() {
        for text in ["", "x = 1", "node_pool = 1", "job \"a\" { meta { } }", "node_pool \"a\" { }\nx = 1"] {
            let body = spec::parse("pool.hcl", text.as_bytes()).unwrap();
            let error = specified(&body).unwrap_err().to_string();
            assert_eq!(error, "one block node_pool with a name is expected", "{text}");
        }
        let text = "node_pool \"a\" { scheduler_config { memory_oversubscription_enabled = true } }";
        let pool = specified(&spec::parse("pool.hcl", text.as_bytes()).unwrap()).unwrap();
        let settings = pool.scheduler_configuration.unwrap();
        assert_eq!(settings.memory_oversubscription_enabled, Some(true));
    }
}
