//! The address and the port of services and of their checks. Pure.
//!
//! | mode | address | port of a label |
//! |---|---|---|
//! | `auto` | as `driver` if the driver advertises its network, otherwise as `host` | |
//! | `host` | the node's, on which the port was assigned | that on the node |
//! | `driver` | the one that the driver gave the task | the driver's, otherwise that inside the network |
//! | `alloc`, `alloc_ipv6` | that of the allocation's network | that inside the network |
//!
//! A number in place of a label is the port itself. An explicit address of a service replaces the one that its mode
//! selects, and has the port on the node; checks of that service do not use it, because they run on the node.

use std::fmt;
use std::net::Ipv6Addr;

use model::Text;
use model::alloc::{AllocatedResources, NetworkStatus};
use model::job::{AddressMode, NetworkResource, Service, ServiceCheck};
use model::text::quoted;

use crate::driver::DriverNetwork;

/// What is known of the addresses of an allocation, and of the task that a service belongs to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses<'a> {
    /// The task of the service; `None` for a service of the group.
    pub(crate) task: Option<&'a str>,
    /// What the allocation was assigned, with its ports.
    pub(crate) resources: &'a AllocatedResources,
    /// The allocation's own network, if it has one.
    pub(crate) network: Option<&'a NetworkStatus>,
    /// The network that the driver gave the task, if it gave one.
    pub(crate) driver: Option<&'a DriverNetwork>,
    /// The node's address, for ports that are written as numbers in allocations without a network; empty if not known.
    pub(crate) node_ip: &'a str,
}

/// Where a service is reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// An address or a name; empty if the service has neither port nor address.
    pub(crate) address: String,
    /// The port; 0 if the service has none.
    pub(crate) port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address.parse::<Ipv6Addr>() {
            Ok(address) => write!(f, "[{address}]:{}", self.port),
            Err(_) => write!(f, "{}:{}", self.address, self.port),
        }
    }
}

/// Why a service or a check has no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {reason}")]
pub(crate) struct AddressError {
    /// The service, with its task or group, and the check.
    subject: String,
    /// What is missing.
    reason: Reason,
}

/// What an address lacks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    /// No port has the label.
    #[error("port {} is neither the label of a port of the allocation nor a number from 1 to 65535", quoted(.0))]
    UnknownPort(Text),
    /// Mode `driver` without a network of the driver.
    #[error(
        "address_mode \"driver\" needs a network of the task's driver, and the driver gave the task none"
    )]
    NoDriverNetwork,
    /// Mode `driver` in a service of a group.
    #[error("address_mode \"driver\" is only for services of tasks")]
    DriverInGroup,
    /// Mode `alloc` without a network of the allocation.
    #[error("address_mode \"{0}\" needs a network of the allocation with such an address, and it has none")]
    NoAllocNetwork(AddressMode),
    /// A check without a port.
    #[error("it has no port, nor has its service")]
    NoPort,
}

