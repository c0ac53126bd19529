//! The checks of an allocation: those that its services ask for, with the addresses that they go to if the agent runs them,
//! and with their names in Consul if Consul does. Pure.
//!
//! A check whose address or texts cannot be worked out is a check all the same: each of its runs fails, and says why.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use model::job::{AddressMode, CheckKind, OnUpdate, Service, ServiceCheck, ServiceProvider, Task, TaskGroup};
use model::service::registration_id;
use model::text::quoted;
use model::{Nanos, Text};
use sha2::{Digest as _, Sha256};

use crate::checks::check::{Check, HttpRequest, InConsul, Mode, Probe, RestartRule, Runner, Script, Tls};
use crate::disk::dirs::AllocDirs;
use crate::networks::AllocNetwork;
use crate::node::facts::NodeFacts;
use crate::services::address::Addresses;
use crate::services::consul::registration::script_check_id;
use crate::services::interpolate::filled;
use crate::task::env::{self, Env};
use crate::task::interpolation::Interpolator;
use crate::work::spec::AllocSpec;

/// The minimum interval between two runs, and the minimum time that a probe waits (N-18.14).
const INTERVAL_MIN: Nanos = Nanos::SECOND;
/// The maximum time that a probe waits. Longer timeouts count as this one, because a probe occupies one of the node's
/// places for probes as long as it waits.
const TIMEOUT_MAX: Nanos = Nanos::from_mins(1);
/// The node's attribute with its default address.
const NODE_ADDRESS: &str = "unique.network.ip-address";

/// The checks of an allocation. `network` is the allocation's own network, if it has one.
pub(crate) fn checks(
    spec: &AllocSpec,
    node: &NodeFacts,
    dirs: &AllocDirs,
    network: Option<&AllocNetwork>,
) -> Vec<Check> {
    let mut found = Vec::new();
    let Some(group) = spec.group() else { return found };
    let owners = std::iter::once((None, &group.services));
    let owners = owners.chain(group.tasks.iter().map(|task| (Some(task), &task.services)));
    let resources = spec.resources();
    for (task, services) in owners {
        if !services.iter().any(|service| !service.checks.is_empty()) {
            continue;
        }
        let addresses = Addresses {
            task: task.map(|task| &*task.name),
            resources: &resources,
            network: network.and_then(|network| network.status.as_ref()),
            driver: None,
            node_ip: node.attributes.get(NODE_ADDRESS).map_or("", |ip| ip),
        };
        let known = environment(spec, group, task, node, dirs, network);
        let owner = Owner { spec, task, addresses, namespace: network.map(|network| &*network.namespace) };
        for service in services {
            let filled = known.as_ref().map_err(String::clone).and_then(|known| {
                let mut interpolator = Interpolator::new(node);
                filled(service, |text| interpolator.fill(text, known))
            });
            found.extend(owner.checks(service, filled));
        }
    }
    found
}

/// The number of an allocation's checks.
pub(crate) fn count(spec: &AllocSpec) -> usize {
    let Some(group) = spec.group() else { return 0 };
    let services = group.services.iter().chain(group.tasks.iter().flat_map(|task| &task.services));
    services.map(|service| service.checks.len()).sum()
}

/// The variables that texts of services may refer to.
fn environment(
    spec: &AllocSpec,
    group: &TaskGroup,
    task: Option<&Task>,
    node: &NodeFacts,
    dirs: &AllocDirs,
    network: Option<&AllocNetwork>,
) -> Result<Env, String> {
    let network = network.and_then(|network| network.status.as_ref());
    match task {
        Some(task) => env::build(spec, group, task, node, &dirs.task(&task.name), &Env::new(), network),
        None => env::of_group(spec, group, node, network),
    }
}

/// Who has services: a task, or the group.
struct Owner<'a> {
    spec: &'a AllocSpec,
    task: Option<&'a Task>,
    addresses: Addresses<'a>,
    namespace: Option<&'a Path>,
}

