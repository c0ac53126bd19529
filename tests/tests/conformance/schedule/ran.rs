//! Running the scheduler on a recorded case, and what came out in the form that the records have.

use std::collections::BTreeMap;

use model::alloc::{AllocMetric, ClientStatus};
use model::change::{Cause, Change, ChangeSet};
use model::eval::{EvalStatus, Evaluation};
use model::plan::{Placement, Placements, Plan, Update};
use model::{AllocId, EvalId, RequestId};
use scheduling::{Attempt, Proposal, schedule};
use serde_json::{Value, json};
use state::{NodePage, State, View};
use tests::build::{Ids, NOW};
use tests::recorded::Case;

use crate::json::without_zeros;

/// How evaluations say that something is not built.
const UNBUILT: &str = "not built yet: ";
/// More attempts than any job's limit.
const ATTEMPTS_MAX: u8 = 10;

/// What the scheduler made of a case.
pub(crate) struct Ran {
    /// In the form of the records' `expect`, symbols apart.
    pub(crate) expect: Value,
    /// What is told of the placements of each group.
    pub(crate) metrics: Vec<(String, AllocMetric)>,
    /// Nodes that the last plan overfills, and ports that it gives twice; should be none.
    pub(crate) faults: Vec<String>,
    /// What the scheduler says that it did not try, for it is not built.
    pub(crate) untried: Option<String>,
}

/// Runs a case; an error is what the scheduler says that it cannot do.
pub(crate) fn run(case: &Case, mut eval: Evaluation) -> Result<Ran, String> {
    eval.annotate_plan |= case.json["annotate"].as_bool().unwrap_or(false);
    let mut state = case.state();
    let (mut ids, mut plans, mut creates) = (Ids::default(), Vec::new(), Vec::new());
    let is_refused = case.json["planner"] == "reject";
    let mut refused_nodes = refused_nodes(case);
    let (mut last, mut untried) = (None, None);
    for fruitless in 0..ATTEMPTS_MAX {
        let attempt = Attempt { state: &state, eval: &eval, now: NOW.max(eval.wait_until), fruitless };
        let proposal = schedule(&attempt, &mut || ids.bytes()).map_err(|error| error.to_string())?;
        let Proposal { plan, outcome } = proposal;
        let after = &outcome.eval;
        let missing = after.status_description.strip_prefix(UNBUILT).map(str::to_owned);
        match missing {
            Some(what) if after.status == EvalStatus::Failed => return Err(what),
            what => untried = what,
        }
        let accepted = without_nodes(&plan, &refused_nodes);
        let is_partial = !is_refused && accepted != plan;
        let is_last = !is_refused && !is_partial || plan.is_noop();
        // What a refused attempt proposed counts as created in the records, of what waits for room the first.
        for eval in &outcome.creates {
            let waits = |eval: &Evaluation| eval.status == EvalStatus::Blocked;
            if is_last || !waits(eval) || !creates.iter().any(waits) {
                creates.push(eval.clone());
            }
        }
        if !plan.is_noop() {
            plans.push((state.clone(), plan));
        }
        if is_partial {
            refused_nodes.clear();
            state = applied(&state, &accepted);
        }
        last = Some(outcome);
        if is_last {
            break;
        }
    }
    let outcome = last.expect("there was an attempt");
    let labels: BTreeMap<EvalId, String> = creates.iter().map(|eval| (eval.id, label(eval))).collect();
    let mut after = (*outcome.eval).clone();
    if untried.is_some() {
        after.status_description = Default::default();
    }
    if is_refused && after.next_eval.is_none() {
        let delayed = creates.iter().rev().find(|eval| eval.wait_until.is_set());
        after.next_eval = delayed.map(|eval| eval.id);
    }
    let mut expect = json!({ "eval_creates": creates.iter().map(created).collect::<Vec<_>>() });
    let mut metrics = Vec::new();
    let mut faults = Vec::new();
    let mut plan_forms = Vec::new();
    for (state, plan) in &plans {
        let placed = applied(state, plan);
        faults = overfilled(&placed, plan);
        plan_forms.push(plan_form(state, &placed, plan, &labels));
        for placements in &plan.placements {
            metrics.push((placements.common.task_group.to_string(), placements.common.metrics.clone()));
        }
    }
    expect["plans"] = plan_forms.into();
    if after.status == EvalStatus::Blocked {
        expect["reblocked"] = true.into();
        expect["reblock"] = created(&after);
    } else {
        expect["eval_updates"] = vec![updated(&after)].into();
    }
    Ok(Ran { expect, metrics, faults, untried })
}

