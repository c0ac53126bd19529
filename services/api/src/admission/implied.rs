//! Implied constraints: what the blocks of a job require of a node (N-17.6). Of the blocks that are built, signals,
//! services and bridge networks imply constraints.

use std::collections::BTreeSet;

use api_types::{Constraint, Job, Service, TaskGroup};
use model::job::{Operand, ServiceProvider};

use super::fields::{items, text};

/// Node attribute with the supported signals, separated by commas.
const SIGNALS: &str = "${attr.os.signals}";
/// Node attribute that says whether the agent registers services.
const DISCOVERY: &str = "${attr.nomad.service_discovery}";
/// Node attribute with the version of the agent, and the versions that run checks.
const NODE_VERSION: &str = "${attr.nomad.version}";
const CHECKS_SINCE: &str = ">= 1.4.0";
/// The versions of Consul that can be used.
const CONSUL_VERSIONS: &str = ">= 1.8.0";
/// The CNI plugins of bridge networks.
const BRIDGE_PLUGINS: [&str; 5] = ["bridge", "firewall", "host-local", "loopback", "portmap"];
/// The versions of these plugins that can be used.
const PLUGIN_VERSIONS: &str = ">= 0.4.0";

/// Adds the implied constraints that the job does not have yet.
pub(super) fn constrain(job: &mut Job) {
    for group in job.task_groups.iter_mut().flatten() {
        signals(group);
        native_services(group);
        consul_services(group);
        bridge(group);
    }
}

/// Signals ask for nodes that know them, unless the same constraint is given.
fn signals(group: &mut TaskGroup) {
    let signals = items(&group.tasks).iter().map(|task| text(&task.kill_signal));
    let signals: BTreeSet<&str> = signals.filter(|signal| !signal.is_empty()).collect();
    if signals.is_empty() {
        return;
    }
    let implied = constraint(SIGNALS, Operand::SetContains, &Vec::from_iter(signals).join(","));
    let constraints = group.constraints.get_or_insert_default();
    if !constraints.contains(&implied) {
        constraints.push(implied);
    }
}

/// Services in the cluster's own service discovery ask for nodes that register them, and their checks for nodes that run
/// them, unless the same constraint is given.
fn native_services(group: &mut TaskGroup) {
    let of_tasks = items(&group.tasks).iter().flat_map(|task| items(&task.services));
    let native = items(&group.services).iter().chain(of_tasks).filter(|service| is_native(service));
    let (mut has_services, mut has_checks) = (false, false);
    for service in native {
        has_services = true;
        has_checks |= !items(&service.checks).is_empty();
    }
    let implied = [
        (has_services, constraint(DISCOVERY, Operand::Equal, "true")),
        (has_checks, constraint(NODE_VERSION, Operand::Semver, CHECKS_SINCE)),
    ];
    for (_, implied) in implied.into_iter().filter(|(is_implied, _)| *is_implied) {
        let constraints = group.constraints.get_or_insert_default();
        if !constraints.contains(&implied) {
            constraints.push(implied);
        }
    }
}

fn is_native(service: &Service) -> bool {
    text(&service.provider) == ServiceProvider::Nomad.as_str()
}

/// Services in Consul ask for nodes with a Consul agent: those of the group in the group, those of a task in the task. Any
/// constraint on its version takes precedence.
fn consul_services(group: &mut TaskGroup) {
    let TaskGroup { services, constraints, tasks, .. } = group;
    consul(items(services), constraints);
    for task in tasks.iter_mut().flatten() {
        consul(items(&task.services), &mut task.constraints);
    }
}

fn consul(services: &[Service], constraints: &mut Option<Vec<Constraint>>) {
    let in_consul = |service: &&Service| text(&service.provider) == ServiceProvider::Consul.as_str();
    let clusters: BTreeSet<&str> =
        services.iter().filter(in_consul).map(|service| text(&service.cluster)).collect();
    for cluster in clusters {
        let target = match cluster {
            "" | "default" => "${attr.consul.version}".to_owned(),
            cluster => format!("${{attr.consul.{cluster}.version}}"),
        };
        let constraints = constraints.get_or_insert_default();
        if constraints.iter().all(|given| text(&given.l_target) != target) {
            constraints.push(constraint(&target, Operand::Semver, CONSUL_VERSIONS));
        }
    }
}

/// Bridge networks ask for nodes with their plugins, unless any constraint on the version of a plugin is given.
fn bridge(group: &mut TaskGroup) {
    if !items(&group.networks).iter().any(|network| text(&network.mode) == "bridge") {
        return;
    }
    let constraints = group.constraints.get_or_insert_default();
    for plugin in BRIDGE_PLUGINS {
        let target = format!("${{attr.plugins.cni.version.{plugin}}}");
        if constraints.iter().all(|given| text(&given.l_target) != target) {
            constraints.push(constraint(&target, Operand::Semver, PLUGIN_VERSIONS));
        }
    }
}

fn constraint(left: &str, operand: Operand, right: &str) -> Constraint {
    Constraint {
        l_target: Some(left.to_owned()),
        r_target: Some(right.to_owned()),
        operand: Some(operand.as_str().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use api_types::{ServiceCheck, Task};

    use super::*;

    fn service(provider: &str, checks: Option<Vec<ServiceCheck>>) -> Service {
        Service { provider: Some(provider.to_owned()), checks, ..Service::default() }
    }

    fn constrained(group: Vec<Service>, task: Vec<Service>) -> TaskGroup {
        let task = Task { services: Some(task), ..Task::default() };
        let group = TaskGroup { services: Some(group), tasks: Some(vec![task]), ..TaskGroup::default() };
        let mut job = Job { task_groups: Some(vec![group]), ..Job::default() };
        constrain(&mut job);
        constrain(&mut job);
        job.task_groups.unwrap().remove(0)
    }

    #[test]
    fn services_ask_for_nodes_that_register_them() {
        // N-17.6
        let version = || constraint("${attr.consul.version}", Operand::Semver, ">= 1.8.0");
        let discovery = || constraint("${attr.nomad.service_discovery}", Operand::Equal, "true");
        let group = constrained(vec![service("consul", None)], vec![service("consul", None)]);
        assert_eq!(group.constraints, Some(vec![version()]));
        assert_eq!(group.tasks.unwrap()[0].constraints, Some(vec![version()]));
        let group = constrained(Vec::new(), vec![service("nomad", None)]);
        assert_eq!(group.constraints, Some(vec![discovery()]));
        assert_eq!(group.tasks.unwrap()[0].constraints, None);
        let group = constrained(vec![service("nomad", Some(vec![ServiceCheck::default()]))], Vec::new());
        let checks = constraint("${attr.nomad.version}", Operand::Semver, ">= 1.4.0");
        assert_eq!(group.constraints, Some(vec![discovery(), checks]));
        let named = Service { cluster: Some("east".to_owned()), ..service("consul", None) };
        let group = constrained(vec![named], Vec::new());
        let named = constraint("${attr.consul.east.version}", Operand::Semver, ">= 1.8.0");
        assert_eq!(group.constraints, Some(vec![named]));
    }
}
