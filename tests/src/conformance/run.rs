//! Runs the scheduler on a recorded case, and returns the result in the form of the records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::alloc::{AllocState, ClientStatus, DesiredStatus};
use model::change::{AllocsChanged, Cause, Change, ChangeSet};
use model::eval::{EvalStatus, Evaluation};
use model::plan::{Placement, Placements, Plan, Update};
use model::{AllocId, DeploymentId, EvalId, RequestId, Timestamp};
use scheduling::{Attempt, Proposal, schedule};
use serde_json::{Map, Value, json};
use state::State;

use super::json::without_zeros;
use crate::build::{Ids, NOW};
use crate::recorded::Case;

/// More attempts than the limit of any job.
const ATTEMPTS_MAX: u8 = 10;

/// The scheduler's result for a case.
#[derive(Debug)]
pub struct RunResult {
    /// The result in the form of the records' `expect`.
    pub expect: Value,
    /// Each plan with the state from which it was made.
    pub plans: Vec<(State, Plan)>,
}

/// Runs a case.
///
/// # Errors
/// If the scheduler makes no attempt.
pub fn run(case: &Case, mut eval: Evaluation) -> Result<RunResult, String> {
    let is_dry_run = case.json["annotate"].as_bool().unwrap_or(false);
    eval.annotate_plan |= is_dry_run;
    let mut state = case.state();
    let (mut ids, mut plans, mut creates) = (Ids::default(), Vec::new(), Vec::new());
    let is_refused = case.json["planner"] == "reject";
    let mut refused_nodes = refused_nodes(case);
    let mut last = None;
    for attempts_without_progress in 0..ATTEMPTS_MAX {
        let now = NOW.max(eval.wait_until);
        let attempt = Attempt {
            state: &state,
            eval: &eval,
            now,
            attempts_without_progress,
            rollouts: true,
            explain: true,
        };
        let proposal = schedule(&attempt, &mut || ids.bytes());
        let Proposal { plan, outcome } = proposal;
        let accepted = without_nodes(&state, &plan, &refused_nodes);
        let is_partial = !is_refused && accepted != plan;
        let is_last = !is_refused && !is_partial || plan.is_noop();
        // The records count evaluations of refused attempts as created. Of those that are blocked without a node, they
        // count the first.
        for eval in &outcome.creates {
            let is_blocked = |eval: &Evaluation| eval.status == EvalStatus::Blocked && eval.node_id.is_none();
            if is_last || !is_blocked(eval) || !creates.iter().any(is_blocked) {
                creates.push(eval.clone());
            }
        }
        if !plan.is_noop() {
            plans.push((state.clone(), plan));
        }
        if is_partial {
            refused_nodes.clear();
            state = apply_plan(&state, &accepted);
        }
        last = Some(outcome);
        if is_last {
            break;
        }
    }
    let mut after = *last.ok_or("there was no attempt")?.eval;
    if is_refused && after.next_eval.is_none() {
        let delayed = creates.iter().rev().find(|eval| eval.wait_until.is_set());
        after.next_eval = delayed.map(|eval| eval.id);
    }
    let known: BTreeSet<DeploymentId> = case.state().deployments().map(|deployment| deployment.id).collect();
    let names = Names { evals: creates.iter().map(|eval| (eval.id, label(eval))).collect(), known };
    let forms: Vec<Value> = plans.iter().map(|(state, plan)| names.plan(state, plan)).collect();
    let mut expect =
        json!({ "plans": forms, "eval_creates": creates.iter().map(created).collect::<Vec<_>>() });
    if after.status == EvalStatus::Blocked {
        expect["reblocked"] = true.into();
        expect["reblock"] = created(&after);
    } else {
        let mut updated = names.updated(&after);
        if let Some((state, plan)) = plans.last().filter(|_| !is_refused) {
            subtract_updates(&mut updated["queued"], state, plan);
        }
        expect["eval_updates"] = vec![updated].into();
    }
    Ok(RunResult { expect, plans })
}

/// The records count updates of allocations that were never changed before as placements, although these were not
/// queued.
fn subtract_updates(queued: &mut Value, state: &State, plan: &Plan) {
    let ids = plan.updates.iter().flat_map(|updates| &updates.ids.0).collect::<BTreeSet<_>>();
    let allocs = ids.into_iter().filter_map(|id| state.alloc(*id));
    for alloc in allocs.filter(|alloc| alloc.create_index() == alloc.modify_index()) {
        if let Some(queued) = queued.get_mut(&**alloc.group_name()) {
            *queued = queued.as_i64().map_or(0, |count| count - 1).into();
        }
    }
}

