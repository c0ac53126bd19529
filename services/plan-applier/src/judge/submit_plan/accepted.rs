//! The accepted part of a plan: placements on nodes that can take them, and field changes, which keep everything that is
//! newer than the plan (`docs/architecture/evaluations.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::alloc::{AllocCommon, AllocState, ClientStatus, DesiredStatus, RescheduleOutcome};
use model::change::{AllocsChanged, Change};
use model::columns::AllocIds;
use model::deployment::{Deployment, DeploymentGroup, DeploymentUpdate};
use model::plan::{Placement, Placements, Plan, Stops, Update, Updates};
use model::{AllocId, EvalId, JobKey, Text, Timestamp, TraceContext};
use state::{AllocRef, State};
use wire::Refusal;

use super::super::volume_claims;
use super::super::work::Work;
use super::verify::Verified;

/// The client description of an allocation whose node is disconnected.
const UNKNOWN_DESCRIPTION: &str = "alloc is unknown since its node is disconnected";

/// The accepted part of a plan.
#[derive(Default)]
pub(super) struct AcceptedPlan {
    deployment: Option<Box<Deployment>>,
    deployment_updates: Vec<DeploymentUpdate>,
    /// Updates, then stops, then evictions. If two of them change the same allocation, the later one prevails.
    changes: Vec<AllocsChanged>,
    placements: Vec<Placements>,
    /// The jobs of preempted allocations.
    preempted_jobs: BTreeSet<JobKey>,
    /// The delayed evaluations that allocations refer to now.
    pub(super) followups: BTreeSet<EvalId>,
}

impl AcceptedPlan {
    pub(super) fn new(work: &Work<'_>, job: &JobKey, plan: Plan, verified: &Verified) -> Self {
        let (state, at) = (work.state(), work.at());
        let deployment = plan.deployment.and_then(|planned| merge_deployment(work, *planned)).map(Box::new);
        let mut accepted_plan = Self { deployment, ..Self::default() };
        for update in plan.deployment_updates {
            let is_created = accepted_plan.deployment.as_ref().is_some_and(|created| created.id == update.id);
            if is_created || state.deployment(update.id).is_some_and(|known| !known.status.is_terminal()) {
                accepted_plan.deployment_updates.push(update);
            }
        }
        // An allocation whose node is back needs no replacement.
        let reconnected = reconnected(state, &plan.updates, verified);
        let placements = plan.placements.into_iter().enumerate();
        let placements = placements.map(|(number, placements)| {
            accepted_rows(placements, |node| verified.accepts_node(number, node), &reconnected)
        });
        accepted_plan.placements = placements.filter(|placements| !placements.is_empty()).collect();
        let replaced = if verified.rejected.is_empty() { BTreeSet::new() } else { accepted_plan.replaced() };
        let of_job = |ids: &AllocIds| {
            let allocs = ids.0.iter().filter_map(|id| state.alloc(*id));
            allocs.filter(|alloc| alloc.job_key() == job).collect::<Vec<_>>()
        };
        for updates in plan.updates {
            let mut allocs = of_job(&updates.ids);
            allocs.retain(|alloc| verified.accepts_slot(alloc.node_slot()));
            accepted_plan.update(allocs, updates.change, at);
        }
        for stops in plan.stops {
            let mut allocs = of_job(&stops.ids);
            // A stop whose replacement was accepted on another node stands, even if its own node is rejected.
            allocs.retain(|alloc| verified.accepts_slot(alloc.node_slot()) || replaced.contains(&alloc.id()));
            accepted_plan.stop(allocs, stops, at);
        }
        accepted_plan.evict(state, job);
        accepted_plan
    }

    /// The allocations that accepted placements replace.
    fn replaced(&self) -> BTreeSet<AllocId> {
        self.placements.iter().flat_map(|placements| &placements.previous.0).copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deployment.is_none()
            && self.deployment_updates.is_empty()
            && self.changes.is_empty()
            && self.placements.is_empty()
    }

    /// Writes the changes. Returns the jobs of preempted allocations.
    pub(super) fn write(self, work: &mut Work<'_>) -> Result<BTreeSet<JobKey>, Refusal> {
        if let Some(deployment) = self.deployment {
            work.apply(Change::Deployment(deployment.into()))?;
        }
        self.deployment_updates.iter().try_for_each(|update| work.set_deployment_status(update))?;
        self.changes.into_iter().try_for_each(|change| work.change_allocs(change))?;
        let trace = work.trace();
        for placements in self.placements {
            let claimed = volume_claims::wanted(work.state(), &placements);
            work.place(with_trace(placements, trace))?;
            volume_claims::write(work, claimed)?;
        }
        Ok(self.preempted_jobs)
    }