/// Nodes on which the first plan's placements are refused.
fn refused_nodes(case: &Case) -> Vec<String> {
    let nodes = case.json["planner"]["reject_nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| Some(node.as_str()?.to_owned())).collect()
}

/// A plan less what it puts on some nodes.
fn without_nodes(plan: &Plan, refused: &[String]) -> Plan {
    let mut accepted = plan.clone();
    for placements in &mut accepted.placements {
        let mut kept = Placements::new(placements.common.clone());
        for row in 0..placements.len() {
            let node = placements.node_of(row);
            if refused.contains(&node.to_string()) {
                continue;
            }
            let known = kept.nodes.iter().position(|known| *known == node);
            let node = known.map_or_else(|| kept.add_node(node), |place| place as u32);
            kept.push(Placement {
                id: placements.ids.0[row],
                node,
                name_index: placements.name_index[row],
                previous: placements.previous.get(row),
                assigned: placements.assigned.get(row).cloned().unwrap_or_default(),
                reschedule: placements.reschedule.get(row).cloned().flatten(),
                preempted: Vec::new(),
            });
        }
        if kept.len() < placements.len() {
            *placements = kept;
        }
    }
    accepted
}

/// The state after a plan was taken, as far as this needs it.
fn applied(state: &State, plan: &Plan) -> State {
    let mut after = state.clone();
    let stops = plan.stops.iter().map(|stops| model::change::AllocsChanged {
        ids: stops.ids.clone(),
        desired: Some((model::alloc::DesiredStatus::Stop, stops.description.clone())),
        by_servers: true,
        ..Default::default()
    });
    let stops = stops.map(|change| Change::AllocsChanged(Box::new(change)));
    let placements = plan.placements.iter().cloned().map(Box::new).map(Change::AllocsPlaced);
    let set = ChangeSet {
        index: state.index().next(),
        at: NOW,
        request_id: RequestId::from_bytes([2; 16]),
        cause: Cause::PlanResult,
        trace: None,
        result: Vec::new(),
        changes: stops.chain(placements).collect(),
    };
    after.apply(&set).expect("a plan fits the state that it was made from");
    after
}

/// Where a plan puts more than there is room for.
fn overfilled(state: &State, plan: &Plan) -> Vec<String> {
    let nodes = plan.placements.iter().flat_map(|placements| &placements.nodes);
    let mut faults = Vec::new();
    for node in nodes.map(|id| state.node(*id).expect("it is known")) {
        let (has, used) = (node.capacity(), node.usage(View::Live));
        if used.cpu_mhz > has.cpu_mhz || used.memory_mb > has.memory_mb || used.disk_mb > has.disk_mb {
            faults.push(format!("{} is overfilled: {used:?} of {has:?}", node.id()));
        }
        let (page, place): (&NodePage, usize) = node.page();
        if page.ready >> place & 1 == 0 {
            faults.push(format!("{} is not ready", node.id()));
        }
        let ports = node.ports().into_iter().flat_map(|ports| ports.collisions(View::Live));
        faults.extend(ports.map(|(address, port)| format!("{address}:{port} is given twice")));
    }
    faults
}

/// Names an evaluation that the scheduler made by what it is for.
fn label(eval: &Evaluation) -> String {
    format!("{}@{}", eval.trigger, eval.wait_until.as_secs())
}

fn plan_form(before: &State, after: &State, plan: &Plan, labels: &BTreeMap<EvalId, String>) -> Value {
    let followup = |id: EvalId| labels.get(&id).cloned().unwrap_or_else(|| id.to_string());
    let mut stops = Vec::new();
    for group in &plan.stops {
        stops.extend(group.ids.0.iter().map(|id| {
            let tracker = before.alloc(*id).and_then(|alloc| alloc.extra().reschedule.as_ref()?.last);
            let outcome = group.reschedule.filter(|outcome| tracker != Some(*outcome));
            json!({
                "alloc": id.to_string(),
                "desired_status": "stop",
                "description": &*group.description,
                "client_status": group.client_status.map(ClientStatus::as_str),
                "followup": group.followup_eval.map(followup),
                "reschedule_outcome": outcome.map(|outcome| outcome.as_str()),
            })
        }));
    }
    let mut updates = Vec::new();
    for group in &plan.updates {
        for id in &group.ids.0 {
            updates.push(update_form(before, *id, &group.change, &followup));
        }
    }
    let ids = plan.placements.iter().flat_map(|placements| &placements.ids.0);
    let placements: Vec<Value> = ids.map(|id| placement_form(after, *id)).collect();
    let deployment_updates = plan.deployment_updates.iter().map(|update| {
        json!({
            "deployment": update.id.to_string(),
            "status": update.status.as_str(),
            "description": &*update.description,
        })
    });
    json!({
        "stops": stops,
        "updates": updates,
        "placements": placements,
        "deployment_updates": deployment_updates.collect::<Vec<_>>(),
        "all_at_once": plan.all_at_once,
    })
}

fn update_form(before: &State, id: AllocId, change: &Update, followup: &dyn Fn(EvalId) -> String) -> Value {
    let alloc = before.alloc(id).expect("only what is there is updated");
    let kept = alloc.extra().followup_eval.map(followup);
    let deployment = alloc.deployment_id().map(|id| id.to_string());
    let mut form = json!({
        "alloc": id.to_string(),
        "job_version": alloc.common().job.version,
        "deployment": deployment,
        "deployment_healthy": alloc.health().and_then(|health| health.healthy),
        "canary": alloc.health().is_some_and(|health| health.canary),
        "followup": kept,
    });
    let kind = match change {
        Update::InPlace(common) => {
            form["job_version"] = common.job.version.into();
            "in-place"
        }
        Update::Unknown { .. } => "unknown",
        Update::Reconnect => "reconnect",
        Update::RescheduleLater { followup_eval } => {
            form["followup"] = followup(*followup_eval).into();
            "reschedule-later"
        }
        Update::RescheduleFailed => {
            form["reschedule_outcome"] = "no placement".into();
            "attribute"
        }
    };
    form["kind"] = kind.into();
    form
}

fn placement_form(after: &State, id: AllocId) -> Value {
    let alloc = after.alloc(id).expect("it was placed").to_allocation();
    let dump = serde_json::to_value(alloc.to_dump()).expect("an allocation is JSON");
    json!({
        "name": dump["Name"],
        "group": dump["TaskGroup"],
        "node": dump["NodeID"],
        "job_version": dump["JobVersion"],
        "previous": dump["PreviousAllocation"],
        "deployment": dump["DeploymentID"],
        "reschedule_events": dump["RescheduleTracker"]["Events"],
        "reschedule_outcome": dump["RescheduleTracker"]["LastReschedule"],
        "resources": without_zeros(&dump["AllocatedResources"]),
    })
}

fn created(eval: &Evaluation) -> Value {
    json!({
        "trigger": eval.trigger.as_str(),
        "type": eval.kind.as_str(),
        "priority": eval.priority,
        "status": eval.status.as_str(),
        "description": &*eval.status_description,
        "job": &*eval.job.id,
        "previous_eval": eval.previous_eval.map(|id| id.to_string()),
        "wait_until": eval.wait_until.as_secs(),
        "class_eligibility": eval.class_eligibility.iter().map(|(class, is)| (class.to_string(), Value::from(*is))).collect::<serde_json::Map<_, _>>(),
        "escaped": eval.escaped_class,
        "missing_resources": eval.missing_resources.iter().map(|name| name.to_string()).collect::<Vec<_>>(),
        "failed_groups": eval.failed_groups.keys().map(|group| group.to_string()).collect::<Vec<_>>(),
    })
}

fn updated(eval: &Evaluation) -> Value {
    let api = serde_json::to_value(eval.to_api()).expect("an evaluation is JSON");
    json!({
        "status": eval.status.as_str(),
        "description": &*eval.status_description,
        "queued": api["QueuedAllocations"],
        "failed_tg_allocs": api["FailedTGAllocs"],
        "blocked_eval": eval.blocked_eval.is_some(),
        "next_eval": eval.next_eval.is_some(),
        "deployment": api["DeploymentID"],
        "annotations": api["PlanAnnotations"]["DesiredTGUpdates"],
    })
}