/// Nodes on which the first plan's placements are refused.
fn refused_nodes(case: &Case) -> Vec<String> {
    let nodes = case.json["planner"]["reject_nodes"].as_array().into_iter().flatten();
    nodes.filter_map(|node| Some(node.as_str()?.to_owned())).collect()
}

/// A plan without the changes on those of its placements' nodes that refuse it.
fn without_nodes(state: &State, plan: &Plan, refused: &[String]) -> Plan {
    let mut accepted = plan.clone();
    let on: BTreeSet<String> = plan
        .placements
        .iter()
        .flat_map(|placements| &placements.nodes)
        .map(|node| node.to_string())
        .filter(|node| refused.contains(node))
        .collect();
    let stays =
        |id: &AllocId| state.alloc(*id).is_none_or(|alloc| !on.contains(&alloc.node_id().to_string()));
    accepted.stops.iter_mut().for_each(|stops| stops.ids.0.retain(stays));
    accepted.stops.retain(|stops| !stops.ids.is_empty());
    for placements in &mut accepted.placements {
        let mut kept = Placements { canary: placements.canary, ..Placements::new(placements.common.clone()) };
        for row in 0..placements.len() {
            let node = placements.node_of(row);
            if refused.contains(&node.to_string()) {
                continue;
            }
            let known = kept.nodes.iter().position(|known| *known == node);
            let node = known.map_or_else(|| kept.add_node(node), |index| index as u32);
            kept.push(Placement {
                id: placements.ids.0[row],
                node,
                name_index: placements.name_index[row],
                previous: placements.previous.get(row),
                assigned: placements.assigned.get(row).cloned().unwrap_or_default(),
                reschedule: placements.reschedule.get(row).cloned().flatten(),
                preempted: placements.preempted.get(row).cloned().unwrap_or_default(),
            });
        }
        if kept.len() < placements.len() {
            *placements = kept;
        }
    }
    accepted
}

/// The state after a plan was accepted, as far as a scheduler or the checker reads it.
pub(super) fn apply_plan(state: &State, plan: &Plan) -> State {
    apply_plan_at(state, plan, NOW)
}

/// The same at a given time.
pub fn apply_plan_at(state: &State, plan: &Plan, now: Timestamp) -> State {
    let mut after = state.clone();
    let mut changes: Vec<Change> = Vec::new();
    if let Some(planned) = &plan.deployment {
        let mut deployment = planned.clone();
        deployment.modify_index = state.index().next();
        if state.deployment(deployment.id).is_none() {
            deployment.create_index = state.index().next();
        }
        changes.push(Change::Deployment(deployment.into()));
    }
    let none = || AllocsChanged { by_servers: true, ..AllocsChanged::default() };
    for updates in &plan.updates {
        let ids = updates.ids.clone();
        let change = match &updates.change {
            Update::InPlace(common) => {
                // In another deployment, the allocation's health has to be determined again.
                let is_moved = |id: &AllocId| {
                    state.alloc(*id).is_some_and(|alloc| alloc.deployment_id() != common.deployment_id)
                };
                let (moved, unmoved): (Vec<AllocId>, Vec<AllocId>) = ids.0.into_iter().partition(is_moved);
                let change = AllocsChanged { common: Some(Arc::clone(common)), ..none() };
                let ids = moved.into_iter().collect();
                let moved = AllocsChanged { ids, health: Some(None), ..change.clone() };
                changes.push(Change::AllocsChanged(Box::new(moved)));
                AllocsChanged { ids: unmoved.into_iter().collect(), ..change }
            }
            Update::Unknown { followup_eval } => AllocsChanged {
                ids,
                client: Some((ClientStatus::Unknown, "".into())),
                append_state: Some(AllocState { client_status: Some(ClientStatus::Unknown), time: now }),
                followup_eval: followup_eval.map(Some),
                ..none()
            },
            Update::Reconnect => AllocsChanged {
                ids,
                append_state: Some(AllocState { client_status: Some(ClientStatus::Running), time: now }),
                ..none()
            },
            Update::RescheduleLater { followup_eval } => {
                AllocsChanged { ids, followup_eval: Some(Some(*followup_eval)), ..none() }
            }
            Update::RescheduleFailed => AllocsChanged {
                ids,
                reschedule: Some(model::alloc::RescheduleOutcome::NoPlacement),
                ..none()
            },
        };
        changes.push(Change::AllocsChanged(Box::new(change)));
    }
    let ends = |ids, desired: DesiredStatus, client: Option<ClientStatus>| {
        let client = client.map(|client| (client, "".into()));
        let desired = Some((desired, "".into()));
        Change::AllocsChanged(Box::new(AllocsChanged { ids, desired, client, ..none() }))
    };
    for stops in &plan.stops {
        changes.push(ends(stops.ids.clone(), DesiredStatus::Stop, stops.client_status));
    }
    for victims in plan.placements.iter().flat_map(|placements| &placements.preempted) {
        changes.push(ends(victims.iter().copied().collect(), DesiredStatus::Evict, None));
    }
    changes.extend(plan.placements.iter().cloned().map(Box::new).map(Change::AllocsPlaced));
    let set = ChangeSet {
        index: state.index().next(),
        at: now,
        request_id: RequestId::from_bytes([2; 16]),
        cause: Cause::PlanResult,
        trace: None,
        result: Vec::new(),
        changes,
    };
    after.apply(&set).expect("a plan can be applied to the state from which it was made");
    after
}

