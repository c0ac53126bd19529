//! [`AllocRow`]: one allocation in the state. It takes 144 bytes, plus memory for parts that few allocations have.

use std::sync::Arc;

use model::alloc::{
    AllocCommon, AllocExtra, Allocation, ClientStatus, Demand, DesiredStatus, DesiredTransition, Health,
    NAME_INDEX_MAX, PackedAssigned, PackedTaskStates, ReportNumber, RescheduleTracker,
};
use model::change::AllocsChanged;
use model::job::Job;
use model::plan::Placements;
use model::{AllocId, Index, Text, Timestamp};

use super::description::{self, DescriptionCode};
use crate::stamp::Stamp;

/// The part that the allocations of one placement share, with its job version and its demand.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) common: Arc<AllocCommon>,
    pub(crate) job: Arc<Job>,
    pub(crate) demand: Demand,
}

impl Shared {
    pub(crate) fn new(common: Arc<AllocCommon>, job: Arc<Job>) -> Self {
        let demand = common.resources.demand();
        Self { common, job, demand }
    }
}

/// The parts that few allocations have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rare {
    pub(crate) extra: AllocExtra,
    pub(crate) desired_description: Option<Text>,
    pub(crate) client_description: Option<Text>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        self.extra == AllocExtra::default()
            && self.desired_description.is_none()
            && self.client_description.is_none()
    }
}

/// Marks a name without an index.
const NO_INDEX: u32 = NAME_INDEX_MAX + 1;

#[derive(Debug, Clone)]
pub(crate) struct AllocRow {
    pub(crate) id: AllocId,
    pub(crate) shared: Arc<Shared>,
    pub(crate) assigned: PackedAssigned,
    rare: Option<Arc<Rare>>,
    pub(crate) task_states: PackedTaskStates,
    pub(crate) create_index: Index,
    pub(crate) modify_index: Index,
    pub(crate) alloc_modify_index: Index,
    pub(crate) create_time: Timestamp,
    pub(crate) modify_time: Timestamp,
    pub(crate) report: ReportNumber,
    health_timestamp: Timestamp,
    health_index: Index,
    /// The slot of its node.
    pub(crate) node: u32,
    name_index: u32,
    pub(crate) desired: DesiredStatus,
    pub(crate) client: ClientStatus,
    desired_description: DescriptionCode,
    client_description: DescriptionCode,
    transition: PackedTransition,
    health: PackedHealth,
}

const _: () = assert!(
    size_of::<AllocRow>() <= 144,
    "a million rows must stay within the memory of docs/architecture/commit-path.md0"
);

impl AllocRow {
    /// A new allocation: row `row` of `placements`, on the node in slot `node`.
    pub(crate) fn placed(
        placements: &Placements,
        row: usize,
        node: u32,
        shared: &Arc<Shared>,
        stamp: Stamp,
    ) -> Self {
        let extra = AllocExtra {
            previous: placements.previous.get(row),
            reschedule: placements.reschedule.get(row).cloned().flatten(),
            preempted: placements.preempted.get(row).cloned().unwrap_or_default(),
            ..AllocExtra::default()
        };
        let canary = Health { canary: true, ..Health::default() };
        let mut placed = Self {
            id: placements.ids.0[row],
            shared: Arc::clone(shared),
            assigned: placements.assigned.get(row).cloned().unwrap_or_default(),
            rare: None,
            task_states: PackedTaskStates::default(),
            create_index: stamp.index,
            modify_index: stamp.index,
            alloc_modify_index: stamp.index,
            create_time: stamp.at,
            modify_time: stamp.at,
            report: ReportNumber::default(),
            health_timestamp: Timestamp::UNSET,
            health_index: Index::ZERO,
            node,
            name_index: placements.name_index[row],
            desired: DesiredStatus::Run,
            client: ClientStatus::Pending,
            desired_description: DescriptionCode::of("").expect("the list contains the empty description"),
            client_description: DescriptionCode::of("").expect("the list contains the empty description"),
            transition: PackedTransition::default(),
            health: PackedHealth::default(),
        };
        if placements.canary {
            placed.set_health(Some(canary));
        }
        if extra != AllocExtra::default() {
            placed.edit_rare(|rare| rare.extra = extra);
        }
        placed
    }

    /// The row of a complete allocation.
    pub(crate) fn from_allocation(alloc: &Allocation, node: u32, shared: Arc<Shared>) -> Self {
        let (desired_code, desired_description) = description::encode(&alloc.desired_description);
        let (client_code, client_description) = description::encode(&alloc.client_description);
        let rare = Rare { extra: alloc.extra.clone(), desired_description, client_description };
        let mut row = Self {
            id: alloc.id,
            shared,
            assigned: alloc.assigned.clone(),
            rare: if rare.is_empty() { None } else { Some(Arc::new(rare)) },
            task_states: alloc.task_states.clone(),
            create_index: alloc.create_index,
            modify_index: alloc.modify_index,
            alloc_modify_index: alloc.alloc_modify_index,
            create_time: alloc.create_time,
            modify_time: alloc.modify_time,
            report: alloc.report,
            health_timestamp: Timestamp::UNSET,
            health_index: Index::ZERO,
            node,
            name_index: alloc.name_index.unwrap_or(NO_INDEX),
            desired: alloc.desired_status,
            client: alloc.client_status,
            desired_description: desired_code,
            client_description: client_code,
            transition: alloc.desired_transition.into(),
            health: PackedHealth::default(),
        };
        row.set_health(alloc.health);
        row
    }

