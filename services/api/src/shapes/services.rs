//! Instances of services: those that a client chooses by a key, and targets for Prometheus. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::service::{ServiceRegistration, hash_of};
use serde::Serialize;

/// A choice of some instances of a service by rendezvous hashing (http-api §21): the same key chooses the same instances
/// as long as these exist, and a new or lost instance changes little.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    count: usize,
    key: String,
}

impl Choice {
    /// Parses `<number>|<key>`; `None` if the text has another form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (count, key) = text.split_once('|')?;
        if key.contains('|') {
            return None;
        }
        Some(Self { count: count.parse().ok()?, key: key.to_owned() })
    }

    /// Keeps the chosen instances, in their order.
    pub(crate) fn keep(&self, instances: &mut Vec<Arc<ServiceRegistration>>) {
        if instances.len() <= self.count {
            return;
        }
        let mut scores: Vec<(u64, usize)> = instances
            .iter()
            .enumerate()
            .map(|(position, one)| (hash_of([one.key.id.as_bytes(), self.key.as_bytes()]), position))
            .collect();
        scores.sort_unstable_by(|one, other| other.cmp(one));
        scores.truncate(self.count);
        let mut positions: Vec<usize> = scores.into_iter().map(|(_, position)| position).collect();
        positions.sort_unstable();
        *instances = positions.iter().filter_map(|position| instances.get(*position).cloned()).collect();
    }
}

/// A target of Prometheus's HTTP service discovery.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Target {
    targets: [String; 1],
    labels: BTreeMap<&'static str, String>,
}

/// The instances as targets, with the labels that Prometheus's own discovery of Nomad services sets, and the job.
pub(crate) fn targets(instances: &[Arc<ServiceRegistration>]) -> Vec<Target> {
    instances.iter().map(|one| target(one)).collect()
}

fn target(one: &ServiceRegistration) -> Target {
    let address = host_port(&one.address, one.port);
    let labels = BTreeMap::from([
        ("__meta_nomad_address", address.clone()),
        ("__meta_nomad_dc", one.datacenter.to_string()),
        ("__meta_nomad_job_id", one.job_id.to_string()),
        ("__meta_nomad_namespace", one.key.namespace.to_string()),
        ("__meta_nomad_node_id", one.node_id.to_string()),
        ("__meta_nomad_service", one.key.name.to_string()),
        ("__meta_nomad_service_address", one.address.to_string()),
        ("__meta_nomad_service_alloc_id", one.alloc_id.to_string()),
        ("__meta_nomad_service_id", one.key.id.to_string()),
        ("__meta_nomad_service_port", one.port.to_string()),
        // The separators at both ends let a pattern match a whole tag: `.*,metrics,.*`.
        ("__meta_nomad_tags", format!(",{},", one.tags.join(","))),
    ]);
    Target { targets: [address], labels }
}

/// Address and port; an IPv6 address is in brackets.
fn host_port(address: &str, port: u16) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

#[cfg(test)]
pub(crate) mod tests {
    use model::service::{ServiceKey, registration_id};
    use model::{AllocId, Index, NodeId};

    use super::*;

    /// An instance of the service `web` of an allocation.
    pub(crate) fn web(number: u8) -> ServiceRegistration {
        let alloc_id = AllocId::from_bytes([number; 16]);
        ServiceRegistration {
            key: ServiceKey {
                namespace: "default".into(),
                name: "web".into(),
                id: registration_id(alloc_id, "group-app", "web", "http").into(),
            },
            node_id: NodeId::from_bytes([9; 16]),
            datacenter: "dc1".into(),
            job_id: "shop".into(),
            alloc_id,
            tags: vec!["a".into(), "b".into()],
            address: "10.0.0.1".into(),
            port: 8_000 + u16::from(number),
            create_index: Index(5),
            modify_index: Index(6),
        }
    }

    fn webs() -> Vec<Arc<ServiceRegistration>> {
        (1..=20).map(|number| Arc::new(web(number))).collect()
    }

    fn chosen(text: &str, mut instances: Vec<Arc<ServiceRegistration>>) -> Vec<AllocId> {
        Choice::read(text).unwrap().keep(&mut instances);
        instances.iter().map(|one| one.alloc_id).collect()
    }

    #[test]
    fn a_choice_is_a_number_and_a_key() {
        for text in ["", "x", "1", "a|b", "-1|a", "1|a|b", "|a"] {
            assert_eq!(Choice::read(text), None, "{text}");
        }
        assert_eq!(Choice::read("2|a"), Some(Choice { count: 2, key: "a".to_owned() }));
        assert!(Choice::read("0|").is_some());
    }

    #[test]
    fn the_same_key_chooses_the_same_instances() {
        // http-api §21
        assert_eq!(chosen("0|k", webs()), []);
        assert_eq!(chosen("20|k", webs()).len(), 20);
        assert_eq!(chosen("99|k", webs()).len(), 20);
        let three = chosen("3|k", webs());
        assert_eq!(three.len(), 3);
        assert_eq!(chosen("3|k", webs()), three);
        assert!(three.is_sorted(), "in the order of ids");
        let without_others: Vec<_> = webs()
            .into_iter()
            .filter(|one| three.contains(&one.alloc_id) || one.alloc_id.as_bytes()[0] > 10)
            .collect();
        assert_eq!(
            chosen("3|k", without_others),
            three,
            "lost instances that were not chosen change nothing"
        );
        let first: std::collections::BTreeSet<_> =
            (0..50).flat_map(|key| chosen(&format!("1|{key}"), webs())).collect();
        assert!(first.len() > 10, "keys choose different instances: {}", first.len());
    }

    #[test]
    fn a_target_has_the_labels_of_prometheus() {
        let targets = targets(&[Arc::new(web(1))]);
        let json = serde_json::to_value(&targets).unwrap();
        assert_eq!(json[0]["targets"], serde_json::json!(["10.0.0.1:8001"]));
        assert_eq!(json[0]["labels"]["__meta_nomad_service"], "web");
        assert_eq!(json[0]["labels"]["__meta_nomad_tags"], ",a,b,");
        assert_eq!(host_port("fd00::1", 80), "[fd00::1]:80");
    }
}
