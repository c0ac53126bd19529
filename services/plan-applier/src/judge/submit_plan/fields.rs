//! What of a plan lands: placements on nodes that can take them, and field changes, which keep whatever is newer than
//! the plan (design §6).

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

use super::super::work::Work;
use super::verify::Verified;

/// What an allocation is told when its node is out of sight.
const UNKNOWN_DESCRIPTION: &str = "alloc is unknown since its node is disconnected";

/// What of a plan lands.
#[derive(Default)]
pub(super) struct Taken {
    deployment: Option<Box<Deployment>>,
    deployment_updates: Vec<DeploymentUpdate>,
    /// Updates, then stops, then evictions: of two that speak of one allocation, the later holds.
    changes: Vec<AllocsChanged>,
    placements: Vec<Placements>,
    /// The jobs of allocations that make room.
    victims: BTreeSet<JobKey>,
    /// The delayed evaluations that allocations point at now.
    pub(super) followups: BTreeSet<EvalId>,
}

impl Taken {
    pub(super) fn new(work: &Work<'_>, job: &JobKey, plan: Plan, verified: &Verified) -> Self {
        let (state, at) = (work.state(), work.at());
        let deployment = plan.deployment.and_then(|planned| merged(work, *planned)).map(Box::new);
        let mut taken = Self { deployment, ..Self::default() };
        for update in plan.deployment_updates {
            let is_begun = taken.deployment.as_ref().is_some_and(|begun| begun.id == update.id);
            if is_begun || state.deployment(update.id).is_some_and(|known| !known.status.is_terminal()) {
                taken.deployment_updates.push(update);
            }
        }
        // What is in sight again needs nobody in its place.
        let in_sight = in_sight(state, &plan.updates, verified);
        let placements = plan.placements.into_iter().enumerate();
        let placements = placements.map(|(number, placements)| {
            accepted(placements, |place| verified.takes_place(number, place), &in_sight)
        });
        taken.placements = placements.filter(|placements| !placements.is_empty()).collect();
        let replaced = if verified.rejected.is_empty() { BTreeSet::new() } else { taken.replaced() };
        let of_job = |ids: &AllocIds| {
            let allocs = ids.0.iter().filter_map(|id| state.alloc(*id));
            allocs.filter(|alloc| alloc.job_key() == job).collect::<Vec<_>>()
        };
        for updates in plan.updates {
            let mut allocs = of_job(&updates.ids);
            allocs.retain(|alloc| verified.takes_slot(alloc.node_slot()));
            taken.update(allocs, updates.change, at);
        }
        for stops in plan.stops {
            let mut allocs = of_job(&stops.ids);
            // What has its replacement elsewhere goes, whatever becomes of the rest on its node.
            allocs.retain(|alloc| verified.takes_slot(alloc.node_slot()) || replaced.contains(&alloc.id()));
            taken.stop(allocs, stops, at);
        }
        taken.evict(state, job);
        taken
    }

    /// The allocations that new ones take the place of.
    fn replaced(&self) -> BTreeSet<AllocId> {
        self.placements.iter().flat_map(|placements| &placements.previous.0).copied().collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deployment.is_none()
            && self.deployment_updates.is_empty()
            && self.changes.is_empty()
            && self.placements.is_empty()
    }

