//! The computed class of a node: a hash of everything that constraints can refer to, except what is unique to the node
//!

use std::collections::BTreeMap;

use model::Text;
use model::node::NodeSpec;

/// The prefix of keys that are unique to a node.
const UNIQUE: &str = "unique.";

/// Computes the class. Nodes of the same class are interchangeable for constraints. The hash must not change between
/// versions of the program, so it is our own implementation of FNV-1a.
pub(crate) fn computed_class(spec: &NodeSpec) -> Text {
    let mut hash = Fnv::default();
    for part in [&spec.datacenter, &spec.node_class, &spec.node_pool] {
        hash.text(part);
    }
    hash.pairs(&spec.attributes);
    hash.pairs(&spec.meta);
    for group in &spec.resources.devices {
        for part in [&group.vendor, &group.kind, &group.name] {
            hash.text(part);
        }
        for (key, value) in group.attributes.iter().filter(|(key, _)| !key.starts_with(UNIQUE)) {
            hash.text(key);
            hash.text(&serde_json::to_string(value).expect("encoding plain data to JSON cannot fail"));
        }
    }
    format!("v1:{}", hash.0).into()
}

struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn text(&mut self, text: &str) {
        let length = (text.len() as u64).to_le_bytes();
        for byte in length.iter().chain(text.as_bytes()) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn pairs(&mut self, pairs: &BTreeMap<Text, Text>) {
        let common = pairs.iter().filter(|(key, _)| !key.starts_with(UNIQUE));
        self.text(&common.clone().count().to_string());
        for (key, value) in common {
            self.text(key);
            self.text(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> NodeSpec {
        NodeSpec {
            datacenter: "dc1".into(),
            attributes: BTreeMap::from([
                ("kernel.name".into(), "linux".into()),
                ("unique.hostname".into(), "one".into()),
            ]),
            ..NodeSpec::default()
        }
    }

    fn class(change: impl FnOnce(&mut NodeSpec)) -> Text {
        let mut spec = spec();
        change(&mut spec);
        computed_class(&spec)
    }

    #[test]
    fn attributes_that_constraints_cannot_use_do_not_change_the_class() {
        let class_of = class(|_| {});
        assert_eq!(&*class_of, "v1:9621803382263250233");
        let same: [fn(&mut NodeSpec); 3] = [
            |spec| spec.name = "two".into(),
            |spec| spec.resources.memory_mb = 1,
            |spec| drop(spec.attributes.insert("unique.hostname".into(), "two".into())),
        ];
        for change in same {
            assert_eq!(class(change), class_of);
        }
    }

    #[test]
    fn all_else_makes_another_class() {
        let changes: [fn(&mut NodeSpec); 5] = [
            |spec| spec.datacenter = "dc2".into(),
            |spec| spec.node_class = "dc1".into(),
            |spec| spec.node_pool = "gpu".into(),
            |spec| drop(spec.attributes.insert("kernel.name".into(), "bsd".into())),
            |spec| drop(spec.meta.insert("kernel.name".into(), "linux".into())),
        ];
        let mut classes: Vec<_> = changes.into_iter().map(class).chain([class(|_| {})]).collect();
        classes.sort();
        classes.dedup();
        assert_eq!(classes.len(), 6);
    }
}
