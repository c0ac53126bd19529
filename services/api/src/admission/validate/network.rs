//! Validation of the networks and ports of a group and its tasks (N-19.13).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt::{self, Display};

use api_types::{NetworkResource, Port, TaskGroup};
use model::text::quoted;

use crate::admission::fields::{flag, items, number, text};
use crate::admission::problems::Problems;

/// Host network of ports that do not name one.
const DEFAULT_HOST_NETWORK: &str = "default";
/// Maximum length of a label of a host name, and of a host name.
const DNS_LABEL_BYTES_MAX: usize = 63;
const DNS_NAME_BYTES_MAX: usize = 253;

/// Checks the networks of a group and its tasks.
pub(crate) fn networks(group: &TaskGroup) -> Problems {
    let mut used = UsedPorts::default();
    let mut problems = Problems::default();
    for network in items(&group.networks) {
        check_network(network, &mut used, Owner::Group, &mut problems);
    }
    for task in items(&group.tasks) {
        let Some(resources) = &task.resources else { continue };
        for network in items(&resources.networks) {
            check_network(network, &mut used, Owner::Task(text(&task.name)), &mut problems);
        }
    }
    problems
}

/// The owner of a network.
#[derive(Clone, Copy)]
enum Owner<'a> {
    Group,
    /// A task, by name.
    Task(&'a str),
}

impl Display for Owner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group => f.write_str("taskgroup network"),
            Self::Task(name) => write!(f, "task {} network", quoted(name)),
        }
    }
}

/// Labels and static ports that earlier ports of the group use.
#[derive(Default)]
struct UsedPorts<'a> {
    /// Owner of each label.
    labels: BTreeMap<&'a str, Owner<'a>>,
    /// Label of each static port, by host network and port number.
    fixed: BTreeMap<(&'a str, i64), &'a str>,
}

fn check_network<'a>(
    network: &'a NetworkResource,
    used: &mut UsedPorts<'a>,
    owner: Owner<'a>,
    problems: &mut Problems,
) {
    let is_host = matches!(text(&network.mode), "" | "host");
    for (port, is_static) in items(&network.reserved_ports)
        .iter()
        .map(|port| (port, true))
        .chain(items(&network.dynamic_ports).iter().map(|port| (port, false)))
    {
        self::port(port, is_static, is_host, used, owner, problems);
    }
    if let Some(cni) = &network.cni {
        for (name, value) in cni.args.iter().flatten() {
            problems.add_if(name.contains(';') || value.contains(';'), || {
                format!("CNI argument {} must not hold a semicolon", quoted(name))
            });
        }
    }
    let hostname = text(&network.hostname);
    problems.add_if(!hostname.is_empty() && !hostname.contains("${") && !is_dns_name(hostname), || {
        format!("Hostname {} is not a valid DNS name", quoted(hostname))
    });
}

fn port<'a>(
    port: &'a Port,
    is_static: bool,
    is_host: bool,
    used: &mut UsedPorts<'a>,
    owner: Owner<'a>,
    problems: &mut Problems,
) {
    let (label, value, to) = (text(&port.label), number(port.value), number(port.to));
    if is_static {
        problems.add_if(value > i64::from(u16::MAX), || {
            format!("Port {label} ({value}) cannot be greater than {}", u16::MAX)
        });
        problems.add_if(value < 0, || format!("Port {label} ({value}) cannot be less than 0"));
    }
    match used.labels.entry(label) {
        Entry::Vacant(free) => {
            free.insert(owner);
        }
        Entry::Occupied(taken) => {
            problems.add_if(true, || format!("Port label {label} already in use by {}", taken.get()));
        }
    }
    if is_static && value > 0 && !flag(port.ignore_collision) {
        let network = Some(text(&port.host_network)).filter(|name| !name.is_empty());
        let network = network.unwrap_or(DEFAULT_HOST_NETWORK);
        if let Some(holder) = used.fixed.insert((network, value), label) {
            problems.add(format!("Static port {value} already reserved by taskgroup network:{holder}"));
        }
    }
    problems.add_if(to > i64::from(u16::MAX), || {
        format!("Port {} cannot be mapped to a port ({to}) greater than {}", quoted(label), u16::MAX)
    });
    problems
        .add_if(to < -1, || format!("Port {} cannot be mapped to a port ({to}) less than -1", quoted(label)));
    problems.add_if(flag(port.ignore_collision) && !is_host, || {
        format!("Port {label} cannot ignore collisions unless its network is of mode host")
    });
}

