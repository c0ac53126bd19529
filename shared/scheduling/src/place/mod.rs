//! Placement: chooses the best node for one placement request at a time.
//!
//! [`Placer`] is the entry point of an attempt. All changes of the plan go through it, so that every placement sees the
//! effects of those before it: free resources, ports, distinct rules, spreads and preempted allocations.

mod alike;
mod candidates;
mod demand;
mod outlooks;
mod rank_heaps;
mod reasons;
mod scan;
mod tie_order;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use model::alloc::{AllocMetric, AllocatedResources, Assigned, ClientStatus, Reason};
use model::eval::Evaluation;
use model::job::{Job, JobType, TaskGroup};
use model::{AllocId, Text};
use state::{AllocRef, NodePage, State};

pub(crate) use demand::{common_share, networks_on};
pub(crate) use scan::add_exhausted_resources;
pub(crate) use world::World;

use candidates::{Candidates, NO_ALLOC, NodeOffer, PlacementParams, slots};
use scan::{Nodes, Scan, scan};

use crate::feasible::{BaseNodes, Feasibility};

/// Up to this many placements of a group have metrics of their own; in larger groups all placements share the metrics
/// of one.
pub(crate) const EXPLAINED_MAX: usize = 8;

/// Index of a version of the job that placements are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Version(usize);

/// A request to place one allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlacementRequest<'a> {
    pub(crate) version: Version,
    /// The group's index in the version.
    pub(crate) group: usize,
    /// The id that the allocation will have.
    pub(crate) id: AllocId,
    /// The index in the allocation's name.
    pub(crate) name_index: u32,
    /// The predecessor: nodes where it failed get a penalty, and the node with its data is preferred
    ///
    pub(crate) previous: Option<AllocRef<'a>>,
    /// Whether the allocation replaces its predecessor. The stop of the predecessor is then staged during the choice,
    /// and kept if a node is found.
    pub(crate) replaces: bool,
    /// Whether to record metrics for this placement.
    pub(crate) explain: bool,
}

/// The node chosen for an allocation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chosen {
    pub(crate) slot: u32,
    /// The resources that the node assigns to it beyond the group's common share.
    pub(crate) assigned: Assigned,
    /// Allocations of other jobs that are preempted for it.
    pub(crate) victims: Vec<AllocId>,
    /// Metrics of the choice, if they were requested.
    pub(crate) metric: Option<Box<AllocMetric>>,
}

/// Preferences that follow from the predecessor.
#[derive(Debug)]
struct Preferences {
    /// Slots of nodes on which the predecessor, or earlier ones, failed.
    penalised: Vec<u32>,
    /// Slot of the node with the predecessor's data.
    preferred: Option<u32>,
}

/// Result of choosing a node without scanning all nodes.
enum FastPath<'a> {
    /// Slot of the best node, its offer, and the metrics if they were requested.
    Found(u32, NodeOffer<'a>, Option<Box<AllocMetric>>),
    /// No node has enough free resources; with the metrics.
    NoCapacity(Box<AllocMetric>),
    /// No node has enough free resources, and the job may preempt. The pass that preempts records the metrics.
    Preempts,
    /// The fast path cannot answer: all nodes have to be scanned.
    NeedsScan,
}

/// Chooses nodes for the placement requests of one attempt.
#[derive(Debug)]
pub(crate) struct Placer<'a> {
    eval: &'a Evaluation,
    world: World<'a>,
    stacks: Vec<Stack<'a>>,
    /// Keys of missing CSI volumes for which placements failed.
    missing: Vec<Text>,
}

/// The feasible nodes and the candidates for one version of the job.
#[derive(Debug)]
struct Stack<'a> {
    job: &'a Job,
    base: BaseNodes,
    feasibility: Feasibility<'a>,
    /// By group index; created on first use.
    groups: Vec<Option<Box<Candidates<'a>>>>,
    /// Whether the job may preempt others.
    may_preempt: bool,
}

