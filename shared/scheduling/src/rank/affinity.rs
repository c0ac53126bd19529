//! Node affinities: how desirable a node is (`docs/rules/scheduling.md` ).

use model::job::{Affinity, JobSpec, TaskGroup};
use state::NodeRef;

use crate::feasible::Condition;

/// The affinities of a job, a group and its tasks.
#[derive(Debug)]
pub(crate) struct Affinities<'a> {
    weighted: Vec<(Condition<'a>, f64)>,
    weights: f64,
    /// Whether some affinities depend on attributes that are unique to a node, so that nodes of a kind differ.
    differ_within_kind: bool,
}

impl<'a> Affinities<'a> {
    /// `None` if there are no affinities.
    pub(super) fn of(spec: &'a JobSpec, group: &'a TaskGroup) -> Option<Self> {
        let of_tasks = group.tasks.iter().flat_map(|task| &task.affinities);
        let all = spec.affinities.iter().chain(&group.affinities).chain(of_tasks);
        let prepare = |affinity: &'a Affinity| (Condition::of_affinity(affinity), affinity.weight as f64);
        let weighted: Vec<_> = all.map(prepare).collect();
        let weights = weighted.iter().map(|(_, weight)| weight.abs()).sum();
        let differ_within_kind = weighted.iter().any(|(condition, _)| condition.escapes_class());
        (!weighted.is_empty()).then_some(Self { weighted, weights, differ_within_kind })
    }

    /// The score of each of `nodes`, between -1 and 1, in their order; computed once for each kind where possible.
    pub(crate) fn scores<'n>(&self, nodes: impl Iterator<Item = NodeRef<'n>>, kinds: usize) -> Vec<f64> {
        let mut known: Vec<Option<f64>> = vec![None; kinds];
        let score = |node: NodeRef<'n>| {
            let (page, bit) = node.page();
            let known = &mut known[page.kind[bit] as usize];
            match *known {
                Some(score) if !self.differ_within_kind => score,
                Some(_) | None => *known.insert(self.score(node)),
            }
        };
        nodes.map(score).collect()
    }

    fn score(&self, node: NodeRef<'_>) -> f64 {
        let held = self.weighted.iter().filter(|(condition, _)| condition.holds_on(node));
        let sum: f64 = held.map(|(_, weight)| weight).sum();
        if self.weights > 0.0 { sum / self.weights } else { 0.0 }
    }
}