/// Whether a host name has labels, none of which is too long. Which characters they have does not matter here.
fn is_dns_name(name: &str) -> bool {
    let label = |label: &str| (1..=DNS_LABEL_BYTES_MAX).contains(&label.len());
    name.len() <= DNS_NAME_BYTES_MAX && name.split('.').all(label)
}

#[cfg(test)]
mod tests {
    use api_types::{Resources, Task};

    use super::*;

    fn reserved(label: &str, value: i64) -> Port {
        Port { label: Some(label.to_owned()), value: Some(value), ..Port::default() }
    }

    fn found(network: NetworkResource) -> Vec<String> {
        let group = TaskGroup { networks: Some(vec![network]), ..TaskGroup::default() };
        networks(&group).into_vec()
    }

    #[test]
    fn labels_and_static_ports_are_taken_once() {
        let network = NetworkResource {
            reserved_ports: Some(vec![reserved("a", 99_999), reserved("b", 80), reserved("c", 80)]),
            dynamic_ports: Some(vec![Port { label: Some("a".to_owned()), ..Port::default() }]),
            ..NetworkResource::default()
        };
        assert_eq!(
            found(network),
            [
                "Port a (99999) cannot be greater than 65535",
                "Static port 80 already reserved by taskgroup network:b",
                "Port label a already in use by taskgroup network",
            ]
        );
    }

    #[test]
    fn ports_of_a_task_with_a_long_name_cost_no_more_than_the_name() {
        let ports = |count: i64| (0..count).map(|at| reserved(&at.to_string(), at)).collect::<Vec<_>>();
        let task = |name: &str| {
            let network =
                NetworkResource { reserved_ports: Some(ports(20_000)), ..NetworkResource::default() };
            let resources = Resources { networks: Some(vec![network]), ..Resources::default() };
            Task { name: Some(name.to_owned()), resources: Some(resources), ..Task::default() }
        };
        let tasks = vec![task(&"x".repeat(4 << 20)), task("second")];
        let group = TaskGroup { tasks: Some(tasks), ..TaskGroup::default() };
        let bytes: usize = networks(&group).into_vec().iter().map(String::len).sum();
        assert!(bytes < 10 << 20, "{bytes}");
    }

    #[test]
    fn another_host_network_has_ports_of_its_own() {
        let elsewhere = Port { host_network: Some("public".to_owned()), ..reserved("b", 80) };
        let network = NetworkResource {
            reserved_ports: Some(vec![reserved("a", 80), elsewhere]),
            ..NetworkResource::default()
        };
        assert_eq!(found(network), [""; 0]);
    }

    #[test]
    fn a_port_is_mapped_within_bounds() {
        let port = Port { to: Some(70_000), ..reserved("a", -4) };
        let network = NetworkResource { reserved_ports: Some(vec![port]), ..NetworkResource::default() };
        assert_eq!(
            found(network),
            [
                "Port a (-4) cannot be less than 0",
                "Port \"a\" cannot be mapped to a port (70000) greater than 65535"
            ]
        );
    }

    #[test]
    fn a_host_name_is_one_unless_it_is_still_to_be_filled_in() {
        let long = "x".repeat(DNS_LABEL_BYTES_MAX + 1);
        for (name, good) in [
            ("web-1.example", true),
            ("${NOMAD_X}..", true),
            ("bad_host!", true),
            ("a..b", false),
            (long.as_str(), false),
        ] {
            let network = NetworkResource { hostname: Some(name.to_owned()), ..NetworkResource::default() };
            assert_eq!(found(network).is_empty(), good, "{name}");
        }
    }
}