impl Addresses<'_> {
    /// Where a service is reached. Names in its texts have been replaced before.
    ///
    /// # Errors
    /// If its mode has no address here, or its port is not known. The error names the service.
    pub(crate) fn of_service(&self, service: &Service) -> Result<Endpoint, AddressError> {
        let mode = service.address_mode.unwrap_or(AddressMode::Auto);
        let found = if service.address.is_empty() {
            self.find(mode, &service.port_label)
        } else {
            // Without a port, the node's address is not needed either.
            let on_node = self.on_node(&service.port_label);
            on_node.map(|Endpoint { port, .. }| Endpoint { address: service.address.to_string(), port })
        };
        found.map_err(|reason| AddressError { subject: self.subject(service), reason })
    }

    /// Where a check finds its service. The port and the mode of the check take precedence over those of the service.
    ///
    /// # Errors
    /// As with [`Self::of_service`], and if there is no port. The error names the service and the check.
    pub(crate) fn of_check(&self, service: &Service, check: &ServiceCheck) -> Result<Endpoint, AddressError> {
        let label = if check.port_label.is_empty() { &service.port_label } else { &check.port_label };
        let mode = check.address_mode.or(service.address_mode).unwrap_or(AddressMode::Auto);
        let found = match label.is_empty() {
            true => Err(Reason::NoPort),
            false => self.find(mode, label),
        };
        found.map_err(|reason| {
            let subject = format!("check {} of {}", quoted(&check.name), self.subject(service));
            AddressError { subject, reason }
        })
    }

    /// The service, as errors name it.
    fn subject(&self, service: &Service) -> String {
        let name = quoted(&service.name);
        match self.task {
            Some(task) => format!("service {name} of task {}", quoted(task)),
            None => format!("service {name} of the group"),
        }
    }

    fn find(&self, mode: AddressMode, label: &Text) -> Result<Endpoint, Reason> {
        match mode {
            AddressMode::Auto => match self.driver.filter(|driver| driver.advertise && self.task.is_some()) {
                Some(driver) => self.in_driver(driver, label),
                None => self.on_node(label),
            },
            AddressMode::Host => self.on_node(label),
            AddressMode::Driver if self.task.is_none() => Err(Reason::DriverInGroup),
            AddressMode::Driver => self.in_driver(self.driver.ok_or(Reason::NoDriverNetwork)?, label),
            AddressMode::Alloc => self.in_alloc(mode, |network| &network.address, label),
            AddressMode::AllocIpv6 => self.in_alloc(mode, |network| &network.address_ipv6, label),
        }
    }

    /// The port on the node, and the address that it was assigned on.
    fn on_node(&self, label: &Text) -> Result<Endpoint, Reason> {
        let first = self.networks().map(|network| &*network.ip).find(|ip| !ip.is_empty());
        let default = first.unwrap_or(self.node_ip).to_owned();
        if label.is_empty() {
            // A service without a port has an address only if the allocation has one.
            return Ok(Endpoint { address: first.unwrap_or_default().to_owned(), port: 0 });
        }
        match self.port(label) {
            Some(Port { host_ip, value, .. }) => Ok(Endpoint {
                address: if host_ip.is_empty() { default } else { host_ip.to_owned() },
                port: value,
            }),
            None => Ok(Endpoint { address: default, port: number(label)? }),
        }
    }

    fn in_driver(&self, driver: &DriverNetwork, label: &Text) -> Result<Endpoint, Reason> {
        let port = match driver.ports.get(label) {
            Some(port) => *port,
            None => self.port_inside(label)?,
        };
        Ok(Endpoint { address: driver.ip.clone(), port })
    }

    fn in_alloc(
        &self,
        mode: AddressMode,
        address: fn(&NetworkStatus) -> &Text,
        label: &Text,
    ) -> Result<Endpoint, Reason> {
        let address = self.network.map(address).filter(|address| !address.is_empty());
        let address = address.ok_or(Reason::NoAllocNetwork(mode))?.to_string();
        Ok(Endpoint { address, port: self.port_inside(label)? })
    }

    /// The port inside the network of the driver or of the allocation; 0 without a label.
    fn port_inside(&self, label: &Text) -> Result<u16, Reason> {
        if label.is_empty() {
            return Ok(0);
        }
        match self.port(label) {
            Some(port) => Ok(u16::try_from(port.to).ok().filter(|to| *to > 0).unwrap_or(port.value)),
            None => number(label),
        }
    }

    /// The assigned port of a label: of the group, otherwise of the task's own networks, in older job files.
    fn port(&self, label: &str) -> Option<Port<'_>> {
        let of_group = self.resources.ports.iter().find(|port| port.label == label).map(|port| Port {
            host_ip: &port.host_ip,
            value: port.value,
            to: port.to,
        });
        of_group.or_else(|| {
            self.networks().find_map(|network| {
                let port = network.reserved_ports.iter().chain(&network.dynamic_ports);
                let port = port.clone().find(|port| port.label == label)?;
                Some(Port { host_ip: &network.ip, value: port.value, to: port.to })
            })
        })
    }

    /// The networks of the task, then those of the group.
    fn networks(&self) -> impl Iterator<Item = &NetworkResource> {
        let own = self.resources.tasks.iter().filter(|own| self.task == Some(&*own.name));
        own.flat_map(|own| &own.networks).chain(&self.resources.networks)
    }
}

