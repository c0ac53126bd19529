//! Brings recorded and computed answers into one normal form: without the parts that the records leave open, and in an
//! order that depends on nothing else.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::json::{items, remove, text, without_zeros};
use super::quirks::Exemption;
use super::resources::{self, Mask};
use crate::recorded::Case;

/// Members of a failed group's metrics that are compared.
const FAILED_MEMBERS: [&str; 10] = [
    "NodesEvaluated",
    "NodesFiltered",
    "ConstraintFiltered",
    "ClassFiltered",
    "NodesExhausted",
    "DimensionExhausted",
    "ClassExhausted",
    "QuotaExhausted",
    "ResourcesExhausted",
    "CoalescedFailures",
];

/// Normalizes the answers of one case.
#[derive(Debug)]
pub(super) struct Normalizer {
    /// Any node that can take the placement is accepted.
    pub(super) nodes_are_open: bool,
    allocs_are_open: bool,
    failures_are_open: bool,
    exempt: Vec<&'static str>,
}

impl Normalizer {
    pub(super) fn new(case: &Case, exempt: &[Exemption]) -> Self {
        let is_open = |what: &str| case.json["compare"][what] == "any";
        Self {
            nodes_are_open: is_open("nodes") || exempt.iter().any(|exempt| exempt.nodes),
            allocs_are_open: is_open("allocs"),
            failures_are_open: is_open("failed"),
            exempt: exempt.iter().flat_map(|exempt| exempt.members).copied().collect(),
        }
    }

    pub(super) fn normalize(&self, expect: &Value) -> Value {
        let labels: BTreeMap<String, String> = items(&expect["eval_creates"])
            .filter_map(|eval| {
                let label = format!("{}@{}", text(&eval["trigger"]), seconds(&eval["wait_until"]));
                Some((eval["id"].as_str()?.to_owned(), label))
            })
            .collect();
        // A dry run always submits a plan, which may consist only of exempt members. A deployment that an earlier
        // attempt already described need not be repeated.
        let mut previous = Value::Null;
        let plans = items(&expect["plans"]).map(|plan| {
            let mut plan = without_zeros(&self.plan(plan, &labels));
            let deployment = without_counters(&plan["deployment"]);
            if !deployment.is_null() && previous == deployment {
                remove(&mut plan, &["deployment"]);
            }
            previous = deployment;
            plan
        });
        let plans = plans.filter(|plan| plan.as_object().is_some_and(|members| !members.is_empty()));
        let update = items(&expect["eval_updates"]).last().map(|update| self.update(update));
        let creates = items(&expect["eval_creates"]).map(|eval| self.created(eval));
        let mut form = json!({
            "plans": plans.collect::<Vec<_>>(),
            "update": update.filter(|_| expect["reblocked"] != true),
            "creates": sorted(creates),
            "reblock": expect.get("reblock").map(|eval| self.created(eval)),
            "error": expect["error"],
        });
        for member in &self.exempt {
            match member.split_once('/') {
                Some(("update", member)) => remove(&mut form["update"], &[member]),
                None => remove(&mut form, &[member]),
                Some(_) => {}
            }
        }
        without_zeros(&form)
    }

    fn plan(&self, plan: &Value, labels: &BTreeMap<String, String>) -> Value {
        let rescheduled: Vec<&Value> = items(&plan["placements"])
            .filter(|placement| placement["reschedule_outcome"].is_string())
            .map(|placement| &placement["previous"])
            .collect();
        let stops = items(&plan["stops"]).map(|stop| {
            let mut stop = labelled(stop, labels);
            if rescheduled.contains(&&stop["alloc"]) {
                remove(&mut stop, &["description"]);
            }
            self.masked(stop)
        });
        let updates = items(&plan["updates"]).map(|update| self.masked(labelled(update, labels)));
        let placements = items(&plan["placements"]).map(|placement| self.placement(placement));
        let preemptions = items(&plan["preemptions"]).map(|preemption| preemption["alloc"].clone());
        let mut form = json!({
            "stops": sorted(stops),
            "updates": sorted(updates),
            "placements": sorted(placements),
            "preemptions": if self.nodes_are_open { Vec::new() } else { sorted(preemptions) },
            "deployment": plan.get("deployment").map(|deployment| self.deployment(deployment)),
            "deployment_updates": sorted(items(&plan["deployment_updates"]).map(|update| {
                let mut update = update.clone();
                update["deployment"] = new_deployment(&update["deployment"]);
                without_zeros(&update)
            })),
            "all_at_once": plan["all_at_once"],
        });
        for member in self.exempt.iter().filter_map(|member| member.strip_prefix("plans/")) {
            remove(&mut form, &[member]);
        }
        form
    }

    fn placement(&self, placement: &Value) -> Value {
        let mut placement = placement.clone();
        remove(&mut placement, &["id"]);
        placement["deployment"] = new_deployment(&placement["deployment"]);
        placement["preempts"] = sorted(items(&placement["preempts"]).cloned()).into();
        for event in placement["reschedule_events"].as_array_mut().into_iter().flatten() {
            event["RescheduleTime"] = seconds(&json!(event["RescheduleTime"])).into();
        }
        let mask = if self.nodes_are_open { Mask::Node } else { Mask::Choice };
        placement["resources"] = resources::normalize(&placement["resources"], mask);
        if self.nodes_are_open {
            remove(&mut placement, &["node", "metrics", "preempts"]);
        }
        // Metrics are compared by rules of their own. They must not influence the order here.
        let metrics = placement.as_object_mut().and_then(|members| members.remove("metrics"));
        let mut placement = self.masked(placement);
        if let Some(metrics) = metrics.filter(|_| !self.nodes_are_open) {
            placement[METRICS] = metrics;
        }
        placement
    }

