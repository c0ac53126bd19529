//! Compares, node by node, the allocations that a job requires with those that exist (`docs/rules/scheduling.md` to
//!

use std::collections::{BTreeMap, BTreeSet};

use model::Text;
use model::alloc::{ClientStatus, DesiredStatus};
use model::cluster::NodePool;
use state::{AllocRef, NodeRef, PAGE};

use super::Target;
use crate::columns::bits;
use crate::reconcile::{
    Rollout, Stop, Taint, is_expired, needs_reconnect, number, ran_successfully, reason, taint,
};

/// An allocation with its group's index in the job.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfGroup<'a> {
    pub(super) group: usize,
    pub(super) alloc: AllocRef<'a>,
}

/// A required name without a live allocation on a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap<'a> {
    pub(super) group: usize,
    pub(super) slot: u32,
    pub(super) index: u32,
    /// The newest terminal allocation of that name on the node.
    pub(super) previous: Option<AllocRef<'a>>,
}

/// A job's allocations by what has to be done with them.
#[derive(Debug, Default)]
pub(super) struct Diff<'a> {
    /// Allocations that are not needed, migrate, or are lost.
    pub(super) stops: Vec<Stop<'a>>,
    /// Allocations of another version than the current one.
    pub(super) outdated: Vec<OfGroup<'a>>,
    pub(super) ignored: Vec<OfGroup<'a>>,
    pub(super) disconnecting: Vec<OfGroup<'a>>,
    pub(super) reconnecting: Vec<OfGroup<'a>>,
    pub(super) missing: Vec<Gap<'a>>,
    /// Groups to add to the deployment, if a deployment is allowed.
    pub(super) to_attach: BTreeSet<usize>,
    /// Whether the current version already runs on some node.
    pub(super) already_running: bool,
}

/// The required names of a job: for each group, the stem of its names and its count.
struct Required {
    stems: Vec<(Text, u32)>,
}

impl Required {
    fn of(target: Target<'_>) -> Self {
        let spec = &target.job.spec;
        let stem =
            |group: &model::job::TaskGroup| (format!("{}.{}", spec.name, group.name).into(), group.count);
        Self { stems: spec.task_groups.iter().map(stem).collect() }
    }

    /// The group that requires an allocation's name, if any.
    fn group(&self, alloc: AllocRef<'_>) -> Option<usize> {
        let index = alloc.name_index()?;
        let stem = &alloc.common().name_stem;
        self.stems.iter().position(|(required, count)| required == stem && index < *count)
    }
}

type Name = (u32, usize, u32);

/// Compares a job's allocations with the required ones.
pub(super) fn diff<'a>(target: Target<'a>, allocs: &[AllocRef<'a>], rollout: &Rollout<'_>) -> Diff<'a> {
    let required = Required::of(target);
    let mut live: Vec<AllocRef<'a>> = Vec::with_capacity(allocs.len());
    let mut ended: BTreeMap<Name, AllocRef<'a>> = BTreeMap::new();
    for alloc in allocs.iter().copied() {
        if !alloc.is_terminal() {
            live.push(alloc);
        } else if let Some(group) = required.group(alloc) {
            let newest = ended.entry((alloc.node_slot(), group, number(alloc))).or_insert(alloc);
            if (newest.create_index(), newest.id()) < (alloc.create_index(), alloc.id()) {
                *newest = alloc;
            }
        }
    }
    live.sort_unstable_by_key(|alloc| (alloc.node_slot(), alloc.id()));
    let in_base = target.base.words.iter().enumerate();
    let in_base = in_base.flat_map(|(page, word)| bits(*word).map(move |bit| (page * PAGE + bit) as u32));
    let slots: BTreeSet<u32> = in_base.chain(live.iter().map(|alloc| alloc.node_slot())).collect();

    let mut diff = Diff::default();
    let mut rest = &live[..];
    for slot in slots {
        let of_node = &rest[..rest.partition_point(|alloc| alloc.node_slot() == slot)];
        rest = &rest[of_node.len()..];
        let outdated_before = diff.outdated.len();
        let mut present: BTreeSet<(usize, u32)> = BTreeSet::new();
        for alloc in of_node.iter().copied() {
            let group = required.group(alloc);
            present.extend(group.map(|group| (group, number(alloc))));
            diff.decide(target, alloc, group);
        }
        let of_node_ended = ended.range((slot, 0, 0)..=(slot, usize::MAX, u32::MAX)).map(|(_, alloc)| *alloc);
        let all = of_node.iter().copied().chain(of_node_ended);
        let has_current = all.clone().any(|alloc| target.is_current(alloc));
        diff.already_running |= of_node.iter().any(|alloc| target.is_current(*alloc));
        for (group, (_, count)) in required.stems.iter().enumerate() {
            for index in (0..*count).filter(|index| !present.contains(&(group, *index))) {
                diff.fill(target, Gap { group, slot, index, previous: None }, &ended);
            }
        }
        let is_changing = diff.outdated.len() > outdated_before;
        if is_changing || !has_current {
            let groups = required.stems.iter().enumerate().filter(|(_, (_, count))| *count > 0);
            diff.to_attach.extend(groups.map(|(group, _)| group));
        }
    }
    let may_attach = |group: &usize| {
        let name = &target.job.spec.task_groups[*group].name;
        let is_known = rollout.current.as_ref().is_some_and(|current| current.groups.contains_key(name));
        !is_known && target.update(*group).is_some()
    };
    diff.to_attach.retain(may_attach);
    diff
}

