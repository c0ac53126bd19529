//! Reconciling: which allocations of a group stay, stop, are updated, replaced or rescheduled
//! (`spec/scheduling.md` §§7.4 to 7.10).
//!
//! Says what should be, not where. As if no group had an update block: without the watcher of deployments nothing would
//! carry a rollout on, so all that has to be replaced is replaced at once.

mod changed;
mod classify;
mod names;
mod reschedule;

use std::collections::BTreeSet;
use std::sync::Arc;

use model::alloc::{AllocCommon, ClientStatus, DesiredStatus};
use model::eval::{DesiredUpdates, Evaluation};
use model::job::{Job, JobType, TaskGroup};
use model::{AllocId, Timestamp};
use state::{AllocRef, NodePage};

pub(crate) use names::Names;
pub(crate) use reschedule::tracker;

use crate::unbuilt::Unbuilt;
use classify::{Class, Taint, classify, taint};
use reschedule::{Asking, Due};

/// Why allocations stop, as the API shows it.
pub(crate) mod reason {
    pub(crate) const NOT_NEEDED: &str = "alloc not needed due to job update";
    pub(crate) const MIGRATING: &str = "alloc is being migrated";
    pub(crate) const UPDATING: &str = "alloc is being updated due to job update";
    pub(crate) const LOST: &str = "alloc is lost since its node is down";
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

/// An allocation that should be placed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    /// The number that its name should have.
    pub(crate) name: u32,
    pub(crate) previous: Option<AllocRef<'a>>,
    pub(crate) cause: Cause,
}

/// Why something is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// There are too few, or the predecessor was lost or has to move.
    Missing,
    /// The predecessor failed; it stops only if there is a place for this one.
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
    /// Those that are rescheduled later, with the moment.
    pub(crate) later: Vec<(Timestamp, AllocRef<'a>)>,
    pub(crate) names: Names,
    pub(crate) updates: DesiredUpdates,
}

impl<'a> GroupPlan<'a> {
    fn new(names: Names) -> Self {
        Self {
            stops: Vec::new(),
            places: Vec::new(),
            destructive: Vec::new(),
            in_place: Vec::new(),
            later: Vec::new(),
            names,
            updates: DesiredUpdates::default(),
        }
    }

    fn stop(&mut self, alloc: AllocRef<'a>, description: &'static str, client_status: Option<ClientStatus>) {
        self.stops.push(Stop { alloc, description, client_status });
    }

    /// A stop that is told as one.
    fn count_stop(&mut self, alloc: AllocRef<'a>, description: &'static str, client: Option<ClientStatus>) {
        self.updates.stop += 1;
        self.stop(alloc, description, client);
    }
}

/// Allocations on nodes that are gone which the servers had stopped before: nobody else will say that they ended.
pub(crate) fn stopping_on_gone_nodes<'a>(
    pages: &[&NodePage],
    allocs: &[AllocRef<'a>],
) -> impl Iterator<Item = Stop<'a>> {
    let is_stopping = |alloc: &AllocRef<'a>| {
        alloc.desired_status().is_terminal()
            && matches!(alloc.client_status(), ClientStatus::Running | ClientStatus::Pending)
            && taint(pages, *alloc) == Taint::Gone
    };
    let lost = |alloc| Stop { alloc, description: reason::LOST, client_status: Some(ClientStatus::Lost) };
    allocs.iter().copied().filter(is_stopping).map(lost)
}

/// Everything of a stopped job's group stops.
pub(crate) fn stop_all<'a>(context: Context<'a>, allocs: &[AllocRef<'a>]) -> GroupPlan<'a> {
    let live: Vec<AllocRef<'a>> = allocs.iter().copied().filter(|alloc| !alloc.is_terminal()).collect();
    stop_group(context, &live)
}

/// A group that the job does not have any more, or wants none of.
pub(crate) fn stop_unwanted<'a>(
    context: Context<'a>,
    is_batch: bool,
    allocs: &[AllocRef<'a>],
) -> GroupPlan<'a> {
    let base: Vec<AllocRef<'a>> =
        allocs.iter().copied().filter(|alloc| is_in_base(*alloc, is_batch)).collect();
    stop_group(context, &base)
}

