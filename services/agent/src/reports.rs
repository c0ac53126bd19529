//! Telling the servers how allocations fare: what is told when, and what they have taken. Pure; sending is
//! `reporter`'s.
//!
//! It goes by states, not by events: an allocation is told of for as long as its state is not the one that the servers
//! took last, so that a lost message or answer costs only time.

use std::collections::BTreeMap;

use model::alloc::{ClientStatus, PackedTaskStates};
use model::{AllocId, Text, Timestamp, TraceContext};
use serde::{Deserialize, Serialize};
use wire::node::AllocReport;

/// The most allocations that one report tells of.
pub(crate) const REPORT_ALLOCS_MAX: usize = 500;
/// The most that the states in one report take, in bytes; far below what NATS carries in a message.
const REPORT_BYTES_MAX: usize = 256 << 10;
/// What an allocation takes in a report beside its tasks' states, in bytes, at most.
const ALLOC_BYTES: usize = 256;

/// How an allocation fares, as the servers are told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllocState {
    /// Its status.
    pub(crate) status: ClientStatus,
    /// The same in words.
    pub(crate) description: Text,
    /// How its tasks fare.
    pub(crate) task_states: PackedTaskStates,
    /// The verdict on its health, and when it fell.
    pub(crate) health: Option<(bool, Timestamp)>,
}

impl AllocState {
    /// An allocation that the agent cannot even begin with.
    pub(crate) fn not_added(error: &str) -> Self {
        Self {
            status: ClientStatus::Failed,
            description: format!("Unable to add allocation due to error: {error}").into(),
            task_states: PackedTaskStates::default(),
            health: None,
        }
    }
}

/// What allocations, and those who hold them, have to tell.
#[derive(Debug)]
pub(crate) enum Told {
    /// How an allocation fares.
    State(AllocId, AllocState),
    /// What is told of it until it runs, or will not, belongs to this trace.
    Traced(AllocId, TraceContext),
    /// The servers want to hear of it again.
    Again(AllocId),
    /// The agent has forgotten it.
    Forgotten(AllocId),
    /// The servers have forgotten it.
    Dropped(AllocId),
}

/// How soon something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Within about a second.
    Typical,
    /// At once.
    Urgent,
}

/// What is to be told.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    allocs: BTreeMap<AllocId, Entry>,
}

#[derive(Debug)]
struct Entry {
    state: AllocState,
    acknowledged: Option<AllocState>,
    /// Counts this boot's reports of it; the boot's number is greater after each start.
    count: u32,
    /// Whether it is forgotten once the servers know its last state.
    last: bool,
    /// The trace of its start, until the servers know what became of that.
    trace: Option<TraceContext>,
}

impl Entry {
    fn urgency(&self) -> Option<Urgency> {
        match &self.acknowledged {
            None if self.state.status == ClientStatus::Failed => Some(Urgency::Urgent),
            None => Some(Urgency::Typical),
            Some(acknowledged) if acknowledged.status != self.state.status => Some(Urgency::Urgent),
            Some(acknowledged) if *acknowledged != self.state => Some(Urgency::Typical),
            Some(_) => None,
        }
    }

    fn report(&mut self, id: AllocId) -> AllocReport {
        self.count = self.count.saturating_add(1);
        AllocReport {
            id,
            count: self.count,
            status: self.state.status,
            description: Text::clone(&self.state.description),
            task_states: self.state.task_states.clone(),
            network: None,
            health: self.state.health,
        }
    }
}

impl Reports {
    /// An allocation's state as the servers took it before the agent was restarted.
    pub(crate) fn restore(&mut self, id: AllocId, state: AllocState, acknowledged: Option<AllocState>) {
        self.allocs.insert(id, Entry { state, acknowledged, count: 0, last: false, trace: None });
    }

    /// Takes in what there is to tell.
    pub(crate) fn take(&mut self, told: Told) {
        match told {
            Told::State(id, state) => self.update(id, state),
            Told::Traced(id, trace) => {
                if let Some(entry) = self.allocs.get_mut(&id) {
                    entry.trace = Some(trace);
                }
            }
            Told::Again(id) => self.tell_again(id),
            Told::Forgotten(id) => self.forget(id),
            Told::Dropped(id) => drop(self.allocs.remove(&id)),
        }
    }

    /// An allocation fares like this now.
    fn update(&mut self, id: AllocId, state: AllocState) {
        match self.allocs.get_mut(&id) {
            Some(entry) => entry.state = state,
            None => self.restore(id, state, None),
        }
    }

    /// The servers want to hear of an allocation again, changed or not.
    fn tell_again(&mut self, id: AllocId) {
        if let Some(entry) = self.allocs.get_mut(&id) {
            entry.acknowledged = None;
        }
    }

    /// The agent has forgotten an allocation; its last state is still told.
    fn forget(&mut self, id: AllocId) {
        if let Some(entry) = self.allocs.get_mut(&id) {
            entry.last = true;
        }
        self.drop_told();
    }

    /// How soon there is something to tell, if there is.
    pub(crate) fn urgency(&self) -> Option<Urgency> {
        self.allocs.values().filter_map(Entry::urgency).max()
    }

    /// What there is to tell, the most urgent first, as much as one report takes.
    pub(crate) fn batch(&mut self) -> Vec<AllocReport> {
        let told = self.allocs.iter().filter_map(|(id, entry)| Some((entry.urgency()?, *id)));
        let mut told: Vec<_> = told.collect();
        told.sort_by_key(|(urgency, id)| (std::cmp::Reverse(*urgency), *id));
        let mut batches = self.reports(told.into_iter().map(|(_, id)| id).collect());
        if batches.is_empty() { Vec::new() } else { batches.swap_remove(0) }
    }

