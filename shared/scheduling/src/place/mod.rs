//! Placing: a node for each allocation that a job misses, the best at its turn.
//!
//! [`Placer`] is what an attempt asks. Whatever the plan does goes through it, so that every placement sees what those
//! before it left: room, ports, distinct rules, spreads, victims.

mod alike;
mod candidates;
mod demand;
mod reasons;
mod scan;
mod standings;
mod turns;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocMetric, AllocatedResources, Assigned, ClientStatus, Reason};
use model::eval::Evaluation;
use model::job::{Job, JobType, TaskGroup};
use model::{AllocId, Text};
use state::{AllocRef, NodePage, State};

pub(crate) use demand::common_share;
pub(crate) use scan::add_exhausted_resources;
pub(crate) use world::World;

use candidates::{Candidates, NOBODY, Place, Turn, slots};
use scan::{Nodes, Scan, scan};

use crate::feasible::{BaseNodes, Feasibility};

/// How many placements of a group are told of one by one; of more, one speaks for all.
pub(crate) const EXPLAINED_MAX: usize = 8;

/// A version of the job that placements are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(usize);

/// One placement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wish<'a> {
    pub(crate) version: Version,
    /// The place of its group among the version's.
    pub(crate) group: usize,
    /// The id that the allocation will have.
    pub(crate) id: AllocId,
    /// The number in its name.
    pub(crate) name_index: u32,
    /// The allocation that it follows: where that one failed is worse, where its data is is better.
    pub(crate) previous: Option<AllocRef<'a>>,
    /// Whether it takes that one's place: then the stop is staged for the choice, and stays if there is one.
    pub(crate) replaces: bool,
    /// Whether all is to be told of this choice.
    pub(crate) explain: bool,
}

/// The node that an allocation gets.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) slot: u32,
    /// What it gets of the node beyond its common share.
    pub(crate) assigned: Assigned,
    /// Allocations of other jobs that make room for it.
    pub(crate) victims: Vec<AllocId>,
    /// How the choice went, where that was to be told.
    pub(crate) metric: Option<Box<AllocMetric>>,
}

/// What a predecessor says of where one should go.
#[derive(Debug)]
struct Preferences {
    /// Slots of nodes on which it, or those before it, failed.
    penalised: Vec<u32>,
    /// Where its data is.
    preferred: Option<u32>,
}

/// What the short way says of a first pass.
enum Shortly<'a> {
    /// A node with what it gives, and what is told of the choice.
    Found(u32, Place<'a>, Option<Box<AllocMetric>>),
    /// There is no room, and why.
    Nothing(Box<AllocMetric>),
    /// Every node has to be looked at.
    Unknown,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    eval: &'a Evaluation,
    world: World<'a>,
    stacks: Vec<Stack<'a>>,
    /// Keys of volumes that are not there and of which placements failed for it.
    missing: Vec<Text>,
}

/// What is known of one version of the job.
#[derive(Debug)]
struct Stack<'a> {
    job: &'a Job,
    base: BaseNodes,
    feasibility: Feasibility<'a>,
    /// By the groups' places, once they are asked for.
    groups: Vec<Option<Box<Candidates<'a>>>>,
    /// Whether others may have to make room for it.
    may_preempt: bool,
}

impl<'a> Placer<'a> {
    pub(crate) fn of(state: &'a State, pages: &'a [&'a NodePage], eval: &'a Evaluation) -> Self {
        let world = World::of(state, pages, &eval.job);
        Self { eval, world, stacks: Vec::new(), missing: Vec::new() }
    }

    /// The nodes.
    pub(crate) fn pages(&self) -> &'a [&'a NodePage] {
        self.world.pages
    }

    /// The number of a version of the job, by which placements name it.
    pub(crate) fn version(&mut self, job: &'a Job) -> Version {
        let known = self.stacks.iter().position(|stack| std::ptr::eq(stack.job, job));
        Version(known.unwrap_or_else(|| {
            self.stacks.push(Stack::of(&self.world, job));
            self.stacks.len() - 1
        }))
    }

    /// The nodes that a version may run on at all.
    pub(crate) fn base(&self, version: Version) -> &BaseNodes {
        &self.stacks[version.0].base
    }

    /// What all allocations of a group get alike.
    pub(crate) fn share(&mut self, version: Version, group: usize) -> &AllocatedResources {
        &self.candidates(version, group).share
    }

    /// The plan stops one of the job's allocations.
    pub(crate) fn stop(&mut self, alloc: AllocRef<'a>) {
        self.world.stop(alloc);
    }

    /// It does not after all.
    pub(crate) fn unstop(&mut self, alloc: AllocRef<'a>) {
        self.world.unstop(alloc);
    }

