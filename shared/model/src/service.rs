//! Registrations in the cluster's own service discovery: which instances of which services there are, and where.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::small_object::{Column, SmallObject};
use crate::table::Table;
use crate::{AllocId, Index, NodeId, Text};

/// The beginning of the id of every registration.
const ID_START: &str = "_nomad-task-";
/// The number of characters of an allocation's id.
const UUID_CHARS: usize = 36;

/// Identifies a registration. Keys are ordered by namespace, then name, then id, so the instances of a service are
/// next to each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ServiceKey {
    /// The job's namespace.
    pub namespace: Text,
    /// The name of the service.
    pub name: Text,
    /// The id of the registration ([`registration_id`]).
    pub id: Text,
}

impl ServiceKey {
    /// The key before those of all instances of a service.
    pub fn first_of(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into(), id: Text::default() }
    }

    /// Whether this is the key of an instance of a service.
    pub fn is_of(&self, namespace: &str, name: &str) -> bool {
        self.namespace == *namespace && self.name == *name
    }
}

/// The id of a registration: `_nomad-task-<alloc id>-<owner>-<service>-<port label>`. The owner is the name of a
/// task, or `group-` and the name of the group.
pub fn registration_id(alloc: AllocId, owner: &str, service: &str, port_label: &str) -> String {
    format!("{ID_START}{alloc}-{owner}-{service}-{port_label}")
}

/// The allocation in the id of a registration; `None` if the text is no such id.
pub fn alloc_of_registration(id: &str) -> Option<AllocId> {
    let rest = id.strip_prefix(ID_START)?;
    let (alloc, rest) = (rest.get(..UUID_CHARS)?, rest.get(UUID_CHARS..)?);
    if rest.starts_with('-') { alloc.parse().ok() } else { None }
}

/// An instance of a service, registered by the agent on whose node the instance runs. A registration exists only as long
/// as its allocation may run: the applier deletes it when the allocation ends or its node is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceRegistration {
    /// Its namespace, the name of the service, and its id.
    pub key: ServiceKey,
    /// The node that it runs on.
    pub node_id: NodeId,
    /// The node's datacenter.
    pub datacenter: Text,
    /// The job that it belongs to.
    pub job_id: Text,
    /// The allocation that it belongs to.
    pub alloc_id: AllocId,
    /// Its tags, in the order of the job file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Text>,
    /// The IP address or host name at which it is reached.
    pub address: Text,
    /// The port at which it is reached; 0 without a port.
    #[serde(default, skip_serializing_if = "crate::is_default")]
    pub port: u16,
    /// Index of the change set that created it.
    #[serde(default)]
    pub create_index: Index,
    /// Index of the change set that last changed it.
    #[serde(default)]
    pub modify_index: Index,
}

impl SmallObject for ServiceRegistration {
    type Key = ServiceKey;
    type Api = api_types::ServiceRegistration;

    const TABLE: Table = Table::ServiceRegistrations;
    const NAME: &'static str = "service registration";
    const TOPIC: Option<&'static str> = Some("Service");
    const EVENT_TYPES: Option<[&'static str; 2]> = Some(["ServiceRegistration", "ServiceDeregistration"]);
    const KEY_COLUMNS: &'static [Column<ServiceKey>] = &[
        Column::text("namespace", |key| &key.namespace),
        Column::text("service_name", |key| &key.name),
        Column::text("id", |key| &key.id),
    ];
    const COLUMNS: &'static [Column<Self>] = &[
        Column::text("job_id", |service| &service.job_id),
        Column::id("alloc_id", |service| Some(service.alloc_id.0)),
        Column::id("node_id", |service| Some(service.node_id.0)),
        Column::text("datacenter", |service| &service.datacenter),
        Column::text("address", |service| &service.address),
        Column::number("port", |service| i64::from(service.port)),
    ];

    fn key(&self) -> &ServiceKey {
        &self.key
    }

    fn create_index(&self) -> Index {
        self.create_index
    }

    fn modify_index(&self) -> Index {
        self.modify_index
    }

    fn search_text(key: &ServiceKey) -> Cow<'_, str> {
        Cow::Borrowed(&key.name)
    }

    fn event_key(key: &ServiceKey) -> Cow<'_, str> {
        Cow::Borrowed(&key.id)
    }

    fn namespace(key: &ServiceKey) -> &str {
        &key.namespace
    }

    fn filter_keys(&self) -> Option<Vec<String>> {
        Some(vec![self.job_id.to_string(), self.key.name.to_string()])
    }

    fn owner(&self) -> Option<AllocId> {
        Some(self.alloc_id)
    }

    fn shape(&self) -> api_types::ServiceRegistration {
        api_types::ServiceRegistration {
            id: Some(self.key.id.to_string()),
            service_name: Some(self.key.name.to_string()),
            namespace: Some(self.key.namespace.to_string()),
            node_id: Some(self.node_id.to_string()),
            datacenter: Some(self.datacenter.to_string()),
            job_id: Some(self.job_id.to_string()),
            alloc_id: Some(self.alloc_id.to_string()),
            tags: Some(self.tags.iter().map(ToString::to_string).collect()),
            address: Some(self.address.to_string()),
            port: Some(i64::from(self.port)),
            create_index: Some(self.create_index.0),
            modify_index: Some(self.modify_index.0),
        }
    }
}

/// A hash of several byte strings (FNV-1a with 64 bits, mixed once more). Processes of different versions compute the same,
/// and the same bytes divided differently have another hash.
pub fn hash_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        let length = (part.len() as u64).to_be_bytes();
        for byte in length.iter().chain(part) {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    let bits = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOC: AllocId = AllocId::from_bytes([7; 16]);

    #[test]
    fn an_id_names_its_allocation() {
        //
        let id = registration_id(ALLOC, "group-app", "web", "http");
        assert_eq!(id, "_nomad-task-07070707-0707-0707-0707-070707070707-group-app-web-http");
        assert_eq!(alloc_of_registration(&id), Some(ALLOC));
        for other in ["", "_nomad-task-", "_nomad-task-0707", &id[1..], &id[..48], "_nomad-task-ü"] {
            assert_eq!(alloc_of_registration(other), None, "{other}");
        }
    }

    #[test]
    fn instances_of_a_service_are_next_to_each_other() {
        let key = |namespace: &str, name: &str, id: &str| ServiceKey {
            namespace: namespace.into(),
            name: name.into(),
            id: id.into(),
        };
        let mut keys = [key("b", "a", "1"), key("a", "web", "2"), key("a", "web", "1"), key("a", "api", "9")];
        keys.sort();
        let order = keys.each_ref().map(|key| key.id.as_str());
        assert_eq!(order, ["9", "1", "2", "1"]);
        let first = ServiceKey::first_of("a", "web");
        assert_eq!(keys.iter().filter(|key| **key >= first && key.is_of("a", "web")).count(), 2);
    }
}