impl<'a> Placer<'a> {
    pub(crate) fn of(state: &'a State, pages: &'a [&'a NodePage], eval: &'a Evaluation) -> Self {
        let world = World::of(state, pages, &eval.job);
        Self { eval, world, stacks: Vec::new(), missing: Vec::new() }
    }

    /// The pages of nodes.
    pub(crate) fn pages(&self) -> &'a [&'a NodePage] {
        self.world.pages
    }

    /// The index of a version of the job, which placement requests refer to.
    pub(crate) fn version(&mut self, job: &'a Job) -> Version {
        let known = self.stacks.iter().position(|stack| std::ptr::eq(stack.job, job));
        Version(known.unwrap_or_else(|| {
            self.stacks.push(Stack::of(&self.world, job));
            self.stacks.len() - 1
        }))
    }

    /// The nodes that a version may run on.
    pub(crate) fn base(&self, version: Version) -> &BaseNodes {
        &self.stacks[version.0].base
    }

    /// The common share of a group's allocations.
    pub(crate) fn share(&mut self, version: Version, group: usize) -> &AllocatedResources {
        &self.candidates(version, group).share
    }

    /// Notes that the plan stops an allocation of the job.
    pub(crate) fn stop(&mut self, alloc: AllocRef<'a>) {
        self.world.stop(alloc);
    }

    /// Notes that the plan writes an ended allocation of the job.
    pub(crate) fn keep_ended(&mut self, alloc: AllocRef<'a>) {
        self.world.keep_ended(alloc);
    }

    /// Reverts [`Self::stop`].
    pub(crate) fn unstop(&mut self, alloc: AllocRef<'a>) {
        self.world.unstop(alloc);
    }

    /// Whether a group of a version fits in place of an existing allocation. If it does, the plan updates the
    /// allocation in place to that version.
    pub(crate) fn update_in_place(&mut self, version: Version, group: usize, alloc: AllocRef<'a>) -> bool {
        let Some(node) = alloc.node() else { return false };
        let slot = node.slot();
        self.candidates(version, group);
        let stack = &mut self.stacks[version.0];
        // This counts as a pass over one node: class reasons that it reports are not reported again.
        if stack.feasibility.reason(group, node).is_some() {
            return false;
        }
        let candidates = stack.groups[group].as_mut().expect("the candidates were created above");
        self.world.stop(alloc);
        candidates.catch_up(&self.world);
        let volumes = candidates.volumes.take();
        let placement_volumes = volumes
            .as_ref()
            .map(|volumes| volumes.for_placement(&self.world.room, alloc.name_index().unwrap_or(0)));
        let params =
            PlacementParams { id: alloc.id(), penalised: &[], volumes: placement_volumes, preempts: false };
        let fits = candidates.evaluate(&self.world, slot, &params).is_ok();
        drop(params);
        candidates.volumes = volumes;
        self.world.unstop(alloc);
        if fits {
            self.world.update(alloc);
        }
        fits
    }

    /// Chooses a node and takes its resources; the error holds the metrics of the failure.
    pub(crate) fn place(&mut self, request: &PlacementRequest<'a>) -> Result<Chosen, Box<AllocMetric>> {
        self.with_staged_stop(request, |placer, request, preferences| {
            let mut chosen = placer.choose(request, preferences);
            match &mut chosen {
                Err(metric) => metric.reasons = placer.reasons(request, |_| true),
                Ok(Chosen { slot, metric: Some(metric), .. }) if has_negative_score(metric) => {
                    metric.reasons = placer.reasons(request, |other| other != *slot);
                }
                Ok(_) => {}
            }
            chosen
        })
    }

