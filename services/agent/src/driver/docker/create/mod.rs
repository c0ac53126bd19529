//! Translates a task to the container that the engine creates. Pure.

mod limits;
mod network;
mod security;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use self::limits::limits;
use self::network::Network;
pub(super) use self::network::holder_name;
use self::security::security;
use super::config::TaskConfig;
use super::mounts::mounts;
use super::settings::Settings;
use crate::driver::matches_pattern;
use crate::driver::start::{Start, TaskId};

/// The label with the id of the allocation, which every container has.
pub(super) const ALLOC_LABEL: &str = "com.hashicorp.nomad.alloc_id";
/// The label with the id of the node, which every container has.
pub(super) const NODE_LABEL: &str = "com.hashicorp.nomad.node_id";
/// The beginning of the names of labels.
const LABEL_PREFIX: &str = "com.hashicorp.nomad.";

/// The node, as labels name it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeNames {
    /// The node's id.
    pub(crate) id: String,
    /// The node's name.
    pub(crate) name: String,
}

/// What the translation needs besides the task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) settings: &'a Settings,
    pub(super) node: &'a NodeNames,
    /// The image's id.
    pub(super) image: &'a str,
    /// The number of the engine's processors.
    pub(super) processors: u64,
    /// The runtimes that the engine has.
    pub(super) runtimes: &'a BTreeMap<String, Value>,
    /// Whether the engine is Podman, which can join a network namespace by its path.
    pub(super) is_podman: bool,
}

/// A container to create.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Creation {
    /// The name of the container.
    pub(super) name: String,
    /// What the engine gets.
    pub(super) body: Value,
    /// Paths within the allocation's directory that are mounted, and must not lead out of it by a link.
    pub(super) own_sources: Vec<PathBuf>,
    /// Published ports of the container by label.
    pub(super) ports: BTreeMap<String, u16>,
}

/// The name of a task's container.
pub(super) fn container_name(id: &TaskId) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let task = id.task.chars().map(|c| if allowed(c) { c } else { '_' }).collect::<String>();
    // A name begins with a letter or a digit.
    let first = if task.starts_with(|c: char| c.is_ascii_alphanumeric()) { "" } else { "task" };
    format!("{first}{task}-{}", id.alloc)
}

/// Translates a task.
///
/// # Errors
/// If the operator does not allow it, or it contradicts itself.
pub(super) fn creation(facts: Facts<'_>, config: &TaskConfig, start: &Start) -> Result<Creation, String> {
    let mounted = mounts(facts.settings, config, start)?;
    let network = Network::of(facts, config, start)?;
    let mut host = Object::default();
    host.put("Binds", mounted.binds);
    host.put("Mounts", mounted.mounts);
    host.put("VolumeDriver", &config.volume_driver);
    limits(facts, config, start, &mut host)?;
    security(facts, config, start, &mut host)?;
    devices(config, start, &mut host);
    network.host_config(config, &mut host);
    host.put("LogConfig", logging(facts.settings, config));

    let process = &config.process;
    let env: Vec<String> = start.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let command: Vec<&String> = Some(&process.command)
        .filter(|command| !command.is_empty())
        .into_iter()
        .chain(&process.args)
        .collect();
    let mut body = Object::default();
    body.put("Image", facts.image);
    body.put("Hostname", &config.network.hostname);
    body.put("User", &*start.user);
    body.put("Env", env);
    body.put("Cmd", command);
    body.put("Entrypoint", &process.entrypoint);
    body.put("WorkingDir", &process.work_dir);
    body.put("Labels", labels(facts, config, &start.id));
    body.put("Tty", process.tty);
    body.put("OpenStdin", process.interactive);
    body.put("MacAddress", &config.network.mac);
    if process.healthchecks_disabled {
        body.put("Healthcheck", json!({ "Test": ["NONE"] }));
    }
    body.put("ExposedPorts", network.exposed());
    body.put("NetworkingConfig", network.endpoints(config));
    body.put("HostConfig", host.0);
    Ok(Creation {
        name: container_name(&start.id),
        body: Value::Object(body.0),
        own_sources: mounted.own_sources,
        ports: network.published.iter().map(|port| (port.label.clone(), port.inner)).collect(),
    })
}

/// An object without what is empty, for which the engine has its own defaults.
#[derive(Debug, Default)]
struct Object(Map<String, Value>);

impl Object {
    fn put(&mut self, key: &str, value: impl serde::Serialize) {
        let value = json!(value);
        let is_empty = match &value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            Value::Number(number) => number.as_i64() == Some(0),
            Value::Bool(true) => false,
        };
        if !is_empty {
            self.0.insert(key.to_owned(), value);
        }
    }
}

fn labels(facts: Facts<'_>, config: &TaskConfig, id: &TaskId) -> BTreeMap<String, String> {
    let mut labels = config.labels.clone();
    let parent = id.job.split_once("/periodic-").or_else(|| id.job.split_once("/dispatch-"));
    let extra: [(&str, &str); 8] = [
        ("job_name", &*id.job),
        ("job_id", &*id.job),
        ("parent_job_id", parent.map_or("", |(parent, _)| parent)),
        ("task_group_name", &*id.group),
        ("task_name", &*id.task),
        ("namespace", &*id.namespace),
        ("node_name", facts.node.name.as_str()),
        ("node_id", facts.node.id.as_str()),
    ];
    let patterns = &facts.settings.extra_labels;
    for (name, value) in extra {
        if !value.is_empty() && patterns.iter().any(|pattern| matches_pattern(pattern, name)) {
            labels.insert(format!("{LABEL_PREFIX}{name}"), value.to_owned());
        }
    }
    labels.insert(ALLOC_LABEL.to_owned(), id.alloc.to_string());
    labels.insert(NODE_LABEL.to_owned(), facts.node.id.clone());
    labels
}

fn logging(settings: &Settings, config: &TaskConfig) -> Value {
    match &config.logging {
        Some(logging) if !logging.driver.is_empty() => {
            json!({ "Type": logging.driver, "Config": logging.config })
        }
        Some(logging) => json!({ "Type": settings.logging_type, "Config": logging.config }),
        None => json!({ "Type": settings.logging_type, "Config": settings.logging_config }),
    }
}

fn devices(config: &TaskConfig, start: &Start, host: &mut Object) {
    let device = |source: &str, target: &str, permissions: &str| {
        json!({
            "PathOnHost": source,
            "PathInContainer": if target.is_empty() { source } else { target },
            "CgroupPermissions": if permissions.is_empty() { "rwm" } else { permissions },
        })
    };
    let of_task = config
        .devices
        .iter()
        .map(|found| device(&found.host_path, &found.container_path, &found.permissions));
    let of_node = start.devices.iter().map(|found| {
        let (source, target) = (found.source.display().to_string(), found.target.display().to_string());
        device(&source, &target, &found.permissions)
    });
    host.put("Devices", of_task.chain(of_node).collect::<Vec<_>>());
}

#[cfg(test)]
pub(super) mod tests;
