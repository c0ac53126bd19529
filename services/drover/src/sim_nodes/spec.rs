//! The registration of a simulated node.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NodeId;
use model::job::NetworkResource;
use model::node::{
    Driver, LegacyCpu, NodeAddress, NodeNetwork, NodeReserved, NodeResources, NodeSpec, Secret, Topology,
};
use wire::node::Register;

use super::Args;

/// The number of computed classes. Nodes of different classes differ in one attribute.
const CLASSES: u32 = 10;
/// The disk space of each node, in MB.
const DISK_MB: u32 = 1_000_000;

/// The registration of a node. The same seed and number give the same node.
pub(super) fn register(args: &Args, number: u32) -> Register {
    let id = NodeId::from_bytes(bytes(args.seed, number, 1));
    let name = format!("sim-{}-{number}", args.seed);
    let attributes: BTreeMap<_, _> = [
        ("kernel.name", "linux".to_owned()),
        ("cpu.arch", "amd64".to_owned()),
        ("os.name", "simulated".to_owned()),
        ("sim.class", (number % CLASSES).to_string()),
        ("unique.hostname", name.clone()),
    ]
    .into_iter()
    .map(|(key, value)| (key.into(), value.into()))
    .collect();
    let driver = Driver { detected: true, healthy: true, ..Driver::default() };
    let address = NodeAddress {
        family: "ipv4".into(),
        alias: "default".into(),
        address: format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255).into(),
        ..NodeAddress::default()
    };
    let network = NodeNetwork {
        mode: "host".into(),
        device: "eth0".into(),
        addresses: vec![address],
        ..NodeNetwork::default()
    };
    let older = NetworkResource { mode: "host".into(), device: "eth0".into(), ..NetworkResource::default() };
    let spec = NodeSpec {
        secret_id: Secret(NodeId::from_bytes(bytes(args.seed, number, 2)).to_string().into()),
        boot: 1,
        name: name.into(),
        datacenter: args.datacenter.as_str().into(),
        node_pool: "default".into(),
        attributes,
        resources: NodeResources {
            processors: Topology { override_total_mhz: args.cpu, ..Topology::default() },
            cpu: LegacyCpu { cpu_mhz: args.cpu, total_cores: 16, ..LegacyCpu::default() },
            memory_mb: args.memory,
            disk_mb: DISK_MB,
            node_networks: vec![network],
            networks: vec![older],
            dynamic_port_min: 20_000,
            dynamic_port_max: 32_000,
            ..NodeResources::default()
        },
        reserved: NodeReserved::default(),
        drivers: [("raw_exec".into(), driver.clone()), ("mock_driver".into(), driver)].into(),
        ..NodeSpec::default()
    };
    Register { id, spec: Arc::new(spec) }
}

/// Bytes that look like those of a random id. The same arguments give the same bytes.
fn bytes(seed: u32, number: u32, which: u32) -> [u8; 16] {
    let mut state = u64::from(seed) << 40 ^ u64::from(which) << 32 ^ u64::from(number);
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    };
    let [high, low] = [next(), next()];
    uuid::Builder::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
        .into_uuid()
        .into_bytes()
}
