//! Messages that explain why allocations could not be placed. Pure.

use std::collections::BTreeMap;

use api_types::{AllocMetric, Evaluation, NodeListStub, PlacementReason};

/// Maximum number of places that are named if no node is eligible.
const PLACES_NAMED_MAX: usize = 8;

/// Whether an evaluation could not place all allocations.
pub(crate) fn has_failures(eval: &Evaluation) -> bool {
    eval.failed_tg_allocs.as_ref().is_some_and(|failed| !failed.is_empty())
}

/// What helps if services wait for nodes with a Consul agent.
const WITHOUT_CONSUL: &str = "These nodes run no Consul agent, which services use by default. To use the cluster's own \
                              service discovery, add provider = \"nomad\" to the service blocks, or \
                              default_service_provider = \"nomad\" to the server block of all servers";

/// Number of allocations of a group that could not be placed.
pub(crate) fn unplaced(metric: &AllocMetric) -> i64 {
    metric.coalesced_failures.unwrap_or_default().saturating_add(1)
}

/// The line above the reasons of a group (`docs/rules/cli.md` 4.3).
pub(crate) fn title(group: &str, metric: &AllocMetric) -> String {
    let count = unplaced(metric);
    let plural = if count == 1 { "" } else { "s" };
    format!("Task Group \"{group}\" (failed to place {count} allocation{plural}):")
}

/// Whether some group found no node in its node pool and datacenters. Then it helps to know which there are.
pub(crate) fn lacks_places<'a>(mut failed: impl Iterator<Item = &'a AllocMetric>) -> bool {
    failed.any(|metric| metric.nodes_evaluated.unwrap_or_default() == 0)
}

/// Node pools and datacenters with the number of their nodes that may get work.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    /// By node pool and datacenter. `None` if the nodes are not known.
    nodes: Option<BTreeMap<(String, String), u64>>,
    /// Nodes that are not ready, or not eligible.
    others: u64,
}

impl Places {
    pub(crate) fn of(nodes: &[NodeListStub]) -> Self {
        let (mut places, mut others) = (BTreeMap::new(), 0_u64);
        for node in nodes {
            let is = |text: &Option<String>, value: &str| text.as_deref() == Some(value);
            if !is(&node.status, "ready") || !is(&node.scheduling_eligibility, "eligible") {
                others = others.saturating_add(1);
                continue;
            }
            let place =
                (node.node_pool.clone().unwrap_or_default(), node.datacenter.clone().unwrap_or_default());
            let count: &mut u64 = places.entry(place).or_default();
            *count = count.saturating_add(1);
        }
        Self { nodes: Some(places), others }
    }

