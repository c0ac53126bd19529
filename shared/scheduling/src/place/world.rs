//! State that all groups of an attempt share: free resources, the counts of the job's allocations by node, and the
//! plan's changes so far.

use std::collections::HashMap;

use model::{JobKey, Text};
use state::{AllocRef, NodePage, State};

use crate::columns::NodeCounters;
use crate::feasible::{CountChange, Neighbours};
use crate::room::Room;

/// The cluster with the plan's changes so far.
#[derive(Debug)]
pub(crate) struct World<'a> {
    pub(crate) state: &'a State,
    pub(crate) pages: &'a [&'a NodePage],
    pub(crate) room: Room<'a>,
    /// All allocations of the job, of every incarnation, including terminal ones.
    pub(crate) allocs: Vec<AllocRef<'a>>,
    alloc_counts: AllocCounts,
    /// Changes in order. A holder of data by node reads it to find out which of its data are stale.
    pub(crate) journal: Vec<Event>,
    victims: HashMap<(JobKey, Text), u32>,
}

/// A change that the plan makes on a node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Event {
    pub(crate) slot: u32,
    /// Number of the group of the job, and how its count changes; `None` for an allocation of another job.
    pub(crate) counted: Option<(u32, CountChange)>,
}

/// Number of allocations of the job, and of each of its groups, on each node.
#[derive(Debug)]
struct AllocCounts {
    pages: usize,
    job: NodeCounters,
    groups: Vec<(Text, NodeCounters)>,
}

impl AllocCounts {
    /// The number of a group, including groups that only allocations refer to.
    fn group(&mut self, name: &Text) -> u32 {
        let known = self.groups.iter().position(|(known, _)| known == name);
        known.unwrap_or_else(|| {
            self.groups.push((Text::clone(name), NodeCounters::new(self.pages)));
            self.groups.len() - 1
        }) as u32
    }

    fn count(&mut self, group: u32, slot: u32, more: bool) {
        let columns = [&mut self.job, &mut self.groups[group as usize].1];
        for column in columns {
            let count = column.at_mut(slot);
            *count = if more { *count + 1 } else { *count - 1 };
        }
    }
}

impl<'a> World<'a> {
    pub(crate) fn of(state: &'a State, pages: &'a [&'a NodePage], job: &JobKey) -> Self {
        let mut world = Self {
            state,
            pages,
            room: Room::of(state, pages),
            allocs: state.allocs_of_job(job).collect(),
            alloc_counts: AllocCounts {
                pages: pages.len(),
                job: NodeCounters::new(pages.len()),
                groups: Vec::new(),
            },
            journal: Vec::new(),
            victims: HashMap::new(),
        };
        // Consecutive allocations mostly have the same common share, and so the same group.
        let mut last: Option<(*const Text, u32)> = None;
        for alloc in world.allocs.iter().filter(|alloc| !alloc.client_status().is_terminal()) {
            let name = alloc.group_name();
            let group = match last {
                Some((of, group)) if std::ptr::eq(of, name) => group,
                Some(_) | None => world.alloc_counts.group(name),
            };
            last = Some((name, group));
            world.alloc_counts.count(group, alloc.node_slot(), true);
        }
        world
    }

    /// The number of one of the job's groups.
    pub(crate) fn group(&mut self, name: &Text) -> u32 {
        self.alloc_counts.group(name)
    }

    /// The name of the group with a number.
    pub(crate) fn group_name(&self, group: u32) -> &Text {
        &self.alloc_counts.groups[group as usize].0
    }

    /// The job's allocations on a node.
    pub(crate) fn neighbours(&self, slot: u32, group: u32) -> Neighbours {
        Neighbours { job: self.alloc_counts.job.at(slot), group: self.group_counts(group).at(slot) }
    }

    /// Number of a group's allocations on each node.
    pub(crate) fn group_counts(&self, group: u32) -> &NodeCounters {
        &self.alloc_counts.groups[group as usize].1
    }

    /// Notes that the plan stops an allocation of the job.
    pub(crate) fn stop(&mut self, alloc: AllocRef<'a>) {
        if !self.room.is_removed(alloc.id()) {
            self.room.release(alloc);
            self.count(alloc, CountChange::Cleared);
        }
    }

    /// Reverts [`Self::stop`].
    pub(crate) fn unstop(&mut self, alloc: AllocRef<'a>) {
        if self.room.is_removed(alloc.id()) {
            self.room.restore(alloc);
            self.count(alloc, CountChange::Restored);
        }
    }

    /// Notes that the plan updates an allocation of the job in place. It then counts as proposed by the plan, too
    ///
    pub(crate) fn update(&mut self, alloc: AllocRef<'a>) {
        let group = self.alloc_counts.group(alloc.group_name());
        self.note(alloc.node_slot(), Some((group, CountChange::Proposed)));
    }

    /// Notes that the plan writes an ended allocation of the job, which then counts among those on its node although it
    /// takes no resources.
    pub(crate) fn keep_ended(&mut self, alloc: AllocRef<'a>) {
        if alloc.client_status().is_terminal() && !self.room.is_removed(alloc.id()) {
            let group = self.alloc_counts.group(alloc.group_name());
            self.alloc_counts.count(group, alloc.node_slot(), true);
            self.note(alloc.node_slot(), None);
        }
    }

    /// Notes that the plan places an allocation of a group on a node.
    pub(crate) fn placed(&mut self, slot: u32, group: u32) {
        self.alloc_counts.count(group, slot, true);
        self.note(slot, Some((group, CountChange::Proposed)));
    }

    /// Notes that the plan preempts an allocation of another job.
    pub(crate) fn preempt(&mut self, alloc: AllocRef<'a>) {
        self.room.release(alloc);
        let group = (alloc.job_key().clone(), Text::clone(alloc.group_name()));
        *self.victims.entry(group).or_default() += 1;
        self.note(alloc.node_slot(), None);
    }

    /// Number of allocations of the same group as `alloc` that the plan preempts so far, on any node.
    pub(crate) fn victims_of(&self, alloc: AllocRef<'a>) -> u32 {
        if self.victims.is_empty() {
            return 0;
        }
        let group = (alloc.job_key().clone(), Text::clone(alloc.group_name()));
        self.victims.get(&group).copied().unwrap_or(0)
    }

    fn count(&mut self, alloc: AllocRef<'a>, change: CountChange) {
        let group = self.alloc_counts.group(alloc.group_name());
        if !alloc.client_status().is_terminal() {
            self.alloc_counts.count(group, alloc.node_slot(), change != CountChange::Cleared);
        }
        self.note(alloc.node_slot(), Some((group, change)));
    }

    fn note(&mut self, slot: u32, counted: Option<(u32, CountChange)>) {
        self.journal.push(Event { slot, counted });
    }
}