/// An assigned port.
struct Port<'a> {
    host_ip: &'a str,
    value: u16,
    to: i32,
}

fn number(label: &Text) -> Result<u16, Reason> {
    let port = label.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| Reason::UnknownPort(Text::clone(label)))
}

#[cfg(test)]
mod tests {
    use model::alloc::{PortMapping, TaskResources};

    use super::*;

    fn resources() -> AllocatedResources {
        let port = |label: &str, value, to| PortMapping {
            label: label.into(),
            value,
            to,
            host_ip: "10.0.0.1".into(),
            ignore_collision: false,
        };
        AllocatedResources {
            networks: vec![NetworkResource { ip: "10.0.0.1".into(), ..NetworkResource::default() }],
            ports: vec![port("http", 21_000, 8_080), port("admin", 21_001, 0), port("same", 21_002, -1)],
            ..AllocatedResources::default()
        }
    }

    fn network() -> NetworkStatus {
        NetworkStatus {
            interface: "eth0".into(),
            address: "172.26.64.2".into(),
            address_ipv6: "fd00::2".into(),
            dns: None,
        }
    }

    fn driver(advertise: bool) -> DriverNetwork {
        DriverNetwork { ip: "172.17.0.2".into(), ports: [("http".into(), 80)].into(), advertise }
    }

    fn service(mode: AddressMode, port: &str) -> Service {
        Service {
            name: "web".into(),
            address_mode: Some(mode),
            port_label: port.into(),
            ..Service::default()
        }
    }

    /// The address of a service of a task in an allocation with all kinds of networks.
    fn found(mode: AddressMode, port: &str, advertise: bool) -> Result<String, String> {
        let (resources, network, driver) = (resources(), network(), driver(advertise));
        let addresses = Addresses {
            task: Some("server"),
            resources: &resources,
            network: Some(&network),
            driver: Some(&driver),
            node_ip: "10.0.0.1",
        };
        let endpoint = addresses.of_service(&service(mode, port));
        endpoint.map(|endpoint| endpoint.to_string()).map_err(|error| error.to_string())
    }

    //
    #[test]
    fn each_mode_has_its_address_and_port() {
        for (mode, port, expected) in [
            (AddressMode::Auto, "http", "10.0.0.1:21000"),
            (AddressMode::Host, "http", "10.0.0.1:21000"),
            (AddressMode::Host, "9090", "10.0.0.1:9090"),
            (AddressMode::Host, "", "10.0.0.1:0"),
            (AddressMode::Driver, "http", "172.17.0.2:80"),
            (AddressMode::Driver, "admin", "172.17.0.2:21001"),
            (AddressMode::Driver, "9090", "172.17.0.2:9090"),
            (AddressMode::Driver, "", "172.17.0.2:0"),
            (AddressMode::Alloc, "http", "172.26.64.2:8080"),
            (AddressMode::Alloc, "admin", "172.26.64.2:21001"),
            (AddressMode::Alloc, "same", "172.26.64.2:21002"),
            (AddressMode::Alloc, "9090", "172.26.64.2:9090"),
            (AddressMode::AllocIpv6, "http", "[fd00::2]:8080"),
        ] {
            assert_eq!(found(mode, port, false), Ok(expected.to_owned()), "{mode} {port}");
        }
        assert_eq!(found(AddressMode::Auto, "http", true), Ok("172.17.0.2:80".to_owned()));
        assert_eq!(found(AddressMode::Host, "http", true), Ok("10.0.0.1:21000".to_owned()));
    }

