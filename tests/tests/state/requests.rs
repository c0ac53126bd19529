//! Resource requests of task groups, in every form that is counted differently, and the resources that are granted to
//! an allocation.

use model::Text;
use model::alloc::{AllocatedDevice, AllocatedResources, PackedAssigned, PortMapping, TaskResources};
use model::job::{Lifecycle, LifecycleHook, NetworkResource, Port};
use proptest::prelude::*;

/// The request of a task group. Allocations of one placement have the same request.
#[derive(Debug, Clone)]
pub(crate) struct ResourceRequest {
    kind: Kind,
    mhz: u32,
    memory_mb: u32,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Amounts only, for a main task and a larger one before it.
    Plain,
    /// Two ports of the group, one of which ignores collisions.
    GroupPorts,
    /// Ports of a task's own network, as in older job files.
    TaskPorts,
    /// Reserved cores, and a task without.
    Cores,
    /// A device.
    Device,
}

/// The resources that are granted to an allocation. There are few values, so that ports collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Granted {
    address: u8,
    port: u16,
    cores: u16,
}

const ADDRESSES: u8 = 2;
const FIRST_PORT: u16 = 8000;
const PORTS: u16 = 4;

pub(crate) fn request() -> impl Strategy<Value = ResourceRequest> {
    let kind = prop_oneof![
        Just(Kind::Plain),
        Just(Kind::GroupPorts),
        Just(Kind::TaskPorts),
        Just(Kind::Cores),
        Just(Kind::Device),
    ];
    (kind, 1..4u32, 1..4u32).prop_map(|(kind, mhz, memory)| ResourceRequest {
        kind,
        mhz: mhz * 100,
        memory_mb: memory * 64,
    })
}

pub(crate) fn granted() -> impl Strategy<Value = Granted> {
    // The last port is for the second port of a group.
    (0..ADDRESSES, FIRST_PORT..FIRST_PORT + PORTS - 1, 1..4u16).prop_map(|(address, port, cores)| Granted {
        address,
        port,
        cores,
    })
}

/// Every address and port that an allocation may get.
pub(crate) fn addresses_and_ports() -> impl Iterator<Item = (Text, u16)> {
    (0..ADDRESSES)
        .flat_map(|number| (FIRST_PORT..FIRST_PORT + PORTS).map(move |port| (address(number), port)))
}

fn address(number: u8) -> Text {
    format!("10.0.0.{number}").into()
}

impl ResourceRequest {
    /// Returns the common resources of all allocations with this request, and those assigned to one of them.
    pub(crate) fn split(&self, granted: Granted) -> (AllocatedResources, PackedAssigned) {
        let mut whole = self.template();
        set_granted(&mut whole, granted);
        let (common, assigned) = whole.split();
        (common, PackedAssigned::pack(&assigned))
    }

    fn template(&self) -> AllocatedResources {
        let web = TaskResources {
            name: "web".into(),
            cpu_mhz: self.mhz,
            memory_mb: self.memory_mb,
            ..TaskResources::default()
        };
        let mut whole = AllocatedResources { disk_mb: 300, ..AllocatedResources::default() };
        let port =
            |label: &str, ignore_collision| Port { label: label.into(), ignore_collision, ..Port::default() };
        match self.kind {
            Kind::Plain => {
                let lifecycle = Lifecycle { hook: LifecycleHook::Prestart, sidecar: false };
                let setup = TaskResources {
                    name: "setup".into(),
                    lifecycle: Some(lifecycle),
                    memory_mb: 150,
                    ..TaskResources::default()
                };
                whole.tasks = vec![setup, web];
            }
            Kind::GroupPorts => {
                let dynamic_ports = vec![port("http", false), port("shared", true)];
                let mapping = |port: &Port| PortMapping {
                    label: port.label.clone(),
                    ignore_collision: port.ignore_collision,
                    ..PortMapping::default()
                };
                whole.ports = dynamic_ports.iter().map(mapping).collect();
                whole.networks = vec![NetworkResource { dynamic_ports, ..NetworkResource::default() }];
                whole.tasks = vec![web];
            }
            Kind::TaskPorts => {
                let network = NetworkResource {
                    reserved_ports: vec![port("admin", false)],
                    dynamic_ports: vec![port("http", false)],
                    ..NetworkResource::default()
                };
                whole.tasks = vec![TaskResources { networks: vec![network], ..web }];
            }
            Kind::Cores => {
                let pinned = TaskResources { name: "pinned".into(), cores: vec![0], ..web.clone() };
                whole.tasks = vec![web, pinned];
            }
            Kind::Device => {
                let device = AllocatedDevice { kind: "gpu".into(), ..AllocatedDevice::default() };
                whole.tasks = vec![TaskResources { devices: vec![device], ..web }];
            }
        }
        whole
    }
}

/// Sets the granted values in the resources of an allocation.
pub(crate) fn set_granted(whole: &mut AllocatedResources, granted: Granted) {
    let networks =
        whole.networks.iter_mut().chain(whole.tasks.iter_mut().flat_map(|task| &mut task.networks));
    for network in networks {
        network.device = "eth0".into();
        network.ip = address(granted.address);
        let ports = network.reserved_ports.iter_mut().chain(&mut network.dynamic_ports);
        for (port, value) in ports.zip(granted.port..) {
            port.value = value;
        }
    }
    for (port, value) in whole.ports.iter_mut().zip(granted.port..) {
        port.value = value;
        port.host_ip = address(granted.address);
    }
    for task in &mut whole.tasks {
        if !task.cores.is_empty() {
            task.cores = (0..granted.cores).collect();
            task.cpu_mhz = u32::from(granted.cores) * 1000;
        }
        for device in &mut task.devices {
            device.ids = vec![format!("gpu-{}", granted.cores).into()];
        }
    }
}
