//! The facts about this node that jobs may refer to.

use std::collections::BTreeMap;

use model::node::NodeSpec;
use model::{NodeId, Text};

use super::config::Config;
use super::identity::Identity;
use super::meta::CurrentMeta;

/// The facts about a node that a job may refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    /// The node's id, once it is known.
    pub(crate) id: Option<NodeId>,
    /// The node's name.
    pub(crate) name: Text,
    /// The node's datacenter.
    pub(crate) datacenter: Text,
    /// The node's region.
    pub(crate) region: Text,
    /// The node's class.
    pub(crate) class: Text,
    /// The node's pool.
    pub(crate) pool: Text,
    /// The control group of all tasks; empty if the agent makes none.
    pub(crate) cgroup_parent: Text,
    /// The node's fingerprinted attributes.
    pub(crate) attributes: BTreeMap<Text, Text>,
    /// The node's metadata.
    pub(crate) meta: CurrentMeta,
}

impl NodeFacts {
    /// The facts about this node.
    pub(crate) fn new(config: &Config, identity: &Identity, spec: &NodeSpec, meta: &CurrentMeta) -> Self {
        Self {
            id: Some(identity.node),
            name: Text::clone(&spec.name),
            datacenter: Text::clone(&spec.datacenter),
            region: Text::clone(&config.region),
            class: Text::clone(&spec.node_class),
            pool: Text::clone(&spec.node_pool),
            cgroup_parent: Text::clone(&spec.cgroup_parent),
            attributes: spec.attributes.clone(),
            meta: meta.clone(),
        }
    }

    /// The compute that tasks may use, in MHz; 0 if it is not known.
    pub(crate) fn usable_mhz(&self) -> u64 {
        self.attributes.get("cpu.usablecompute").and_then(|mhz| mhz.parse().ok()).unwrap_or(0)
    }

    /// The value of a name in a job file, such as `attr.kernel.name`.
    pub(crate) fn find(&self, name: &str) -> Option<String> {
        if let Some(key) = name.strip_prefix("attr.") {
            return self.attributes.get(key).map(Text::to_string);
        }
        if let Some(key) = name.strip_prefix("meta.") {
            return self.meta.get(key).map(|value| value.to_string());
        }
        match name {
            "node.unique.id" => self.id.map(|id| id.to_string()),
            "node.unique.name" => Some(self.name.to_string()),
            "node.datacenter" => Some(self.datacenter.to_string()),
            "node.region" => Some(self.region.to_string()),
            "node.class" => Some(self.class.to_string()),
            "node.pool" => Some(self.pool.to_string()),
            _ => None,
        }
    }
}
