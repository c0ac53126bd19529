//! What a task group wants of its nodes, in every shape that is counted differently, and what one allocation gets of
//! its node for it.

use model::Text;
use model::alloc::{AllocatedDevice, AllocatedResources, PackedAssigned, PortMapping, TaskResources};
use model::job::{Lifecycle, LifecycleHook, NetworkResource, Port};
use proptest::prelude::*;

/// What a task group wants. Allocations of one placement want the same.
#[derive(Debug, Clone)]
pub(crate) struct Want {
    kind: Kind,
    mhz: u32,
    memory_mb: u32,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Amounts only, of a main task and a larger one before it.
    Plain,
    /// Two ports of the group, one of which may be shared.
    GroupPorts,
    /// Ports of a task's own network, as older job files have them.
    TaskPorts,
    /// Cores of its own beside a task without.
    Cores,
    /// A device.
    Device,
}

/// What one allocation gets: few values, so that ports collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Got {
    address: u8,
    port: u16,
    cores: u16,
}

const ADDRESSES: u8 = 2;
const FIRST_PORT: u16 = 8000;
const PORTS: u16 = 4;

pub(crate) fn want() -> impl Strategy<Value = Want> {
    let kind = prop_oneof![
        Just(Kind::Plain),
        Just(Kind::GroupPorts),
        Just(Kind::TaskPorts),
        Just(Kind::Cores),
        Just(Kind::Device),
    ];
    (kind, 1..4u32, 1..4u32).prop_map(|(kind, mhz, memory)| Want {
        kind,
        mhz: mhz * 100,
        memory_mb: memory * 64,
    })
}

pub(crate) fn got() -> impl Strategy<Value = Got> {
    // The last port is for the second one of a group.
    (0..ADDRESSES, FIRST_PORT..FIRST_PORT + PORTS - 1, 1..4u16).prop_map(|(address, port, cores)| Got {
        address,
        port,
        cores,
    })
}

/// Every port on every address that an allocation may get.
pub(crate) fn addresses_and_ports() -> impl Iterator<Item = (Text, u16)> {
    (0..ADDRESSES)
        .flat_map(|number| (FIRST_PORT..FIRST_PORT + PORTS).map(move |port| (address(number), port)))
}

fn address(number: u8) -> Text {
    format!("10.0.0.{number}").into()
}

impl Want {
    /// What all allocations that want this share, and what one of them got.
    pub(crate) fn split(&self, got: Got) -> (AllocatedResources, PackedAssigned) {
        let mut whole = self.template();
        give(&mut whole, got);
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

/// Fills in what an allocation got, or got anew.
pub(crate) fn give(whole: &mut AllocatedResources, got: Got) {
    let networks =
        whole.networks.iter_mut().chain(whole.tasks.iter_mut().flat_map(|task| &mut task.networks));
    for network in networks {
        network.device = "eth0".into();
        network.ip = address(got.address);
        let ports = network.reserved_ports.iter_mut().chain(&mut network.dynamic_ports);
        for (port, value) in ports.zip(got.port..) {
            port.value = value;
        }
    }
    for (port, value) in whole.ports.iter_mut().zip(got.port..) {
        port.value = value;
        port.host_ip = address(got.address);
    }
    for task in &mut whole.tasks {
        if !task.cores.is_empty() {
            task.cores = (0..got.cores).collect();
            task.cpu_mhz = u32::from(got.cores) * 1000;
        }
        for device in &mut task.devices {
            device.ids = vec![format!("gpu-{}", got.cores).into()];
        }
    }
}
