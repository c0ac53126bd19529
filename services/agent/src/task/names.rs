//! Names in job files, `${…}`, and what stands for them (A-15.5): of the node, and of a task's environment.

use std::collections::BTreeMap;

use model::{Map, NodeId, Text};
use serde_json::Value;

/// What of the node a job can name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NodeFacts {
    /// The node's id, once it is known.
    pub(crate) id: Option<NodeId>,
    /// Its name.
    pub(crate) name: Text,
    /// Its datacenter.
    pub(crate) datacenter: Text,
    /// Its region.
    pub(crate) region: Text,
    /// Its class.
    pub(crate) class: Text,
    /// Its pool.
    pub(crate) pool: Text,
    /// What it found out about itself.
    pub(crate) attributes: BTreeMap<Text, Text>,
    /// What its owner says of it.
    pub(crate) meta: BTreeMap<Text, Text>,
}

impl NodeFacts {
    fn find(&self, name: &str) -> Option<String> {
        if let Some(key) = name.strip_prefix("attr.") {
            return self.attributes.get(key).map(Text::to_string);
        }
        if let Some(key) = name.strip_prefix("meta.") {
            return self.meta.get(key).map(Text::to_string);
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

/// Puts values in the place of names. Names that nobody knows stay as they are written.
pub(crate) fn fill_in(text: &str, node: &NodeFacts, env: &BTreeMap<String, String>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        filled.push_str(before);
        match find(name.trim(), node, env) {
            Some(value) => filled.push_str(&value),
            None => filled.extend(["${", name, "}"]),
        }
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

fn find(name: &str, node: &NodeFacts, env: &BTreeMap<String, String>) -> Option<String> {
    let quoted = name.strip_prefix("env[\"").and_then(|name| name.strip_suffix("\"]"));
    match quoted {
        Some(name) => env.get(name).cloned(),
        None => node.find(name).or_else(|| env.get(name).cloned()),
    }
}

/// Fills in every text of a driver's configuration, keys aside.
pub(crate) fn fill_in_config(
    config: &Map<String, Value>,
    node: &NodeFacts,
    env: &BTreeMap<String, String>,
) -> Map<String, Value> {
    config.iter().map(|(key, value)| (key.clone(), fill_in_value(value, node, env))).collect()
}

fn fill_in_value(value: &Value, node: &NodeFacts, env: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(fill_in(text, node, env)),
        Value::Array(items) => items.iter().map(|item| fill_in_value(item, node, env)).collect(),
        Value::Object(members) => Value::Object(
            members.iter().map(|(key, value)| (key.clone(), fill_in_value(value, node, env))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn filled(text: &str) -> String {
        let node = NodeFacts {
            name: "one".into(),
            attributes: BTreeMap::from([("kernel.name".into(), "linux".into())]),
            meta: BTreeMap::from([("rack".into(), "r7".into())]),
            ..NodeFacts::default()
        };
        let env = BTreeMap::from([("PORT".to_owned(), "8080".to_owned())]);
        fill_in(text, &node, &env)
    }

    #[test]
    fn names_are_replaced_by_what_they_stand_for() {
        assert_eq!(filled("${node.unique.name}/${attr.kernel.name}/${meta.rack}"), "one/linux/r7");
        assert_eq!(filled(r#"${PORT} ${ PORT } ${env["PORT"]}"#), "8080 8080 8080");
    }

    #[test]
    fn what_nobody_knows_stays_as_it_is_written() {
        for text in ["${attr.cpu.arch}", "${HOME", "$PORT", r#"${env["HOME"]}"#, "${}", "${node.unique.id}"] {
            assert_eq!(filled(text), text);
        }
        assert_eq!(filled("${X} ${PORT} ${"), "${X} 8080 ${");
    }

    #[test]
    fn a_configuration_is_filled_in_at_every_depth() {
        let config = json!({ "args": ["-p", "${PORT}"], "deep": { "a": "${PORT}", "n": 1 } });
        let Value::Object(config) = config else { unreachable!() };
        let env = BTreeMap::from([("PORT".to_owned(), "1".to_owned())]);
        let filled = fill_in_config(&config.into_iter().collect(), &NodeFacts::default(), &env);
        assert_eq!(json!(filled), json!({ "args": ["-p", "1"], "deep": { "a": "1", "n": 1 } }));
    }
}
