//! Reconciling: which allocations of a group stay, stop, are updated, replaced or rescheduled
//! (`spec/scheduling.md` §§7.3 to 7.11).
//!
//! Says what should be, not where. `sets` sorts a group's allocations by what is to be thought of them (`classify`,
//! `reschedule`, `reconnect`), `surplus` says which are too many, `update` which run another version (`changed`),
//! `canaries` and `rollout` how a version takes over, `missing` what has to be placed; `stopping` is about all that
//! needs no more thought.

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
pub(crate) use rollout::{Rollout, fresh, pacing};
pub(crate) use stopping::{stop_all, stop_unwanted, stopping_on_gone_nodes};

use crate::{Attempt, NewId};
use canaries::Canaries;
use sets::Sets;

/// Why allocations stop, as the API shows it.
pub(crate) mod reason {
    pub(crate) const NOT_NEEDED: &str = "alloc not needed due to job update";
    pub(crate) const RECONNECTED: &str = "alloc not needed due to disconnected client reconnect";
    pub(crate) const MIGRATING: &str = "alloc is being migrated";
    pub(crate) const UPDATING: &str = "alloc is being updated due to job update";
    pub(crate) const LOST: &str = "alloc is lost since its node is down";
    pub(crate) const TAINTED: &str = "alloc not needed as node is tainted";
    pub(crate) const RESCHEDULED: &str = "alloc was rescheduled because it failed";
}

/// What one attempt reconciles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) pages: &'a [&'a NodePage],
    pub(crate) eval: &'a Evaluation,
    pub(crate) now: Timestamp,
}

/// An allocation that should stop.
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

    /// One that went with its node.
    pub(crate) fn lost(alloc: AllocRef<'a>) -> Self {
        Self { alloc, description: reason::LOST, client_status: Some(ClientStatus::Lost) }
    }
}

/// An allocation that should be placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The number that its name should have.
    pub(crate) name: u32,
    pub(crate) previous: Option<AllocRef<'a>>,
    pub(crate) cause: Cause,
    pub(crate) is_canary: bool,
    /// The last stable version runs on while canaries are tried, but none older than this.
    pub(crate) downgrade: Option<u64>,
}

/// Why something is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There are too few, or the predecessor has to move.
    Missing,
    /// The predecessor was lost.
    Lost,
    /// The predecessor failed, or is out of sight; it stops only if there is a place for this one.
    Reschedule,
    /// The predecessor runs another version; likewise.
    Update,
}

