//! Rules between Kubernetes objects that no schema can express. Each rule is a function from the objects to the faults
//! that it finds.

mod network;
mod pods;
mod references;

use std::collections::BTreeMap;

use serde_json::Value;

use crate::objects::{Object, at, elements, keys, text};

/// A rule returns the faults that it finds in the objects.
pub(crate) type Rule = fn(&[Object]) -> Vec<String>;

/// All rules.
pub(crate) const RULES: &[Rule] = &[
    versions_are_current,
    names_are_valid,
    nothing_is_there_twice,
    pods::selectors_choose_their_own_pods,
    pods::containers_are_bounded,
    pods::probes_are_there,
    pods::privileges_are_few,
    pods::pods_end_in_order,
    pods::pods_are_spread,
    pods::files_are_mounted,
    pods::secrets_are_as_they_are_made,
    references::services_lead_to_pods,
    references::routes_lead_to_services,
    references::accounts_are_there,
    references::disruption_budgets_let_drains_through,
    references::autoscalers_have_a_target,
    references::monitors_find_what_they_read,
    network::policies_choose_pods,
    network::everything_is_denied_first,
    network::policies_open_ports_that_are_there,
    network::only_servers_reach_the_database,
];

/// The kinds that the chart may create, each with the newest API version.
const VERSIONS: &[(&str, &str)] = &[
    ("DaemonSet", "apps/v1"),
    ("Deployment", "apps/v1"),
    ("HTTPRoute", "gateway.networking.k8s.io/v1"),
    ("HorizontalPodAutoscaler", "autoscaling/v2"),
    ("Ingress", "networking.k8s.io/v1"),
    ("Namespace", "v1"),
    ("NetworkPolicy", "networking.k8s.io/v1"),
    ("PodDisruptionBudget", "policy/v1"),
    ("PodMonitor", "monitoring.coreos.com/v1"),
    ("PrometheusRule", "monitoring.coreos.com/v1"),
    ("Service", "v1"),
    ("ServiceAccount", "v1"),
    ("ServiceMonitor", "monitoring.coreos.com/v1"),
];

/// The longest name of an object that becomes a label or a host name.
const NAME_LENGTH_MAX: usize = 63;
/// The longest name of a port.
const PORT_NAME_LENGTH_MAX: usize = 15;
/// The longest prefix of a label's key.
const PREFIX_LENGTH_MAX: usize = 253;

fn versions_are_current(objects: &[Object]) -> Vec<String> {
    let is_current = |object: &&Object| VERSIONS.contains(&(object.kind(), text(object.at("/apiVersion"))));
    let others = objects.iter().filter(|object| !is_current(object));
    others
        .map(|object| {
            format!("{}: {} is not the current API version", object.title(), object.at("/apiVersion"))
        })
        .collect()
}

fn names_are_valid(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for object in objects {
        let mut check = |what: &str, name: &str, is_valid: bool| {
            if !is_valid {
                faults.push(format!("{}: {what} {name:?}", object.title()));
            }
        };
        check("name", object.name(), is_dns_label(object.name()));
        if object.kind() != "Namespace" {
            check("namespace", object.namespace(), is_dns_label(object.namespace()));
        }
        let metadata = [object.at("/metadata"), object.at("/spec/template/metadata")];
        for (key, value) in metadata.iter().filter_map(|of| at(of, "/labels").as_object()).flatten() {
            check("label", key, is_qualified(key));
            check("label's value", &value.to_string(), value.as_str().is_some_and(is_label_value));
        }
        for (key, value) in metadata.iter().filter_map(|of| at(of, "/annotations").as_object()).flatten() {
            check("annotation", key, is_qualified(key));
            check("annotation's value", &value.to_string(), value.is_string());
        }
        let container = object.at("/spec/template/spec/containers/0");
        for port in elements(at(container, "/ports")).iter().chain(elements(object.at("/spec/ports"))) {
            let name = text(at(port, "/name"));
            check("port", name, is_dns_label(name) && name.len() <= PORT_NAME_LENGTH_MAX);
        }
    }
    faults
}

fn is_dns_label(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    !name.is_empty()
        && name.len() <= NAME_LENGTH_MAX
        && name.chars().all(|c| plain(c) || c == '-')
        && name.starts_with(plain)
        && name.ends_with(plain)
}

fn is_label_value(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric();
    value.is_empty()
        || value.len() <= NAME_LENGTH_MAX
            && value.chars().all(|c| plain(c) || "-_.".contains(c))
            && value.starts_with(plain)
            && value.ends_with(plain)
}

fn is_qualified(key: &str) -> bool {
    let (prefix, name) = key.split_once('/').unwrap_or(("a", key));
    !name.is_empty()
        && is_label_value(name)
        && prefix.len() <= PREFIX_LENGTH_MAX
        && prefix.split('.').all(is_dns_label)
}

fn nothing_is_there_twice(objects: &[Object]) -> Vec<String> {
    let mut counts = BTreeMap::<_, usize>::new();
    for object in objects {
        *counts.entry((object.kind(), object.namespace(), object.name())).or_default() += 1;
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1);
    twice.map(|((kind, namespace, name), _)| format!("{kind} {namespace}/{name} exists twice")).collect()
}

/// Reports the keys of an object that are not known.
fn unknown_keys(title: &str, value: &Value, known: &[&str]) -> Vec<String> {
    let unknown = keys(value).into_iter().filter(|key| !known.contains(key));
    unknown.map(|key| format!("{title}: unknown field {key}")).collect()
}