    /// Every reason for which an allocation of a group cannot be placed on the nodes in `slots`.
    pub(crate) fn reasons_of(
        &mut self,
        version: Version,
        group: usize,
        slots: &BTreeSet<u32>,
    ) -> Vec<Reason> {
        self.candidates(version, group);
        let (id, name_index) = (NO_ALLOC, 0);
        let request = PlacementRequest {
            version,
            group,
            id,
            name_index,
            previous: None,
            replaces: false,
            explain: false,
        };
        self.reasons(&request, |slot| slots.contains(&slot))
    }

    /// Every reason against those nodes of the base set for which `includes` holds.
    fn reasons(&mut self, request: &PlacementRequest<'a>, includes: impl Fn(u32) -> bool) -> Vec<Reason> {
        self.with_candidates(request, &[], false, |world, candidates, feasibility, base, params| {
            let nodes = slots(&base.words).filter(|slot| includes(*slot));
            reasons::reasons(world, candidates, (feasibility, request.group), params, nodes)
        })
    }

    /// Calls `f` with the candidates brought up to date, and the parameters of one placement.
    fn with_candidates<T>(
        &mut self,
        request: &PlacementRequest<'a>,
        penalised: &[u32],
        preempts: bool,
        f: impl FnOnce(
            &World<'a>,
            &mut Candidates<'a>,
            &mut Feasibility<'a>,
            &BaseNodes,
            &PlacementParams<'_, 'a>,
        ) -> T,
    ) -> T {
        let Stack { base, feasibility, groups, .. } = &mut self.stacks[request.version.0];
        let candidates = groups[request.group].as_mut().expect("callers create the candidates first");
        candidates.catch_up(&self.world);
        let volumes = candidates.volumes.take();
        let placement_volumes =
            volumes.as_ref().map(|volumes| volumes.for_placement(&self.world.room, request.name_index));
        let params = PlacementParams { id: request.id, penalised, volumes: placement_volumes, preempts };
        let result = f(&self.world, candidates, feasibility, base, &params);
        drop(params);
        candidates.volumes = volumes;
        result
    }

    /// Stages the predecessor's stop while a node is chosen, and reverts it if none is found.
    fn with_staged_stop(
        &mut self,
        request: &PlacementRequest<'a>,
        choose: impl FnOnce(&mut Self, &PlacementRequest<'a>, &Preferences) -> Result<Chosen, Box<AllocMetric>>,
    ) -> Result<Chosen, Box<AllocMetric>> {
        self.candidates(request.version, request.group);
        let staged =
            request.previous.filter(|alloc| request.replaces && !self.world.room.is_removed(alloc.id()));
        if let Some(alloc) = staged {
            self.world.stop(alloc);
        }
        let preferences = self.preferences(request);
        let chosen = choose(self, request, &preferences);
        if chosen.is_err()
            && let Some(alloc) = staged
        {
            self.world.unstop(alloc);
        }
        chosen
    }

    /// [`place`](Self::place) without the fast path.
    #[cfg(test)]
    fn place_by_scan(&mut self, request: &PlacementRequest<'a>) -> Result<Chosen, Box<AllocMetric>> {
        self.with_staged_stop(request, Self::choose_by_scan)
    }

    /// Places an allocation on a given node if it fits there, with preemption if that is enabled.
    pub(crate) fn place_on(
        &mut self,
        request: &PlacementRequest<'a>,
        slot: u32,
    ) -> Result<Chosen, Box<AllocMetric>> {
        self.candidates(request.version, request.group);
        let may_preempt = self.stacks[request.version.0].may_preempt;
        let scan = self.pass(request, &[], Nodes::Own(slot), may_preempt);
        self.finish_pass(request, scan)
    }

    /// For each computed class that was checked, whether its nodes are feasible.
    pub(crate) fn class_eligibility(&self) -> BTreeMap<Text, bool> {
        self.stacks.first().map_or_else(BTreeMap::new, |stack| stack.feasibility.class_eligibility())
    }

    /// Whether a class does not determine feasibility for all of its nodes.
    pub(crate) fn escapes_class(&self) -> bool {
        self.stacks.first().is_some_and(|stack| stack.feasibility.escapes_class())
    }

    /// Missing CSI volumes for which placements failed.
    pub(crate) fn missing_resources(&self) -> &[Text] {
        &self.missing
    }

    fn candidates(&mut self, version: Version, group: usize) -> &mut Candidates<'a> {
        let (current, older) = self.stacks.split_at_mut(version.0.min(1));
        let Stack { job, base, feasibility, groups, .. } = &mut older[version.0.saturating_sub(1)];
        groups[group].get_or_insert_with(|| {
            if let Some(current) = current.first() {
                let there = current.job.spec.group(&job.spec.task_groups[group].name);
                feasibility.inherit(group, &current.feasibility, there.map(|(index, _)| index));
            }
            let feasible = feasibility.scan(group, base);
            let of = (*job, &job.spec.task_groups[group]);
            Box::new(Candidates::new(&mut self.world, self.eval, of, feasible))
        })
    }

