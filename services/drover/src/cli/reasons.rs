//! Messages that explain why allocations could not be placed.

use api_types::{AllocMetric, Evaluation};

/// Whether an evaluation could not place all allocations.
pub(crate) fn has_failures(eval: &Evaluation) -> bool {
    eval.failed_tg_allocs.as_ref().is_some_and(|failed| !failed.is_empty())
}

/// What helps if services wait for nodes with a Consul agent.
const WITHOUT_CONSUL: &str = "These nodes run no Consul agent, which services use by default. To use the cluster's own \
                              service discovery, add provider = \"nomad\" to the service blocks, or \
                              default_service_provider = \"nomad\" to the server block of all servers";

/// The reasons why no node was chosen, one sentence each.
pub(crate) fn reasons(metric: &AllocMetric) -> Vec<String> {
    let mut reasons = Vec::new();
    if metric.nodes_evaluated.unwrap_or(0) == 0 {
        reasons.push("No nodes were eligible for evaluation".to_owned());
    }
    for (datacenter, available) in metric.nodes_available.iter().flatten() {
        if *available == 0 {
            reasons.push(format!("No nodes are available in datacenter \"{datacenter}\""));
        }
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
        reasons.push(format!("Dimension \"{dimension}\" exhausted on {count} nodes"));
    }
    for dimension in metric.quota_exhausted.iter().flatten() {
        reasons.push(format!("Quota limit hit \"{dimension}\""));
    }
    reasons
}
