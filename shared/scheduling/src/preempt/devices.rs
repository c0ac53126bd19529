//! Victims that free devices (`docs/rules/scheduling.md` §9.4).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use model::node::NodeDeviceGroup;
use state::AllocRef;

use super::Candidate;
use crate::feasible::DeviceRequest;
use crate::room::{Draft, held_devices};

/// The victims that free enough instances of one device group; empty if there is no solution.
pub(super) fn victims<'a>(
    draft: &Draft<'_>,
    request: &DeviceRequest<'_>,
    candidates: &[Candidate<'a>],
) -> Vec<AllocRef<'a>> {
    let groups = draft.node.spec().resources.devices.iter().filter(|group| request.matches(group));
    let options = groups.filter_map(|group| in_group(draft, request, group, candidates));
    let cheapest = options.min_by_key(|(net_priority, _)| *net_priority);
    cheapest.map_or_else(Vec::new, |(_, victims)| victims)
}

/// The victims in one device group, with their net priority; `None` if they do not suffice.
fn in_group<'a>(
    draft: &Draft<'_>,
    request: &DeviceRequest<'_>,
    group: &NodeDeviceGroup,
    candidates: &[Candidate<'a>],
) -> Option<(u32, Vec<AllocRef<'a>>)> {
    let free = draft.discrete.devices.free(request, group);
    let mut holders: Vec<(usize, Candidate<'a>)> = Vec::new();
    let mut given = 0;
    for candidate in candidates.iter().filter(|candidate| candidate.is_preemptible) {
        let held = instances_held(group, candidate.alloc);
        if held > 0 {
            holders.push((held, *candidate));
            given += held;
        }
        if held > 0 && given + free >= request.count {
            return Some(shortest_prefix(holders, request.count));
        }
    }
    None
}

fn instances_held(group: &NodeDeviceGroup, alloc: AllocRef<'_>) -> usize {
    let in_group = held_devices(alloc).into_iter().filter(|device| {
        device.vendor == group.vendor && device.kind == group.kind && device.name == group.name
    });
    in_group.map(|device| device.ids.len()).sum()
}

/// The shortest prefix of the holders, by descending number of instances, that has `count` instances; with its net
/// priority.
fn shortest_prefix<'a>(mut holders: Vec<(usize, Candidate<'a>)>, count: usize) -> (u32, Vec<AllocRef<'a>>) {
    holders.sort_by_key(|(held, _)| Reverse(*held));
    let mut given = 0;
    let prefix = holders.into_iter().map_while(|(held, candidate)| {
        let is_needed = given < count;
        given += held;
        is_needed.then_some(candidate)
    });
    let prefix: Vec<Candidate<'a>> = prefix.collect();
    let priorities: BTreeSet<u16> = prefix.iter().map(|candidate| candidate.priority).collect();
    let net_priority = priorities.into_iter().map(u32::from).sum();
    (net_priority, prefix.into_iter().map(|candidate| candidate.alloc).collect())
}
