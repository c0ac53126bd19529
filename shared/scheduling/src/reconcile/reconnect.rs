//! Reconnecting allocations: whether the original or its replacement is kept (`docs/rules/scheduling.md` ).
//! Also lost allocations whose replacement is delayed.

use std::collections::BTreeMap;

use model::alloc::{ClientStatus, DesiredStatus};
use model::job::{Job, Reconcile};
use model::{AllocId, Nanos, Timestamp};
use state::AllocRef;

use super::classify::disconnect;
use super::sets::{Sets, is_of_older_version};
use super::{Context, GroupPlan, Stop, ids, reason};

/// Lower bound of the time that an allocation's tasks may take to end.
const DEFAULT_KILL_TIMEOUT: Nanos = Nanos::from_secs(5);

impl<'a> Sets<'a> {
    /// Decides which reconnecting allocations are kept. `base` are all allocations of the group that count.
    pub(super) fn reconnect(&mut self, base: &[AllocRef<'a>], job: &Job, plan: &mut GroupPlan<'a>) {
        if self.reconnecting.is_empty() {
            return;
        }
        let by_id: BTreeMap<AllocId, AllocRef<'a>> = base.iter().map(|alloc| (alloc.id(), *alloc)).collect();
        let mut stops: Vec<Stop<'a>> = Vec::new();
        for alloc in std::mem::take(&mut self.reconnecting) {
            let own = stop_of_its_own(alloc, job).or_else(|| stop_for_others(alloc, &by_id, &mut stops));
            match own {
                Some(stop) => stops.push(stop),
                None => {
                    if alloc.client_status() == ClientStatus::Running {
                        plan.reconnecting.push(alloc);
                    }
                    self.untainted.push(alloc);
                }
            }
        }
        let stopped = ids(stops.iter().map(|stop| stop.alloc));
        let stays = |alloc: &AllocRef<'a>| !stopped.contains(&alloc.id());
        for set in [&mut self.untainted, &mut self.migrating, &mut self.lost, &mut self.now] {
            set.retain(stays);
        }
        self.later.retain(|(_, alloc)| stays(alloc));
        plan.disconnecting.retain(|(_, alloc)| stays(alloc));
        // A replacement may reconnect, too, and stop because its original is kept.
        plan.reconnecting.retain(stays);
        plan.updates.reconnect = plan.reconnecting.len() as u64;
        let mut seen = std::collections::BTreeSet::new();
        stops.retain(|stop| seen.insert(stop.alloc.id()));
        stops.into_iter().for_each(|stop| plan.count_stop(stop));
    }

    /// Finds lost allocations that may still run on their nodes for a while. Returns whether the group has to
    /// wait for such an allocation, whether it was lost now or earlier.
    pub(super) fn delay_lost(
        &self,
        context: Context<'_>,
        allocs: &[AllocRef<'a>],
        plan: &mut GroupPlan<'a>,
    ) -> bool {
        let due = |alloc: &AllocRef<'a>| Some((ends_on_client(*alloc, context.now)?, *alloc));
        plan.delayed = self.lost.iter().filter_map(due).filter(|(time, _)| *time > context.now).collect();
        let waits = |alloc: &AllocRef<'a>| {
            alloc.client_status() == ClientStatus::Lost
                && alloc.desired_status() == DesiredStatus::Stop
                && alloc.extra().next.is_none()
                && ends_on_client(*alloc, context.now).is_some_and(|time| time > context.now)
        };
        !plan.delayed.is_empty() || allocs.iter().any(waits)
    }
}

/// The stop of an allocation that reconnects but must not be kept (R-7.49 (a) and (b)).
fn stop_of_its_own<'a>(alloc: AllocRef<'a>, job: &Job) -> Option<Stop<'a>> {
    let is_stopped = alloc.desired_status().is_terminal();
    let transition = alloc.transition();
    let has_to_go = [transition.migrate, transition.reschedule, transition.force_reschedule]
        .contains(&Some(true))
        || is_of_older_version(alloc, job);
    if alloc.client_status() == ClientStatus::Failed && !is_stopped {
        let client_status = Some(ClientStatus::Failed);
        Some(Stop { alloc, description: reason::RESCHEDULED, client_status })
    } else {
        (is_stopped || has_to_go).then(|| Stop::of(alloc, reason::NOT_NEEDED))
    }
}

