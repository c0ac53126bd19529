//! Checks the chart's own files: its version, and that each of its values has an explanation and a schema.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::objects::{at, keys, text};
use crate::{kubernetes, yaml};

fn read(file: &str) -> String {
    let path = kubernetes().join("chart").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn document(file: &str) -> Value {
    let documents = yaml::documents(&read(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    documents.into_iter().next().expect("the file has a document")
}

fn schema() -> Value {
    serde_json::from_str(&read("values.schema.json")).expect("the schema is JSON")
}

#[test]
fn the_chart_deploys_this_version() {
    let chart = document("Chart.yaml");
    assert_eq!(text(at(&chart, "/appVersion")), env!("CARGO_PKG_VERSION"));
}

/// The chart cannot read files outside its directory, so it contains a copy of the alert rules.
#[test]
fn the_chart_has_the_alert_rules() {
    let rules = kubernetes().with_file_name("observability").join("alerts.yaml");
    let Ok(rules) = fs::read_to_string(&rules) else { return };
    assert_eq!(read("files/alerts.yaml"), rules, "deploy/kubernetes/render copies the rules");
}

/// Collects the paths of all settings in the schema, with dots between the parts. If the schema lists no members, the
/// value is one setting, whatever it contains.
fn settings(schema: &Value, node: &Value, path: &str, found: &mut BTreeSet<String>) {
    let node = match node.get("$ref").and_then(Value::as_str) {
        Some(reference) => at(schema, reference.trim_start_matches('#')),
        None => node,
    };
    let members = at(node, "/properties");
    // Members of resource amounts are explained together.
    if members.is_null() || path.ends_with("resources") {
        found.insert(path.to_owned());
        return;
    }
    assert_eq!(
        at(node, "/additionalProperties"),
        false,
        "{path}: the schema allows members that it does not list"
    );
    for name in keys(members) {
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        settings(schema, &members[name], &path, found);
    }
}

#[test]
fn the_schema_knows_the_values_and_no_others() {
    let schema = schema();
    let mut known = BTreeSet::new();
    settings(&schema, &schema, "", &mut known);
    // Helm adds it.
    assert!(known.remove("global"));
    let values = document("values.yaml");
    let pointer = |path: &str| format!("/{}", path.replace('.', "/"));
    let missing: Vec<_> = known.iter().filter(|path| values.pointer(&pointer(path)).is_none()).collect();
    assert!(missing.is_empty(), "values.yaml has no default for {missing:?}");
    assert!(known.len() > 100, "{} settings", known.len());
}

/// Checks the comment above each setting of values.yaml.
#[test]
fn every_value_is_explained() {
    let schema = schema();
    let mut known = BTreeSet::new();
    settings(&schema, &schema, "", &mut known);
    known.remove("global");
    let text = read("values.yaml");
    let mut parents: Vec<&str> = Vec::new();
    let mut explained = BTreeSet::new();
    let mut above = "";
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        if let Some((key, _)) =
            line.trim_start().split_once(':').filter(|(key, _)| !key.contains(['#', ' ', '{']))
        {
            parents.truncate(indent / 2);
            parents.push(key);
            if above.starts_with("# ") {
                explained.insert(parents.join("."));
            }
        }
        above = line.trim_start();
    }
    let unexplained: Vec<_> = known.difference(&explained).collect();
    assert!(unexplained.is_empty(), "values.yaml has no comment above {unexplained:?}");
}