    #[test]
    fn errors_name_the_service_and_what_is_missing() {
        for port in ["htpp", "0", "65536", "-1"] {
            let error = found(AddressMode::Auto, port, false).unwrap_err();
            let expected =
                format!("service \"web\" of task \"server\": port \"{port}\" is neither the label");
            assert!(error.starts_with(&expected), "{error}");
        }
        let resources = resources();
        let bare = Addresses { task: None, resources: &resources, network: None, driver: None, node_ip: "" };
        let error = |addresses: Addresses<'_>, mode| {
            addresses.of_service(&service(mode, "http")).unwrap_err().to_string()
        };
        let group = error(bare, AddressMode::Driver);
        assert_eq!(
            group,
            "service \"web\" of the group: address_mode \"driver\" is only for services of tasks"
        );
        let alloc = error(bare, AddressMode::AllocIpv6);
        assert!(
            alloc.starts_with("service \"web\" of the group: address_mode \"alloc_ipv6\" needs"),
            "{alloc}"
        );
        let task = error(Addresses { task: Some("server"), ..bare }, AddressMode::Driver);
        assert!(task.contains("the driver gave the task none"), "{task}");
    }

    #[test]
    fn an_explicit_address_has_the_port_on_the_node() {
        let resources = resources();
        let addresses =
            Addresses { task: None, resources: &resources, network: None, driver: None, node_ip: "" };
        let explicit = |port: &str| {
            let service = service(AddressMode::Auto, port);
            addresses.of_service(&Service { address: "lb.example.net".into(), ..service }).unwrap()
        };
        assert_eq!(explicit("http"), Endpoint { address: "lb.example.net".into(), port: 21_000 });
        assert_eq!(explicit(""), Endpoint { address: "lb.example.net".into(), port: 0 });
        let behind = Service { address: "lb.example.net".into(), ..service(AddressMode::Auto, "http") };
        let check = addresses.of_check(&behind, &ServiceCheck::default()).unwrap();
        assert_eq!(check.to_string(), "10.0.0.1:21000", "checks run on the node");
    }

    #[test]
    fn a_check_has_the_port_and_the_mode_of_its_service_unless_it_has_its_own() {
        let (resources, network) = (resources(), network());
        let addresses = Addresses {
            task: None,
            resources: &resources,
            network: Some(&network),
            driver: None,
            node_ip: "",
        };
        let of = |mode, port: &str| {
            let check =
                ServiceCheck { address_mode: mode, port_label: port.into(), ..ServiceCheck::default() };
            addresses.of_check(&service(AddressMode::Alloc, "http"), &check).unwrap().to_string()
        };
        assert_eq!(of(None, ""), "172.26.64.2:8080");
        assert_eq!(of(Some(AddressMode::Host), ""), "10.0.0.1:21000");
        assert_eq!(of(Some(AddressMode::Host), "admin"), "10.0.0.1:21001");
        let check = ServiceCheck { name: "up".into(), ..ServiceCheck::default() };
        let error = addresses.of_check(&service(AddressMode::Alloc, ""), &check).unwrap_err().to_string();
        assert_eq!(
            error,
            "check \"up\" of service \"web\" of the group: it has no port, nor has its service"
        );
    }

    #[test]
    fn ports_of_task_networks_are_found_in_the_services_of_the_task() {
        let port =
            |label: &str| model::job::Port { label: label.into(), value: 22_000, ..Default::default() };
        let own = NetworkResource {
            ip: "10.0.0.2".into(),
            dynamic_ports: vec![port("db")],
            ..NetworkResource::default()
        };
        let task = TaskResources { name: "server".into(), networks: vec![own], ..TaskResources::default() };
        let resources = AllocatedResources { tasks: vec![task], ..AllocatedResources::default() };
        let of = |task| {
            let addresses =
                Addresses { task, resources: &resources, network: None, driver: None, node_ip: "n" };
            addresses.of_service(&service(AddressMode::Auto, "db")).map(|endpoint| endpoint.to_string())
        };
        assert_eq!(of(Some("server")), Ok("10.0.0.2:22000".to_owned()));
        assert!(of(Some("other")).is_err() && of(None).is_err());
    }
}