    /// Applies row `row` of a change. `shared` is the new shared part after an in-place update.
    pub(crate) fn change(
        &mut self,
        change: &AllocsChanged,
        row: usize,
        shared: Option<&Arc<Shared>>,
        stamp: Stamp,
    ) {
        if let Some(shared) = shared {
            self.shared = Arc::clone(shared);
        }
        if let Some((status, description)) = &change.desired {
            self.desired = *status;
            let (code, custom) = description::encode(description);
            self.desired_description = code;
            self.set_custom_description(custom, |rare| &mut rare.desired_description);
        }
        if let Some((status, description)) = &change.client {
            self.client = *status;
            let (code, custom) = description::encode(description);
            self.client_description = code;
            self.set_custom_description(custom, |rare| &mut rare.client_description);
        }
        if let Some(transition) = change.transition {
            self.transition = self.transition().merge(transition).into();
        }
        if let Some(health) = change.health {
            self.set_health(health);
        }
        if let Some(Some((healthy, timestamp))) = change.verdicts.get(row) {
            let canary = self.health().is_some_and(|health| health.canary);
            let (healthy, modify_index) = (Some(*healthy), stamp.index);
            self.set_health(Some(Health { healthy, timestamp: *timestamp, canary, modify_index }));
        }
        if let Some(report) = change.reports.get(row) {
            self.report = *report;
        }
        if let Some(task_states) = change.task_states.get(row) {
            self.task_states = task_states.clone();
        }
        if let Some(assigned) = change.assigned.get(row) {
            self.assigned = assigned.clone();
        }
        self.change_extra(change, row);
        self.modify_index = stamp.index;
        self.modify_time = stamp.at;
        if change.by_servers {
            self.alloc_modify_index = stamp.index;
        }
    }

    fn change_extra(&mut self, change: &AllocsChanged, row: usize) {
        let network = change.network.get(row);
        let is_unchanged = change.append_state.is_none()
            && change.followup_eval.is_none()
            && change.reschedule.is_none()
            && change.preempted_by.is_none()
            && network.is_none();
        if is_unchanged {
            return;
        }
        self.edit_rare(|rare| {
            let extra = &mut rare.extra;
            extra.states.extend(change.append_state);
            if let Some(followup) = change.followup_eval {
                extra.followup_eval = followup;
            }
            if let Some(outcome) = change.reschedule {
                let tracker = extra.reschedule.take().map(Arc::unwrap_or_clone).unwrap_or_default();
                extra.reschedule = Some(Arc::new(RescheduleTracker { last: Some(outcome), ..tracker }));
            }
            extra.preempted_by = change.preempted_by.or(extra.preempted_by);
            if let Some(network) = network {
                extra.network.clone_from(network);
            }
        });
    }

    /// Records the allocation that replaces this one (N-8.3).
    pub(crate) fn set_successor(&mut self, next: AllocId, stamp: Stamp) {
        self.edit_rare(|rare| rare.extra.next = Some(next));
        self.modify_index = stamp.index;
        self.modify_time = stamp.at;
    }

    fn set_custom_description(
        &mut self,
        custom: Option<Text>,
        field: impl FnOnce(&mut Rare) -> &mut Option<Text>,
    ) {
        if custom.is_some() || self.rare.is_some() {
            self.edit_rare(|rare| *field(rare) = custom);
        }
    }

    fn edit_rare(&mut self, edit: impl FnOnce(&mut Rare)) {
        let rare = self.rare.get_or_insert_default();
        edit(Arc::make_mut(rare));
        if rare.is_empty() {
            self.rare = None;
        }
    }

    pub(crate) fn set_health(&mut self, health: Option<Health>) {
        self.health = PackedHealth::new(health);
        let health = health.unwrap_or_default();
        self.health_timestamp = health.timestamp;
        self.health_index = health.modify_index;
    }

    pub(crate) fn health(&self) -> Option<Health> {
        self.health.is_set().then(|| Health {
            healthy: self.health.healthy(),
            timestamp: self.health_timestamp,
            canary: self.health.canary(),
            modify_index: self.health_index,
        })
    }

    pub(crate) fn transition(&self) -> DesiredTransition {
        self.transition.into()
    }

    pub(crate) fn extra(&self) -> &AllocExtra {
        static NONE: AllocExtra = AllocExtra {
            previous: None,
            next: None,
            followup_eval: None,
            preempted_by: None,
            preempted: Vec::new(),
            states: Vec::new(),
            reschedule: None,
            network: None,
        };
        self.rare.as_ref().map_or(&NONE, |rare| &rare.extra)
    }