    /// Whether a group, as a version has it, fits in the place of an allocation; if so, the plan moves it to that version
    /// where it is.
    pub(crate) fn update_in_place(&mut self, version: Version, group: usize, alloc: AllocRef<'a>) -> bool {
        let Some(node) = alloc.node() else { return false };
        let slot = node.slot();
        self.candidates(version, group);
        let stack = &mut self.stacks[version.0];
        // A pass like any other, over one node: what it finds of classes is remembered.
        if stack.feasibility.reason(group, node).is_some() {
            return false;
        }
        let candidates = stack.groups[group].as_mut().expect("it was just made");
        self.world.stop(alloc);
        candidates.catch_up(&self.world);
        let volumes = candidates.volumes.take();
        let asked =
            volumes.as_ref().map(|volumes| volumes.asked(&self.world.room, alloc.name_index().unwrap_or(0)));
        let turn = Turn { id: alloc.id(), penalised: &[], volumes: asked, preempts: false };
        let fits = candidates.look_at(&self.world, slot, &turn).is_ok();
        drop(turn);
        candidates.volumes = volumes;
        self.world.unstop(alloc);
        if fits {
            self.world.update(alloc);
        }
        fits
    }

    /// Chooses a node, and takes it; if there is none, says why.
    pub(crate) fn place(&mut self, wish: &Wish<'a>) -> Result<Chosen, Box<AllocMetric>> {
        self.staging(wish, |placer, wish, prefers| {
            let mut chosen = placer.choose(wish, prefers);
            match &mut chosen {
                Err(metric) => metric.reasons = placer.reasons(wish, |_| true),
                Ok(Chosen { slot, metric: Some(metric), .. }) if is_bad(metric) => {
                    metric.reasons = placer.reasons(wish, |other| other != *slot);
                }
                Ok(_) => {}
            }
            chosen
        })
    }

    /// Everything that keeps an allocation of a group from the nodes in `slots`.
    pub(crate) fn reasons_of(
        &mut self,
        version: Version,
        group: usize,
        slots: &BTreeSet<u32>,
    ) -> Vec<Reason> {
        self.candidates(version, group);
        let (id, name_index) = (NOBODY, 0);
        let wish = Wish { version, group, id, name_index, previous: None, replaces: false, explain: false };
        self.reasons(&wish, |slot| slots.contains(&slot))
    }

    /// Everything that keeps one from those nodes of the base set that are asked about.
    fn reasons(&mut self, wish: &Wish<'a>, asks: impl Fn(u32) -> bool) -> Vec<Reason> {
        self.at_turn(wish, &[], false, |world, candidates, feasibility, base, turn| {
            let nodes = slots(&base.words).filter(|slot| asks(*slot));
            reasons::reasons(world, candidates, (feasibility, wish.group), turn, nodes)
        })
    }

