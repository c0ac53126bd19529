//! The properties that a node must have for a job or a group, as an ordered list of checks. The first check that fails
//! gives the reason (`docs/rules/scheduling.md` ).

use model::Text;
use model::job::{NetworkResource, Port, TaskGroup};
use model::node::NodeSpec;
use state::NodeRef;

use super::condition::{Condition, escapes_class, resolve};
use super::device::{self, DeviceRequest};
use super::version::{Bounds, Rules};

/// The host network of ports that do not name one.
pub(crate) const DEFAULT_HOST_NETWORK: &str = "default";
/// The mode of a network that does not set one.
const DEFAULT_MODE: &str = "host";
/// Versions of agents that do not report whether they have a bridge.
const BRIDGE_UNREPORTED: &str = "< 0.12";

/// One property that a node must have.
#[derive(Debug)]
pub(super) enum Check<'a> {
    Condition(Condition<'a>),
    Devices(Vec<DeviceRequest<'a>>),
    Drivers(&'a TaskGroup),
    Network(&'a TaskGroup),
    Secrets(&'a TaskGroup),
}

/// A resource that is assigned in units, not in amounts. If a node lacks it altogether, only that is reported, and its
/// free units are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiscreteResource {
    Devices,
    Network,
}

impl<'a> Check<'a> {
    /// The discrete resource that the check is about, if any.
    pub(super) fn discrete_resource(&self) -> Option<DiscreteResource> {
        match self {
            Self::Devices(_) => Some(DiscreteResource::Devices),
            Self::Network(_) => Some(DiscreteResource::Network),
            Self::Condition(_) | Self::Drivers(_) | Self::Secrets(_) => None,
        }
    }

    /// The checks of a group, in the order in which reasons are reported.
    pub(super) fn of_group(group: &'a TaskGroup) -> Vec<Self> {
        let of_tasks = group.tasks.iter().flat_map(|task| &task.constraints);
        let conditions = group.constraints.iter().chain(of_tasks).map(Condition::of_constraint);
        let mut checks = vec![Self::Drivers(group)];
        checks.extend(conditions.map(Self::Condition));
        let devices: Vec<_> = group.tasks.iter().flat_map(|task| &task.resources.devices).collect();
        if !devices.is_empty() {
            checks.push(Self::Devices(devices.into_iter().map(DeviceRequest::of).collect()));
        }
        checks.push(Self::Network(group));
        checks.push(Self::Secrets(group));
        checks
    }

    /// Whether nodes of one kind may have different results.
    pub(super) fn differs_within_kind(&self) -> bool {
        match self {
            Self::Condition(condition) => condition.escapes_class(),
            Self::Network(group) => ports(group).any(|port| escapes_class(&port.host_network)),
            Self::Devices(requests) => device::ask_for_instances(requests),
            Self::Drivers(_) | Self::Secrets(_) => false,
        }
    }

    /// Whether the result is not determined by the computed class.
    pub(super) fn escapes_class(&self) -> bool {
        match self {
            Self::Condition(condition) => condition.escapes_class(),
            Self::Devices(_) | Self::Drivers(_) | Self::Network(_) | Self::Secrets(_) => false,
        }
    }

    /// Whether a node fails the check.
    pub(super) fn fails_on(&self, node: NodeRef<'_>) -> bool {
        match self {
            // Faster than formatting the reason.
            Self::Condition(condition) => !condition.holds_on(node),
            Self::Devices(_) | Self::Drivers(_) | Self::Network(_) | Self::Secrets(_) => {
                self.failure(node).is_some()
            }
        }
    }

    /// Why a node fails the check; `None` if it passes.
    pub(super) fn failure(&self, node: NodeRef<'_>) -> Option<Text> {
        match self {
            Self::Condition(condition) => (!condition.holds_on(node)).then(|| condition.reason()),
            Self::Devices(requests) => {
                (!device::covers(requests, &node.spec().resources.devices)).then(|| "missing devices".into())
            }
            Self::Drivers(group) => (!has_drivers(group, node.spec())).then(|| "missing drivers".into()),
            Self::Network(group) => network_failure(group, node),
            Self::Secrets(group) => {
                (!has_secrets_providers(group, node.spec())).then(|| "missing secrets provider".into())
            }
        }
    }
}

/// Whether the node has all drivers that the group's tasks use.
fn has_drivers(group: &TaskGroup, spec: &NodeSpec) -> bool {
    group.tasks.iter().all(|task| match spec.drivers.get(&task.driver) {
        Some(driver) => driver.detected && driver.healthy,
        None => spec.attributes.get(&*format!("driver.{}", task.driver)).is_some_and(|value| is_true(value)),
    })
}

fn is_true(value: &str) -> bool {
    matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// Whether the node has all secrets providers that the group's tasks use.
fn has_secrets_providers(group: &TaskGroup, spec: &NodeSpec) -> bool {
    let secrets = group.tasks.iter().flat_map(|task| &task.secrets);
    let mut providers = secrets.filter_map(|secret| secret.provider.as_deref());
    providers.all(|provider| spec.attributes.contains_key(&*format!("plugins.secrets.{provider}.version")))
}

/// The ports of the group's first network block; other blocks do not matter.
fn ports(group: &TaskGroup) -> impl Iterator<Item = &Port> {
    group
        .networks
        .iter()
        .take(1)
        .flat_map(|network| network.reserved_ports.iter().chain(&network.dynamic_ports))
}

fn mode(word: &str) -> &str {
    if word.is_empty() { DEFAULT_MODE } else { word }
}

/// Why the node's networks do not suit the group; `None` if they do.
fn network_failure(group: &TaskGroup, node: NodeRef<'_>) -> Option<Text> {
    let spec = node.spec();
    let wanted = group.networks.first().map_or(DEFAULT_MODE, |network: &NetworkResource| mode(&network.mode));
    if wanted == "none" {
        return None;
    }
    // The modes are in the older of a node's two lists of networks, the addresses in the newer.
    let (networks, older) = (&spec.resources.node_networks, &spec.resources.networks);
    if !older.iter().any(|listed| mode(&listed.mode) == wanted) && !may_have_unreported_bridge(wanted, spec) {
        return Some("missing network".into());
    }
    for port in ports(group) {
        let Some(alias) = host_network(port, node) else {
            let template = format!(
                "invalid host network \"{}\" template for port \"{}\"",
                port.host_network, port.label
            );
            return Some(template.into());
        };
        let mut addresses = networks.iter().flat_map(|network| &network.addresses);
        if !addresses.any(|address| *address.alias == *alias) {
            return Some(format!("missing host network \"{alias}\" for port \"{}\"", port.label).into());
        }
    }
    None
}

fn may_have_unreported_bridge(wanted: &str, spec: &NodeSpec) -> bool {
    let is_old = |version: &Text| {
        Bounds::parse(BRIDGE_UNREPORTED, Rules::Semver).is_some_and(|bounds| bounds.admit(version))
    };
    wanted == "bridge" && spec.attributes.get("nomad.version").is_some_and(is_old)
}

/// The alias of the host network that a port is opened on; `None` if the node does not resolve the port's template.
pub(crate) fn host_network<'n>(port: &'n Port, node: NodeRef<'n>) -> Option<std::borrow::Cow<'n, str>> {
    if port.host_network.is_empty() {
        return Some(DEFAULT_HOST_NETWORK.into());
    }
    resolve(&port.host_network, node)
}
