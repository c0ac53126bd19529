//! Conversion of scheduling metrics.

use std::collections::BTreeMap;

use super::public;
use crate::alloc::{AllocMetric, NodeScore, PackedMetric, Reason, Scorer, TaskShortage};
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror};

public!(AllocMetric = AllocMetric);

mirror! {
    AllocMetric = AllocMetric {
        nodes_evaluated: "NodesEvaluated",
        nodes_filtered: "NodesFiltered",
        nodes_in_pool: "NodesInPool",
        node_pool: "NodePool",
        class_filtered: "ClassFiltered",
        constraint_filtered: "ConstraintFiltered",
        nodes_exhausted: "NodesExhausted",
        class_exhausted: "ClassExhausted",
        dimension_exhausted: "DimensionExhausted",
        quota_exhausted: "QuotaExhausted",
        resources_exhausted: "ResourcesExhausted",
        allocation_time: "AllocationTime",
        coalesced_failures: "CoalescedFailures",
    }
    renamed { scores = score_meta_data: "ScoreMetaData" }
    ignored { scores = None, reasons = None }
    always_present { nodes_available: "NodesAvailable" }
    domain_only { reasons }
}

impl Member<api_types::AllocMetric> for PackedMetric {
    fn read(api: Option<api_types::AllocMetric>) -> Result<Self, Invalid> {
        Member::read(api).map(|metric: AllocMetric| Self::pack(&metric))
    }

    fn write(&self) -> Option<api_types::AllocMetric> {
        self.unpack().unwrap_or_default().write()
    }
}

impl AllocMetric {
    /// Converts to the object of API responses, with the reasons, which Nomad's API does not have.
    pub fn to_api_with_reasons(&self) -> api_types::AllocMetric {
        let reasons: Vec<_> = self.reasons.iter().map(reason).collect();
        api_types::AllocMetric { reasons: (!reasons.is_empty()).then_some(reasons), ..self.to_api() }
    }
}

fn reason(reason: &Reason) -> api_types::PlacementReason {
    api_types::PlacementReason {
        name: Some(reason.name.to_string()),
        nodes: Some(reason.nodes.into()),
        alone: Some(reason.alone.into()),
        missing: reason.shortfall.map(|shortfall| shortfall.amount.into()),
        missing_nodes: reason.shortfall.map(|shortfall| shortfall.nodes.into()),
    }
}

impl Mirror for TaskShortage {
    type Api = api_types::Resources;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        Ok(Self {
            cpu_mhz: Member::read(api.cpu).at("CPU")?,
            memory_mb: Member::read(api.memory_mb).at("MemoryMB")?,
        })
    }

    fn to_api(&self) -> Self::Api {
        let missing =
            crate::job::Resources { cpu_mhz: self.cpu_mhz, memory_mb: self.memory_mb, ..Default::default() };
        Mirror::to_api(&missing)
    }
}

impl Member<BTreeMap<String, f64>> for Vec<(Scorer, f64)> {
    fn read(api: Option<BTreeMap<String, f64>>) -> Result<Self, Invalid> {
        let scores = api.unwrap_or_default().into_iter();
        let mut scores: Self =
            scores.map(|(name, score)| Ok((name.parse()?, score))).collect::<Result<_, Invalid>>()?;
        scores.sort_by_key(|(scorer, _)| *scorer);
        Ok(scores)
    }

    fn write(&self) -> Option<BTreeMap<String, f64>> {
        Some(self.iter().map(|(scorer, score)| (scorer.to_string(), *score)).collect())
    }
}

mirror! {
    NodeScore = NodeScoreMeta { node_id: "NodeID", scores: "Scores" }
    renamed { normalized = norm_score: "NormScore" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alloc::Shortfall;

    #[test]
    fn reasons_are_converted_on_request_only() {
        let reason = |name: &str, shortfall| Reason { name: name.into(), nodes: 3, alone: 2, shortfall };
        let shortfall = Shortfall { amount: 100, nodes: 1 };
        let reasons = vec![reason("memory", Some(shortfall)), reason("c", None)];
        let metric = AllocMetric { reasons, ..AllocMetric::default() };
        assert_eq!(metric.to_api().reasons, None);
        let shown = metric.to_api_with_reasons().reasons.unwrap();
        assert_eq!((shown[0].missing, shown[0].missing_nodes), (Some(100), Some(1)));
        assert_eq!((shown[1].name.as_deref(), shown[1].missing), (Some("c"), None));
        assert_eq!((shown[1].nodes, shown[1].alone), (Some(3), Some(2)));
        assert_eq!(AllocMetric::default().to_api_with_reasons().reasons, None);
    }
}