    /// Writes it. Answers with the jobs of allocations that make room.
    pub(super) fn write(self, work: &mut Work<'_>) -> Result<BTreeSet<JobKey>, Refusal> {
        if let Some(deployment) = self.deployment {
            work.apply(Change::Deployment(deployment.into()))?;
        }
        self.deployment_updates.iter().try_for_each(|update| work.set_deployment_status(update))?;
        self.changes.into_iter().try_for_each(|change| work.change_allocs(change))?;
        let trace = work.trace();
        self.placements.into_iter().try_for_each(|placements| work.place(traced(placements, trace)))?;
        Ok(self.victims)
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
                // In another deployment its health is open again.
                let is_same = |alloc: &AllocRef<'_>| alloc.deployment_id() == common.deployment_id;
                let (stay, move_on): (Vec<AllocRef<'_>>, Vec<AllocRef<'_>>) = live.partition(is_same);
                let change = AllocsChanged { common: Some(common), ..none };
                self.push(&stay, change.clone());
                self.push(&move_on, AllocsChanged { health: Some(None), ..change });
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

    /// What has ended on its node meanwhile is stopped all the same, but stays as it ended. What the servers had stopped
    /// stays as it was stopped, and can only turn out to be lost.
    fn stop(&mut self, allocs: Vec<AllocRef<'_>>, stops: Stops, at: Timestamp) {
        let (mut stopped, runs): (Vec<_>, Vec<_>) =
            allocs.into_iter().partition(|alloc| alloc.desired_status().is_terminal());
        let (ended, live): (Vec<_>, Vec<_>) =
            runs.into_iter().partition(|alloc| alloc.client_status().is_terminal());
        let fares = AllocsChanged {
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
        let AllocsChanged { client, append_state, .. } = fares.clone();
        self.push(&live, AllocsChanged { client, append_state, ..stop });
        if stops.client_status == Some(ClientStatus::Lost) {
            stopped.retain(|alloc| !alloc.client_status().is_terminal());
            self.push(&stopped, fares);
        }
    }

    /// Allocations of other jobs make room, unless they have ended or are gone meanwhile.
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
            self.victims.extend(allocs.iter().map(|victim| victim.job_key().clone()));
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

/// Allocations that a plan takes for out of sight although their node was heard of again.
fn in_sight(state: &State, updates: &[Updates], verified: &Verified) -> BTreeSet<AllocId> {
    let unknown = updates.iter().filter(|updates| matches!(updates.change, Update::Unknown { .. }));
    let allocs = unknown.flat_map(|updates| &updates.ids.0).filter_map(|id| state.alloc(*id));
    allocs.filter(|alloc| !verified.takes_slot(alloc.node_slot())).map(|alloc| alloc.id()).collect()
}

/// Placements whose nodes' work on them follows from the plan's command in its trace.
fn traced(placements: Placements, trace: Option<TraceContext>) -> Placements {
    let Some(trace) = trace else { return placements };
    let common = AllocCommon { trace: Some(trace), ..AllocCommon::clone(&placements.common) };
    Placements { common: Arc::new(common), ..placements }
}

/// The rows whose nodes can take them, and that do not take the place of any of `stay`.
fn accepted(placements: Placements, takes: impl Fn(u32) -> bool, stay: &BTreeSet<AllocId>) -> Placements {
    let places = 0..u32::try_from(placements.nodes.len()).expect("a command names fewer than 2³² nodes");
    let is_needless =
        |row| !stay.is_empty() && placements.previous.get(row).is_some_and(|id| stay.contains(&id));
    if places.clone().all(&takes) && !(0..placements.len()).any(is_needless) {
        return placements;
    }
    let mut kept = Placements { canary: placements.canary, ..Placements::new(placements.common.clone()) };
    let mut numbers = Vec::with_capacity(placements.nodes.len());
    for (node, place) in placements.nodes.iter().zip(places) {
        numbers.push(takes(place).then(|| kept.add_node(*node)));
    }
    for row in 0..placements.len() {
        let Some(node) = numbers[placements.node[row] as usize].filter(|_| !is_needless(row)) else {
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

/// The deployment as it is to be; `None` where there is nothing to write.
///
/// Counters are counted here and nowhere else, and of one that exists neither status nor promotion go back; its
/// groups that the plan does not speak of stay.
fn merged(work: &Work<'_>, planned: Deployment) -> Option<Deployment> {
    let (modify_index, modify_time) = (work.index(), work.at());
    let Some(stored) = work.state().deployment(planned.id) else {
        let fresh = |(name, group)| (name, with_counters_of(&DeploymentGroup::default(), group));
        return Some(Deployment {
            groups: planned.groups.into_iter().map(fresh).collect(),
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