    fn push(&mut self, allocs: &[AllocRef<'_>], change: AllocsChanged) {
        if allocs.is_empty() {
            return;
        }
        self.followups.extend(change.followup_eval.flatten());
        let ids = allocs.iter().map(|alloc| alloc.id()).collect();
        self.changes.push(AllocsChanged { ids, by_servers: true, ..change });
    }

    fn update(&mut self, mut allocs: Vec<AllocRef<'_>>, update: Update, at: Timestamp) {
        let none = AllocsChanged::default();
        allocs.retain(|alloc| !alloc.desired_status().is_terminal());
        let live = allocs.iter().copied().filter(|alloc| !alloc.is_terminal());
        match update {
            Update::InPlace(common) => {
                // In another deployment, the allocation's health has to be determined again.
                let is_same = |alloc: &AllocRef<'_>| alloc.deployment_id() == common.deployment_id;
                let (unmoved, moved): (Vec<AllocRef<'_>>, Vec<AllocRef<'_>>) = live.partition(is_same);
                let change = AllocsChanged { common: Some(common), ..none };
                self.push(&unmoved, change.clone());
                self.push(&moved, AllocsChanged { health: Some(None), ..change });
            }
            Update::Unknown { followup_eval } => {
                let client = Some((ClientStatus::Unknown, UNKNOWN_DESCRIPTION.into()));
                let append_state = Some(state_at(ClientStatus::Unknown, at));
                let followup_eval = followup_eval.map(Some);
                let change = AllocsChanged { client, append_state, followup_eval, ..none };
                self.push(&Vec::from_iter(live), change);
            }
            Update::Reconnect => {
                let mut by_status: BTreeMap<ClientStatus, Vec<AllocRef<'_>>> = BTreeMap::new();
                for alloc in allocs {
                    by_status.entry(alloc.client_status()).or_default().push(alloc);
                }
                for (status, allocs) in by_status {
                    let append_state = Some(state_at(status, at));
                    self.push(&allocs, AllocsChanged { append_state, ..none.clone() });
                }
            }
            Update::RescheduleLater { followup_eval } => {
                let followup_eval = Some(Some(followup_eval));
                self.push(&allocs, AllocsChanged { followup_eval, ..none });
            }
            Update::RescheduleFailed => {
                let reschedule = Some(RescheduleOutcome::NoPlacement);
                self.push(&allocs, AllocsChanged { reschedule, ..none });
            }
        }
    }

    /// An allocation that has ended on its node since the snapshot is stopped as well, but keeps its client status. One
    /// that the servers had stopped before keeps its description, and can only become lost.
    fn stop(&mut self, allocs: Vec<AllocRef<'_>>, stops: Stops, at: Timestamp) {
        let (mut stopped, running): (Vec<_>, Vec<_>) =
            allocs.into_iter().partition(|alloc| alloc.desired_status().is_terminal());
        let (ended, live): (Vec<_>, Vec<_>) =
            running.into_iter().partition(|alloc| alloc.client_status().is_terminal());
        let client_change = AllocsChanged {
            client: stops.client_status.map(|status| (status, Text::clone(&stops.description))),
            append_state: stops.client_status.map(|status| state_at(status, at)),
            ..AllocsChanged::default()
        };
        let stop = AllocsChanged {
            desired: Some((DesiredStatus::Stop, stops.description)),
            followup_eval: stops.followup_eval.map(Some),
            reschedule: stops.reschedule,
            ..AllocsChanged::default()
        };
        self.push(&ended, stop.clone());
        let AllocsChanged { client, append_state, .. } = client_change.clone();
        self.push(&live, AllocsChanged { client, append_state, ..stop });
        if stops.client_status == Some(ClientStatus::Lost) {
            stopped.retain(|alloc| !alloc.client_status().is_terminal());
            self.push(&stopped, client_change);
        }
    }

    /// Evicts preempted allocations of other jobs, unless they have ended or are gone.
    fn evict(&mut self, state: &State, job: &JobKey) {
        let placements = std::mem::take(&mut self.placements);
        let mut evicted = BTreeSet::new();
        let rows = placements.iter().flat_map(|placements| {
            let rows = placements.preempted.iter().enumerate();
            rows.map(move |(row, victims)| (placements.ids.0[row], placements.node_of(row), victims))
        });
        for (by, node, victims) in rows {
            let mut allocs: Vec<_> = victims.iter().filter_map(|id| state.alloc(*id)).collect();
            allocs.retain(|victim| {
                let may_go = victim.node_id() == node && victim.job_key() != job && !victim.is_terminal();
                may_go && evicted.insert(victim.id())
            });
            self.preempted_jobs.extend(allocs.iter().map(|victim| victim.job_key().clone()));
            let description = format!("Preempted by alloc ID {by}").into();
            let desired = Some((DesiredStatus::Evict, description));
            self.push(&allocs, AllocsChanged { desired, preempted_by: Some(by), ..AllocsChanged::default() });
        }
        self.placements = placements;
    }
}

fn state_at(status: ClientStatus, time: Timestamp) -> AllocState {
    AllocState { client_status: Some(status), time }
}

/// Allocations that the plan marks as unknown although their node is back.
fn reconnected(state: &State, updates: &[Updates], verified: &Verified) -> BTreeSet<AllocId> {
    let unknown = updates.iter().filter(|updates| matches!(updates.change, Update::Unknown { .. }));
    let allocs = unknown.flat_map(|updates| &updates.ids.0).filter_map(|id| state.alloc(*id));
    allocs.filter(|alloc| !verified.accepts_slot(alloc.node_slot())).map(|alloc| alloc.id()).collect()
}

/// Adds the trace of the plan's command to placements, so that the nodes' work on them continues it.
fn with_trace(placements: Placements, trace: Option<TraceContext>) -> Placements {
    let Some(trace) = trace else { return placements };
    let common = AllocCommon { trace: Some(trace), ..AllocCommon::clone(&placements.common) };
    Placements { common: Arc::new(common), ..placements }
}

/// The rows whose nodes accept them and that do not replace an allocation in `stay`.
fn accepted_rows(
    placements: Placements,
    accepts: impl Fn(u32) -> bool,
    stay: &BTreeSet<AllocId>,
) -> Placements {
    let node_indexes = 0..u32::try_from(placements.nodes.len()).expect("a plan names fewer than 2³² nodes");
    let is_unneeded =
        |row| !stay.is_empty() && placements.previous.get(row).is_some_and(|id| stay.contains(&id));
    if node_indexes.clone().all(&accepts) && !(0..placements.len()).any(is_unneeded) {
        return placements;
    }
    let mut kept = Placements { canary: placements.canary, ..Placements::new(placements.common.clone()) };
    let mut new_indexes = Vec::with_capacity(placements.nodes.len());
    for (node, index) in placements.nodes.iter().zip(node_indexes) {
        new_indexes.push(accepts(index).then(|| kept.add_node(*node)));
    }
    for row in 0..placements.len() {
        let Some(node) = new_indexes[placements.node[row] as usize].filter(|_| !is_unneeded(row)) else {
            continue;
        };
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
    kept
}

/// The deployment to write; `None` if nothing changes.
///
/// Only the applier counts. Counters, status and promotion of an existing deployment never go back. Groups that
/// the plan does not mention are kept.
fn merge_deployment(work: &Work<'_>, planned: Deployment) -> Option<Deployment> {
    let (modify_index, modify_time) = (work.index(), work.at());
    let Some(stored) = work.state().deployment(planned.id) else {
        let without_counters = |(name, group)| (name, with_counters_of(&DeploymentGroup::default(), group));
        return Some(Deployment {
            groups: planned.groups.into_iter().map(without_counters).collect(),
            create_index: modify_index,
            create_time: modify_time,
            modify_index,
            modify_time,
            trace: work.trace().or(planned.trace),
            ..planned
        });
    };
    if stored.status.is_terminal() || stored.job.job != planned.job.job {
        return None;
    }
    let mut groups = stored.groups.clone();
    for (name, group) in planned.groups {
        let counted = stored.groups.get(&name).cloned().unwrap_or_default();
        let promoted = counted.promoted || group.promoted;
        groups.insert(name, DeploymentGroup { promoted, ..with_counters_of(&counted, group) });
    }
    let changed = Deployment { groups, ..Deployment::clone(stored) };
    (changed != **stored).then_some(Deployment { modify_index, modify_time, ..changed })
}

fn with_counters_of(counted: &DeploymentGroup, group: DeploymentGroup) -> DeploymentGroup {
    DeploymentGroup {
        require_progress_by: counted.require_progress_by,
        placed_canaries: counted.placed_canaries.clone(),
        placed_allocs: counted.placed_allocs,
        healthy_allocs: counted.healthy_allocs,
        unhealthy_allocs: counted.unhealthy_allocs,
        ..group
    }
}
