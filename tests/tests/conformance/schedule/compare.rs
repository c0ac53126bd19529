//! Comparing what came out with what was recorded: both are brought into one form, less what the records leave open.

use std::collections::BTreeMap;

use model::alloc::AllocMetric;
use serde_json::{Map, Value, json};
use tests::recorded::Case;

use super::ran::Ran;
use crate::json::without_zeros;

/// Members of a failed group's metrics that are compared.
const FAILED_MEMBERS: [&str; 9] = [
    "NodesEvaluated",
    "NodesFiltered",
    "ConstraintFiltered",
    "ClassFiltered",
    "NodesExhausted",
    "DimensionExhausted",
    "ClassExhausted",
    "ResourcesExhausted",
    "CoalescedFailures",
];
/// Scores agree to this.
const SCORE_TOLERANCE: f64 = 1e-9;

/// What differs, a line for each; nothing if the two agree.
pub(crate) fn differences(case: &Case, ran: &Ran) -> Vec<String> {
    let form = Form { nodes_are_open: is_open(case, "nodes"), allocs_are_open: is_open(case, "allocs") };
    let expected = form.of(&case.json["expect"]);
    let got = form.of(&ran.expect);
    let mut found = Vec::new();
    differ("", &expected, &got, &mut found);
    found.extend(ran.faults.iter().cloned());
    if !form.nodes_are_open {
        for (group, metric) in &ran.metrics {
            found.extend(metric_differences(case, group, metric));
        }
    }
    found
}

fn is_open(case: &Case, what: &str) -> bool {
    case.json["compare"][what] == "any"
}

/// Both sides' form.
struct Form {
    nodes_are_open: bool,
    allocs_are_open: bool,
}

impl Form {
    fn of(&self, expect: &Value) -> Value {
        let labels: BTreeMap<String, String> = items(&expect["eval_creates"])
            .filter_map(|eval| {
                let label = format!("{}@{}", text(&eval["trigger"]), seconds(&eval["wait_until"]));
                Some((eval["id"].as_str()?.to_owned(), label))
            })
            .collect();
        // A dry run submits a plan in any case.
        let plans = items(&expect["plans"]).map(|plan| without_zeros(&self.plan(plan, &labels)));
        let plans = plans.filter(|plan| plan.as_object().is_some_and(|members| !members.is_empty()));
        let update = items(&expect["eval_updates"]).last().map(|update| self.update(update));
        let creates = items(&expect["eval_creates"]).map(|eval| self.created(eval));
        without_zeros(&json!({
            "plans": plans.collect::<Vec<_>>(),
            "update": update.filter(|_| expect["reblocked"] != true),
            "creates": sorted(creates),
            "reblock": expect.get("reblock").map(|eval| self.created(eval)),
        }))
    }

    fn plan(&self, plan: &Value, labels: &BTreeMap<String, String>) -> Value {
        let rescheduled: Vec<&Value> = items(&plan["placements"])
            .filter(|placement| placement["reschedule_outcome"].is_string())
            .map(|placement| &placement["previous"])
            .collect();
        let stops = items(&plan["stops"]).map(|stop| {
            let mut stop = self.labelled(stop, labels);
            if rescheduled.contains(&&stop["alloc"]) {
                remove(&mut stop, &["description"]);
            }
            self.without_open(stop)
        });
        let updates = items(&plan["updates"]).map(|update| self.without_open(self.labelled(update, labels)));
        let placements = items(&plan["placements"]).map(|placement| {
            let mut placement = placement.clone();
            remove(&mut placement, &["id", "metrics"]);
            if placement["resources"].is_object() {
                placement["resources"] = resources(&placement["resources"]);
            }
            if self.nodes_are_open {
                remove(&mut placement, &["node"]);
                open_addresses(&mut placement["resources"]);
            }
            self.without_open(placement)
        });
        json!({
            "stops": sorted(stops),
            "updates": sorted(updates),
            "placements": sorted(placements),
            "preemptions": plan["preemptions"],
            "deployment": plan["deployment"],
            "deployment_updates": plan["deployment_updates"],
            "all_at_once": plan["all_at_once"],
        })
    }

