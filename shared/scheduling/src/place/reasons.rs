//! Every reason for which a group cannot be placed, whereas metrics hold only the first reason of each node. The
//! reasons tell users what to change: a reason that alone excludes many nodes, or a small amount of missing memory.

use std::cmp::Reverse;
use std::collections::HashMap;

use model::Text;
use model::alloc::{Demand, Reason, Shortfall};

use super::candidates::{Candidates, PlacementParams};
use super::world::World;
use crate::feasible::{DiscreteResource, Feasibility};
use crate::room::Exhausted;

/// Maximum number of reasons; those that alone exclude the most nodes are kept.
const REASONS_MAX: usize = 20;

/// Reasons against all nodes of one kind, by number, and the discrete resources that those nodes lack.
type KindReasons = Vec<(usize, Option<DiscreteResource>)>;

/// All reasons against the nodes in `slots`, without preemption. Amounts are compared with the current free resources.
pub(super) fn reasons<'a>(
    world: &World<'a>,
    candidates: &mut Candidates<'a>,
    (feasibility, group): (&Feasibility<'a>, usize),
    params: &PlacementParams<'_, 'a>,
    slots: impl Iterator<Item = u32>,
) -> Vec<Reason> {
    let mut tally = Tally::default();
    let mut by_kind: Vec<Option<KindReasons>> = vec![None; world.state.node_kinds()];
    let mut lacking = Vec::new();
    for slot in slots {
        let node = world.room.node(slot);
        let (page, bit) = node.page();
        let kind_reasons = by_kind[page.kind[bit] as usize].get_or_insert_with(|| {
            let failures = feasibility.failures(group, node, false);
            failures.map(|(reason, resource)| (tally.number(&reason), resource)).collect()
        });
        lacking.clear();
        for (reason, resource) in kind_reasons {
            tally.add_number(*reason, 0);
            lacking.extend(*resource);
        }
        for (reason, resource) in feasibility.failures(group, node, true) {
            tally.add(&reason, 0);
            lacking.extend(resource);
        }
        candidates.failures(world, slot, params).for_each(|reason| tally.add(&reason, 0));
        let demand = discrete_shortages(world, candidates, (slot, params), &lacking, &mut tally);
        for (dimension, missing) in world.room.shortfalls(slot, demand) {
            tally.add(dimension.as_str(), missing);
        }
        tally.finish_node();
    }
    tally.into_reasons()
}

/// Counts shortages of discrete resources that the node has in principle. Returns the amounts to compare with the rest.
fn discrete_shortages(
    world: &World<'_>,
    candidates: &Candidates<'_>,
    (slot, params): (u32, &PlacementParams<'_, '_>),
    lacking: &[DiscreteResource],
    tally: &mut Tally,
) -> Demand {
    let ask = &candidates.ask;
    if ask.is_plain() {
        return ask.demand;
    }
    let mut draft = world.room.draft(slot, params.id);
    let mut note = |step: Result<(), Exhausted>| {
        if let Err(Exhausted(reason)) = step {
            tally.add(&reason, 0);
        }
    };
    let has_some = |resource: DiscreteResource| !lacking.contains(&resource);
    note(draft.check_node());
    if has_some(DiscreteResource::Network) {
        let of_tasks = ask.tasks.iter().filter_map(|task| task.network);
        ask.network.into_iter().for_each(|network| note(draft.group_network(network)));
        of_tasks.for_each(|network| note(draft.task_network(network)));
    }
    for task in &ask.tasks {
        if has_some(DiscreteResource::Devices) {
            note(draft.task_devices(task));
        }
        note(draft.task_cores(task));
    }
    draft.demand(ask.demand)
}

/// Counts reasons, one node at a time.
#[derive(Debug, Default)]
struct Tally {
    numbers: HashMap<Text, usize>,
    reasons: Vec<ReasonCount>,
    /// Reasons against the current node, and how much of each amount is missing there.
    of_node: Vec<(usize, u32)>,
}

#[derive(Debug)]
struct ReasonCount {
    reason: Reason,
    /// Whether the shortfall is of nodes that this reason alone excludes.
    is_alone: bool,
}

