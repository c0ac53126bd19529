//! The computed class of a node: a hash that is equal for nodes that differ only in unique attributes, so that constraints
//! cannot distinguish them otherwise.

use model::Text;
use model::node::NodeSpec;

/// Prefix of keys whose values are unique to each node.
const UNIQUE: &str = "unique.";

/// The class in the form that is stored: `v1:<number>`.
pub(super) fn computed(spec: &NodeSpec) -> String {
    let mut hash = Hash::new();
    for text in [&spec.datacenter, &spec.node_class, &spec.node_pool] {
        hash.text(text);
    }
    for pairs in [&spec.attributes, &spec.meta] {
        hash.list(pairs.iter().filter(|(key, _)| is_shared(key)), |hash, (key, value)| {
            hash.text(key);
            hash.text(value);
        });
    }
    hash.list(&spec.resources.devices, |hash, device| {
        for text in [&device.vendor, &device.kind, &device.name] {
            hash.text(text);
        }
        hash.list(device.attributes.iter().filter(|(key, _)| is_shared(key)), |hash, (key, value)| {
            hash.text(key);
            hash.list(value.float, |hash, float| hash.bytes(&float.to_bits().to_le_bytes()));
            hash.list(value.int, |hash, int| hash.bytes(&int.to_le_bytes()));
            hash.list(&value.string, |hash, string| hash.text(string));
            hash.list(value.bool, |hash, bool| hash.bytes(&[u8::from(bool)]));
            hash.list(&value.unit, |hash, unit| hash.text(unit));
        });
    });
    format!("v1:{}", hash.0)
}

fn is_shared(key: &Text) -> bool {
    !key.starts_with(UNIQUE)
}

/// FNV-1a over 64 bits. Implemented here, because it must give the same result in every version of the program.
struct Hash(u64);

impl Hash {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// Hashes a text with its length, so that different lists of texts never give the same bytes.
    fn text(&mut self, text: &str) {
        self.bytes(&(text.len() as u64).to_le_bytes());
        self.bytes(text.as_bytes());
    }

    /// Hashes a list with an end marker.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut each: impl FnMut(&mut Self, T)) {
        for item in items {
            self.bytes(&[1]);
            each(self, item);
        }
        self.bytes(&[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(attributes: &[(&str, &str)]) -> NodeSpec {
        let attributes = attributes.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        NodeSpec { datacenter: "dc1".into(), attributes, ..NodeSpec::default() }
    }

    #[test]
    fn nodes_are_alike_but_for_what_is_unique_to_each() {
        let class = |attributes: &[(&str, &str)]| computed(&node(attributes));
        let linux = class(&[("kernel.name", "linux"), ("unique.hostname", "a")]);
        assert_eq!(linux, class(&[("kernel.name", "linux"), ("unique.hostname", "b")]));
        assert_ne!(linux, class(&[("kernel.name", "darwin"), ("unique.hostname", "a")]));
        assert_ne!(
            linux,
            computed(&NodeSpec { node_pool: "gpu".into(), ..node(&[("kernel.name", "linux")]) })
        );
    }

    #[test]
    fn the_class_is_the_same_in_every_version() {
        assert_eq!(computed(&node(&[("kernel.name", "linux")])), "v1:17698454158667798227");
    }
}