    fn labelled(&self, object: &Value, labels: &BTreeMap<String, String>) -> Value {
        let mut object = object.clone();
        if let Some(label) = object["followup"].as_str().and_then(|symbol| labels.get(symbol)) {
            object["followup"] = label.clone().into();
        }
        object
    }

    fn without_open(&self, mut object: Value) -> Value {
        if self.allocs_are_open {
            remove(&mut object, &["alloc", "name", "node", "previous"]);
        }
        without_zeros(&object)
    }

    fn update(&self, update: &Value) -> Value {
        let mut update = update.clone();
        for related in ["blocked_eval", "next_eval"] {
            let is_there = update.get(related).is_some_and(|id| id.is_string() || *id == true);
            update[related] = is_there.into();
        }
        if let Some(groups) = update["annotations"].get("DesiredTGUpdates").cloned() {
            update["annotations"] = groups;
        }
        if let Some(groups) = update["annotations"].as_object_mut() {
            groups.values_mut().for_each(|counts| remove(counts, &["RescheduleNow"]));
        }
        if let Some(groups) = update["failed_tg_allocs"].as_object_mut() {
            for metric in groups.values_mut() {
                let kept = FAILED_MEMBERS
                    .iter()
                    .filter_map(|member| Some(((*member).to_owned(), metric.get(*member)?.clone())));
                *metric = without_zeros(&Value::Object(kept.collect::<Map<_, _>>()));
            }
        }
        // Updates in place are subtracted in the records, although nothing of them was queued.
        for queued in update["queued"].as_object_mut().into_iter().flat_map(|groups| groups.values_mut()) {
            *queued = queued.as_i64().map_or(0, |count| count.max(0)).into();
        }
        // Which groups were looked at is told by the annotations; zeros say nothing more.
        update["queued"] = without_zeros(&json!({ "plain": update["queued"] }))["plain"].clone();
        update
    }

    fn created(&self, eval: &Value) -> Value {
        let mut eval = eval.clone();
        remove(&mut eval, &["id"]);
        eval["wait_until"] = seconds(&eval["wait_until"]).into();
        if eval["status"] == "blocked" && eval["previous_eval"].is_null() {
            // One that is blocked again is shown less its failed groups.
            remove(&mut eval, &["failed_groups"]);
        }
        // `false` differs from a class that was not looked at.
        if let Some(classes) = eval["class_eligibility"].as_object_mut() {
            classes.values_mut().for_each(|serves| *serves = serves.to_string().into());
        }
        if self.allocs_are_open {
            remove(&mut eval, &["node", "class_eligibility"]);
        }
        without_zeros(&eval)
    }
}

/// Any dynamic port is as good as another: only that there is one is compared.
fn resources(resources: &Value) -> Value {
    let mut resources = without_zeros(resources);
    if let Some(lifecycles) = resources.get_mut("TaskLifecycles") {
        *lifecycles = without_zeros(&json!({ "plain": lifecycles }))["plain"].clone();
    }
    let mut dynamic = Vec::new();
    for network in resources["Shared"]["Networks"].as_array_mut().into_iter().flatten() {
        for port in network["DynamicPorts"].as_array_mut().into_iter().flatten() {
            dynamic.push(port["Label"].clone());
            open_port(port);
        }
    }
    for port in resources["Shared"]["Ports"].as_array_mut().into_iter().flatten() {
        if dynamic.contains(&port["Label"]) {
            open_port(port);
        }
    }
    without_zeros(&resources)
}

fn open_port(port: &mut Value) {
    if port["To"] == port["Value"] {
        port["To"] = "same".into();
    }
    port["Value"] = "any".into();
}

