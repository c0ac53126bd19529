//! Interpolation of `${…}` in job files with facts of the node and variables of the task (A-15.5).

use std::collections::BTreeMap;

use model::Map;
use serde_json::Value;

use crate::node::facts::NodeFacts;

/// Replaces names by their values. Unknown names stay as they are.
pub(crate) fn interpolate(text: &str, node: &NodeFacts, env: &BTreeMap<String, String>) -> String {
    let mut interpolated = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, tail)) = after.split_once('}') else { break };
        interpolated.push_str(before);
        match find(name.trim(), node, env) {
            Some(value) => interpolated.push_str(&value),
            None => interpolated.extend(["${", name, "}"]),
        }
        rest = tail;
    }
    interpolated.push_str(rest);
    interpolated
}

fn find(name: &str, node: &NodeFacts, env: &BTreeMap<String, String>) -> Option<String> {
    let quoted = name.strip_prefix("env[\"").and_then(|name| name.strip_suffix("\"]"));
    match quoted {
        Some(name) => env.get(name).cloned(),
        None => node.find(name).or_else(|| env.get(name).cloned()),
    }
}

/// Interpolates every string of a driver's configuration, except keys.
pub(crate) fn interpolate_config(
    config: &Map<String, Value>,
    node: &NodeFacts,
    env: &BTreeMap<String, String>,
) -> Map<String, Value> {
    config.iter().map(|(key, value)| (key.clone(), interpolate_value(value, node, env))).collect()
}

fn interpolate_value(value: &Value, node: &NodeFacts, env: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => Value::String(interpolate(text, node, env)),
        Value::Array(items) => items.iter().map(|item| interpolate_value(item, node, env)).collect(),
        Value::Object(members) => Value::Object(
            members.iter().map(|(key, value)| (key.clone(), interpolate_value(value, node, env))).collect(),
        ),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn interpolated(text: &str) -> String {
        let node = NodeFacts {
            name: "one".into(),
            attributes: BTreeMap::from([("kernel.name".into(), "linux".into())]),
            meta: BTreeMap::from([("rack".into(), "r7".into())]),
            ..NodeFacts::default()
        };
        let env = BTreeMap::from([("PORT".to_owned(), "8080".to_owned())]);
        interpolate(text, &node, &env)
    }

    #[test]
    fn names_are_replaced_by_what_they_stand_for() {
        assert_eq!(interpolated("${node.unique.name}/${attr.kernel.name}/${meta.rack}"), "one/linux/r7");
        assert_eq!(interpolated(r#"${PORT} ${ PORT } ${env["PORT"]}"#), "8080 8080 8080");
    }

    #[test]
    fn what_nobody_knows_stays_as_it_is_written() {
        for text in ["${attr.cpu.arch}", "${HOME", "$PORT", r#"${env["HOME"]}"#, "${}", "${node.unique.id}"] {
            assert_eq!(interpolated(text), text);
        }
        assert_eq!(interpolated("${X} ${PORT} ${"), "${X} 8080 ${");
    }

    #[test]
    fn a_configuration_is_filled_in_at_every_depth() {
        let config = json!({ "args": ["-p", "${PORT}"], "deep": { "a": "${PORT}", "n": 1 } });
        let Value::Object(config) = config else { unreachable!() };
        let env = BTreeMap::from([("PORT".to_owned(), "1".to_owned())]);
        let interpolated = interpolate_config(&config.into_iter().collect(), &NodeFacts::default(), &env);
        assert_eq!(json!(interpolated), json!({ "args": ["-p", "1"], "deep": { "a": "1", "n": 1 } }));
    }
}