/// The stop of an allocation whose replacement is kept. Adds the stops of replacements that are not kept (R-7.49 (c)).
fn stop_for_others<'a>(
    alloc: AllocRef<'a>,
    by_id: &BTreeMap<AllocId, AllocRef<'a>>,
    stops: &mut Vec<Stop<'a>>,
) -> Option<Stop<'a>> {
    let next = |alloc: AllocRef<'a>| alloc.extra().next.and_then(|next| by_id.get(&next)).copied();
    // The limit guards against cycles in the links.
    let replacements = std::iter::successors(next(alloc), |last| next(*last)).take(by_id.len());
    for replacement in replacements.filter(|replacement| !replacement.desired_status().is_terminal()) {
        if keeps_replacement(alloc, replacement) {
            return Some(Stop::of(alloc, reason::NOT_NEEDED));
        }
        stops.push(Stop::of(replacement, reason::RECONNECTED));
    }
    None
}

/// Whether the replacement is kept, and not the original.
fn keeps_replacement(original: AllocRef<'_>, replacement: AllocRef<'_>) -> bool {
    let [old, new] = [original, replacement].map(|alloc| &alloc.common().job);
    if new.version > old.version || new.create_index > old.create_index {
        return true;
    }
    let strategy = disconnect(original).and_then(|disconnect| disconnect.reconcile);
    match strategy.unwrap_or(Reconcile::BestScore) {
        Reconcile::KeepOriginal => false,
        Reconcile::KeepReplacement => true,
        Reconcile::BestScore => has_better_score(original, replacement),
        Reconcile::LongestRunning => match (started(original), started(replacement)) {
            (None, None) => has_better_score(original, replacement),
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(original), Some(replacement)) => original >= replacement,
        },
    }
}

fn has_better_score(original: AllocRef<'_>, replacement: AllocRef<'_>) -> bool {
    let best = |alloc: AllocRef<'_>| {
        let metric = alloc.metrics().unpack().unwrap_or_default();
        metric.scores.iter().map(|score| score.normalized).max_by(f64::total_cmp)
    };
    let is_better = match (best(original), best(replacement)) {
        (None, Some(_)) => true,
        (Some(original), Some(replacement)) => replacement > original,
        (_, None) => false,
    };
    let runs = |alloc: AllocRef<'_>| alloc.client_status() == ClientStatus::Running;
    is_better && (runs(replacement) || !runs(original))
}

/// The start time of the leader task, or otherwise of the task that has run longest.
fn started(alloc: AllocRef<'_>) -> Option<Timestamp> {
    let leader = alloc.group()?.tasks.iter().find(|task| task.leader);
    let states = alloc.task_states().unpack().unwrap_or_default();
    let start = |state: &model::alloc::TaskState| {
        let start = if state.last_restart.is_set() { state.last_restart } else { state.started_at };
        Some(start).filter(|start| start.is_set())
    };
    match leader.and_then(|leader| states.iter().find(|state| state.task == leader.name)) {
        Some(state) => start(state),
        None => states.iter().filter_map(start).min(),
    }
}

/// The time by which the node of a lost allocation has stopped it (`stop_on_client_after`); `None` if that is not set.
fn ends_on_client(alloc: AllocRef<'_>, now: Timestamp) -> Option<Timestamp> {
    let after = disconnect(alloc)?.stop_on_client_after.filter(|after| *after > Nanos::ZERO)?;
    let is_lost = |state: &&model::alloc::AllocState| state.client_status == Some(ClientStatus::Lost);
    let since = alloc.extra().states.iter().find(is_lost).map_or(now, |state| state.time);
    let kill = alloc.group()?.tasks.iter().map(|task| task.kill_timeout);
    Some(since + after + kill.fold(DEFAULT_KILL_TIMEOUT, Nanos::max))
}
