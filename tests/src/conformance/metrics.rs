//! Compares the metrics of placements: counters exactly, scores with a tolerance.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::json::{items, text, without_zeros};
use super::normalize::METRICS;

/// The largest difference of equal scores.
const TOLERANCE: f64 = 1e-9;
/// Counters and reasons that are compared.
const MEMBERS: [&str; 10] = [
    "NodePool",
    "NodesAvailable",
    "NodesEvaluated",
    "NodesInPool",
    "NodesFiltered",
    "ConstraintFiltered",
    "ClassFiltered",
    "NodesExhausted",
    "DimensionExhausted",
    "ClassExhausted",
];

/// Returns the differences between the metrics of placements that otherwise agree, in pairs.
///
/// The order in which allocations are placed is open (`docs/rules/scheduling.md` §0), and the metrics of a node depend on
/// what was placed on it before. So the metrics of a group's allocations on one node need only agree in some order. If
/// several groups are placed, scores that depend on earlier placements are not compared.
pub(super) fn of_placements(path: &str, expected: &[Value], got: &[Value]) -> Vec<String> {
    let mut by_node: BTreeMap<[&str; 2], Vec<usize>> = BTreeMap::new();
    for (index, placement) in expected.iter().enumerate().filter(|(_, one)| one.get(METRICS).is_some()) {
        let [node, group] = [&placement["node"], &placement["group"]].map(text);
        by_node.entry([node, group]).or_default().push(index);
    }
    let groups: BTreeSet<&str> = by_node.keys().map(|[_, group]| *group).collect();
    let mut found = Vec::new();
    for indexes in by_node.values() {
        let differs = |left: usize, right: usize| {
            let path = format!("{path}/{left}/metrics");
            differences(&path, &expected[left][METRICS], &got[right][METRICS])
        };
        let mut open = indexes.clone();
        let in_some_order = indexes.iter().all(|left| {
            let same = open.iter().position(|right| differs(*left, *right).is_empty());
            same.map(|same| open.remove(same)).is_some()
        });
        if !in_some_order {
            found.extend(indexes.iter().flat_map(|index| differs(*index, *index)));
        }
    }
    if groups.len() > 1 {
        found.retain(|difference| !ORDER.iter().any(|scorer| difference.contains(scorer)));
    }
    found
}

/// Scores that depend on earlier placements.
const ORDER: [&str; 4] = ["/NormScore:", "/binpack:", "/job-anti-affinity:", "/allocation-spread:"];

/// Returns the differences between the metrics of one placement, each prefixed with `path`.
fn differences(path: &str, expected: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let [left, right] = [expected, got].map(without_zeros);
    for member in MEMBERS {
        if left[member] != right[member] {
            found.push(format!("{path}/{member}: {} expected, {} found", left[member], right[member]));
        }
    }
    let [expected, got] = [expected, got].map(|metrics| Scores::of(&metrics["ScoreMetaData"]));
    let (best, ours) = (expected.sorted(), got.sorted());
    let all_agree = best.len() == ours.len() && best.iter().zip(&ours).all(|(a, b)| agree(*a, *b));
    if !all_agree {
        found.push(format!("{path}/NormScore: {best:?} expected, {ours:?} found"));
    }
    for score in &expected.0 {
        match got.of_node(&score["NodeID"]) {
            Some(other) => found.extend(score_differences(path, score, other)),
            None => found.extend(must_tie(path, score, &best)),
        }
    }
    let alone = got.0.iter().filter(|score| expected.of_node(&score["NodeID"]).is_none());
    found.extend(alone.filter_map(|score| must_tie(path, score, &best)));
    found
}

struct Scores<'a>(Vec<&'a Value>);

impl<'a> Scores<'a> {
    fn of(list: &'a Value) -> Self {
        Self(items(list).collect())
    }

    fn of_node(&self, node: &Value) -> Option<&'a Value> {
        self.0.iter().find(|score| score["NodeID"] == *node).copied()
    }

    /// The normalised scores, best first.
    fn sorted(&self) -> Vec<f64> {
        let mut scores: Vec<f64> = self.0.iter().map(|score| number(&score["NormScore"])).collect();
        scores.sort_by(|a, b| b.total_cmp(a));
        scores
    }
}

fn score_differences(path: &str, expected: &Value, got: &Value) -> Vec<String> {
    let scorers = |score: &Value| {
        let scores = score["Scores"].as_object().into_iter().flatten();
        scores.map(|(scorer, _)| scorer.clone()).collect::<std::collections::BTreeSet<String>>()
    };
    let named = scorers(expected).union(&scorers(got)).cloned().collect::<Vec<_>>();
    let node = text(&expected["NodeID"]);
    named
        .into_iter()
        .filter_map(|scorer| {
            let [expected, got] = [expected, got].map(|score| number(&score["Scores"][&scorer]));
            (!agree(expected, got))
                .then(|| format!("{path}/Scores/{node}/{scorer}: {expected} expected, {got} found"))
        })
        .collect()
}

/// A node that only one side names must tie with the last node of the list.
fn must_tie(path: &str, score: &Value, best: &[f64]) -> Option<String> {
    let ties = best.last().is_some_and(|fifth| agree(*fifth, number(&score["NormScore"])));
    (!ties).then(|| format!("{path}/Scores: only one side names {}", text(&score["NodeID"])))
}

fn agree(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}