    /// Looks at the candidates as they are at a placement's turn.
    fn at_turn<T>(
        &mut self,
        wish: &Wish<'a>,
        penalised: &[u32],
        preempts: bool,
        look: impl FnOnce(&World<'a>, &mut Candidates<'a>, &mut Feasibility<'a>, &BaseNodes, &Turn<'_, 'a>) -> T,
    ) -> T {
        let Stack { base, feasibility, groups, .. } = &mut self.stacks[wish.version.0];
        let candidates = groups[wish.group].as_mut().expect("it is asked for before");
        candidates.catch_up(&self.world);
        let volumes = candidates.volumes.take();
        let asked = volumes.as_ref().map(|volumes| volumes.asked(&self.world.room, wish.name_index));
        let turn = Turn { id: wish.id, penalised, volumes: asked, preempts };
        let seen = look(&self.world, candidates, feasibility, base, &turn);
        drop(turn);
        candidates.volumes = volumes;
        seen
    }

    /// Has the predecessor's stop staged while a node is chosen, and takes it back if there is none.
    fn staging(
        &mut self,
        wish: &Wish<'a>,
        choose: impl FnOnce(&mut Self, &Wish<'a>, &Preferences) -> Result<Chosen, Box<AllocMetric>>,
    ) -> Result<Chosen, Box<AllocMetric>> {
        self.candidates(wish.version, wish.group);
        let leaves = wish.previous.filter(|alloc| wish.replaces && !self.world.room.is_gone(alloc.id()));
        if let Some(alloc) = leaves {
            self.world.stop(alloc);
        }
        let preferences = self.preferences(wish);
        let chosen = choose(self, wish, &preferences);
        if chosen.is_err()
            && let Some(alloc) = leaves
        {
            self.world.unstop(alloc);
        }
        chosen
    }

    /// [`place`](Self::place) without any short way.
    #[cfg(test)]
    fn place_by_scan(&mut self, wish: &Wish<'a>) -> Result<Chosen, Box<AllocMetric>> {
        self.staging(wish, Self::choose_by_scan)
    }

    /// Puts an allocation on the one node that it is for, if there is room; others may have to make it.
    pub(crate) fn place_on(&mut self, wish: &Wish<'a>, slot: u32) -> Result<Chosen, Box<AllocMetric>> {
        self.candidates(wish.version, wish.group);
        let may_preempt = self.stacks[wish.version.0].may_preempt;
        let scan = self.pass(wish, &[], Nodes::Own(slot), may_preempt);
        self.settle(wish, scan)
    }

    /// Which classes of nodes could serve, of those that were looked at.
    pub(crate) fn class_eligibility(&self) -> BTreeMap<Text, bool> {
        self.stacks.first().map_or_else(BTreeMap::new, |stack| stack.feasibility.class_eligibility())
    }

    /// Whether classes cannot answer for all of their nodes.
    pub(crate) fn escapes_class(&self) -> bool {
        self.stacks.first().is_some_and(|stack| stack.feasibility.escapes_class())
    }

    /// Resources that no node brings and that placements failed for.
    pub(crate) fn missing_resources(&self) -> &[Text] {
        &self.missing
    }

    fn candidates(&mut self, version: Version, group: usize) -> &mut Candidates<'a> {
        let (current, older) = self.stacks.split_at_mut(version.0.min(1));
        let Stack { job, base, feasibility, groups, .. } = &mut older[version.0.saturating_sub(1)];
        groups[group].get_or_insert_with(|| {
            if let Some(current) = current.first() {
                let there = current.job.spec.group(&job.spec.task_groups[group].name);
                feasibility.inherit(group, &current.feasibility, there.map(|(place, _)| place));
            }
            let feasible = feasibility.scan(group, base);
            let of = (*job, &job.spec.task_groups[group]);
            Box::new(Candidates::new(&mut self.world, self.eval, of, feasible))
        })
    }

    fn preferences(&self, wish: &Wish<'a>) -> Preferences {
        let stack = &self.stacks[wish.version.0];
        let group = &stack.job.spec.task_groups[wish.group];
        let preferred = wish.previous.and_then(|alloc| preferred(stack.job, group, alloc));
        Preferences {
            penalised: wish.previous.map_or_else(Vec::new, |alloc| penalised(self.world.state, alloc)),
            preferred: preferred.filter(|slot| stack.base.contains(*slot)),
        }
    }

    fn choose(&mut self, wish: &Wish<'a>, prefers: &Preferences) -> Result<Chosen, Box<AllocMetric>> {
        match self.best(wish, prefers) {
            Shortly::Found(slot, place, metric) => Ok(self.take(wish, slot, place, metric)),
            Shortly::Nothing(metric) => {
                let scan = Scan { best: None, metric: *metric };
                self.settle_or_preempt(wish, prefers, scan)
            }
            Shortly::Unknown => self.choose_by_scan(wish, prefers),
        }
    }

    /// The same by a look at every node, after which all is known.
    fn choose_by_scan(&mut self, wish: &Wish<'a>, prefers: &Preferences) -> Result<Chosen, Box<AllocMetric>> {
        let scan = self.pass_preferring(wish, prefers, false);
        self.settle_or_preempt(wish, prefers, scan)
    }

    fn settle_or_preempt(
        &mut self,
        wish: &Wish<'a>,
        prefers: &Preferences,
        mut scan: Scan<'a>,
    ) -> Result<Chosen, Box<AllocMetric>> {
        if scan.best.is_none() && self.stacks[wish.version.0].may_preempt {
            scan = self.pass_preferring(wish, prefers, true);
        }
        self.settle(wish, scan)
    }

    /// What a first pass would find, without looking at every node.
    fn best(&mut self, wish: &Wish<'a>, prefers: &Preferences) -> Shortly<'a> {
        let candidates = self.stacks[wish.version.0].groups[wish.group].as_ref();
        let candidates = candidates.expect("it is asked for before");
        let is_told_shortly = candidates.is_told_shortly() && prefers.preferred.is_none();
        if wish.explain && !is_told_shortly || candidates.differ_by_placement() {
            return Shortly::Unknown;
        }
        self.at_turn(wish, &prefers.penalised, false, |world, candidates, feasibility, base, turn| {
            let preferred = prefers.preferred.filter(|slot| candidates.is_feasible(*slot));
            let preferred =
                preferred.and_then(|slot| Some((slot, candidates.look_at(world, slot, turn).ok()?)));
            if let Some((slot, place)) = preferred {
                return Shortly::Found(slot, place, None);
            }
            candidates.get_ready(world, turn);
            let best = candidates.best(world, turn);
            let is_told = wish.explain || best.is_none() && is_told_shortly;
            let metric = is_told
                .then(|| Box::new(scan::tell(world, candidates, feasibility, (base, wish.group), turn)));
            match (best, metric) {
                (Some((slot, place)), metric) => {
                    feasibility.pass_in_silence(wish.group);
                    Shortly::Found(slot, place, metric)
                }
                (None, Some(metric)) => Shortly::Nothing(metric),
                (None, None) => Shortly::Unknown,
            }
        })
    }

    fn pass_preferring(&mut self, wish: &Wish<'a>, prefers: &Preferences, preempts: bool) -> Scan<'a> {
        if let Some(slot) = prefers.preferred {
            let scan = self.pass(wish, &prefers.penalised, Nodes::Preferred(slot), preempts);
            if scan.best.is_some() {
                return scan;
            }
        }
        self.pass(wish, &prefers.penalised, Nodes::Base, preempts)
    }

    fn pass(&mut self, wish: &Wish<'a>, penalised: &[u32], nodes: Nodes, preempts: bool) -> Scan<'a> {
        self.at_turn(wish, penalised, preempts, |world, candidates, feasibility, base, turn| {
            scan(world, candidates, feasibility, (base, wish.group), turn, nodes)
        })
    }

    fn settle(&mut self, wish: &Wish<'a>, scan: Scan<'a>) -> Result<Chosen, Box<AllocMetric>> {
        let Scan { best, metric } = scan;
        let mut metric = Box::new(metric);
        match best {
            Some((slot, place)) => {
                let metric = wish.explain.then_some(metric);
                Ok(self.take(wish, slot, place, metric))
            }
            None => {
                let candidates = self.candidates(wish.version, wish.group);
                add_exhausted_resources(&mut metric, candidates.group);
                let missing = candidates.volumes.as_ref().map(|volumes| volumes.missing(wish.name_index));
                self.missing.extend(missing.into_iter().flatten());
                Err(metric)
            }
        }
    }

    fn take(
        &mut self,
        wish: &Wish<'a>,
        slot: u32,
        place: Place<'a>,
        metric: Option<Box<AllocMetric>>,
    ) -> Chosen {
        let Stack { job, groups, .. } = &mut self.stacks[wish.version.0];
        let candidates = groups[wish.group].as_mut().expect("it was chosen from");
        let Place { offer, victims, .. } = place;
        victims.iter().for_each(|alloc| self.world.preempt(*alloc));
        let room = &mut self.world.room;
        room.take(slot, offer.demand);
        room.take_assigned(slot, &candidates.share, &offer.assigned);
        if candidates.volumes.is_some() {
            room.welcome(slot, job, candidates.group, wish.name_index);
        }
        self.world.placed(slot, candidates.number);
        let victims = victims.into_iter().map(AllocRef::id).collect();
        Chosen { slot, assigned: offer.assigned, victims, metric }
    }
}

impl<'a> Stack<'a> {
    fn of(world: &World<'a>, job: &'a Job) -> Self {
        let spec = &job.spec;
        Self {
            job,
            base: BaseNodes::of(world.state, world.pages, spec),
            feasibility: Feasibility::of(world.state, world.pages, spec),
            groups: spec.task_groups.iter().map(|_| None).collect(),
            may_preempt: may_preempt(world.state, spec.kind),
        }
    }
}

/// Whether the best node has more against it than for it.
fn is_bad(metric: &AllocMetric) -> bool {
    metric.scores.first().is_some_and(|best| best.normalized < 0.0)
}

///
fn may_preempt(state: &State, kind: JobType) -> bool {
    state.scheduler_config().is_none_or(|config| match kind {
        JobType::Service => config.preemption.service,
        JobType::Batch => config.preemption.batch,
        JobType::System => config.preemption.system,
        JobType::SysBatch => config.preemption.sysbatch,
    })
}

/// Slots of the nodes on which an allocation and its predecessors failed.
fn penalised(state: &State, alloc: AllocRef<'_>) -> Vec<u32> {
    let own = (alloc.client_status() == ClientStatus::Failed).then(|| alloc.node_slot());
    let events = alloc.extra().reschedule.iter().flat_map(|tracker| &tracker.events);
    let earlier = events.filter_map(|event| state.node(event.previous_node).map(|node| node.slot()));
    own.into_iter().chain(earlier).collect()
}

/// Where an allocation's data is, if its successor should go there.
fn preferred(job: &Job, group: &TaskGroup, alloc: AllocRef<'_>) -> Option<u32> {
    let (disk, old, new) = (&group.ephemeral_disk, &alloc.job().spec, &job.spec);
    let same_nodes = old.node_pool == new.node_pool && old.datacenters == new.datacenters;
    let node = alloc.node().filter(|node| node.is_ready())?;
    ((disk.sticky || disk.migrate) && same_nodes).then(|| node.slot())
}

#[cfg(test)]
mod tests;