/// What should become of one group.
#[derive(Debug)]
pub(crate) struct GroupPlan<'a> {
    pub(crate) stops: Vec<Stop<'a>>,
    pub(crate) places: Vec<Place<'a>>,
    /// Those that are replaced, by the numbers in their names.
    pub(crate) destructive: Vec<AllocRef<'a>>,
    pub(crate) in_place: Vec<AllocRef<'a>>,
    /// Those whose nodes got out of sight, with the moment from which they are lost.
    pub(crate) disconnecting: Vec<(Timestamp, AllocRef<'a>)>,
    /// Those that are heard of again.
    pub(crate) reconnecting: Vec<AllocRef<'a>>,
    /// Those that are rescheduled later, with the moment.
    pub(crate) later: Vec<(Timestamp, AllocRef<'a>)>,
    /// Lost ones that are replaced only after a while, with the moment.
    pub(crate) delayed: Vec<(Timestamp, AllocRef<'a>)>,
    pub(crate) names: Names,
    pub(crate) updates: DesiredUpdates,
    /// Whether the group is where its deployment wants it.
    pub(crate) is_complete: bool,
}

impl<'a> GroupPlan<'a> {
    fn new(names: Names) -> Self {
        Self {
            stops: Vec::new(),
            places: Vec::new(),
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

    /// A stop that is told as one.
    fn count_stop(&mut self, stop: Stop<'a>) {
        self.updates.stop += 1;
        self.stop(stop);
    }

    /// A stop; what was stopped before is not told again.
    fn stop(&mut self, stop: Stop<'a>) {
        let is_news = |status: ClientStatus| status != stop.alloc.client_status();
        if !stop.alloc.desired_status().is_terminal() || stop.client_status.is_some_and(is_news) {
            self.stops.push(stop);
        }
    }
}

/// Whether an allocation can stay on its node when its group changes.
pub(crate) trait OwnNodes<'a> {
    /// Whether the node is there, and of the job's datacenters and pool.
    fn may_be_there(&self, alloc: AllocRef<'_>) -> bool;
    /// Whether the group, as it is now, fits there in the allocation's place; if so, it takes that place.
    fn fits(&mut self, alloc: AllocRef<'a>) -> bool;
}

/// A group that the job has, on its way through the pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) attempt: &'a Attempt<'a>,
    pub(crate) context: Context<'a>,
    pub(crate) job: &'a Job,
    pub(crate) group: &'a TaskGroup,
}

impl<'a> Wanted<'a> {
    fn is_batch(&self) -> bool {
        self.job.spec.kind == JobType::Batch
    }

    fn count(&self) -> usize {
        self.group.count as usize
    }

    /// How versions take over from each other: where nobody moves deployments on, all at once.
    fn update(&self) -> Option<&'a UpdateStrategy> {
        self.group.update.as_ref().filter(|_| self.attempt.rollouts && !self.is_batch())
    }
}

/// What should become of a group that the job has.
pub(crate) fn reconcile<'a>(
    wanted: Wanted<'a>,
    allocs: &[AllocRef<'a>],
    rollout: &mut Rollout<'a>,
    nodes: &mut dyn OwnNodes<'a>,
    new_id: NewId<'_>,
) -> GroupPlan<'a> {
    if wanted.group.count == 0 {
        return stop_unwanted(wanted.context, wanted.is_batch(), allocs);
    }
    let mut part = rollout.part(wanted.group, pacing(wanted.update()));
    let mut plan = GroupPlan::new(Names::new(0, std::iter::empty()));
    let mut base = sets::base(wanted, allocs, &mut plan);
    canaries::stop_unneeded(&mut base, rollout, &mut plan);
    let canaries = Canaries::current(wanted.context, &mut base, rollout, &mut plan);

    let mut sets = Sets::of(wanted, &base, rollout, &mut plan);
    sets.reconnect(&base, wanted.job, &mut plan);
    let is_held = sets.delay_lost(wanted.context, allocs, &mut plan);
    let numbers: Vec<u32> = sets.named().map(number).collect();
    plan.names = Names::new(wanted.group.count, numbers.into_iter());
    sets.stop_surplus(wanted.count(), &canaries, part.is_canarying(), &mut plan);
    sets.stop_superseded(wanted.job, &mut plan);
    sets.forget_stopped(&mut plan);

    sets.update(wanted, &mut plan, nodes);
    if part.is_canarying() {
        sets.untainted.retain(|alloc| !canaries.has(*alloc));
    }
    sets.stop_needless_updates(wanted.count(), &mut plan);
    let is_changing = !plan.destructive.is_empty() || !plan.in_place.is_empty();
    if !part.exists {
        part.group.desired_total += (plan.destructive.len() + plan.in_place.len()) as u32;
    }
    let needs_canaries = canaries.place(wanted.update(), &mut part, rollout, &mut plan);
    let is_ready = !rollout.is_paused() && !rollout.has_failed() && !part.is_canarying();
    let mut limit = sets.limit(wanted, &part, rollout, &plan);

    let missing = if is_held { Vec::new() } else { sets.missing(wanted.count(), &part, &mut plan) };
    if !part.exists {
        part.group.desired_total += missing.len() as u32;
    }
    let is_complete = !is_changing && missing.is_empty() && sets.is_settled() && !needs_canaries;
    limit = limit.saturating_sub(missing.len());
    sets.emit(missing, is_ready, rollout, &mut plan);
    update::cut_destructive(if is_ready { limit } else { 0 }, &mut plan);
    sets.forget_replaced(&plan);
    sets.migrate(wanted.is_batch(), &part, &mut plan);
    if plan.places.len() > wanted.count() {
        plan.places.truncate(wanted.count());
        plan.updates.place = wanted.count() as u64;
    }

    let runs = |alloc: &AllocRef<'_>| alloc.common().job == wanted.job.version_key();
    let begins = !part.exists && part.group.desired_total > 0 && pacing(wanted.update()).is_some();
    if begins && (is_changing || !base.iter().any(runs)) {
        rollout.attach(wanted.attempt, wanted.job, wanted.group, part.group.clone(), new_id);
    }
    plan.is_complete = is_complete && is_done(&part);
    sets.conclude(plan)
}

/// as far as the deployment counts.
fn is_done(part: &rollout::Part) -> bool {
    let group = &part.group;
    !part.exists
        || group.healthy_allocs >= group.desired_total.max(group.desired_canaries)
            && (group.desired_canaries == 0 || group.promoted)
}

/// The number in an allocation's name; one without counts as 0 (`spec/scheduling.md` §0).
pub(crate) fn number(alloc: AllocRef<'_>) -> u32 {
    alloc.name_index().unwrap_or(0)
}

fn ids<'a>(allocs: impl Iterator<Item = AllocRef<'a>>) -> std::collections::BTreeSet<AllocId> {
    allocs.map(AllocRef::id).collect()
}