    fn preferences(&self, request: &PlacementRequest<'a>) -> Preferences {
        let stack = &self.stacks[request.version.0];
        let group = &stack.job.spec.task_groups[request.group];
        let preferred = request.previous.and_then(|alloc| preferred(stack.job, group, alloc));
        Preferences {
            penalised: request.previous.map_or_else(Vec::new, |alloc| penalised(self.world.state, alloc)),
            preferred: preferred.filter(|slot| stack.base.contains(*slot)),
        }
    }

    fn choose(
        &mut self,
        request: &PlacementRequest<'a>,
        preferences: &Preferences,
    ) -> Result<Chosen, Box<AllocMetric>> {
        match self.best(request, preferences) {
            FastPath::Found(slot, node_offer, metric) => Ok(self.take(request, slot, node_offer, metric)),
            FastPath::NoCapacity(metric) => self.finish_pass(request, Scan { best: None, metric: *metric }),
            FastPath::Preempts => {
                let scan = self.pass_preferring(request, preferences, true);
                self.finish_pass(request, scan)
            }
            FastPath::NeedsScan => self.choose_by_scan(request, preferences),
        }
    }

    /// Chooses by scanning all nodes, which also yields the metrics.
    fn choose_by_scan(
        &mut self,
        request: &PlacementRequest<'a>,
        preferences: &Preferences,
    ) -> Result<Chosen, Box<AllocMetric>> {
        let mut scan = self.pass_preferring(request, preferences, false);
        if scan.best.is_none() && self.stacks[request.version.0].may_preempt {
            scan = self.pass_preferring(request, preferences, true);
        }
        self.finish_pass(request, scan)
    }

    /// The result of a pass without preemption, without scanning all nodes.
    fn best(&mut self, request: &PlacementRequest<'a>, preferences: &Preferences) -> FastPath<'a> {
        let stack = &self.stacks[request.version.0];
        let may_preempt = stack.may_preempt;
        let candidates = stack.groups[request.group].as_ref();
        let candidates = candidates.expect("callers create the candidates first");
        let has_simple_metrics = candidates.has_simple_metrics() && preferences.preferred.is_none();
        if request.explain && !has_simple_metrics || candidates.differ_by_placement() {
            return FastPath::NeedsScan;
        }
        self.with_candidates(
            request,
            &preferences.penalised,
            false,
            |world, candidates, feasibility, base, params| {
                let preferred = preferences.preferred.filter(|slot| candidates.is_feasible(*slot));
                let preferred =
                    preferred.and_then(|slot| Some((slot, candidates.evaluate(world, slot, params).ok()?)));
                if let Some((slot, node_offer)) = preferred {
                    return FastPath::Found(slot, node_offer, None);
                }
                candidates.prepare(world, params);
                let best = candidates.best(world, params);
                if best.is_none() && has_simple_metrics && may_preempt {
                    feasibility.mark_all_reported(request.group);
                    return FastPath::Preempts;
                }
                let with_metrics = request.explain || best.is_none() && has_simple_metrics;
                let metric = with_metrics.then(|| {
                    Box::new(scan::fast_metrics(
                        world,
                        candidates,
                        feasibility,
                        (base, request.group),
                        params,
                    ))
                });
                match (best, metric) {
                    (Some((slot, node_offer)), metric) => {
                        feasibility.mark_all_reported(request.group);
                        FastPath::Found(slot, node_offer, metric)
                    }
                    (None, Some(metric)) => FastPath::NoCapacity(metric),
                    (None, None) => FastPath::NeedsScan,
                }
            },
        )
    }

    fn pass_preferring(
        &mut self,
        request: &PlacementRequest<'a>,
        preferences: &Preferences,
        preempts: bool,
    ) -> Scan<'a> {
        if let Some(slot) = preferences.preferred {
            let scan = self.pass(request, &preferences.penalised, Nodes::Preferred(slot), preempts);
            if scan.best.is_some() {
                return scan;
            }
        }
        self.pass(request, &preferences.penalised, Nodes::Base, preempts)
    }