impl<'a> Diff<'a> {
    /// Decides about a live allocation. The numbers are those of the branches of.
    fn decide(&mut self, target: Target<'a>, alloc: AllocRef<'a>, group: Option<usize>) {
        let Some(group) = group else {
            self.stops.push(Stop::of(alloc, reason::NOT_NEEDED)); // 1
            return;
        };
        let of_group = OfGroup { group, alloc };
        let client = alloc.client_status();
        let reconnects = needs_reconnect(alloc);
        let node = alloc.node();
        let taint = taint(target.context.pages, alloc);
        let is_tainted = taint != Taint::None || node.is_some_and(|node| node.server().drain.is_some());
        if alloc.transition().migrate == Some(true) {
            self.stops.push(Stop::of(alloc, reason::TAINTED)); // 2
        } else if reconnects && is_expired(target.context, alloc) {
            self.stops.push(Stop::lost(alloc)); // 3
        } else if client == ClientStatus::Unknown && alloc.desired_status() == DesiredStatus::Run {
            self.ignored.push(of_group); // 4
        } else if !is_tainted && reconnects {
            self.reconnecting.push(of_group); // 5
        } else if is_tainted {
            // 6
            if target.is_sysbatch() && ran_successfully(alloc) {
                self.ignored.push(of_group);
            } else if taint == Taint::Disconnected && client == ClientStatus::Running {
                self.disconnecting.push(of_group);
            } else if taint.is_gone() {
                self.stops.push(Stop::lost(alloc));
            } else {
                self.ignored.push(of_group);
            }
        } else if !node.is_some_and(|node| node.is_ready()) && in_pool(target, node) {
            // 7
            match target.is_up_to_date(alloc) {
                true => self.ignored.push(of_group),
                false => self.stops.push(Stop::of(alloc, reason::NOT_NEEDED)),
            }
        } else if !in_base(target, alloc.node_slot()) {
            self.stops.push(Stop::of(alloc, reason::NOT_NEEDED)); // 8
        } else if !target.is_up_to_date(alloc) {
            self.outdated.push(of_group); // 9
        } else {
            self.ignored.push(of_group); // 10
        }
    }

    /// Decides about a required name without a live allocation.
    fn fill(&mut self, target: Target<'a>, gap: Gap<'a>, ended: &BTreeMap<Name, AllocRef<'a>>) {
        let previous = ended.get(&(gap.slot, gap.group, gap.index)).copied();
        match previous {
            Some(alloc) if target.is_sysbatch() => {
                let of_group = OfGroup { group: gap.group, alloc };
                let set = if target.is_up_to_date(alloc) { &mut self.ignored } else { &mut self.outdated };
                set.push(of_group);
            }
            _ if in_base(target, gap.slot) => self.missing.push(Gap { previous, ..gap }),
            _ => {}
        }
    }
}

pub(super) fn in_base(target: Target<'_>, slot: u32) -> bool {
    target.base.words[slot as usize / PAGE] >> (slot as usize % PAGE) & 1 != 0
}

/// Whether a node is in the job's pool, whatever its datacenter and status.
fn in_pool(target: Target<'_>, node: Option<NodeRef<'_>>) -> bool {
    let pool = &*target.job.spec.node_pool;
    matches!(pool, "" | NodePool::ALL) || node.is_some_and(|node| *node.spec().node_pool == *pool)
}
