//! Reconciliation: which allocations of a group are kept, stopped, updated, replaced or rescheduled
//! (`docs/rules/scheduling.md` §§7.3 to 7.11).
//!
//! It decides what should be placed, not where. `sets` sorts a group's allocations into sets by status and node
//! (`classify`, `reschedule`, `reconnect`), `surplus` selects allocations above the count, `update` finds allocations
//! of other versions (`changed`), `canaries` and `rollout` pace updates, `missing` determines placements, and
//! `stopping` handles stopped jobs and removed groups.

mod canaries;
mod changed;
mod classify;
mod missing;
mod names;
mod reconnect;
mod reschedule;
mod rollout;
mod sets;
mod stopping;
mod surplus;
mod update;

use model::alloc::ClientStatus;
use model::eval::{DesiredUpdates, Evaluation};
use model::job::{Job, JobType, TaskGroup, UpdateStrategy};
use model::{AllocId, Timestamp};
use state::{AllocRef, NodePage};

pub(crate) use changed::needs_restart;
pub(crate) use classify::{Taint, is_expired, needs_reconnect, taint};
pub(crate) use names::Names;
pub(crate) use reschedule::{ran_successfully, tracker};
pub(crate) use rollout::{Rollout, new_entry, pacing};
pub(crate) use stopping::{stop_all, stop_unwanted, stopping_on_gone_nodes};

use crate::{Attempt, NewId};
use canaries::Canaries;
use sets::Sets;

/// Descriptions of stops, as the API shows them.
pub(crate) mod reason {
    pub(crate) const NOT_NEEDED: &str = "alloc not needed due to job update";
    pub(crate) const RECONNECTED: &str = "alloc not needed due to disconnected client reconnect";
    pub(crate) const MIGRATING: &str = "alloc is being migrated";
    pub(crate) const UPDATING: &str = "alloc is being updated due to job update";
    pub(crate) const LOST: &str = "alloc is lost since its node is down";
    pub(crate) const TAINTED: &str = "alloc not needed as node is tainted";
    pub(crate) const RESCHEDULED: &str = "alloc was rescheduled because it failed";
}

/// Input of an attempt's reconciliation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) pages: &'a [&'a NodePage],
    pub(crate) eval: &'a Evaluation,
    pub(crate) now: Timestamp,
}

/// An allocation to stop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stop<'a> {
    pub(crate) alloc: AllocRef<'a>,
    pub(crate) description: &'static str,
    pub(crate) client_status: Option<ClientStatus>,
}

impl<'a> Stop<'a> {
    pub(crate) fn of(alloc: AllocRef<'a>, description: &'static str) -> Self {
        Self { alloc, description, client_status: None }
    }

    /// A stop of an allocation that was lost with its node.
    pub(crate) fn lost(alloc: AllocRef<'a>) -> Self {
        Self { alloc, description: reason::LOST, client_status: Some(ClientStatus::Lost) }
    }
}

/// An allocation to place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedPlacement<'a> {
    /// The index in its name.
    pub(crate) name: u32,
    pub(crate) previous: Option<AllocRef<'a>>,
    pub(crate) cause: Cause,
    pub(crate) is_canary: bool,
    /// If set, the last stable version is placed, because canaries are being tried, but no version older than this
    ///
    pub(crate) downgrade: Option<u64>,
}

/// Why an allocation is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There are too few allocations, or the predecessor migrates.
    Missing,
    /// The predecessor was lost.
    Lost,
    /// The predecessor failed or is disconnected. It stops only if this allocation can be placed.
    Reschedule,
    /// The predecessor runs another version. It stops only if this allocation can be placed.
    Update,
}

