//! Cores that are reserved for tasks (`docs/rules/scheduling.md` ).

use model::node::NodeSpec;
use state::AllocRef;

/// Reserved cores of one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct CoreUsage {
    /// Ids of the cores in use, ascending; a core that several allocations hold is listed as many times.
    taken: Vec<u16>,
}

/// Cores reserved for a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReservedCores {
    pub(crate) ids: Vec<u16>,
    /// Their total speed in MHz.
    pub(crate) mhz: u32,
}

impl CoreUsage {
    pub(super) fn count(&mut self, ids: impl IntoIterator<Item = u16>, more: bool) {
        for id in ids {
            match (self.taken.binary_search(&id), more) {
                (Ok(index) | Err(index), true) => self.taken.insert(index, id),
                (Ok(index), false) => drop(self.taken.remove(index)),
                (Err(_), false) => {}
            }
        }
    }

    /// Whether a core is held twice; then nothing fits on the node.
    pub(super) fn has_collision(&self) -> bool {
        self.taken.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// Whether all cores in use are usable. True for nodes without usable cores.
    pub(super) fn is_within(&self, spec: &NodeSpec) -> bool {
        let usable = usable(spec);
        usable.is_empty() || self.taken.iter().all(|id| usable.contains(id))
    }

    /// The free cores with the lowest ids, without those in `earlier`, which earlier tasks of the group got; `None` if
    /// there are too few.
    pub(crate) fn offer(&self, spec: &NodeSpec, count: u32, earlier: &[u16]) -> Option<ReservedCores> {
        let is_free = |id: &u16| self.taken.binary_search(id).is_err() && !earlier.contains(id);
        let ids: Vec<u16> = usable(spec).into_iter().filter(is_free).take(count as usize).collect();
        if ids.len() < count as usize {
            return None;
        }
        let mhz = ids.iter().fold(0u32, |sum, id| sum.saturating_add(core_mhz(spec, *id)));
        Some(ReservedCores { ids, mhz })
    }
}

/// The cores that an allocation holds.
pub(super) fn held(alloc: AllocRef<'_>) -> Vec<u16> {
    if !alloc.assigned().has_tasks() {
        return Vec::new();
    }
    let assigned = alloc.assigned().unpack().unwrap_or_default();
    assigned.tasks.into_iter().flat_map(|task| task.cores).collect()
}

/// The cores of a node that can be reserved, ascending.
fn usable(spec: &NodeSpec) -> Vec<u16> {
    let (topology, older) = (&spec.resources.processors.cores, &spec.resources.cpu.reservable_cores);
    let mut usable: Vec<u16> = match topology.is_empty() {
        true => older.clone(),
        false => topology.iter().filter(|core| !core.disable).map(|core| core.id).collect(),
    };
    usable.retain(|id| !spec.reserved.cores.contains(id));
    usable.sort_unstable();
    usable.dedup();
    usable
}

/// The speed of a core in MHz; an equal share of the node's CPU if the node does not report speeds of cores.
fn core_mhz(spec: &NodeSpec, id: u16) -> u32 {
    let core = spec.resources.processors.cores.iter().find(|core| core.id == id);
    let older = &spec.resources.cpu;
    core.map_or_else(|| older.cpu_mhz / u32::from(older.total_cores.max(1)), |core| core.mhz())
}

#[cfg(test)]
mod tests {
    use model::node::Core;

    use super::*;

    fn node() -> NodeSpec {
        let core = |id, base_mhz, disable| Core { id, base_mhz, disable, ..Core::default() };
        let mut spec = NodeSpec::default();
        spec.resources.processors.cores =
            vec![core(3, 300, false), core(0, 100, true), core(1, 100, false), core(2, 200, false)];
        spec
    }

    #[test]
    fn the_lowest_free_ones_are_taken() {
        let mut usage = CoreUsage::default();
        assert_eq!(usage.offer(&node(), 2, &[]), Some(ReservedCores { ids: vec![1, 2], mhz: 300 }));
        usage.count([1], true);
        assert_eq!(usage.offer(&node(), 1, &[2]), Some(ReservedCores { ids: vec![3], mhz: 300 }));
        assert_eq!(usage.offer(&node(), 3, &[]), None);
        usage.count([1], false);
        assert!(usage.offer(&node(), 3, &[]).is_some());
    }

    #[test]
    fn cores_held_twice_or_not_usable_are_noticed() {
        let mut usage = CoreUsage::default();
        usage.count([1, 2], true);
        assert!(!usage.has_collision() && usage.is_within(&node()));
        usage.count([1], true);
        assert!(usage.has_collision());
        usage.count([0], true);
        assert!(!usage.is_within(&node()) && usage.is_within(&NodeSpec::default()));
    }
}