fn open_addresses(resources: &mut Value) {
    for network in resources["Shared"]["Networks"].as_array_mut().into_iter().flatten() {
        remove(network, &["IP"]);
    }
    for port in resources["Shared"]["Ports"].as_array_mut().into_iter().flatten() {
        remove(port, &["HostIP"]);
    }
}

/// What is told of a group's placements is that of the first: one of the recorded ones must say the same.
fn metric_differences(case: &Case, group: &str, got: &AllocMetric) -> Vec<String> {
    let placements = items(&case.json["expect"]["plans"]).flat_map(|plan| items(&plan["placements"]));
    let of_group = placements.filter(|placement| placement["group"] == group);
    let told = of_group.filter_map(|placement| placement.get("metrics"));
    let differences = told.map(|expected| differences_of_metrics(group, expected, got));
    differences.min_by_key(Vec::len).unwrap_or_default()
}

fn differences_of_metrics(name: &str, expected: &Value, got: &AllocMetric) -> Vec<String> {
    let mut found = Vec::new();
    for (member, got) in [("NodesEvaluated", got.nodes_evaluated), ("NodesFiltered", got.nodes_filtered)] {
        let expected = expected[member].as_u64().unwrap_or(0);
        if expected != u64::from(got) {
            found.push(format!("{name}: {member}: {expected} expected, {got} found"));
        }
    }
    let recorded: Vec<&Value> = items(&expected["ScoreMetaData"]).collect();
    let mut best: Vec<f64> = recorded.iter().filter_map(|score| score["NormScore"].as_f64()).collect();
    best.sort_by(|a, b| b.total_cmp(a));
    let ours: Vec<f64> = got.scores.iter().map(|score| score.normalized).collect();
    let agree = |a: f64, b: f64| (a - b).abs() <= SCORE_TOLERANCE;
    if best.len() != ours.len() || !best.iter().zip(&ours).all(|(a, b)| agree(*a, *b)) {
        found.push(format!("{name}: scores {best:?} expected, {ours:?} found"));
    }
    for score in &got.scores {
        let Some(recorded) = recorded.iter().find(|other| other["NodeID"] == score.node_id.to_string())
        else {
            continue;
        };
        for (scorer, value) in &score.scores {
            let expected = recorded["Scores"][scorer.as_str()].as_f64().unwrap_or(0.0);
            if !agree(expected, *value) {
                found.push(format!("{name}: {} {scorer}: {expected} expected, {value} found", score.node_id));
            }
        }
    }
    found
}

fn differ(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    if let (Value::Object(left), Value::Object(right)) = (expected, got) {
        let members: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
        for member in members {
            let [left, right] = [left, right].map(|side| side.get(member).unwrap_or(&Value::Null));
            differ(&format!("{path}/{member}"), left, right, found);
        }
    } else if let (Value::Array(left), Value::Array(right)) = (expected, got)
        && left.len() == right.len()
    {
        for (place, (left, right)) in left.iter().zip(right).enumerate() {
            differ(&format!("{path}/{place}"), left, right, found);
        }
    } else if expected != got {
        found.push(format!("{path}: {expected} expected, {got} found"));
    }
}

/// Order does not matter.
fn sorted(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut items: Vec<Value> = items.collect();
    items.sort_by_key(Value::to_string);
    items
}

fn items(list: &Value) -> impl DoubleEndedIterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn remove(object: &mut Value, members: &[&str]) {
    if let Some(object) = object.as_object_mut() {
        members.iter().for_each(|member| drop(object.remove(*member)));
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A moment as whole seconds since the epoch; the records have it as text.
fn seconds(value: &Value) -> i64 {
    let Some(text) = value.as_str() else { return value.as_i64().unwrap_or(0) };
    let time: api_types::Time = text.parse().expect("records hold valid times");
    time.unix_nanos().div_euclid(1_000_000_000)
}