/// Changes of one group.
#[derive(Debug)]
pub(crate) struct GroupPlan<'a> {
    pub(crate) stops: Vec<Stop<'a>>,
    pub(crate) placements: Vec<WantedPlacement<'a>>,
    /// Allocations to replace, by the index in their names.
    pub(crate) destructive: Vec<AllocRef<'a>>,
    pub(crate) in_place: Vec<AllocRef<'a>>,
    /// Allocations whose nodes got disconnected, each with the time at which it becomes lost.
    pub(crate) disconnecting: Vec<(Timestamp, AllocRef<'a>)>,
    /// Allocations that reconnect.
    pub(crate) reconnecting: Vec<AllocRef<'a>>,
    /// Allocations that are rescheduled later, each with its time.
    pub(crate) later: Vec<(Timestamp, AllocRef<'a>)>,
    /// Lost allocations whose replacement is delayed, each with its time.
    pub(crate) delayed: Vec<(Timestamp, AllocRef<'a>)>,
    pub(crate) names: Names,
    pub(crate) updates: DesiredUpdates,
    /// Whether the group has reached the state that its deployment wants.
    pub(crate) is_complete: bool,
}

impl<'a> GroupPlan<'a> {
    fn new(names: Names) -> Self {
        Self {
            stops: Vec::new(),
            placements: Vec::new(),
            destructive: Vec::new(),
            in_place: Vec::new(),
            disconnecting: Vec::new(),
            reconnecting: Vec::new(),
            later: Vec::new(),
            delayed: Vec::new(),
            names,
            updates: DesiredUpdates::default(),
            is_complete: false,
        }
    }

    /// Adds a stop, and counts it in the annotations.
    fn count_stop(&mut self, stop: Stop<'a>) {
        self.updates.stop += 1;
        self.stop(stop);
    }

    /// Adds a stop, unless the allocation is already stopped and the stop would not change its client status.
    fn stop(&mut self, stop: Stop<'a>) {
        let changes = |status: ClientStatus| status != stop.alloc.client_status();
        if !stop.alloc.desired_status().is_terminal() || stop.client_status.is_some_and(changes) {
            self.stops.push(stop);
        }
    }
}

/// Decides whether an allocation can stay on its node when its group changes.
pub(crate) trait InPlaceCheck<'a> {
    /// Whether the node exists and is in the job's datacenters and pool.
    fn is_allowed_on_node(&self, alloc: AllocRef<'_>) -> bool;
    /// Whether the group fits on the node in place of the allocation. If it does, the allocation is updated in place.
    fn fits(&mut self, alloc: AllocRef<'a>) -> bool;
}

/// The group that is reconciled; the job has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) attempt: &'a Attempt<'a>,
    pub(crate) context: Context<'a>,
    pub(crate) job: &'a Job,
    pub(crate) group: &'a TaskGroup,
}

impl<'a> Target<'a> {
    fn is_batch(&self) -> bool {
        self.job.spec.kind == JobType::Batch
    }

    fn count(&self) -> usize {
        self.group.count as usize
    }

    /// The update block; `None` if deployments are not supported, so that all allocations are updated at once.
    fn update(&self) -> Option<&'a UpdateStrategy> {
        self.group.update.as_ref().filter(|_| self.attempt.rollouts && !self.is_batch())
    }
}

/// Reconciles a group that the job has.
pub(crate) fn reconcile<'a>(
    target: Target<'a>,
    allocs: &[AllocRef<'a>],
    rollout: &mut Rollout<'a>,
    in_place: &mut dyn InPlaceCheck<'a>,
    new_id: NewId<'_>,
) -> GroupPlan<'a> {
    if target.group.count == 0 {
        return stop_unwanted(target.context, target.is_batch(), allocs);
    }
    let mut entry = rollout.entry(target.group, pacing(target.update()));
    let mut plan = GroupPlan::new(Names::new(0, &[], &[]));
    let mut base = sets::base(target, allocs, &mut plan);
    canaries::stop_unneeded(&mut base, rollout, &mut plan);
    let canaries = Canaries::current(target.context, &mut base, rollout, &mut plan);

    let mut sets = Sets::of(target, &base, rollout, &mut plan);
    sets.reconnect(&base, target.job, &mut plan);
    let is_held = sets.delay_lost(target.context, allocs, &mut plan);
    let is_on_trial = |alloc: &AllocRef<'a>| entry.is_canarying() && canaries.has(*alloc);
    let (on_trial, others): (Vec<_>, Vec<_>) = sets.named().partition(is_on_trial);
    let numbers = |allocs: Vec<AllocRef<'a>>| allocs.into_iter().map(number).collect::<Vec<u32>>();
    plan.names = Names::new(target.group.count, &numbers(others), &numbers(on_trial));
    sets.stop_surplus(target.count(), &canaries, entry.is_canarying(), &mut plan);
    sets.stop_superseded(target.job, &mut plan);
    sets.forget_stopped(&mut plan);

    sets.update(target, &mut plan, in_place);
    if entry.is_canarying() {
        sets.untainted.retain(|alloc| !canaries.has(*alloc));
    }
    sets.stop_excess_updates(target.count(), &mut plan);
    let is_changing = !plan.destructive.is_empty() || !plan.in_place.is_empty();
    if !entry.exists {
        entry.group.desired_total += (plan.destructive.len() + plan.in_place.len()) as u32;
    }
    let needs_canaries = canaries.place(target.update(), &mut entry, rollout, &mut plan);
    let is_ready = !rollout.is_paused() && !rollout.has_failed() && !entry.is_canarying();
    let mut limit = sets.limit(target, &entry, rollout, &plan);

    let missing = if is_held { Vec::new() } else { sets.missing(target.count(), &entry, &mut plan) };
    if !entry.exists {
        entry.group.desired_total += missing.len() as u32;
    }
    let is_complete = !is_changing && missing.is_empty() && sets.is_stable() && !needs_canaries;
    limit = limit.saturating_sub(missing.len());
    sets.emit(missing, is_ready, rollout, &mut plan);
    update::cut_destructive(if is_ready { limit } else { 0 }, &mut plan);
    sets.forget_replaced(&plan);
    sets.migrate(target.is_batch(), &entry, &mut plan);
    if plan.placements.len() > target.count() {
        // At most as many placements as the count.
        plan.placements.truncate(target.count());
        plan.updates.place = target.count() as u64;
    }

    let runs = |alloc: &AllocRef<'_>| alloc.common().job == target.job.version_key();
    let begins = !entry.exists && entry.group.desired_total > 0 && pacing(target.update()).is_some();
    if begins && (is_changing || !base.iter().any(runs)) {
        rollout.attach(target.attempt, target.job, target.group, entry.group.clone(), new_id);
    }
    plan.is_complete = is_complete && is_done(&entry);
    sets.conclude(plan)
}

/// Whether the group's part of the deployment is complete.
fn is_done(entry: &rollout::GroupEntry) -> bool {
    let group = &entry.group;
    !entry.exists
        || group.healthy_allocs >= group.desired_total.max(group.desired_canaries)
            && (group.desired_canaries == 0 || group.promoted)
}

/// The index in an allocation's name, 0 if the name has none (`docs/rules/scheduling.md` §0).
pub(crate) fn number(alloc: AllocRef<'_>) -> u32 {
    alloc.name_index().unwrap_or(0)
}

fn ids<'a>(allocs: impl Iterator<Item = AllocRef<'a>>) -> std::collections::BTreeSet<AllocId> {
    allocs.map(AllocRef::id).collect()
}