    /// The applier counts canaries from the placements that are marked as canaries.
    fn deployment(&self, deployment: &Value) -> Value {
        let mut deployment = deployment.clone();
        deployment["ID"] = new_deployment(&deployment["ID"]);
        for group in deployment["TaskGroups"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            remove(group, &["PlacedCanaries"]);
            group["RequireProgressBy"] = seconds(&group["RequireProgressBy"]).max(0).into();
        }
        let groups = without_zeros(&json!({ "Meta": deployment["TaskGroups"] }))["Meta"].clone();
        remove(&mut deployment, &["TaskGroups", "CreateIndex", "ModifyIndex", "CreateTime", "ModifyTime"]);
        deployment["groups"] = groups;
        without_zeros(&deployment)
    }

    fn masked(&self, mut object: Value) -> Value {
        if self.allocs_are_open {
            remove(&mut object, &["alloc", "name", "node", "previous"]);
        }
        if object["deployment"].is_string() {
            object["deployment"] = new_deployment(&object["deployment"]);
        }
        without_zeros(&object)
    }

    fn update(&self, update: &Value) -> Value {
        let mut update = update.clone();
        for related in ["blocked_eval", "next_eval"] {
            let is_set = update.get(related).is_some_and(|id| id.is_string() || *id == true);
            update[related] = is_set.into();
        }
        update["deployment"] = new_deployment(&update["deployment"]);
        let victims = sorted(items(&update["annotations"]["PreemptedAllocs"]).cloned());
        let mut groups = update["annotations"]["DesiredTGUpdates"].clone();
        for counts in groups.as_object_mut().into_iter().flat_map(Map::values_mut) {
            remove(counts, &["RescheduleNow"]);
            if self.nodes_are_open {
                remove(counts, &["Preemptions"]);
            }
            *counts = without_zeros(counts);
        }
        let victims = if self.nodes_are_open { Vec::new() } else { victims };
        update["annotations"] = json!({ "groups": groups, "preempted": victims });
        for metric in update["failed_tg_allocs"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            let members: &[&str] =
                if self.failures_are_open { &["CoalescedFailures"] } else { &FAILED_MEMBERS };
            let kept = members
                .iter()
                .filter_map(|member| Some(((*member).to_owned(), metric.get(*member)?.clone())));
            *metric = without_zeros(&Value::Object(kept.collect::<Map<_, _>>()));
        }
        // The records may subtract more updates than anything was queued.
        for queued in update["queued"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            *queued = queued.as_i64().map_or(0, |count| count.max(0)).into();
        }
        // The annotations name the groups that were considered, so zeros carry no information here.
        update["queued"] = without_zeros(&json!({ "plain": update["queued"] }))["plain"].clone();
        without_zeros(&update)
    }

    fn created(&self, eval: &Value) -> Value {
        let mut eval = eval.clone();
        remove(&mut eval, &["id"]);
        eval["wait_until"] = seconds(&eval["wait_until"]).max(0).into();
        if eval["status"] == "blocked" && eval["previous_eval"].is_null() {
            // An evaluation that is blocked again is recorded without its failed groups.
            remove(&mut eval, &["failed_groups"]);
        }
        // `false` differs from a class that was not evaluated.
        for is_eligible in eval["class_eligibility"].as_object_mut().into_iter().flat_map(Map::values_mut) {
            *is_eligible = is_eligible.to_string().into();
        }
        eval["failed_groups"] = sorted(items(&eval["failed_groups"]).cloned()).into();
        eval["missing_resources"] = sorted(items(&eval["missing_resources"]).cloned()).into();
        if self.allocs_are_open || self.failures_are_open {
            remove(&mut eval, &["node", "class_eligibility"]);
        }
        without_zeros(&eval)
    }
}

/// A deployment without the counters that the applier derives from its allocations.
fn without_counters(deployment: &Value) -> Value {
    let mut deployment = deployment.clone();
    for group in deployment["groups"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        remove(group, &["PlacedAllocs", "HealthyAllocs", "UnhealthyAllocs", "RequireProgressBy"]);
    }
    deployment
}

/// The member of a placement that holds its metrics.
pub(super) const METRICS: &str = "~metrics";

/// Gives a new deployment a fixed id. At most one deployment can be new.
fn new_deployment(id: &Value) -> Value {
    match id.as_str() {
        Some(id) if id.starts_with("deployment:") => "deployment:new".into(),
        _ => id.clone(),
    }
}

fn labelled(object: &Value, labels: &BTreeMap<String, String>) -> Value {
    let mut object = object.clone();
    if let Some(label) = object["followup"].as_str().and_then(|symbol| labels.get(symbol)) {
        object["followup"] = label.clone().into();
    }
    object
}

/// Sorts items, because their order does not matter.
pub(super) fn sorted(items: impl Iterator<Item = Value>) -> Vec<Value> {
    let mut items: Vec<Value> = items.collect();
    items.sort_by_cached_key(|item| {
        let mut key = item.clone();
        remove(&mut key, &[METRICS]);
        key.to_string()
    });
    items
}

/// A time in whole seconds since the epoch. The records have times as text or in nanoseconds.
fn seconds(value: &Value) -> i64 {
    const NANOS: i64 = 1_000_000_000;
    let Some(text) = value.as_str() else {
        let number = value.as_i64().unwrap_or(0);
        return if number > NANOS * NANOS / 10 { number / NANOS } else { number };
    };
    let time: api_types::Time = text.parse().expect("records hold valid times");
    time.unix_nanos().div_euclid(NANOS)
}