fn stop_group<'a>(context: Context<'a>, allocs: &[AllocRef<'a>]) -> GroupPlan<'a> {
    let mut plan = GroupPlan::new(Names::new(0, std::iter::empty()));
    plan.updates.stop = allocs.len() as u64;
    for alloc in allocs {
        // What waits for a disconnected node stops like all else.
        match classify(context.pages, *alloc) {
            Ok(Class::Ignored) => {}
            Ok(Class::Lost) => plan.stop(*alloc, reason::LOST, Some(ClientStatus::Lost)),
            Ok(Class::Untainted | Class::Migrating) => plan.stop(*alloc, reason::NOT_NEEDED, None),
            Err(Unbuilt(_)) if taint(context.pages, *alloc) == Taint::Gone => {
                plan.stop(*alloc, reason::LOST, Some(ClientStatus::Lost));
            }
            Err(Unbuilt(_)) => plan.stop(*alloc, reason::NOT_NEEDED, None),
        }
    }
    plan
}

/// what the servers have stopped does not count, but work that a batch job has done does.
fn is_in_base(alloc: AllocRef<'_>, is_batch: bool) -> bool {
    !alloc.desired_status().is_terminal() || is_batch && alloc.transition().reschedule != Some(true)
}

/// Whether an allocation can stay on its node when its group changes.
pub(crate) trait OwnNodes {
    /// Whether the node is there, and of the job's datacenters and pool.
    fn may_be_there(&self, alloc: AllocRef<'_>) -> bool;
    /// Whether the group, as it is now, fits there in the allocation's place; if so, it takes that place.
    fn fits(&mut self, alloc: AllocRef<'_>) -> bool;
}

/// What should become of a group that the job has.
pub(crate) fn reconcile<'a>(
    context: Context<'a>,
    job: &'a Job,
    group: &'a TaskGroup,
    allocs: &[AllocRef<'a>],
    nodes: &mut dyn OwnNodes,
) -> Result<GroupPlan<'a>, Unbuilt> {
    let is_batch = job.spec.kind == JobType::Batch;
    if group.count == 0 {
        return Ok(stop_unwanted(context, is_batch, allocs));
    }
    let mut sets = Sets::of(context, job, group, allocs)?;
    let numbers: Vec<u32> = sets.named().map(number).collect();
    let mut plan = GroupPlan::new(Names::new(group.count, numbers.into_iter()));
    plan.updates.ignore = sets.ignored;

    sets.stop_surplus(group.count as usize, &mut plan);
    if !sets.later.is_empty() || !sets.now.is_empty() {
        let stopped: BTreeSet<AllocId> = plan.stops.iter().map(|stop| stop.alloc.id()).collect();
        sets.later.retain(|(_, alloc)| !stopped.contains(&alloc.id()));
        sets.now.retain(|alloc| !stopped.contains(&alloc.id()));
    }
    sets.update(job, group, &mut plan, nodes);
    if !plan.destructive.is_empty()
        && group.update.as_ref().is_some_and(|update| update.canary > 0)
        && !is_batch
    {
        return Err(Unbuilt("canaries"));
    }
    sets.place_missing(group.count as usize, &mut plan);
    sets.replace_failed(&mut plan);

    let limit = (group.count as usize).saturating_sub(plan.places.len());
    plan.destructive.sort_unstable_by_key(|alloc| (number(*alloc), alloc.id()));
    let beyond = plan.destructive.len().saturating_sub(limit);
    plan.destructive.truncate(limit);
    plan.updates.ignore += beyond as u64;
    plan.updates.destructive_update = plan.destructive.len() as u64;
    plan.updates.in_place_update = plan.in_place.len() as u64;

    sets.migrate(is_batch, &mut plan);
    plan.updates.reschedule_now = sets.now.len() as u64;
    plan.updates.reschedule_later = sets.later.len() as u64;
    plan.later = sets.later;
    Ok(plan)
}

/// The number in an allocation's name; one without counts as 0 (`spec/scheduling.md` §0).
fn number(alloc: AllocRef<'_>) -> u32 {
    alloc.name_index().unwrap_or(0)
}

/// A group's allocations by what is to become of them.
#[derive(Debug, Default)]
struct Sets<'a> {
    untainted: Vec<AllocRef<'a>>,
    migrating: Vec<AllocRef<'a>>,
    lost: Vec<AllocRef<'a>>,
    /// To be rescheduled now; some of them may be among the migrating, too.
    now: Vec<AllocRef<'a>>,
    later: Vec<(Timestamp, AllocRef<'a>)>,
    ignored: u64,
}

impl<'a> Sets<'a> {
    ///
    fn of(
        context: Context<'a>,
        job: &Job,
        group: &'a TaskGroup,
        allocs: &[AllocRef<'a>],
    ) -> Result<Self, Unbuilt> {
        let is_batch = job.spec.kind == JobType::Batch;
        let policy = group.reschedule_policy.as_ref();
        let asking = Asking { policy, is_batch, now: context.now, eval: context.eval.id };
        let mut sets = Self { untainted: Vec::with_capacity(allocs.len()), ..Self::default() };
        for alloc in allocs.iter().copied().filter(|alloc| is_in_base(*alloc, is_batch)) {
            if is_batch && alloc.is_terminal() && is_of_older_version(alloc, job) {
                sets.ignored += 1;
                continue;
            }
            match classify(context.pages, alloc)? {
                Class::Ignored => sets.ignored += 1,
                Class::Untainted => match asking.due(alloc) {
                    Due::Never => sets.untainted.push(alloc),
                    Due::Now => sets.now.push(alloc),
                    Due::At(time) => {
                        sets.untainted.push(alloc);
                        sets.later.push((time, alloc));
                    }
                    Due::Dropped => {}
                },
                Class::Migrating => {
                    match asking.due(alloc) {
                        Due::Now => sets.now.push(alloc),
                        Due::At(time) => sets.later.push((time, alloc)),
                        Due::Never | Due::Dropped => {}
                    }
                    sets.migrating.push(alloc);
                }
                Class::Lost => sets.lost.push(alloc),
            }
        }
        Ok(sets)
    }

    /// Those whose names are in use, each once.
    fn named(&self) -> impl Iterator<Item = AllocRef<'a>> {
        let now = self.now.iter().filter(|alloc| !is_migrating(**alloc));
        self.untainted.iter().chain(&self.migrating).chain(now).chain(&self.lost).copied()
    }

    ///
    fn stop_surplus(&mut self, count: usize, plan: &mut GroupPlan<'a>) {
        for alloc in &self.lost {
            plan.count_stop(*alloc, reason::LOST, Some(ClientStatus::Lost));
        }
        let mut surplus = (self.untainted.len() + self.migrating.len()).saturating_sub(count);
        if surplus == 0 {
            return;
        }
        // Those that have to move anyway go first, the highest numbers before the others.
        self.migrating.sort_unstable_by_key(|alloc| (number(*alloc), alloc.id()));
        while surplus > 0
            && let Some(alloc) = self.migrating.pop()
        {
            plan.names.free(number(alloc));
            plan.count_stop(alloc, reason::NOT_NEEDED, None);
            surplus -= 1;
        }
        let highest = plan.names.take_highest(surplus);
        self.stop_untainted(&mut surplus, plan, |alloc| highest.contains(&number(alloc)));
        self.stop_untainted(&mut surplus, plan, |_| true);
    }

    /// Stops the untainted ones that `which` names, those with the highest numbers first, until there is no surplus.
    fn stop_untainted(
        &mut self,
        surplus: &mut usize,
        plan: &mut GroupPlan<'a>,
        which: impl Fn(AllocRef<'a>) -> bool,
    ) {
        if *surplus == 0 {
            return;
        }
        self.untainted.sort_unstable_by_key(|alloc| std::cmp::Reverse((number(*alloc), alloc.id())));
        self.untainted.retain(|alloc| {
            let goes = *surplus > 0 && alloc.desired_status() == DesiredStatus::Run && which(*alloc);
            if goes {
                plan.names.free(number(*alloc));
                plan.count_stop(*alloc, reason::NOT_NEEDED, None);
                *surplus -= 1;
            }
            !goes
        });
    }

    /// Those of one common share run the same version, so they are compared once.
    fn update(
        &mut self,
        job: &'a Job,
        group: &'a TaskGroup,
        plan: &mut GroupPlan<'a>,
        nodes: &mut dyn OwnNodes,
    ) {
        let mut last: Option<(*const AllocCommon, Change)> = None;
        for alloc in self.untainted.iter().copied() {
            let share = Arc::as_ptr(alloc.common());
            let change = match last {
                Some((of, change)) if of == share => change,
                Some(_) | None => Change::of(alloc, job, group),
            };
            last = Some((share, change));
            let stays = match change {
                Change::None | Change::Restart => false,
                Change::Runtime | Change::Light if alloc.is_terminal() => false,
                Change::Runtime => nodes.may_be_there(alloc),
                Change::Light => nodes.may_be_there(alloc) && nodes.fits(alloc),
            };
            match change {
                Change::None => plan.updates.ignore += 1,
                Change::Runtime | Change::Light if alloc.is_terminal() => plan.updates.ignore += 1,
                Change::Runtime | Change::Light if stays => plan.in_place.push(alloc),
                Change::Runtime | Change::Light | Change::Restart => plan.destructive.push(alloc),
            }
        }
    }

    ///
    fn place_missing(&self, count: usize, plan: &mut GroupPlan<'a>) {
        let mut existing = self.untainted.len() + self.migrating.len();
        let mut place = |alloc: AllocRef<'a>, cause| {
            plan.places.push(Place { name: number(alloc), previous: Some(alloc), cause });
        };
        for alloc in &self.now {
            place(*alloc, Cause::Reschedule);
            existing += usize::from(!is_migrating(*alloc));
        }
        for alloc in &self.lost {
            if existing < count {
                place(*alloc, Cause::Missing);
                existing += 1;
            }
        }
        for _ in existing..count {
            let name = plan.names.next();
            plan.places.push(Place { name, previous: None, cause: Cause::Missing });
        }
        plan.places.truncate(count);
        plan.updates.place = plan.places.len() as u64;
    }

    ///
    fn replace_failed(&self, plan: &mut GroupPlan<'a>) {
        for alloc in self.now.iter().filter(|alloc| !is_migrating(**alloc)) {
            plan.count_stop(*alloc, reason::RESCHEDULED, None);
        }
    }

    ///
    fn migrate(&self, is_batch: bool, plan: &mut GroupPlan<'a>) {
        for alloc in &self.migrating {
            plan.stop(*alloc, reason::MIGRATING, None);
            let transition = alloc.transition();
            let has_no_successor = is_batch
                && (transition.reschedule == Some(true)
                    || transition.migrate_disable_placement == Some(true));
            if !has_no_successor {
                plan.places.push(Place {
                    name: number(*alloc),
                    previous: Some(*alloc),
                    cause: Cause::Missing,
                });
            }
        }
        plan.updates.migrate = self.migrating.len() as u64;
    }
}

/// Whether one that is to be rescheduled now is among those that have to move.
fn is_migrating(alloc: AllocRef<'_>) -> bool {
    !alloc.is_terminal() && alloc.transition().migrate == Some(true)
}

///
fn is_of_older_version(alloc: AllocRef<'_>, job: &Job) -> bool {
    let version = &alloc.common().job;
    version.version < job.version || version.create_index < job.create_index
}

/// How two versions of a group differ, for those that run the older one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    /// Not at all.
    None,
    /// Only in how long they may run: nothing needs to be looked at.
    Runtime,
    /// In what running tasks can take over.
    Light,
    /// In what needs a restart.
    Restart,
}

impl Change {
    fn of(alloc: AllocRef<'_>, job: &Job, group: &TaskGroup) -> Self {
        let old = alloc.job();
        if old.job_modify_index == job.job_modify_index {
            return Self::None;
        }
        let Some(old_group) = alloc.group() else { return Self::Restart };
        if changed::needs_restart((&old.spec, old_group), (&job.spec, group)) {
            Self::Restart
        } else if old_group.max_run_duration != group.max_run_duration {
            Self::Runtime
        } else {
            Self::Light
        }
    }
}
