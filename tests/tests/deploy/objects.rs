//! Kubernetes objects as the rules see them: by kind, name and namespace, and with the pods that workloads create.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::yaml;

/// One object of a manifest.
#[derive(Debug, Clone)]
pub(crate) struct Object(pub(crate) Value);

/// The pods that a workload creates.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pods<'a> {
    /// The workload.
    pub(crate) owner: &'a Object,
    /// The pod's template.
    pub(crate) template: &'a Value,
}

/// The objects of one manifest, or of several that belong together.
pub(crate) fn read(paths: &[&Path]) -> Vec<Object> {
    let of = |path: &&Path| {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let documents = yaml::documents(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        documents.into_iter().map(Object)
    };
    paths.iter().flat_map(of).collect()
}

impl Object {
    /// The value at a JSON pointer, or null.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        at(&self.0, pointer)
    }

    pub(crate) fn kind(&self) -> &str {
        text(self.at("/kind"))
    }

    pub(crate) fn name(&self) -> &str {
        text(self.at("/metadata/name"))
    }

    pub(crate) fn namespace(&self) -> &str {
        text(self.at("/metadata/namespace"))
    }

    /// The object's name in faults.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.kind(), self.name())
    }

    /// The role to which the object belongs.
    pub(crate) fn role(&self) -> &str {
        text(self.at("/metadata/labels/app.kubernetes.io~1component"))
    }

    /// The pods that the object creates, if it is a workload.
    pub(crate) fn pods(&self) -> Option<Pods<'_>> {
        let template = self.at("/spec/template");
        let is_workload = matches!(self.kind(), "Deployment" | "DaemonSet");
        is_workload.then_some(Pods { owner: self, template })
    }
}

impl<'a> Pods<'a> {
    pub(crate) fn spec(self) -> &'a Value {
        at(self.template, "/spec")
    }

    pub(crate) fn labels(self) -> &'a Value {
        at(self.template, "/metadata/labels")
    }

    /// The pod's only container.
    pub(crate) fn container(self) -> &'a Value {
        at(self.spec(), "/containers/0")
    }

    /// Whether a label selector in a namespace selects these pods.
    pub(crate) fn chosen_by(self, selector: &Value, namespace: &str) -> bool {
        namespace == self.owner.namespace() && selects(selector, self.labels())
    }

    /// Whether the container has a port with this name or number.
    pub(crate) fn has_port(self, port: &Value) -> bool {
        let ports = elements(at(self.container(), "/ports"));
        ports.iter().any(|own| at(own, "/name") == port || at(own, "/containerPort") == port)
    }
}

/// The value at a JSON pointer, or null.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// The text of a string, or the empty string.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The elements of a list, or none.
pub(crate) fn elements(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The keys of a map.
pub(crate) fn keys(value: &Value) -> BTreeSet<&str> {
    value.as_object().map(|members| members.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// Whether a label selector matches labels. An empty selector matches all.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    let equal = at(selector, "/matchLabels")
        .as_object()
        .is_none_or(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)));
    let holds = |expression: &Value| {
        let found = labels.get(text(at(expression, "/key")));
        let listed = found.is_some_and(|found| elements(at(expression, "/values")).contains(found));
        match text(at(expression, "/operator")) {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => found.is_some(),
            "DoesNotExist" => found.is_none(),
            other => panic!("unknown operator of a selector: {other:?}"),
        }
    };
    equal && elements(at(selector, "/matchExpressions")).iter().all(holds)
}

#[test]
fn selectors_choose_by_labels_and_expressions() {
    let labels = serde_json::json!({ "app": "drover", "role": "api" });
    let chosen = [
        serde_json::json!({}),
        serde_json::json!({ "matchLabels": { "app": "drover" } }),
        serde_json::json!({ "matchExpressions": [{ "key": "role", "operator": "In", "values": ["api", "agent"] }] }),
        serde_json::json!({ "matchExpressions": [{ "key": "zone", "operator": "DoesNotExist" }] }),
    ];
    assert!(chosen.iter().all(|selector| selects(selector, &labels)));
    let other = [
        serde_json::json!({ "matchLabels": { "app": "drover", "role": "agent" } }),
        serde_json::json!({ "matchExpressions": [{ "key": "role", "operator": "NotIn", "values": ["api"] }] }),
        serde_json::json!({ "matchLabels": { "app": "drover" }, "matchExpressions": [{ "key": "zone", "operator": "Exists" }] }),
    ];
    assert!(!other.iter().any(|selector| selects(selector, &labels)));
}
