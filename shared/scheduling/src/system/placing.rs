//! Places each allocation of a system job on its node if the node can take it (`docs/rules/scheduling.md` §8.4).

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocMetric, AllocatedResources, Reason};
use model::eval::{DesiredUpdates, EvalTrigger, Evaluation};
use model::plan::Plan;
use model::{AllocId, EvalId, Map, NodeId, Text};

use super::Target;
use super::intents::Intent;
use super::nodes::in_base;
use super::placer::SystemPlacer;
use crate::NewId;
use crate::draft::{Placed as Row, PlacementDraft, StopDraft, common_of_new};
use crate::metrics;
use crate::outcome::{self, Findings};
use crate::place::{EXPLAINED_MAX, common_share, networks_on};
use crate::reconcile::{Rollout, Stop, reason};

/// An intent that could not be placed.
#[derive(Debug)]
pub(super) struct Failure {
    pub(super) group: usize,
    pub(super) is_update: bool,
    node: NodeId,
    metric: AllocMetric,
    /// Class eligibility at the time of the failure; set only for the first node without capacity of each group.
    classes: BTreeMap<Text, bool>,
}

impl Failure {
    /// Whether the node is infeasible, so that it can never take the group.
    fn is_infeasible(&self) -> bool {
        self.metric.nodes_filtered > 0
    }
}

/// Results of placing the intents.
pub(super) struct PlacingResult<'a> {
    /// New allocations, by group and by whether they are canaries.
    rows: BTreeMap<(usize, bool), PlacementDraft>,
    canaries: Vec<u64>,
    /// Number of replacements of failed canaries, by group.
    renewed: Vec<u64>,
    replaced: BTreeSet<AllocId>,
    /// All allocations to be replaced, whether or not their replacements were placed.
    stops: Vec<Stop<'a>>,
    pub(super) failures: Vec<Failure>,
    requested: Vec<u32>,
    escapes_class: bool,
    /// Reasons against the nodes that could not take a group, by group.
    reasons: BTreeMap<usize, Vec<Reason>>,
}

/// Places all intents whose nodes are in the base set.
pub(super) fn place<'a>(
    target: Target<'a>,
    mut placer: SystemPlacer<'a>,
    intents: &[Intent<'a>],
    rollout: &Rollout<'_>,
    new_id: NewId<'_>,
) -> PlacingResult<'a> {
    let groups = target.job.spec.task_groups.len();
    let mut placed = PlacingResult {
        rows: BTreeMap::new(),
        canaries: vec![0; groups],
        renewed: vec![0; groups],
        replaced: BTreeSet::new(),
        stops: Vec::new(),
        failures: Vec::new(),
        requested: vec![0; groups],
        escapes_class: placer.escapes_class(),
        reasons: BTreeMap::new(),
    };
    let mut rejected: BTreeMap<usize, BTreeSet<u32>> = BTreeMap::new();
    for intent in intents {
        placed.requested[intent.group] += 1;
        if let Some(alloc) = intent.previous.filter(|_| intent.is_update) {
            placer.stop(alloc);
            placed.stops.push(Stop::of(alloc, reason::UPDATING));
        }
    }
    let attempt = target.attempt;
    let explain_all = attempt.explain || attempt.eval.annotate_plan || intents.len() <= EXPLAINED_MAX;
    let spec = &target.job.spec;
    let shares: Vec<AllocatedResources> =
        spec.task_groups.iter().map(|group| common_share(attempt.state, spec, group)).collect();
    for intent in intents.iter().filter(|intent| in_base(target, intent.slot)) {
        let id = AllocId::from_bytes(new_id());
        let is_canary = intent.is_canary && rollout.active().is_some();
        let rows = placed.rows.entry((intent.group, is_canary)).or_default();
        let explain = explain_all || rows.is_empty();
        let mut chosen = match placer.place(intent.group, intent.slot, (id, intent.index), explain) {
            Ok(chosen) => chosen,
            Err(metric) => {
                let node = target
                    .attempt
                    .state
                    .node_at(intent.slot)
                    .expect("the base set contains existing nodes only");
                rejected.entry(intent.group).or_default().insert(intent.slot);
                let is_full = metric.nodes_filtered == 0 && placed.is_first_full(intent.group);
                let class = Text::clone(&node.spec().computed_class);
                placed.failures.push(Failure {
                    group: intent.group,
                    is_update: intent.is_update,
                    node: node.id(),
                    // The class is feasible, because the node lacks only capacity.
                    classes: if is_full { [(class, true)].into() } else { BTreeMap::new() },
                    metric: *metric,
                });
                continue;
            }
        };
        if !explain_all && let Some(first) = chosen.metric.take() {
            rows.set_shared_metrics(*first);
        }
        placed.canaries[intent.group] += u64::from(is_canary);
        placed.renewed[intent.group] += u64::from(intent.renews_canary(rollout));
        placed.replaced.extend(intent.previous.filter(|_| intent.is_update).map(|alloc| alloc.id()));
        let node = attempt.state.node_at(intent.slot);
        rows.add(Row {
            networks: node.and_then(|node| networks_on(&shares[intent.group], node)),
            id,
            slot: intent.slot,
            name_index: intent.index,
            previous: intent.previous.map(|alloc| alloc.id()),
            assigned: chosen.assigned,
            tracker: None,
            victims: chosen.victims,
            metrics: chosen.metric,
        });
    }
    for (group, slots) in rejected {
        placed.reasons.insert(group, placer.reasons_of(group, &slots));
    }
    placed
}