    /// A sentence that names the places. `None` if the nodes are not known.
    fn text(&self) -> Option<String> {
        let nodes = self.nodes.as_ref()?;
        let others = match self.others {
            0 => String::new(),
            1 => "; 1 node is not ready or not eligible".to_owned(),
            others => format!("; {others} nodes are not ready or not eligible"),
        };
        if nodes.is_empty() {
            return Some(format!("No node of the cluster can take work{others}"));
        }
        let named = nodes.iter().take(PLACES_NAMED_MAX).map(|((pool, datacenter), count)| {
            format!("{count} in datacenter \"{datacenter}\" of node pool \"{pool}\"")
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let more = if nodes.len() > PLACES_NAMED_MAX { ", and more" } else { "" };
        Some(format!("Nodes that can take work: {named}{more}{others}"))
    }
}

/// The reasons why no node was chosen, one sentence each (`docs/rules/cli.md` 4.10). `places` are named if no node is in the
/// job's node pool and datacenters.
pub(crate) fn reasons(metric: &AllocMetric, places: &Places) -> Vec<String> {
    let mut reasons = Vec::new();
    if metric.nodes_evaluated.unwrap_or(0) == 0 {
        reasons.push("No nodes were eligible for evaluation".to_owned());
    }
    for (datacenter, available) in metric.nodes_available.iter().flatten() {
        if *available == 0 {
            reasons.push(format!("No nodes are available in datacenter \"{datacenter}\""));
        }
    }
    if metric.nodes_evaluated.unwrap_or(0) == 0 {
        reasons.extend(places.text());
    }
    for (class, count) in metric.class_filtered.iter().flatten() {
        reasons.push(format!("Class \"{class}\": {count} nodes excluded by filter"));
    }
    for (constraint, count) in metric.constraint_filtered.iter().flatten() {
        reasons.push(format!("Constraint \"{constraint}\": {count} nodes excluded by filter"));
        if constraint.starts_with("${attr.consul.") {
            reasons.push(WITHOUT_CONSUL.to_owned());
        }
    }
    let exhausted = metric.nodes_exhausted.unwrap_or(0);
    if exhausted > 0 {
        reasons.push(format!("Resources exhausted on {exhausted} nodes"));
    }
    for (class, count) in metric.class_exhausted.iter().flatten() {
        reasons.push(format!("Class \"{class}\" exhausted on {count} nodes"));
    }
    for (dimension, count) in metric.dimension_exhausted.iter().flatten() {
        let amounts = amounts(metric, dimension).map(|text| format!(": {text}")).unwrap_or_default();
        reasons.push(format!("Dimension \"{dimension}\" exhausted on {count} nodes{amounts}"));
    }
    for dimension in metric.quota_exhausted.iter().flatten() {
        reasons.push(format!("Quota limit hit \"{dimension}\""));
    }
    reasons.extend(left_by_filters(metric));
    reasons
}

/// How many nodes the constraints left, and how many of these had room, if both excluded some.
fn left_by_filters(metric: &AllocMetric) -> Option<String> {
    let [evaluated, filtered, exhausted] =
        [metric.nodes_evaluated, metric.nodes_filtered, metric.nodes_exhausted]
            .map(Option::unwrap_or_default);
    let feasible = evaluated.saturating_sub(filtered);
    let fitting = feasible.saturating_sub(exhausted);
    (filtered > 0 && exhausted > 0 && fitting >= 0).then(|| {
        format!(
            "Of {evaluated} nodes, {feasible} meet the constraints, and {fitting} of these have enough free"
        )
    })
}

/// What was asked of a dimension, and what the nearest node has free. `None` if the amounts are not known.
fn amounts(metric: &AllocMetric, dimension: &str) -> Option<String> {
    let is_named = |reason: &&PlacementReason| reason.name.as_deref() == Some(dimension);
    let reason = metric.reasons.iter().flatten().find(is_named)?;
    let (missing, unit) = (reason.missing?, unit(dimension)?);
    Some(match asked(metric, dimension).filter(|asked| *asked >= missing) {
        Some(asked) => {
            let free = asked.saturating_sub(missing);
            format!("{asked} {unit} asked, the nearest node has {free} {unit} free")
        }
        None => format!("{missing} {unit} more are needed on the nearest node"),
    })
}

fn unit(dimension: &str) -> Option<&'static str> {
    match dimension {
        "cpu" => Some("MHz"),
        "memory" | "disk" => Some("MiB"),
        _ => None,
    }
}

/// What one allocation asks of CPU or memory. The API adds up all allocations that could not be placed.
fn asked(metric: &AllocMetric, dimension: &str) -> Option<i64> {
    let tasks = metric.resources_exhausted.iter().flatten();
    let asked = tasks.filter_map(|(_, task)| match dimension {
        "cpu" => task.cpu,
        "memory" => task.memory_mb,
        _ => None,
    });
    let sum = asked.fold(0_i64, i64::saturating_add);
    let count = unplaced(metric);
    (sum > 0 && count > 0 && sum % count == 0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use api_types::Resources;

    use super::*;

    fn exhausted() -> AllocMetric {
        let asked = Resources { memory_mb: Some(8192), ..Resources::default() };
        AllocMetric {
            nodes_evaluated: Some(5),
            nodes_filtered: Some(2),
            nodes_exhausted: Some(3),
            constraint_filtered: Some([("${attr.cpu.arch} = arm64".to_owned(), 2)].into()),
            dimension_exhausted: Some([("memory".to_owned(), 3)].into()),
            resources_exhausted: Some([("app".to_owned(), asked)].into()),
            coalesced_failures: Some(1),
            ..AllocMetric::default()
        }
    }

    #[test]
    fn exhausted_dimensions_say_what_was_asked_and_what_is_free() {
        let reason = PlacementReason {
            name: Some("memory".to_owned()),
            nodes: Some(3),
            alone: Some(3),
            missing: Some(1000),
            missing_nodes: Some(1),
        };
        let metric = AllocMetric { reasons: Some(vec![reason]), ..exhausted() };
        let shown = reasons(&metric, &Places::default());
        assert_eq!(
            shown[2],
            "Dimension \"memory\" exhausted on 3 nodes: 4096 MiB asked, the nearest node has 3096 MiB free"
        );
        assert_eq!(shown[3], "Of 5 nodes, 3 meet the constraints, and 0 of these have enough free");
        let unknown = AllocMetric { resources_exhausted: None, ..metric };
        assert_eq!(
            reasons(&unknown, &Places::default())[2],
            "Dimension \"memory\" exhausted on 3 nodes: 1000 MiB more are needed on the nearest node"
        );
        assert_eq!(reasons(&exhausted(), &Places::default())[2], "Dimension \"memory\" exhausted on 3 nodes");
    }

    #[test]
    fn places_are_named_if_no_node_is_eligible() {
        let node = |pool: &str, datacenter: &str, status: &str| NodeListStub {
            node_pool: Some(pool.to_owned()),
            datacenter: Some(datacenter.to_owned()),
            status: Some(status.to_owned()),
            scheduling_eligibility: Some("eligible".to_owned()),
            ..NodeListStub::default()
        };
        let nodes = [
            node("default", "dc1", "ready"),
            node("default", "dc1", "ready"),
            node("gpu", "dc2", "ready"),
            node("gpu", "dc2", "down"),
        ];
        let metric = AllocMetric::default();
        assert!(lacks_places([&metric].into_iter()) && !lacks_places([&exhausted()].into_iter()));
        assert_eq!(
            reasons(&metric, &Places::of(&nodes)),
            [
                "No nodes were eligible for evaluation",
                "Nodes that can take work: 2 in datacenter \"dc1\" of node pool \"default\", 1 in datacenter \"dc2\" of \
                 node pool \"gpu\"; 1 node is not ready or not eligible",
            ]
        );
        assert_eq!(
            reasons(&metric, &Places::of(&[])),
            ["No nodes were eligible for evaluation", "No node of the cluster can take work"]
        );
        assert_eq!(reasons(&metric, &Places::default()), ["No nodes were eligible for evaluation"]);
    }

    #[test]
    fn titles_count_the_allocations() {
        assert_eq!(title("web", &exhausted()), "Task Group \"web\" (failed to place 2 allocations):");
        assert_eq!(
            title("web", &AllocMetric::default()),
            "Task Group \"web\" (failed to place 1 allocation):"
        );
    }
}
