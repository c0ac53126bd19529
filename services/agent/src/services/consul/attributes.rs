//! What the node shows of its Consul agent. Pure.

use std::collections::BTreeMap;

use model::Text;
use serde_json::Value;

/// The attributes of a Consul agent that says this about itself. Without a version there are none.
pub(crate) fn attributes(about: &Value) -> BTreeMap<Text, Text> {
    let text = |path: &str| match about.pointer(path) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(value)) => value.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => String::new(),
    };
    let version = text("/Config/Version");
    if version.is_empty() {
        return BTreeMap::new();
    }
    let sku = if version.contains("+ent") { "ent" } else { "oss" };
    let dns = about.pointer("/DebugConfig/DNSAddrs/0").and_then(Value::as_str).unwrap_or_default();
    let dns = dns.split_once("://").map_or(dns, |(_, address)| address);
    let dns = dns.rsplit_once(':').map_or(dns, |(host, _)| host.trim_matches(['[', ']']));
    let found = [
        ("consul.version", version.clone()),
        ("consul.revision", text("/Config/Revision")),
        ("consul.server", text("/Config/Server")),
        ("consul.sku", sku.to_owned()),
        ("consul.datacenter", text("/Config/Datacenter")),
        ("consul.partition", text("/Config/Partition")),
        ("consul.segment", text("/DebugConfig/SegmentName")),
        ("consul.connect", text("/DebugConfig/ConnectEnabled")),
        ("consul.grpc", text("/DebugConfig/GRPCPort")),
        ("consul.dns.port", text("/DebugConfig/DNSPort")),
        ("unique.consul.name", text("/Config/NodeName")),
        ("unique.consul.dns.addr", dns.to_owned()),
    ];
    let known = found.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| (name.into(), value.into())).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_node_shows_what_consul_says_about_itself() {
        let found = attributes(&json!({
            "Config": { "Version": "1.20.1", "Revision": "abc", "Server": true, "Datacenter": "dc1", "NodeName": "n1" },
            "DebugConfig": {
                "ConnectEnabled": true, "GRPCPort": 8502, "DNSPort": 8600, "SegmentName": "",
                "DNSAddrs": ["tcp://127.0.0.1:8600", "udp://127.0.0.1:8600"],
            },
        }));
        for (name, value) in [
            ("consul.version", "1.20.1"),
            ("consul.server", "true"),
            ("consul.sku", "oss"),
            ("consul.datacenter", "dc1"),
            ("consul.grpc", "8502"),
            ("consul.dns.port", "8600"),
            ("unique.consul.name", "n1"),
            ("unique.consul.dns.addr", "127.0.0.1"),
        ] {
            assert_eq!(found.get(name).map(|found| &**found), Some(value), "{name}");
        }
        assert!(!found.contains_key("consul.segment"));
        assert!(attributes(&json!({ "Config": {} })).is_empty());
    }
}
