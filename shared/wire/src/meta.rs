//! Messages between the API and an agent about the metadata of the node, on
//! [`Subject::AgentStats`](crate::Subject::AgentStats).
//!
//! Changes set values, so a lost request can be repeated. An agent refuses changes that are not valid or too large as
//! `Invalid`.

use std::collections::BTreeMap;

use model::Text;
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;

/// Maximum size of all keys and values that requests have set on a node, in bytes.
pub const NODE_META_BYTES_MAX: usize = 64 << 10;

/// Requests the metadata of the node. The response is [`NodeMeta`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNodeMeta {}

/// Changes the metadata of the node. The response is [`NodeMeta`], after the change is on the agent's disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeNodeMeta {
    /// New values by key. `None` removes a key, also one of the agent's configuration.
    pub changes: BTreeMap<Text, Option<Text>>,
}

/// The metadata of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMeta {
    /// What counts: the values of the configuration, overlaid by those that requests have set.
    pub meta: BTreeMap<Text, Text>,
    /// What requests have set; `None` until one has set something.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<BTreeMap<Text, Option<Text>>>,
    /// The values of the agent's configuration.
    pub statics: BTreeMap<Text, Text>,
}

kinds! {
    GetNodeMeta => "meta.ask",
    ChangeNodeMeta => "meta.change",
    NodeMeta => "meta.node",
}
