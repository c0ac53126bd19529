//! Conversion of the total and reserved resources of nodes.

use super::public;
use crate::Text;
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, passthrough};
use crate::node::{
    Core, LegacyCpu, NodeAddress, NodeDevice, NodeDeviceGroup, NodeNetwork, NodeReserved, NodeResources,
    Topology,
};

passthrough!(api_types::Attribute);
public!(NodeResources = NodeResources, NodeReserved = NodeReservedResources);

impl Mirror for NodeResources {
    type Api = api_types::NodeResources;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        let topology = api.processors.unwrap_or_default().topology;
        let memory = api.memory.unwrap_or_default();
        let disk = api.disk.unwrap_or_default();
        Ok(Self {
            processors: Member::read(topology).at("Topology").at("Processors")?,
            cpu: Member::read(api.cpu).at("Cpu")?,
            memory_mb: Member::read(memory.memory_mb).at("MemoryMB").at("Memory")?,
            disk_mb: Member::read(disk.disk_mb).at("DiskMB").at("Disk")?,
            devices: Member::read(api.devices).at("Devices")?,
            node_networks: Member::read(api.node_networks).at("NodeNetworks")?,
            networks: Member::read(api.networks).at("Networks")?,
            dynamic_port_min: Member::read(api.min_dynamic_port).at("MinDynamicPort")?,
            dynamic_port_max: Member::read(api.max_dynamic_port).at("MaxDynamicPort")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        Self::Api {
            cpu: self.cpu.write(),
            processors: Some(api_types::NodeProcessorResources { topology: self.processors.write() }),
            memory: Some(api_types::NodeMemoryResources { memory_mb: self.memory_mb.write() }),
            disk: Some(api_types::NodeDiskResources { disk_mb: self.disk_mb.write() }),
            devices: self.devices.write(),
            node_networks: self.node_networks.write(),
            networks: self.networks.write(),
            min_dynamic_port: self.dynamic_port_min.write(),
            max_dynamic_port: self.dynamic_port_max.write(),
        }
    }
}

mirror! {
    LegacyCpu = LegacyNodeCpuResources {}
    renamed {
        cpu_mhz = cpu_shares: "CpuShares",
        total_cores = total_cpu_cores: "TotalCpuCores",
        reservable_cores = reservable_cpu_cores: "ReservableCpuCores",
    }
}

mirror! {
    Topology = Topology { nodes: "Nodes", distances: "Distances", cores: "Cores" }
    renamed {
        override_total_mhz = override_total_compute: "OverrideTotalCompute",
        override_withheld_mhz = override_withold_compute: "OverrideWitholdCompute",
    }
}

mirror! {
    Core = TopologyCore {
        socket_id: "SocketID",
        node_id: "NodeID",
        id: "ID",
        grade: "Grade",
        disable: "Disable",
    }
    renamed {
        base_mhz = base_speed: "BaseSpeed",
        max_mhz = max_speed: "MaxSpeed",
        guess_mhz = guess_speed: "GuessSpeed",
    }
}

mirror! {
    NodeDeviceGroup = NodeDeviceResource {
        vendor: "Vendor",
        name: "Name",
        instances: "Instances",
        attributes: "Attributes",
    }
    renamed { kind = r#type: "Type" }
}

impl Mirror for NodeDevice {
    type Api = api_types::NodeDevice;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        Ok(Self {
            id: Member::read(api.id).at("ID")?,
            healthy: Member::read(api.healthy).at("Healthy")?,
            health_description: Member::read(api.health_description).at("HealthDescription")?,
            pci_bus_id: api.locality.map(|locality| locality.pci_bus_id.unwrap_or_default().into()),
        })
    }

    fn to_api(&self) -> Self::Api {
        let locality = |id: &Text| api_types::NodeDeviceLocality { pci_bus_id: id.write() };
        Self::Api {
            id: self.id.write(),
            healthy: self.healthy.write(),
            health_description: self.health_description.write(),
            locality: self.pci_bus_id.as_ref().map(locality),
        }
    }
}

mirror! {
    NodeNetwork = NodeNetworkResource {
        mode: "Mode",
        device: "Device",
        mac_address: "MacAddress",
        addresses: "Addresses",
    }
    renamed { speed_mbits = speed: "Speed" }
}

mirror! {
    NodeAddress = NodeNetworkAddress {
        family: "Family",
        alias: "Alias",
        address: "Address",
        reserved_ports: "ReservedPorts",
        gateway: "Gateway",
    }
}

impl Mirror for NodeReserved {
    type Api = api_types::NodeReservedResources;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        let cpu = api.cpu.unwrap_or_default();
        let memory = api.memory.unwrap_or_default();
        let disk = api.disk.unwrap_or_default();
        let networks = api.networks.unwrap_or_default();
        Ok(Self {
            cpu_mhz: Member::read(cpu.cpu_shares).at("CpuShares").at("Cpu")?,
            cores: Member::read(cpu.reserved_cpu_cores).at("ReservedCpuCores").at("Cpu")?,
            memory_mb: Member::read(memory.memory_mb).at("MemoryMB").at("Memory")?,
            disk_mb: Member::read(disk.disk_mb).at("DiskMB").at("Disk")?,
            ports: Member::read(networks.reserved_host_ports).at("ReservedHostPorts").at("Networks")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        Self::Api {
            cpu: Some(api_types::NodeReservedCpuResources {
                cpu_shares: self.cpu_mhz.write(),
                reserved_cpu_cores: self.cores.write(),
            }),
            memory: Some(api_types::NodeReservedMemoryResources { memory_mb: self.memory_mb.write() }),
            disk: Some(api_types::NodeReservedDiskResources { disk_mb: self.disk_mb.write() }),
            networks: Some(api_types::NodeReservedNetworkResources {
                reserved_host_ports: self.ports.write(),
            }),
        }
    }
}