    fn pass(
        &mut self,
        request: &PlacementRequest<'a>,
        penalised: &[u32],
        nodes: Nodes,
        preempts: bool,
    ) -> Scan<'a> {
        self.with_candidates(request, penalised, preempts, |world, candidates, feasibility, base, params| {
            scan(world, candidates, feasibility, (base, request.group), params, nodes)
        })
    }

    fn finish_pass(
        &mut self,
        request: &PlacementRequest<'a>,
        scan: Scan<'a>,
    ) -> Result<Chosen, Box<AllocMetric>> {
        let Scan { best, metric } = scan;
        let mut metric = Box::new(metric);
        match best {
            Some((slot, node_offer)) => {
                let metric = request.explain.then_some(metric);
                Ok(self.take(request, slot, node_offer, metric))
            }
            None => {
                let candidates = self.candidates(request.version, request.group);
                add_exhausted_resources(&mut metric, candidates.group);
                let missing = candidates.volumes.as_ref().map(|volumes| volumes.missing(request.name_index));
                self.missing.extend(missing.into_iter().flatten());
                Err(metric)
            }
        }
    }

    fn take(
        &mut self,
        request: &PlacementRequest<'a>,
        slot: u32,
        node_offer: NodeOffer<'a>,
        metric: Option<Box<AllocMetric>>,
    ) -> Chosen {
        let Stack { job, groups, .. } = &mut self.stacks[request.version.0];
        let candidates = groups[request.group].as_mut().expect("the choice was made from these candidates");
        let NodeOffer { offer, victims, .. } = node_offer;
        victims.iter().for_each(|alloc| self.world.preempt(*alloc));
        let room = &mut self.world.room;
        room.allocate(slot, offer.demand);
        room.allocate_assigned(slot, &candidates.share, &offer.assigned);
        if candidates.volumes.is_some() {
            room.add_planned(slot, job, candidates.group, request.name_index);
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

/// Whether the best node has a negative score.
fn has_negative_score(metric: &AllocMetric) -> bool {
    metric.scores.first().is_some_and(|best| best.normalized < 0.0)
}

/// Whether jobs of a type may preempt others. Without a scheduler configuration they may.
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

/// Slot of the node with an allocation's data, if its successor should go there.
fn preferred(job: &Job, group: &TaskGroup, alloc: AllocRef<'_>) -> Option<u32> {
    let (disk, old, new) = (&group.ephemeral_disk, &alloc.job().spec, &job.spec);
    let same_nodes = old.node_pool == new.node_pool && old.datacenters == new.datacenters;
    let node = alloc.node().filter(|node| node.is_ready())?;
    ((disk.sticky || disk.migrate) && same_nodes).then(|| node.slot())
}

#[cfg(test)]
mod tests;
