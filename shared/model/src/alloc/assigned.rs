//! Assigned resources: the addresses, ports, devices and cores of one allocation, which differ from those of the other
//! allocations of its placement.
//!
//! [`Assigned`] is used to build placements and API responses. Rows, plans and the log contain [`PackedAssigned`], which
//! takes about thirty bytes for an allocation with one port. The format is a version byte and three sections for networks,
//! ports and tasks. A section is its length in bytes, the number of items, and their fields.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use super::packed::{Reader, Unreadable, Writer, packed_form};
use crate::Text;

/// The resources of one allocation that differ from those of the other allocations of its placement.
///
/// Networks and ports are in the order of the lists in [`AllocatedResources`](super::AllocatedResources). Tasks are
/// identified by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Assigned {
    /// The group's networks, then the networks of each task.
    pub networks: Vec<AssignedNetwork>,
    /// The group's ports.
    pub ports: Vec<AssignedPort>,
    /// Tasks that have reserved cores or devices.
    pub tasks: Vec<AssignedTask>,
}

/// Interface, address and ports of a network.
///
/// If a dynamic port has the same number inside the network namespace, its [`Port::to`](crate::job::Port::to) in the
/// common part is -1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssignedNetwork {
    /// The node's network interface.
    pub device: Text,
    /// The node's address.
    pub ip: Text,
    /// The ports on the node: the static ones, then the dynamic ones.
    pub ports: Vec<u16>,
}

/// Number and address of a group's port.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssignedPort {
    /// The port on the node.
    pub value: u16,
    /// The port inside the allocation's network namespace.
    pub to: i32,
    /// The node's address.
    pub host_ip: Text,
}

/// Exclusively reserved cores and devices of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AssignedTask {
    /// The task's name.
    pub task: Text,
    /// Capacity of its cores in MHz; 0 without cores.
    pub cpu_mhz: u32,
    /// Its cores.
    pub cores: Vec<u16>,
    /// Its devices.
    pub devices: Vec<AllocatedDevice>,
}

/// Instances of one device group.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedDevice {
    /// The vendor.
    pub vendor: Text,
    /// The type of device, such as `gpu`.
    pub kind: Text,
    /// The model.
    pub name: Text,
    /// Ids of the instances.
    pub ids: Vec<Text>,
}

impl Assigned {
    /// Whether nothing is assigned.
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.ports.is_empty() && self.tasks.is_empty()
    }
}

/// An [`Assigned`], packed. Empty if nothing is assigned.
///
/// Cloning shares the bytes. Equality compares the bytes.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PackedAssigned(Arc<[u8]>);

/// The format version that this program writes.
const VERSION: u8 = 1;

impl PackedAssigned {
    /// Packs the assigned resources.
    pub fn pack(assigned: &Assigned) -> Self {
        if assigned.is_empty() {
            return Self::default();
        }
        let mut out = Writer::default();
        out.byte(VERSION);
        out.framed(|out| write_list(out, &assigned.networks, write_network));
        let first_ip = assigned.networks.first().map(|network| &network.ip);
        out.framed(|out| write_list(out, &assigned.ports, |out, port| write_port(out, port, first_ip)));
        out.framed(|out| write_list(out, &assigned.tasks, write_task));
        Self(out.into_bytes().into())
    }

    /// Unpacks the assigned resources.
    ///
    /// # Errors
    /// If the bytes have an unknown format version, or are damaged.
    pub fn unpack(&self) -> Result<Assigned, Unreadable> {
        if self.is_empty() {
            return Ok(Assigned::default());
        }
        match self.0.first() {
            Some(&VERSION) => {
                self.sections().and_then(|sections| sections.unpack()).ok_or(Unreadable::Damaged)
            }
            Some(version) => Err(Unreadable::Version(*version)),
            None => Err(Unreadable::Damaged),
        }
    }

    /// Whether nothing is assigned.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Whether it contains cores or devices. Also true if the format version is unknown.
    pub fn has_tasks(&self) -> bool {
        let tasks = self.sections().and_then(|mut sections| sections.tasks.uint());
        !self.is_empty() && tasks != Some(0)
    }

    /// Capacity of the reserved cores in MHz. It is demand in addition to that of the common resources.
    pub fn own_cores_mhz(&self) -> u32 {
        let Some(mut tasks) = self.sections().map(|sections| sections.tasks) else { return 0 };
        let mut sum = 0u32;
        for _ in 0..tasks.uint().unwrap_or(0) {
            let Some(task) = read_task(&mut tasks) else { break };
            sum = sum.saturating_add(task.cpu_mhz);
        }
        sum
    }

