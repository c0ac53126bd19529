//! The services of a group and of its tasks, with their names filled in and their addresses, as hooks register them and
//! checks use them. Pure.

use model::job::{CheckKind, Service, ServiceCheck, Task};

use super::env::{self, Env};
use super::interpolation::Interpolator;
use crate::driver::DriverNetwork;
use crate::networks::AllocNetwork;
use crate::node::facts::NodeFacts;
use crate::services::address::Addresses;
use crate::services::{Advertised, interpolate};
use crate::work::spec::AllocSpec;

/// The attribute with the node's address.
const NODE_IP: &str = "unique.network.ip-address";

/// The services of an allocation's group.
///
/// # Errors
/// If a name or an address is not usable. The message says in which service.
pub(crate) fn of_group(
    spec: &AllocSpec,
    node: &NodeFacts,
    network: Option<&AllocNetwork>,
) -> Result<Vec<Advertised>, String> {
    let Some(group) = spec.group().filter(|group| !group.services.is_empty()) else { return Ok(Vec::new()) };
    let network = network.and_then(|network| network.status.as_ref());
    let env = env::of_group(spec, group, node, network)?;
    let resources = spec.resources();
    let addresses =
        Addresses { task: None, resources: &resources, network, driver: None, node_ip: node_ip(node) };
    advertised(&group.services, &addresses, node, &env)
}

/// The services of a running task with this environment, to which its driver may have given a network.
///
/// # Errors
/// As with [`of_group`].
pub(crate) fn of_task(
    spec: &AllocSpec,
    task: &Task,
    node: &NodeFacts,
    env: &Env,
    network: Option<&AllocNetwork>,
    driver: Option<&DriverNetwork>,
) -> Result<Vec<Advertised>, String> {
    let network = network.and_then(|network| network.status.as_ref());
    let resources = spec.resources();
    let addresses =
        Addresses { task: Some(&task.name), resources: &resources, network, driver, node_ip: node_ip(node) };
    advertised(&task.services, &addresses, node, env)
}

fn advertised(
    services: &[Service],
    addresses: &Addresses<'_>,
    node: &NodeFacts,
    env: &Env,
) -> Result<Vec<Advertised>, String> {
    let mut interpolator = Interpolator::new(node);
    let mut one = |service: &Service| {
        let service = interpolate::filled(service, |text| interpolator.fill(text, env))?;
        let endpoint = addresses.of_service(&service).map_err(|error| error.to_string())?;
        let check = |check: &ServiceCheck| {
            let needs_port = check.kind != Some(CheckKind::Script);
            needs_port.then(|| addresses.of_check(&service, check)).transpose()
        };
        let checks = service.checks.iter().map(check).collect::<Result<Vec<_>, _>>();
        Ok(Advertised { checks: checks.map_err(|error| error.to_string())?, service, endpoint })
    };
    services.iter().map(&mut one).collect()
}

fn node_ip(node: &NodeFacts) -> &str {
    node.attributes.get(NODE_IP).map_or("", |ip| ip)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::Text;
    use model::alloc::PortMapping;
    use model::job::{JobType, TaskGroup};

    use super::*;
    use crate::services::address::Endpoint;
    use crate::testing::{task, with_group};

    fn of(service: Service) -> Result<Vec<Advertised>, String> {
        let group = TaskGroup {
            name: "app".into(),
            tasks: vec![task("web")],
            meta: [("zone".into(), "blue".into())].into(),
            services: vec![service],
            ..TaskGroup::default()
        };
        let mut spec = with_group(JobType::Service, group);
        let port = PortMapping {
            label: "http".into(),
            value: 21_000,
            host_ip: "10.0.0.1".into(),
            ..PortMapping::default()
        };
        Arc::make_mut(&mut spec.common).resources.ports = vec![port];
        of_group(&spec, &NodeFacts { datacenter: "dc1".into(), ..NodeFacts::default() }, None)
    }

    //
    #[test]
    fn services_of_groups_know_the_node_the_allocation_and_the_metadata() {
        let script = ServiceCheck { kind: Some(CheckKind::Script), ..ServiceCheck::default() };
        let found = of(Service {
            name: "${NOMAD_JOB_ID}-web".into(),
            port_label: "http".into(),
            tags: vec![
                "${NOMAD_META_zone}".into(),
                "${node.datacenter}".into(),
                "p${NOMAD_PORT_http}".into(),
            ],
            checks: vec![ServiceCheck { kind: Some(CheckKind::Tcp), ..ServiceCheck::default() }, script],
            ..Service::default()
        });
        let [found] = &found.unwrap()[..] else { panic!("there is one service") };
        assert_eq!(found.service.name, "site-web");
        assert_eq!(found.service.tags, ["blue", "dc1", "p21000"].map(Text::from));
        assert_eq!(found.endpoint, Endpoint { address: "10.0.0.1".into(), port: 21_000 });
        assert_eq!(found.checks, [Some(found.endpoint.clone()), None]);
    }

    #[test]
    fn a_port_that_is_not_there_is_an_error_with_the_name_of_the_service() {
        let error = of(Service { name: "web".into(), port_label: "nope".into(), ..Service::default() });
        assert!(error.unwrap_err().starts_with("service \"web\" of the group: port \"nope\" is neither"));
    }
}