/// Labels an evaluation that the scheduler made by its trigger and time.
fn label(eval: &Evaluation) -> String {
    format!("{}@{}", eval.trigger, eval.wait_until.as_secs())
}

/// The names of ids that the scheduler generated.
struct Names {
    evals: BTreeMap<EvalId, String>,
    /// Deployments that existed before.
    known: BTreeSet<DeploymentId>,
}

impl Names {
    fn eval(&self, id: EvalId) -> String {
        self.evals.get(&id).cloned().unwrap_or_else(|| id.to_string())
    }

    fn deployment(&self, id: DeploymentId) -> String {
        if self.known.contains(&id) { id.to_string() } else { "deployment:new".to_owned() }
    }

    fn plan(&self, before: &State, plan: &Plan) -> Value {
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
                    "followup": group.followup_eval.map(|id| self.eval(id)),
                    "reschedule_outcome": outcome.map(|outcome| outcome.as_str()),
                })
            }));
        }
        let mut updates: BTreeMap<AllocId, Value> = BTreeMap::new();
        for group in &plan.updates {
            for id in &group.ids.0 {
                let form = updates.entry(*id).or_insert_with(|| self.unchanged(before, *id));
                self.update(form, &group.change);
            }
        }
        let placed = apply_plan(before, plan);
        let mut placements = Vec::new();
        let mut preemptions = Vec::new();
        for placed_together in &plan.placements {
            for (row, id) in placed_together.ids.0.iter().enumerate() {
                placements.push(self.placement(&placed, *id));
                let victims = placed_together.preempted.get(row).into_iter().flatten();
                preemptions.extend(victims.map(|victim| json!({ "alloc": victim.to_string() })));
            }
        }
        let deployment = plan.deployment.as_ref().map(|deployment| {
            let mut form =
                serde_json::to_value(deployment.to_api()).expect("a deployment can be encoded as JSON");
            form["ID"] = self.deployment(deployment.id).into();
            form
        });
        let deployment_updates = plan.deployment_updates.iter().map(|update| {
            json!({
                "deployment": self.deployment(update.id),
                "status": update.status.as_str(),
                "description": &*update.description,
            })
        });
        json!({
            "stops": stops,
            "updates": updates.into_values().collect::<Vec<_>>(),
            "placements": placements,
            "preemptions": preemptions,
            "deployment": deployment,
            "deployment_updates": deployment_updates.collect::<Vec<_>>(),
            "all_at_once": plan.all_at_once,
        })
    }

    fn unchanged(&self, before: &State, id: AllocId) -> Value {
        let alloc = before.alloc(id).expect("only existing allocations are updated");
        json!({
            "alloc": id.to_string(),
            "job_version": alloc.common().job.version,
            "deployment": alloc.deployment_id().map(|id| self.deployment(id)),
            "deployment_healthy": alloc.health().and_then(|health| health.healthy),
            "canary": alloc.health().is_some_and(|health| health.canary),
            "followup": alloc.extra().followup_eval.map(|id| self.eval(id)),
        })
    }

    fn update(&self, form: &mut Value, change: &Update) {
        let kind = match change {
            Update::InPlace(common) => {
                form["job_version"] = common.job.version.into();
                let deployment = json!(common.deployment_id.map(|id| self.deployment(id)));
                if form["deployment"] != deployment {
                    form["deployment"] = deployment;
                    form["deployment_healthy"] = Value::Null;
                    form["canary"] = Value::Null;
                }
                "in-place"
            }
            Update::Unknown { followup_eval } => {
                form["client_status"] = "unknown".into();
                form["client_description"] = "alloc is unknown since its node is disconnected".into();
                if let Some(followup) = followup_eval {
                    form["followup"] = self.eval(*followup).into();
                }
                "unknown"
            }
            Update::Reconnect => "reconnect",
            Update::RescheduleLater { followup_eval } => {
                form["followup"] = self.eval(*followup_eval).into();
                "reschedule-later"
            }
            Update::RescheduleFailed => {
                form["reschedule_outcome"] = "no placement".into();
                "attribute"
            }
        };
        form["kind"] = kind.into();
    }

    fn placement(&self, after: &State, id: AllocId) -> Value {
        let alloc = after.alloc(id).expect("the allocation was placed").to_allocation();
        let dump = serde_json::to_value(alloc.to_dump()).expect("an allocation can be encoded as JSON");
        let preempts = alloc.extra.preempted.iter().map(|victim| Value::from(victim.to_string()));
        json!({
            "name": dump["Name"],
            "group": dump["TaskGroup"],
            "node": dump["NodeID"],
            "job_version": dump["JobVersion"],
            "canary": alloc.health.is_some_and(|health| health.canary),
            "previous": dump["PreviousAllocation"],
            "deployment": alloc.common.deployment_id.map(|id| self.deployment(id)),
            "reschedule_events": dump["RescheduleTracker"]["Events"],
            "reschedule_outcome": dump["RescheduleTracker"]["LastReschedule"],
            "preempts": preempts.collect::<Vec<_>>(),
            "resources": without_zeros(&dump["AllocatedResources"]),
            "metrics": dump["Metrics"],
        })
    }

    fn updated(&self, eval: &Evaluation) -> Value {
        let api = serde_json::to_value(eval.to_api()).expect("an evaluation can be encoded as JSON");
        let preempted = eval.annotations.iter().flat_map(|annotations| &annotations.preempted);
        json!({
            "status": eval.status.as_str(),
            "description": &*eval.status_description,
            "queued": api["QueuedAllocations"],
            "failed_tg_allocs": api["FailedTGAllocs"],
            "blocked_eval": eval.blocked_eval.is_some(),
            "next_eval": eval.next_eval.is_some(),
            "deployment": eval.deployment_id.map(|id| self.deployment(id)),
            "annotations": {
                "DesiredTGUpdates": api["PlanAnnotations"]["DesiredTGUpdates"],
                "PreemptedAllocs": preempted.map(|id| id.to_string()).collect::<Vec<_>>(),
            },
        })
    }
}

fn created(eval: &Evaluation) -> Value {
    let classes: Map<String, Value> = eval
        .class_eligibility
        .iter()
        .map(|(class, is_eligible)| (class.to_string(), (*is_eligible).into()))
        .collect();
    json!({
        "trigger": eval.trigger.as_str(),
        "type": eval.kind.as_str(),
        "priority": eval.priority,
        "status": eval.status.as_str(),
        "description": &*eval.status_description,
        "job": &*eval.job.id,
        "node": eval.node_id.map(|id| id.to_string()),
        "previous_eval": eval.previous_eval.map(|id| id.to_string()),
        "wait_until": eval.wait_until.as_secs(),
        "class_eligibility": classes,
        "escaped": eval.escaped_class,
        "quota_limit": &*eval.quota_limit,
        "missing_resources": eval.missing_resources.iter().map(|name| name.to_string()).collect::<Vec<_>>(),
        "failed_groups": eval.failed_groups.keys().map(|group| group.to_string()).collect::<Vec<_>>(),
    })
}
