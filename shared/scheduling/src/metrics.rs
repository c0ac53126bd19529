//! What is told of how nodes were chosen (`spec/scheduling.md` §6.8).

use std::collections::BTreeMap;

use model::Text;
use model::alloc::{AllocMetric, TaskShortage};
use model::job::{JobSpec, TaskGroup};

use crate::feasible::{BaseNodes, Filtered};
use crate::place::{Room, Survey};

/// A pass over all nodes: what was looked at, and what was ruled out.
fn pass(spec: &JobSpec, base: &BaseNodes, filtered: &Filtered) -> AllocMetric {
    AllocMetric {
        nodes_evaluated: base.count,
        nodes_filtered: filtered.nodes,
        nodes_in_pool: base.count,
        node_pool: Text::clone(&spec.node_pool),
        nodes_available: base.by_datacenter.clone(),
        class_filtered: filtered.by_class.clone(),
        constraint_filtered: filtered.by_reason.clone(),
        ..AllocMetric::default()
    }
}

/// Of a pass that found a node.
pub(crate) fn of_success(
    spec: &JobSpec,
    base: &BaseNodes,
    filtered: &Filtered,
    survey: Survey,
) -> AllocMetric {
    let scores = survey.best;
    match survey.only_preferred {
        true => AllocMetric { nodes_evaluated: 1, scores, ..pass(spec, base, &Filtered::default()) },
        false => AllocMetric { scores, ..pass(spec, base, filtered) },
    }
}

/// Of a pass that found none; `shortages` says what each feasible node lacks.
pub(crate) fn of_failure(
    (spec, group): (&JobSpec, &TaskGroup),
    base: &BaseNodes,
    filtered: &Filtered,
    room: &Room<'_>,
    shortages: &[(u32, Text)],
) -> AllocMetric {
    let mut metric = pass(spec, base, filtered);
    for (slot, dimension) in shortages {
        metric.nodes_exhausted += 1;
        *metric.dimension_exhausted.entry(Text::clone(dimension)).or_default() += 1;
        let class = &room.node(*slot).spec().node_class;
        if !class.is_empty() {
            *metric.class_exhausted.entry(Text::clone(class)).or_default() += 1;
        }
    }
    add_exhausted_resources(&mut metric, group);
    metric
}

/// One allocation more that was not tried, because the group has failed already.
pub(crate) fn coalesce(metric: &mut AllocMetric, group: &TaskGroup) {
    metric.coalesced_failures += 1;
    add_exhausted_resources(metric, group);
}

///
fn add_exhausted_resources(metric: &mut AllocMetric, group: &TaskGroup) {
    let [cpu, memory] = ["cpu", "memory"].map(|dimension| metric.dimension_exhausted.contains_key(dimension));
    if !cpu && !memory {
        return;
    }
    let short: &mut BTreeMap<Text, TaskShortage> = &mut metric.resources_exhausted;
    for task in &group.tasks {
        let short = short.entry(Text::clone(&task.name)).or_default();
        if cpu {
            short.cpu_mhz = short.cpu_mhz.saturating_add(task.resources.cpu_mhz);
        }
        if memory {
            short.memory_mb = short.memory_mb.saturating_add(task.resources.memory_mb);
        }
    }
}