impl Owner<'_> {
    /// The checks of a service. `filled` is the service with its names replaced, or why that failed.
    fn checks(&self, service: &Service, filled: Result<Service, String>) -> Vec<Check> {
        let (service, problem) = match filled {
            Ok(filled) => (filled, None),
            Err(problem) => (service.clone(), Some(Text::from(problem))),
        };
        let mut names: BTreeMap<&Text, usize> = BTreeMap::new();
        let checks = service.checks.iter().map(|check| {
            // Admission refuses a name that occurs twice, but each check must have an id of its own in any case.
            let count = names.entry(&check.name).or_default();
            let before = *count;
            *count = count.saturating_add(1);
            let is_script = check.kind == Some(CheckKind::Script);
            let runner = match (service.provider.unwrap_or(ServiceProvider::Consul), &problem) {
                (ServiceProvider::Consul, Some(problem)) if is_script => {
                    Runner::Agent(Err(Text::clone(problem)))
                }
                (ServiceProvider::Consul, None) if is_script => Runner::Script(self.script(&service, check)),
                (ServiceProvider::Consul, _) => Runner::Consul(self.in_consul(&service, check)),
                (ServiceProvider::Nomad, Some(problem)) => Runner::Agent(Err(Text::clone(problem))),
                (ServiceProvider::Nomad, None) => Runner::Agent(self.probe(&service, check)),
            };
            self.check(&service, check, before, runner)
        });
        checks.collect()
    }

    /// A check. `before` is the number of earlier checks of the service with its name.
    fn check(&self, service: &Service, check: &ServiceCheck, before: usize, runner: Runner) -> Check {
        let on_update = check.on_update.or(service.on_update);
        let rule = check.check_restart.as_ref().filter(|rule| rule.limit > 0);
        Check {
            id: self.id(service, check, before),
            group: self.spec.name(),
            task: self.task.map_or_else(Text::default, |task| Text::clone(&task.name)),
            service: Text::clone(&service.name),
            name: Text::clone(&check.name),
            mode: if on_update == Some(OnUpdate::Ignore) { Mode::Readiness } else { Mode::Healthiness },
            interval: check.interval.max(INTERVAL_MIN),
            timeout: check.timeout.clamp(INTERVAL_MIN, TIMEOUT_MAX),
            restart: rule.map(|rule| RestartRule { limit: rule.limit, grace: rule.grace }),
            runner,
        }
    }

    /// How Consul names a check: the agent registers it so.
    fn in_consul(&self, service: &Service, check: &ServiceCheck) -> InConsul {
        let owner = match self.task {
            Some(task) => task.name.to_string(),
            None => format!("group-{}", self.spec.common.task_group),
        };
        let id = registration_id(self.spec.id(), &owner, &service.name, &service.port_label);
        InConsul {
            service_id: id.into(),
            name: match &*check.name {
                "" => format!("service: {} check", quoted(&service.name)).into(),
                name => name.into(),
            },
            on_update: check.on_update.or(service.on_update),
            ignores_warnings: check.check_restart.as_ref().is_some_and(|rule| rule.ignore_warnings),
        }
    }

    /// What runs for a check that runs a program. It runs in the task that the check names, else in that of its service.
    fn script(&self, service: &Service, check: &ServiceCheck) -> Script {
        let owner = self.task.map(|task| &task.name);
        let task = [&check.task_name, &service.task_name].into_iter().find(|name| !name.is_empty()).or(owner);
        let in_consul = self.in_consul(service, check);
        let command = std::iter::once(&check.command).chain(&check.args);
        Script {
            task: task.cloned().unwrap_or_default(),
            command: command.map(ToString::to_string).collect(),
            check_id: script_check_id(&in_consul.service_id, service, check),
            in_consul,
        }
    }

    fn probe(&self, service: &Service, check: &ServiceCheck) -> Result<Probe, Text> {
        let request = match check.kind {
            Some(CheckKind::Tcp) => None,
            Some(CheckKind::Http) => Some(request(check)),
            Some(kind @ (CheckKind::Grpc | CheckKind::Script)) => {
                return Err(format!("checks of type {kind} need the provider consul").into());
            }
            None => return Err("the check has no type".into()),
        };
        let endpoint = self.addresses.of_check(service, check);
        let endpoint = endpoint.map_err(|error| Text::from(error.to_string()))?;
        let ip: IpAddr = endpoint.address.parse().map_err(|_| match &*endpoint.address {
            "" => Text::from("the node has no address"),
            address => format!("{} is not an IP address", quoted(address)).into(),
        })?;
        let mode = check.address_mode.or(service.address_mode);
        // Addresses of the allocation's network need not be reachable from the node, and mean another one there.
        let is_inside = matches!(mode, Some(AddressMode::Alloc | AddressMode::AllocIpv6));
        let namespace = self.namespace.filter(|_| is_inside).map(Path::to_path_buf);
        Ok(Probe { address: SocketAddr::new(ip, endpoint.port), namespace, request })
    }

    /// A digest of what the check does. It also contains the name of the service, so that two services may have a check of
    /// the same name.
    fn id(&self, service: &Service, check: &ServiceCheck, before: usize) -> Text {
        let on_update = check.on_update.or(service.on_update).map_or("", OnUpdate::as_str);
        let mode = check.address_mode.or(service.address_mode).map_or("", AddressMode::as_str);
        let port = if check.port_label.is_empty() { &service.port_label } else { &check.port_label };
        let (alloc, before) = (self.spec.id().to_string(), before.to_string());
        let (interval, timeout) = (check.interval.0.to_string(), check.timeout.0.to_string());
        let mut digest = Sha256::new();
        for part in [
            &*alloc,
            &*self.spec.common.task_group,
            self.task.map_or("", |task| &*task.name),
            &*service.name,
            &*check.name,
            &*before,
            check.kind.map_or("", CheckKind::as_str),
            &**port,
            on_update,
            mode,
            &*interval,
            &*timeout,
            &*check.protocol,
            &*check.path,
            &*check.method,
            if check.tls_skip_verify { "skip" } else { "verify" },
            service.provider.map_or("", ServiceProvider::as_str),
        ] {
            digest.update(part);
            // It occurs in none of the parts, so that no two lists of parts make the same text.
            digest.update([0]);
        }
        if check.kind == Some(CheckKind::Script) {
            for part in [&check.command, &check.task_name].into_iter().chain(&check.args) {
                digest.update(part.as_bytes());
                digest.update([0]);
            }
        }
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
    }
}

fn request(check: &ServiceCheck) -> HttpRequest {
    let is_https = check.protocol.eq_ignore_ascii_case("https");
    let slash = if check.path.starts_with('/') { "" } else { "/" };
    let headers = check
        .header
        .iter()
        .flat_map(|(name, values)| values.iter().map(|value| (Text::clone(name), Text::clone(value))));
    let tls = Tls { verify: !check.tls_skip_verify, server_name: Text::clone(&check.tls_server_name) };
    HttpRequest {
        tls: is_https.then_some(tls),
        method: if check.method.is_empty() { "GET".into() } else { Text::clone(&check.method) },
        target: format!("{slash}{}", check.path).into(),
        headers: headers.collect(),
        body: Text::clone(&check.body),
    }
}

#[cfg(test)]
mod tests;
