//! Rules for network policies.

use serde_json::Value;

use crate::objects::{Object, Pods, at, elements};

/// PostgreSQL's port in the manifests.
const DATABASE_PORT: u64 = 5432;
/// The role that must not reach PostgreSQL.
const AGENT: &str = "agent";

fn policies(objects: &[Object]) -> impl Iterator<Item = &Object> {
    objects.iter().filter(|object| object.kind() == "NetworkPolicy")
}

fn chosen<'a>(objects: &'a [Object], policy: &Object) -> Vec<Pods<'a>> {
    let selector = policy.at("/spec/podSelector");
    let pods = objects.iter().filter_map(Object::pods);
    pods.filter(|pods| pods.chosen_by(selector, policy.namespace())).collect()
}

pub(super) fn policies_choose_pods(objects: &[Object]) -> Vec<String> {
    let idle = policies(objects).filter(|policy| chosen(objects, policy).is_empty());
    let idle = idle.map(|policy| format!("{}: it selects no pods", policy.title()));
    let of = |policy: &Object, direction: &str| policy.at(&format!("/spec/{direction}")).clone();
    let undeclared = policies(objects).flat_map(|policy| {
        let types = elements(policy.at("/spec/policyTypes"));
        let faulty = [("Ingress", of(policy, "ingress")), ("Egress", of(policy, "egress"))]
            .into_iter()
            .filter(|(name, rules)| !rules.is_null() && !types.iter().any(|type_| type_ == name));
        faulty
            .map(|(name, _)| format!("{}: its rules for {name} have no effect", policy.title()))
            .collect::<Vec<_>>()
    });
    idle.chain(undeclared).collect()
}

/// Each pod needs a policy that restricts both directions, whatever other policies exist.
pub(super) fn everything_is_denied_first(objects: &[Object]) -> Vec<String> {
    let closes = |pods: Pods<'_>, policy: &Object| {
        let types = elements(policy.at("/spec/policyTypes"));
        pods.chosen_by(policy.at("/spec/podSelector"), policy.namespace())
            && ["Ingress", "Egress"].iter().all(|direction| types.iter().any(|type_| type_ == direction))
    };
    let pods = objects.iter().filter_map(Object::pods);
    let open = pods.filter(|pods| !policies(objects).any(|policy| closes(*pods, policy)));
    open.map(|pods| format!("{}: no policy restricts both directions", pods.owner.title())).collect()
}

pub(super) fn policies_open_ports_that_are_there(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for policy in policies(objects) {
        for rule in elements(policy.at("/spec/ingress")) {
            let ports = elements(at(rule, "/ports"));
            if ports.is_empty() {
                faults.push(format!("{}: it opens all ports", policy.title()));
            }
            // Port ranges are for the ports of tasks.
            for port in
                ports.iter().filter(|port| at(port, "/endPort").is_null()).map(|port| at(port, "/port"))
            {
                if !chosen(objects, policy).iter().all(|pods| pods.has_port(port)) {
                    faults
                        .push(format!("{}: it opens {port}, on which no container listens", policy.title()));
                }
            }
        }
    }
    faults
}

/// Whether a rule allows traffic to a port.
fn opens(rule: &Value, port: u64) -> bool {
    let ports = elements(at(rule, "/ports"));
    let within = |of: &Value| {
        let first = at(of, "/port").as_u64();
        let last = at(of, "/endPort").as_u64().or(first);
        first.zip(last).is_some_and(|(first, last)| (first..=last).contains(&port))
    };
    ports.is_empty() || ports.iter().any(within)
}

pub(super) fn only_servers_reach_the_database(objects: &[Object]) -> Vec<String> {
    let mut faults = Vec::new();
    for pods in objects.iter().filter_map(Object::pods) {
        let own = policies(objects)
            .filter(|policy| pods.chosen_by(policy.at("/spec/podSelector"), policy.namespace()));
        let mut rules = own.flat_map(|policy| elements(policy.at("/spec/egress")));
        let reaches = rules.any(|rule| opens(rule, DATABASE_PORT));
        if reaches == (pods.owner.role() == AGENT) {
            faults.push(format!(
                "{}: {} PostgreSQL",
                pods.owner.title(),
                if reaches { "it reaches" } else { "it does not reach" }
            ));
        }
    }
    faults
}
