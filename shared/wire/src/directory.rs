//! Messages by which agents ask what is registered in the cluster's service discovery
//! (`docs/architecture/services-in-the-agent.md`).

use std::sync::Arc;

use model::node::Secret;
use model::service::ServiceRegistration;
use model::{AllocId, NodeId, SmallObject, Table, Text};
use serde::{Deserialize, Serialize};

use crate::envelope::kinds;
use crate::node::WorkIndex;
use crate::services::{ServiceInstance, ServicesDigest};

/// An instance of a service, as the directory knows it.
pub type Instance = ServiceRegistration;
/// The table of the instances.
pub const INSTANCES: Table = <ServiceRegistration as SmallObject>::TABLE;
/// Maximum number of queries in one request.
pub const QUERIES_MAX: usize = 1_024;
/// Maximum number of instances, or of names, in the result of one query.
pub const RESULTS_MAX: usize = 2_000;
/// Size up to which a response is filled, in bytes of the texts, but with at least one result.
pub const DIRECTORY_BYTES: usize = 384 << 10;
/// The longest time for which a request may wait for a change, in milliseconds.
pub const DIRECTORY_WAIT_MS_MAX: u32 = 10_000;

/// Requests the results of queries that differ from those that the agent knows. The response is [`FoundServices`]. If none
/// differs, the tracker waits for a change, and responds without results when the time is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindServices {
    /// The node.
    pub id: NodeId,
    /// Proves that the sender is the node that registered.
    pub secret: Secret,
    /// How long the tracker may wait for a change, in milliseconds; at most [`DIRECTORY_WAIT_MS_MAX`].
    pub wait_ms: u32,
    /// The queries, each at most once; at most [`QUERIES_MAX`].
    pub queries: Vec<KnownQuery>,
}

/// A query whose result the agent may know already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownQuery {
    /// The query.
    pub query: ServiceQuery,
    /// The digest of the result that the agent knows; `None` if it knows none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<ServicesDigest>,
}

/// What is asked of the service discovery.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ServiceQuery {
    /// The instances of a service.
    Instances {
        /// The namespace.
        namespace: Text,
        /// The name of the service.
        name: Text,
    },
    /// The names of the services of a namespace, with their tags.
    Names {
        /// The namespace.
        namespace: Text,
    },
}

/// The results that differ from what the agent knows. If not all fit into one message, the agent asks again at once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundServices {
    /// The index of the state that was read.
    pub at: WorkIndex,
    /// The results.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<QueryResult>,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryResult {
    /// The query.
    pub query: ServiceQuery,
    /// The digest of everything that the query selects.
    pub digest: ServicesDigest,
    /// The instances, sorted by id; empty if names were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Arc<Instance>>,
    /// The names of services, sorted; empty if instances were asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub names: Vec<ServiceName>,
    /// The number of instances or names beyond [`RESULTS_MAX`], which are not in the result.
    #[serde(default, skip_serializing_if = "model::is_default")]
    pub left_out: u32,
}

/// The name of a service of which there are instances.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceName {
    /// The name.
    pub name: Text,
    /// The tags of all its instances, each once, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
}

impl QueryResult {
    /// Size of the texts, in bytes.
    pub fn bytes(&self) -> usize {
        let instances = self.instances.iter().map(|instance| {
            let ServiceRegistration { key, job_id, datacenter, address, tags, .. } = &**instance;
            let texts = [&key.namespace, &key.name, &key.id, job_id, datacenter, address];
            bytes_of(texts.into_iter().chain(tags))
        });
        let names = self.names.iter().map(|name| bytes_of(std::iter::once(&name.name).chain(&name.tags)));
        instances.chain(names).fold(0, usize::saturating_add)
    }
}

impl ServiceName {
    /// Adds the name and its tags to a digest.
    pub fn add_to(&self, digest: &mut ServicesDigest) {
        let instance = ServiceInstance {
            name: self.name.clone(),
            tags: self.tags.clone(),
            ..ServiceInstance::default()
        };
        digest.add(AllocId::from_bytes([0; 16]), "", &instance);
    }
}

fn bytes_of<'a>(texts: impl Iterator<Item = &'a Text>) -> usize {
    texts.map(|text| text.len()).fold(0, usize::saturating_add)
}

kinds! {
    FindServices => "node.find-services",
    FoundServices => "node.found-services",
}