impl<'a> PlacingResult<'a> {
    /// Whether no node was without capacity for a group so far.
    fn is_first_full(&self, group: usize) -> bool {
        !self.failures.iter().any(|failure| failure.group == group && !failure.is_infeasible())
    }

    /// Whether an allocation was replaced.
    pub(super) fn has_replaced(&self, alloc: AllocId) -> bool {
        self.replaced.contains(&alloc)
    }

    /// Number of nodes that can never take a group.
    pub(super) fn infeasible(&self, group: usize) -> u64 {
        let of_group = |failure: &&Failure| failure.group == group && failure.is_infeasible();
        self.failures.iter().filter(of_group).count() as u64
    }

    /// Number of new canaries of a group.
    pub(super) fn new_canaries(&self, group: usize) -> u64 {
        self.canaries[group]
    }

    /// Number of failed canaries of a group that were replaced on their nodes.
    pub(super) fn renewed_canaries(&self, group: usize) -> u64 {
        self.renewed[group]
    }

    /// Adds the results to the plan, and creates blocked evaluations for nodes without capacity.
    pub(super) fn write(
        self,
        target: Target<'a>,
        updates: Map<Text, DesiredUpdates>,
        rollout: &Rollout<'_>,
        plan: &mut Plan,
        stops: &mut StopDraft,
        new_id: NewId<'_>,
    ) -> (Findings, Vec<Evaluation>) {
        let Target { attempt, job, .. } = target;
        let groups = &job.spec.task_groups;
        self.stops.iter().for_each(|stop| stops.add(stop, None, None));
        let mut findings = Findings::default();
        findings.annotations.desired_updates = updates;
        let mut queued: Vec<u32> = self.requested.clone();
        for ((group, is_canary), rows) in self.rows {
            queued[group] = queued[group].saturating_sub(rows.len() as u32);
            let version = (job, rollout.active());
            let share = common_share(attempt.state, &job.spec, &groups[group]);
            let common = model::alloc::AllocCommon {
                name_stem: format!("{}.{}", job.spec.name, groups[group].name).into(),
                ..common_of_new(attempt.eval, version, &groups[group], share)
            };
            if attempt.eval.annotate_plan {
                findings.record_victims(&groups[group].name, rows.victims());
            }
            plan.placements.extend(rows.into_placements(&common, is_canary, target.context.pages));
        }
        let mut full: Vec<(NodeId, BTreeMap<Text, bool>)> = Vec::new();
        let mut filtered: BTreeMap<usize, AllocMetric> = BTreeMap::new();
        let stays: BTreeSet<&Text> = findings
            .annotations
            .desired_updates
            .iter()
            .filter(|(_, updates)| updates.ignore + updates.in_place_update > 0)
            .map(|(group, _)| group)
            .collect();
        let mut failed: BTreeMap<Text, AllocMetric> = BTreeMap::new();
        let mut open = self.requested.clone();
        for failure in self.failures {
            let group = &groups[failure.group];
            if failure.is_infeasible() {
                queued[failure.group] = queued[failure.group].saturating_sub(1);
                open[failure.group] = open[failure.group].saturating_sub(1);
                let merged = filtered.entry(failure.group).or_default();
                merge(merged, &failure.metric);
                if open[failure.group] == 0 && !stays.contains(&group.name) {
                    failed.insert(Text::clone(&group.name), merged.clone());
                }
            } else if let Some(known) = failed.get_mut(&group.name) {
                metrics::coalesce(known, group);
            } else {
                full.push((failure.node, failure.classes));
                failed.insert(Text::clone(&group.name), failure.metric);
            }
        }
        for (index, reasons) in self.reasons {
            if let Some(metric) = failed.get_mut(&groups[index].name) {
                metric.reasons = reasons;
            }
        }
        for (index, group) in groups.iter().enumerate() {
            findings.queued.insert(Text::clone(&group.name), queued[index]);
            findings.requested.insert(Text::clone(&group.name), self.requested[index]);
        }
        findings.failed_groups = failed;
        findings.escaped_class = self.escapes_class;
        let creates = full.into_iter().map(|(node, classes)| {
            let id = EvalId::from_bytes(new_id());
            Evaluation {
                node_id: Some(node),
                class_eligibility: if self.escapes_class { BTreeMap::new() } else { classes },
                failed_groups: findings.failed_groups.clone(),
                status_description: outcome::TO_PLACE.into(),
                ..outcome::blocked(attempt, EvalTrigger::QueuedAllocs, &findings, id)
            }
        });
        let creates: Vec<Evaluation> = creates.collect();
        (findings, creates)
    }
}

/// Adds the filter metrics of one node to those of the group.
fn merge(into: &mut AllocMetric, other: &AllocMetric) {
    let add = |into: &mut BTreeMap<Text, u32>, other: &BTreeMap<Text, u32>| {
        for (what, more) in other {
            *into.entry(Text::clone(what)).or_default() += more;
        }
    };
    if into.nodes_evaluated == 0 {
        into.node_pool.clone_from(&other.node_pool);
        into.nodes_available.clone_from(&other.nodes_available);
        into.nodes_in_pool = other.nodes_in_pool;
    }
    into.nodes_evaluated += other.nodes_evaluated;
    into.nodes_filtered += other.nodes_filtered;
    add(&mut into.constraint_filtered, &other.constraint_filtered);
    add(&mut into.class_filtered, &other.class_filtered);
}