    /// Address and number of each of the group's ports, in order. The rest is not unpacked.
    pub(super) fn group_ports(&self) -> impl Iterator<Item = (&str, u16)> {
        let sections = self.sections();
        let first_ip = sections.as_ref().and_then(Sections::first_ip).unwrap_or_default();
        let mut ports = sections.map(|sections| sections.ports);
        let count = ports.as_mut().and_then(Reader::uint).unwrap_or(0);
        (0..count).map_while(move |_| {
            let (value, _, ip) = read_port(ports.as_mut()?)?;
            Some((ip.unwrap_or(first_ip), value))
        })
    }

    /// Address and ports of each network, in order. The rest is not unpacked.
    pub(super) fn networks(&self) -> impl Iterator<Item = (&str, Vec<u16>)> {
        let mut networks = self.sections().map(|sections| sections.networks);
        let count = networks.as_mut().and_then(Reader::uint).unwrap_or(0);
        (0..count).map_while(move |_| read_network(networks.as_mut()?).map(|(_, ip, ports)| (ip, ports)))
    }

    /// The three sections. `None` if nothing is assigned or the format version is unknown.
    fn sections(&self) -> Option<Sections<'_>> {
        let mut input = Reader::new(&self.0);
        (input.byte()? == VERSION).then_some(())?;
        Some(Sections { networks: input.framed()?, ports: input.framed()?, tasks: input.framed()? })
    }
}

struct Sections<'a> {
    networks: Reader<'a>,
    ports: Reader<'a>,
    tasks: Reader<'a>,
}

impl<'a> Sections<'a> {
    fn first_ip(&self) -> Option<&'a str> {
        let mut networks = self.networks.clone();
        let count = networks.uint()?;
        if count == 0 { None } else { read_network(&mut networks).map(|(_, ip, _)| ip) }
    }

    fn unpack(mut self) -> Option<Assigned> {
        let first_ip = self.first_ip().map(Text::from);
        let network = |input: &mut Reader<'_>| {
            let (device, ip, ports) = read_network(input)?;
            Some(AssignedNetwork { device: device.into(), ip: ip.into(), ports })
        };
        let port = |input: &mut Reader<'_>| {
            let (value, to, ip) = read_port(input)?;
            let host_ip = ip.map(Text::from).or_else(|| first_ip.clone()).unwrap_or_default();
            Some(AssignedPort { value, to, host_ip })
        };
        Some(Assigned {
            networks: read_list(&mut self.networks, network)?,
            ports: read_list(&mut self.ports, port)?,
            tasks: read_list(&mut self.tasks, read_task)?,
        })
    }
}

fn write_list<T>(out: &mut Writer, items: &[T], mut write: impl FnMut(&mut Writer, &T)) {
    out.uint(items.len() as u64);
    items.iter().for_each(|item| write(out, item));
}

fn read_list<'a, T>(
    input: &mut Reader<'a>,
    mut read: impl FnMut(&mut Reader<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = input.uint()?;
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(read(input)?);
    }
    Some(items)
}

fn write_network(out: &mut Writer, network: &AssignedNetwork) {
    out.put(&network.device);
    out.put(&network.ip);
    write_list(out, &network.ports, |out, port| out.uint((*port).into()));
}

fn read_network<'a>(input: &mut Reader<'a>) -> Option<(&'a str, &'a str, Vec<u16>)> {
    Some((input.text()?, input.text()?, read_list(input, Reader::narrow)?))
}

/// Writes a port. If its address is that of the first network, the address is omitted and the lowest bit of the number is
/// set.
fn write_port(out: &mut Writer, port: &AssignedPort, first_ip: Option<&Text>) {
    let same = first_ip == Some(&port.host_ip);
    out.uint(u64::from(port.value) << 1 | u64::from(same));
    out.put(&i64::from(port.to));
    if !same {
        out.put(&port.host_ip);
    }
}

fn read_port<'a>(input: &mut Reader<'a>) -> Option<(u16, i32, Option<&'a str>)> {
    let packed = input.uint()?;
    let to = input.get::<i64>()?.try_into().ok()?;
    let ip = if packed & 1 == 0 { Some(input.text()?) } else { None };
    Some(((packed >> 1).try_into().ok()?, to, ip))
}