    pub(crate) fn name_index(&self) -> Option<u32> {
        (self.name_index != NO_INDEX).then_some(self.name_index)
    }

    pub(crate) fn desired_description(&self) -> &str {
        let known = self.desired_description.as_str();
        known.unwrap_or_else(|| self.custom_description(|rare| &rare.desired_description))
    }

    pub(crate) fn client_description(&self) -> &str {
        let known = self.client_description.as_str();
        known.unwrap_or_else(|| self.custom_description(|rare| &rare.client_description))
    }

    fn custom_description(&self, field: fn(&Rare) -> &Option<Text>) -> &str {
        self.rare.as_deref().and_then(|rare| field(rare).as_deref()).unwrap_or_default()
    }

    /// The part of its node's capacity that it uses.
    pub(crate) fn demand(&self) -> Demand {
        let shared = self.shared.demand;
        let own_cores = self.assigned.own_cores_mhz();
        Demand { cpu_mhz: shared.cpu_mhz.saturating_add(own_cores), ..shared }
    }

    /// Whether it still uses its resources: it is not client-terminal.
    pub(crate) fn is_held(&self) -> bool {
        !self.client.is_terminal()
    }

    /// Whether it is neither client-terminal nor server-terminal, which is what the applier counts.
    pub(crate) fn is_live(&self) -> bool {
        self.is_held() && !self.desired.is_terminal()
    }

    pub(crate) fn is_steady(&self) -> bool {
        self.desired == DesiredStatus::Run
            && matches!(self.client, ClientStatus::Pending | ClientStatus::Running)
            && self.transition == PackedTransition::default()
            && self.rare.as_ref().is_none_or(|rare| rare.extra.states.is_empty())
    }

    /// Heap memory in bytes that the row does not share with others.
    pub(crate) fn heap_bytes(&self) -> usize {
        const COUNTS: usize = 2 * size_of::<usize>();
        let packed = |bytes: &[u8]| if bytes.is_empty() { 0 } else { COUNTS + bytes.len() };
        let states = packed(self.task_states.as_bytes());
        let rare = self.rare.as_ref().map_or(0, |_| COUNTS + size_of::<Rare>());
        let assigned = packed(self.assigned.as_bytes());
        states + rare + assigned
    }
}

/// Five optional flags in two bits each: 0 is unset, 1 is false, 2 is true.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PackedTransition(u16);

impl From<DesiredTransition> for PackedTransition {
    fn from(transition: DesiredTransition) -> Self {
        let DesiredTransition {
            migrate,
            reschedule,
            force_reschedule,
            no_shutdown_delay,
            migrate_disable_placement,
        } = transition;
        let flags = [migrate, reschedule, force_reschedule, no_shutdown_delay, migrate_disable_placement];
        Self(flags.into_iter().rev().fold(0, |packed, flag| packed << 2 | u16::from(tristate(flag))))
    }
}

impl From<PackedTransition> for DesiredTransition {
    fn from(packed: PackedTransition) -> Self {
        let flag = |number: u16| from_tristate((packed.0 >> (2 * number)) as u8);
        Self {
            migrate: flag(0),
            reschedule: flag(1),
            force_reschedule: flag(2),
            no_shutdown_delay: flag(3),
            migrate_disable_placement: flag(4),
        }
    }
}

/// Whether the health is set (bit 0), whether the allocation is a canary (bit 1), and whether it is healthy (bits 2 and 3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PackedHealth(u8);

impl PackedHealth {
    fn new(health: Option<Health>) -> Self {
        health
            .map_or(Self(0), |health| Self(1 | u8::from(health.canary) << 1 | tristate(health.healthy) << 2))
    }

    fn is_set(self) -> bool {
        self.0 & 1 != 0
    }

    fn canary(self) -> bool {
        self.0 & 2 != 0
    }

    fn healthy(self) -> Option<bool> {
        from_tristate(self.0 >> 2)
    }
}

fn tristate(flag: Option<bool>) -> u8 {
    flag.map_or(0, |flag| 1 + u8::from(flag))
}

fn from_tristate(bits: u8) -> Option<bool> {
    match bits & 3 {
        0 => None,
        bits => Some(bits == 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_three_values_survive_packing() {
        let values = [None, Some(false), Some(true)];
        for n in 0..3usize.pow(5) {
            let flag = |number| values[n / 3usize.pow(number) % 3];
            let transition = DesiredTransition {
                migrate: flag(0),
                reschedule: flag(1),
                force_reschedule: flag(2),
                no_shutdown_delay: flag(3),
                migrate_disable_placement: flag(4),
            };
            assert_eq!(DesiredTransition::from(PackedTransition::from(transition)), transition);
        }
    }

    #[test]
    fn a_verdict_survives_packing() {
        for healthy in [None, Some(false), Some(true)] {
            for canary in [false, true] {
                let packed = PackedHealth::new(Some(Health { healthy, canary, ..Health::default() }));
                assert_eq!((packed.is_set(), packed.canary(), packed.healthy()), (true, canary, healthy));
            }
        }
        assert!(!PackedHealth::new(None).is_set());
    }
}