impl Tally {
    fn number(&mut self, name: &str) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let name = Text::from(name);
        self.numbers.insert(Text::clone(&name), self.reasons.len());
        let reason = Reason { name, nodes: 0, alone: 0, shortfall: None };
        self.reasons.push(ReasonCount { reason, is_alone: false });
        self.reasons.len() - 1
    }

    fn add(&mut self, name: &str, missing: u32) {
        let number = self.number(name);
        self.add_number(number, missing);
    }

    fn add_number(&mut self, number: usize, missing: u32) {
        if !self.of_node.iter().any(|(known, _)| *known == number) {
            self.of_node.push((number, missing));
        }
    }

    /// Finishes the current node.
    fn finish_node(&mut self) {
        let alone = self.of_node.len() == 1;
        for (number, missing) in self.of_node.drain(..) {
            let counted = &mut self.reasons[number];
            counted.reason.nodes += 1;
            counted.reason.alone += u32::from(alone);
            if missing > 0 {
                counted.add_shortfall(missing, alone);
            }
        }
    }

    fn into_reasons(self) -> Vec<Reason> {
        let mut reasons: Vec<Reason> = self.reasons.into_iter().map(|counted| counted.reason).collect();
        let order =
            |reason: &Reason| (Reverse(reason.alone), Reverse(reason.nodes), Text::clone(&reason.name));
        reasons.sort_by_cached_key(order);
        reasons.truncate(REASONS_MAX);
        reasons
    }
}

impl ReasonCount {
    fn add_shortfall(&mut self, missing: u32, alone: bool) {
        let least = self.reason.shortfall.map(|shortfall| (!self.is_alone, shortfall.amount));
        let this = (!alone, missing);
        match &mut self.reason.shortfall {
            Some(shortfall) if least == Some(this) => shortfall.nodes += 1,
            Some(_) if least < Some(this) => {}
            shortfall => {
                *shortfall = Some(Shortfall { amount: missing, nodes: 1 });
                self.is_alone = alone;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(nodes: &[&[(&str, u32)]]) -> Vec<Reason> {
        let mut tally = Tally::default();
        for node in nodes {
            node.iter().for_each(|(name, missing)| tally.add(name, *missing));
            tally.finish_node();
        }
        tally.into_reasons()
    }

    fn reason(name: &str, nodes: u32, alone: u32, shortfall: Option<(u32, u32)>) -> Reason {
        let shortfall = shortfall.map(|(amount, nodes)| Shortfall { amount, nodes });
        Reason { name: name.into(), nodes, alone, shortfall }
    }

    #[test]
    fn each_reason_counts_its_nodes_and_those_that_it_alone_keeps_away() {
        let found = count(&[
            &[("memory", 300), ("disk", 5)],
            &[("memory", 700)],
            &[],
            &[("memory", 512)],
            &[("memory", 512)],
            &[("missing drivers", 0)],
            &[("disk", 5)],
            &[("missing drivers", 0), ("missing drivers", 0)],
        ]);
        let expected = [
            // The shortfall of 300 does not count, because that node has too little disk as well.
            reason("memory", 4, 3, Some((512, 2))),
            reason("missing drivers", 2, 2, None),
            reason("disk", 2, 1, Some((5, 1))),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn shortfalls_of_nodes_with_other_reasons_count_if_there_are_no_others() {
        let found = count(&[
            &[("cpu", 7), ("memory", 1)],
            &[("cpu", 3), ("memory", 2)],
            &[("cpu", 3), ("memory", 1)],
        ]);
        assert_eq!(found, [reason("cpu", 3, 0, Some((3, 2))), reason("memory", 3, 0, Some((1, 2)))]);
    }

    #[test]
    fn the_number_of_reasons_is_limited() {
        let names: Vec<String> = (0..2 * REASONS_MAX).map(|number| format!("reason {number:02}")).collect();
        let nodes: Vec<[(&str, u32); 1]> = names.iter().map(|name| [(&**name, 0)]).collect();
        let nodes: Vec<&[(&str, u32)]> = nodes.iter().map(|node| &node[..]).collect();
        assert_eq!(count(&nodes).len(), REASONS_MAX);
    }
}
