//! Whether resources other than amounts fit a node: ports, cores, devices, and host volumes with a single writer.

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocatedResources, Assigned, PackedAssigned};
use model::job::{AccessMode, TaskGroup, VolumeKind};
use model::node::NodeSpec;
use model::plan::Placements;
use model::{AllocId, Text};
use state::{AllocRef, NodeRef, State, View};

/// The special resources of one allocation, planned or existing.
pub(super) struct Row<'a> {
    resources: &'a AllocatedResources,
    assigned: &'a PackedAssigned,
    group: Option<&'a TaskGroup>,
}

impl<'a> Row<'a> {
    /// A row of planned placements. `unassigned` stands for a missing assignment.
    pub(super) fn planned(
        state: &'a State,
        placements: &'a Placements,
        row: usize,
        unassigned: &'a PackedAssigned,
    ) -> Self {
        let version = state.job_version(&placements.common.job);
        let group = version.and_then(|version| version.spec.group(&placements.common.task_group));
        Self {
            resources: &placements.common.resources,
            assigned: placements.assigned.get(row).unwrap_or(unassigned),
            group: group.map(|(_, group)| group),
        }
    }

    fn existing(alloc: AllocRef<'a>) -> Self {
        Self { resources: &alloc.common().resources, assigned: alloc.assigned(), group: alloc.group() }
    }
}

/// Whether the rows fit beside the allocations on the node, without those in `freed`, which is sorted.
pub(super) fn fits(state: &State, node: NodeRef<'_>, rows: &[Row<'_>], freed: &[AllocId]) -> bool {
    let stays = |alloc: &AllocRef<'_>| !alloc.is_terminal() && freed.binary_search(&alloc.id()).is_err();
    let freed = freed.iter().filter_map(|id| state.alloc(*id));
    ports_fit(node, rows, freed)
        && tasks_fit(node, rows, node.allocs().filter(stays))
        && volumes_fit(rows, node.allocs().filter(stays))
}

/// Whether every requested port is free on the node and requested by one row only.
fn ports_fit<'a>(node: NodeRef<'_>, rows: &[Row<'_>], freed: impl Iterator<Item = AllocRef<'a>>) -> bool {
    let freed: Vec<_> =
        freed.flat_map(|alloc| alloc.common().resources.host_ports(alloc.assigned())).collect();
    let mut requested: Vec<(&str, u16)> = Vec::new();
    for port in rows.iter().flat_map(|row| row.resources.host_ports(row.assigned)) {
        let (address, number) = port;
        let holders = node.ports().map_or(0, |ports| ports.holders(address, number, View::Live)) as usize;
        let is_free = holders <= freed.iter().filter(|freed| **freed == port).count();
        if !is_free || requested.contains(&port) || is_reserved(node.spec(), address, number) {
            return false;
        }
        requested.push(port);
    }
    true
}

/// Whether the node reserves a port, on every address or on that one.
fn is_reserved(spec: &NodeSpec, address: &str, port: u16) -> bool {
    let addresses = spec.resources.node_networks.iter().flat_map(|network| &network.addresses);
    let lists = addresses.filter(|known| *known.address == *address).map(|known| &known.reserved_ports);
    lists.chain([&spec.reserved.ports]).any(|list| lists_port(list, port))
}

/// Whether a list such as `22,8000-8010` contains a port. Parts that are not numbers are ignored.
fn lists_port(list: &str, port: u16) -> bool {
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first.trim().parse::<u16>().ok().zip(last.trim().parse::<u16>().ok());
        bounds.is_some_and(|(first, last)| (first..=last).contains(&port))
    })
}

/// Whether every requested core and device is unused.
fn tasks_fit<'a>(node: NodeRef<'_>, rows: &[Row<'_>], existing: impl Iterator<Item = AllocRef<'a>>) -> bool {
    let mut planned = Vec::new();
    for row in rows.iter().filter(|row| row.assigned.has_tasks()) {
        // An assignment that this version cannot decode cannot be verified.
        let Ok(assigned) = row.assigned.unpack() else { return false };
        planned.push(assigned);
    }
    if planned.is_empty() {
        return true;
    }
    let reservable = &node.spec().resources.cpu.reservable_cores;
    let mut in_use = InUse::default();
    for alloc in existing.filter(|alloc| alloc.assigned().has_tasks()) {
        in_use.add(&alloc.assigned().unpack().unwrap_or_default());
    }
    let cores = planned.iter().flat_map(|assigned| &assigned.tasks).flat_map(|task| &task.cores);
    let may_be_reserved = |core: &u16| reservable.is_empty() || reservable.contains(core);
    cores.into_iter().all(may_be_reserved) && planned.iter().all(|assigned| in_use.add(assigned))
}

/// Cores and devices that are in use.
#[derive(Default)]
struct InUse {
    cores: BTreeSet<u16>,
    /// Vendor, kind, name and id.
    devices: BTreeSet<[Text; 4]>,
}

impl InUse {
    /// Marks everything in an assignment as used. Returns whether all of it was unused.
    fn add(&mut self, assigned: &Assigned) -> bool {
        let mut was_free = true;
        for task in &assigned.tasks {
            for core in &task.cores {
                was_free &= self.cores.insert(*core);
            }
            for group in &task.devices {
                for id in &group.ids {
                    let device = [&group.vendor, &group.kind, &group.name, id].map(Text::clone);
                    was_free &= self.devices.insert(device);
                }
            }
        }
        was_free
    }
}

/// Whether every host volume with a single writer has at most one user.
fn volumes_fit<'a>(rows: &[Row<'_>], existing: impl Iterator<Item = AllocRef<'a>>) -> bool {
    let has_any = |row: &Row<'_>| row.group.is_some_and(|group| !group.volumes.is_empty());
    if !rows.iter().any(has_any) {
        return true;
    }
    let mut claims: BTreeMap<Text, Claims> = BTreeMap::new();
    rows.iter().for_each(|row| claim(row, &mut claims));
    existing.for_each(|alloc| claim(&Row::existing(alloc), &mut claims));
    claims.values().all(|claims| claims.users < 2 || !claims.is_exclusive)
}

/// The users of a host volume.
#[derive(Default)]
struct Claims {
    users: u32,
    is_exclusive: bool,
}

fn claim(row: &Row<'_>, claims: &mut BTreeMap<Text, Claims>) {
    let volumes = row.group.into_iter().flat_map(|group| group.volumes.values());
    for volume in volumes.filter(|volume| volume.kind == VolumeKind::Host && !volume.per_alloc) {
        let claims = claims.entry(Text::clone(&volume.source)).or_default();
        claims.users += 1;
        claims.is_exclusive |= volume.access_mode == Some(AccessMode::SingleNodeSingleWriter);
    }
}

#[cfg(test)]
mod tests {
    use super::lists_port;

    #[test]
    fn a_list_names_ports_and_ranges() {
        for port in [22, 8000, 8005, 8010] {
            assert!(lists_port("22, 8000-8010", port));
        }
        for (list, port) in [("22,8000-8010", 80), ("", 0), ("x,1-y", 1)] {
            assert!(!lists_port(list, port));
        }
    }
}