    /// All allocations that are not terminal, in as many reports as they take (design §6).
    pub(crate) fn all(&mut self) -> Vec<Vec<AllocReport>> {
        let live = self.allocs.iter().filter(|(_, entry)| !entry.state.status.is_terminal());
        self.reports(live.map(|(id, _)| *id).collect())
    }

    fn reports(&mut self, ids: Vec<AllocId>) -> Vec<Vec<AllocReport>> {
        let mut reports: Vec<Vec<AllocReport>> = Vec::new();
        let mut bytes = 0;
        for id in ids {
            let Some(entry) = self.allocs.get_mut(&id) else { continue };
            let size = ALLOC_BYTES + entry.state.task_states.as_bytes().len();
            let report = entry.report(id);
            match reports.last_mut() {
                Some(last) if last.len() < REPORT_ALLOCS_MAX && bytes + size <= REPORT_BYTES_MAX => {
                    bytes += size;
                    last.push(report);
                }
                Some(_) | None => {
                    bytes = size;
                    reports.push(vec![report]);
                }
            }
        }
        reports
    }

    /// The traces that a report belongs to.
    pub(crate) fn traces<'a>(
        &'a self,
        reports: &'a [AllocReport],
    ) -> impl Iterator<Item = TraceContext> + 'a {
        reports.iter().filter_map(|report| self.allocs.get(&report.id)?.trace)
    }

    /// The servers took a report. Answers what they know now.
    pub(crate) fn acknowledged(&mut self, reports: &[AllocReport]) -> Vec<(AllocId, AllocState)> {
        let mut known = Vec::new();
        for report in reports {
            let Some(entry) = self.allocs.get_mut(&report.id) else { continue };
            let state = AllocState {
                status: report.status,
                description: Text::clone(&report.description),
                task_states: report.task_states.clone(),
                health: report.health,
            };
            if state.status != ClientStatus::Pending {
                entry.trace = None;
            }
            entry.acknowledged = Some(state.clone());
            known.push((report.id, state));
        }
        self.drop_told();
        known
    }

    fn drop_told(&mut self) {
        self.allocs.retain(|_, entry| !entry.last || entry.urgency().is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: AllocId = AllocId::from_bytes([1; 16]);
    const B: AllocId = AllocId::from_bytes([2; 16]);

    fn state(status: ClientStatus, description: &str) -> AllocState {
        AllocState {
            status,
            description: description.into(),
            task_states: PackedTaskStates::default(),
            health: None,
        }
    }

    fn told(reports: &[AllocReport]) -> Vec<(AllocId, u32, ClientStatus)> {
        reports.iter().map(|report| (report.id, report.count, report.status)).collect()
    }

    #[test]
    fn a_changed_status_is_urgent_and_anything_else_is_not() {
        let mut reports = Reports::default();
        assert_eq!(reports.urgency(), None);
        reports.update(A, state(ClientStatus::Pending, ""));
        assert_eq!(reports.urgency(), Some(Urgency::Typical), "nothing is known of it yet");
        let batch = reports.batch();
        reports.acknowledged(&batch);
        assert_eq!(reports.urgency(), None);
        reports.update(A, state(ClientStatus::Pending, "other words"));
        assert_eq!(reports.urgency(), Some(Urgency::Typical));
        reports.update(A, state(ClientStatus::Running, "other words"));
        assert_eq!(reports.urgency(), Some(Urgency::Urgent));
        reports.update(B, state(ClientStatus::Failed, ""));
        assert_eq!(told(&reports.batch()), [(A, 2, ClientStatus::Running), (B, 1, ClientStatus::Failed)]);
    }

    #[test]
    fn what_was_not_acknowledged_is_told_again_in_its_newest_state() {
        let mut reports = Reports::default();
        reports.update(A, state(ClientStatus::Pending, ""));
        let lost = reports.batch();
        reports.update(A, state(ClientStatus::Running, ""));
        assert_eq!(told(&reports.batch()), [(A, 2, ClientStatus::Running)]);
        reports.acknowledged(&lost);
        assert_eq!(reports.urgency(), Some(Urgency::Urgent), "the servers know an older state");
        let newest = reports.batch();
        reports.acknowledged(&newest);
        assert!(reports.batch().is_empty());
        reports.tell_again(A);
        assert_eq!(told(&reports.batch()), [(A, 4, ClientStatus::Running)]);
    }

    #[test]
    fn the_last_state_of_a_forgotten_allocation_is_still_told() {
        let mut reports = Reports::default();
        reports.update(A, state(ClientStatus::Complete, ""));
        reports.forget(A);
        let batch = reports.batch();
        assert_eq!(told(&batch), [(A, 1, ClientStatus::Complete)]);
        reports.acknowledged(&batch);
        assert!(reports.allocs.is_empty());
        reports.update(B, state(ClientStatus::Running, ""));
        reports.take(Told::Dropped(B));
        assert!(reports.batch().is_empty(), "nobody asks for it");
    }

    #[test]
    fn all_that_live_are_told_of_in_reports_that_are_not_too_large() {
        let mut reports = Reports::default();
        for n in 0..=REPORT_ALLOCS_MAX {
            let id = AllocId::from_bytes((n as u128).to_be_bytes());
            reports.update(id, state(ClientStatus::Running, ""));
        }
        reports.update(A, state(ClientStatus::Complete, ""));
        let sizes: Vec<_> = reports.all().iter().map(Vec::len).collect();
        assert_eq!(sizes, [REPORT_ALLOCS_MAX, 1]);
    }

    #[test]
    fn what_the_servers_took_before_a_restart_is_not_told_again() {
        let mut reports = Reports::default();
        let running = state(ClientStatus::Running, "");
        reports.restore(A, running.clone(), Some(running.clone()));
        reports.update(A, running);
        assert!(reports.batch().is_empty());
    }
}