fn write_task(out: &mut Writer, task: &AssignedTask) {
    out.put(&task.task);
    out.uint(task.cpu_mhz.into());
    write_list(out, &task.cores, |out, core| out.uint((*core).into()));
    write_list(out, &task.devices, |out, device| {
        out.put(&device.vendor);
        out.put(&device.kind);
        out.put(&device.name);
        write_list(out, &device.ids, Writer::put);
    });
}

fn read_task(input: &mut Reader<'_>) -> Option<AssignedTask> {
    let device = |input: &mut Reader<'_>| {
        let [vendor, kind, name] = [input.get()?, input.get()?, input.get()?];
        Some(AllocatedDevice { vendor, kind, name, ids: read_list(input, Reader::get)? })
    };
    Some(AssignedTask {
        task: input.get()?,
        cpu_mhz: input.narrow()?,
        cores: read_list(input, Reader::narrow)?,
        devices: read_list(input, device)?,
    })
}

packed_form!(PackedAssigned);

impl<'de> Deserialize<'de> for PackedAssigned {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::bytes::deserialize(deserializer, "packed assigned resources", |bytes| Ok(Self(bytes.into())))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = Text> {
        "[a-z0-9.ü]{0,9}".prop_map(Text::from)
    }

    fn assigned() -> impl Strategy<Value = Assigned> {
        let network = (text(), text(), vec(any::<u16>(), 0..3));
        let network = network.prop_map(|(device, ip, ports)| AssignedNetwork { device, ip, ports });
        let port = (any::<u16>(), any::<i32>(), text());
        let port = port.prop_map(|(value, to, host_ip)| AssignedPort { value, to, host_ip });
        let device = (text(), text(), text(), vec(text(), 0..3));
        let device = device.prop_map(|(vendor, kind, name, ids)| AllocatedDevice { vendor, kind, name, ids });
        let task = (text(), any::<u32>(), vec(any::<u16>(), 0..3), vec(device, 0..2));
        let task =
            task.prop_map(|(task, cpu_mhz, cores, devices)| AssignedTask { task, cpu_mhz, cores, devices });
        (vec(network, 0..3), vec(port, 0..3), vec(task, 0..3)).prop_map(|(networks, ports, tasks)| Assigned {
            networks,
            ports,
            tasks,
        })
    }

    #[test]
    fn one_port_takes_few_bytes() {
        let ip: Text = "10.0.12.34".into();
        let network = AssignedNetwork { device: "eth0".into(), ip: ip.clone(), ports: vec![23_456] };
        let port = AssignedPort { value: 23_456, to: 8_080, host_ip: ip };
        let assigned = Assigned { networks: vec![network], ports: vec![port], tasks: Vec::new() };
        let packed = PackedAssigned::pack(&assigned);
        assert_eq!(packed.unpack(), Ok(assigned));
        assert!(packed.as_bytes().len() <= 34, "{} bytes", packed.as_bytes().len());
    }

    #[test]
    fn another_version_is_named() {
        assert_eq!(PackedAssigned([9, 1].as_slice().into()).unpack(), Err(Unreadable::Version(9)));
    }

    proptest! {
        #[test]
        fn packed_values_are_unpacked(assigned in assigned()) {
            let packed = PackedAssigned::pack(&assigned);
            prop_assert_eq!(packed.unpack(), Ok(assigned.clone()));
            let ports = assigned.ports.iter().map(|port| (&*port.host_ip, port.value));
            prop_assert!(packed.group_ports().eq(ports));
            let networks = assigned.networks.iter().map(|network| (&*network.ip, network.ports.clone()));
            prop_assert!(packed.networks().eq(networks));
            let mhz = assigned.tasks.iter().fold(0u32, |sum, task| sum.saturating_add(task.cpu_mhz));
            prop_assert_eq!(packed.own_cores_mhz(), mhz);
            prop_assert_eq!(packed.has_tasks(), !assigned.tasks.is_empty());
        }

        #[test]
        fn damaged_bytes_are_an_error_and_no_panic(mut bytes in vec(any::<u8>(), 1..60), version: bool) {
            if version {
                bytes[0] = VERSION;
            }
            let packed = PackedAssigned(bytes.into());
            let _ = (packed.unpack(), packed.own_cores_mhz(), packed.group_ports().count(), packed.networks().count());
        }
    }
}
