//! The machine's cores, with the sockets and memory nodes (NUMA) that they belong to, from `/sys`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use model::node::{Core, Topology};

use crate::cpu_list;

/// Where the kernel describes the machine.
pub(super) const DEVICES: &str = "/sys/devices";
/// The distance of a memory node from itself, by which the kernel counts.
const OWN_DISTANCE: u32 = 10;

/// Adds to the cores what the kernel knows of their places, and adds the memory nodes. `cores` has ids and speeds.
pub(super) fn read(devices: &Path, cores: Vec<Core>) -> Topology {
    let text = |inner: &str| fs::read_to_string(devices.join(inner)).unwrap_or_default();
    let list = |inner: &str| cpu_list::parse(&text(inner)).unwrap_or_default();
    // A machine whose kernel does not speak of memory nodes has one.
    let mut nodes = list("system/node/online");
    if nodes.is_empty() {
        nodes.insert(0);
    }
    let mut node_of = BTreeMap::new();
    for node in &nodes {
        let members = list(&format!("system/node/node{node}/cpulist"));
        node_of.extend(members.into_iter().map(|core| (core, *node)));
    }
    // Only hybrid processors of Intel have this.
    let efficient: BTreeSet<u16> = list("cpu_atom/cpus");
    let placed = cores.into_iter().map(|core| Core {
        socket_id: number(&text(&format!("system/cpu/cpu{}/topology/physical_package_id", core.id)))
            .unwrap_or(0),
        node_id: node_of.get(&core.id).copied().unwrap_or(0),
        grade: !efficient.contains(&core.id),
        ..core
    });
    let distances = nodes.iter().map(|node| {
        let row = text(&format!("system/node/node{node}/distance"));
        let row: Vec<u32> = row.split_whitespace().map_while(number).collect();
        if row.len() == nodes.len() { row } else { vec![OWN_DISTANCE; nodes.len()] }
    });
    Topology {
        cores: placed.collect(),
        distances: distances.collect(),
        nodes: nodes.iter().copied().collect(),
        ..Topology::default()
    }
}

/// The attributes of the memory nodes.
pub(super) fn attributes(topology: &Topology) -> impl Iterator<Item = (String, String)> {
    let count = ("numa.node.count".to_owned(), topology.nodes.len().to_string());
    let cores = topology.nodes.iter().map(|node| {
        let members = topology.cores.iter().filter(|core| core.node_id == *node);
        (format!("numa.node{node}.cores"), cpu_list::format(members.map(|core| core.id)))
    });
    std::iter::once(count).chain(cores)
}

fn number<T: std::str::FromStr>(text: &str) -> Option<T> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores() -> Vec<Core> {
        (0..4).map(|id| Core { id, base_mhz: 2_000, ..Core::default() }).collect()
    }

    #[test]
    fn cores_have_sockets_and_memory_nodes() {
        let dir = tempfile::tempdir().unwrap();
        let put = |inner: &str, text: &str| {
            let path = dir.path().join(inner);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("system/node/online", "0-1\n");
        put("system/node/node0/cpulist", "0,2\n");
        put("system/node/node1/cpulist", "1,3\n");
        put("system/node/node0/distance", "10 21\n");
        put("system/node/node1/distance", "21 10\n");
        put("system/cpu/cpu3/topology/physical_package_id", "1\n");
        put("cpu_atom/cpus", "2-3\n");
        let topology = read(dir.path(), cores());
        assert_eq!(
            (&*topology.nodes, &*topology.distances),
            (&[0, 1][..], &[vec![10, 21], vec![21, 10]][..])
        );
        let last = topology.cores[3];
        assert_eq!((last.socket_id, last.node_id, last.grade, last.mhz()), (1, 1, false, 2_000));
        assert!(topology.cores[0].grade);
        let found: BTreeMap<_, _> = attributes(&topology).collect();
        assert_eq!(found["numa.node.count"], "2");
        assert_eq!((&*found["numa.node0.cores"], &*found["numa.node1.cores"]), ("0,2", "1,3"));
    }

    #[test]
    fn a_machine_without_memory_nodes_has_one() {
        let dir = tempfile::tempdir().unwrap();
        let topology = read(dir.path(), cores());
        assert_eq!((&*topology.nodes, &*topology.distances), (&[0][..], &[vec![10]][..]));
        assert!(topology.cores.iter().all(|core| core.grade && core.node_id == 0));
        let found: Vec<_> = attributes(&topology).map(|(_, value)| value).collect();
        assert_eq!(found, ["1", "0-3"]);
    }
}
