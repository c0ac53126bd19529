//! Decides which allocation states are reported to the servers when, and records which the servers have acknowledged.
//! Pure; `actor` sends the reports.
//!
//! Reports carry states, not events. An allocation is reported until the servers have acknowledged its current state, so a
//! lost message or answer costs only time.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::alloc::{ClientStatus, NetworkStatus, PackedTaskStates};
use model::{AllocId, Text, Timestamp, TraceContext};
use serde::{Deserialize, Serialize};
use wire::node::AllocReport;

/// The maximum number of allocations in one report.
pub(crate) const REPORT_ALLOCS_MAX: usize = 500;
/// The maximum size of the states in one report, in bytes. It is far below the maximum size of a NATS message.
const REPORT_BYTES_MAX: usize = 256 << 10;
/// The maximum size of an allocation in a report without its task states and name servers, in bytes.
const ALLOC_BYTES: usize = 512;

/// The state of an allocation, as reported to the servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllocState {
    /// The client status.
    pub(crate) status: ClientStatus,
    /// The description of the status.
    pub(crate) description: Text,
    /// The states of its tasks.
    pub(crate) task_states: PackedTaskStates,
    /// The health verdict and its time.
    pub(crate) health: Option<(bool, Timestamp)>,
    /// Its own network, if it has one and it is set up.
    #[serde(default)]
    pub(crate) network: Option<Arc<NetworkStatus>>,
}

impl AllocState {
    /// The state of an allocation that the agent could not add.
    pub(crate) fn not_added(error: &str) -> Self {
        Self {
            status: ClientStatus::Failed,
            description: format!("Unable to add allocation due to error: {error}").into(),
            task_states: PackedTaskStates::default(),
            health: None,
            network: None,
        }
    }
}

/// An event of an allocation, as input to [`Reports`].
#[derive(Debug)]
pub(crate) enum AllocEvent {
    /// The allocation has a new state.
    State(AllocId, AllocState),
    /// The allocation's reports belong to this trace until it runs or has failed to start.
    Traced(AllocId, TraceContext),
    /// The servers want the allocation reported again.
    ReportAgain(AllocId),
    /// The agent has removed the allocation.
    Removed(AllocId),
    /// The servers no longer list the allocation.
    Unlisted(AllocId),
}

/// How soon a state is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Urgency {
    /// Within about a second.
    Typical,
    /// At once.
    Urgent,
}

/// The states of all allocations, and which of them the servers know.
#[derive(Debug, Default)]
pub(crate) struct Reports {
    allocs: BTreeMap<AllocId, Entry>,
}

#[derive(Debug)]
struct Entry {
    state: AllocState,
    acknowledged: Option<AllocState>,
    /// The number of reports of this allocation in this boot. The boot's own number grows with each start of the agent.
    count: u32,
    /// Whether the entry is removed once the servers know its last state.
    is_final: bool,
    /// The trace of the allocation's start, until the servers know how the start ended.
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
            network: self.state.network.clone(),
            health: self.state.health,
        }
    }
}

impl Reports {
    /// Restores an allocation's state, and the state that the servers acknowledged, after a restart of the agent.
    pub(crate) fn restore(&mut self, id: AllocId, state: AllocState, acknowledged: Option<AllocState>) {
        self.allocs.insert(id, Entry { state, acknowledged, count: 0, is_final: false, trace: None });
    }

    /// Handles an event.
    pub(crate) fn handle(&mut self, event: AllocEvent) {
        match event {
            AllocEvent::State(id, state) => self.update(id, state),
            AllocEvent::Traced(id, trace) => {
                if let Some(entry) = self.allocs.get_mut(&id) {
                    entry.trace = Some(trace);
                }
            }
            AllocEvent::ReportAgain(id) => self.report_again(id),
            AllocEvent::Removed(id) => self.remove(id),
            AllocEvent::Unlisted(id) => drop(self.allocs.remove(&id)),
        }
    }

    /// Sets the state of an allocation.
    fn update(&mut self, id: AllocId, state: AllocState) {
        match self.allocs.get_mut(&id) {
            Some(entry) => entry.state = state,
            None => self.restore(id, state, None),
        }
    }

    /// Has an allocation reported again, even if it is unchanged.
    fn report_again(&mut self, id: AllocId) {
        if let Some(entry) = self.allocs.get_mut(&id) {
            entry.acknowledged = None;
        }
    }

    /// Removes an allocation once its last state is acknowledged.
    fn remove(&mut self, id: AllocId) {
        if let Some(entry) = self.allocs.get_mut(&id) {
            entry.is_final = true;
        }
        self.drop_acknowledged();
    }

    /// The highest urgency of the unreported states, if there are any.
    pub(crate) fn urgency(&self) -> Option<Urgency> {
        self.allocs.values().filter_map(Entry::urgency).max()
    }

    /// The next report: the most urgent unreported states, as many as fit.
    pub(crate) fn batch(&mut self) -> Vec<AllocReport> {
        let unreported = self.allocs.iter().filter_map(|(id, entry)| Some((entry.urgency()?, *id)));
        let mut unreported: Vec<_> = unreported.collect();
        unreported.sort_by_key(|(urgency, id)| (std::cmp::Reverse(*urgency), *id));
        let mut batches = self.reports(unreported.into_iter().map(|(_, id)| id).collect());
        if batches.is_empty() { Vec::new() } else { batches.swap_remove(0) }
    }

    /// Reports of all allocations that are not terminal (`docs/architecture/agents.md`).
    pub(crate) fn all(&mut self) -> Vec<Vec<AllocReport>> {
        let live = self.allocs.iter().filter(|(_, entry)| !entry.state.status.is_terminal());
        self.reports(live.map(|(id, _)| *id).collect())
    }

    fn reports(&mut self, ids: Vec<AllocId>) -> Vec<Vec<AllocReport>> {
        let mut reports: Vec<Vec<AllocReport>> = Vec::new();
        let mut bytes = 0;
        for id in ids {
            let Some(entry) = self.allocs.get_mut(&id) else { continue };
            let size = ALLOC_BYTES + entry.state.task_states.as_bytes().len() + dns_bytes(&entry.state);
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

    /// Records that the servers accepted a report. Returns the states that the servers know now.
    pub(crate) fn acknowledged(&mut self, reports: &[AllocReport]) -> Vec<(AllocId, AllocState)> {
        let mut acknowledged_states = Vec::new();
        for report in reports {
            let Some(entry) = self.allocs.get_mut(&report.id) else { continue };
            let state = AllocState {
                status: report.status,
                description: Text::clone(&report.description),
                task_states: report.task_states.clone(),
                health: report.health,
                network: report.network.clone(),
            };
            if state.status != ClientStatus::Pending {
                entry.trace = None;
            }
            entry.acknowledged = Some(state.clone());
            acknowledged_states.push((report.id, state));
        }
        self.drop_acknowledged();
        acknowledged_states
    }

    fn drop_acknowledged(&mut self) {
        self.allocs.retain(|_, entry| !entry.is_final || entry.urgency().is_some());
    }
}

/// The size of the name servers of an allocation in a report, in bytes.
fn dns_bytes(state: &AllocState) -> usize {
    let dns = state.network.as_ref().and_then(|network| network.dns.as_ref());
    let lists = dns.map(|dns| [&dns.servers, &dns.searches, &dns.options]);
    lists.into_iter().flatten().flatten().flatten().map(|text| text.len() + 1).sum()
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
            network: None,
        }
    }

    fn summary(reports: &[AllocReport]) -> Vec<(AllocId, u32, ClientStatus)> {
        reports.iter().map(|report| (report.id, report.count, report.status)).collect()
    }

    #[test]
    fn a_changed_status_is_urgent_and_anything_else_is_not() {
        let mut reports = Reports::default();
        assert_eq!(reports.urgency(), None);
        reports.update(A, state(ClientStatus::Pending, ""));
        assert_eq!(reports.urgency(), Some(Urgency::Typical), "the servers know no state of it yet");
        let batch = reports.batch();
        reports.acknowledged(&batch);
        assert_eq!(reports.urgency(), None);
        reports.update(A, state(ClientStatus::Pending, "changed"));
        assert_eq!(reports.urgency(), Some(Urgency::Typical));
        reports.update(A, state(ClientStatus::Running, "changed"));
        assert_eq!(reports.urgency(), Some(Urgency::Urgent));
        reports.update(B, state(ClientStatus::Failed, ""));
        assert_eq!(summary(&reports.batch()), [(A, 2, ClientStatus::Running), (B, 1, ClientStatus::Failed)]);
    }

    #[test]
    fn an_unacknowledged_state_is_reported_again_as_it_is_now() {
        let mut reports = Reports::default();
        reports.update(A, state(ClientStatus::Pending, ""));
        let lost = reports.batch();
        reports.update(A, state(ClientStatus::Running, ""));
        assert_eq!(summary(&reports.batch()), [(A, 2, ClientStatus::Running)]);
        reports.acknowledged(&lost);
        assert_eq!(reports.urgency(), Some(Urgency::Urgent), "the servers know an older state");
        let newest = reports.batch();
        reports.acknowledged(&newest);
        assert!(reports.batch().is_empty());
        reports.report_again(A);
        assert_eq!(summary(&reports.batch()), [(A, 4, ClientStatus::Running)]);
    }

    #[test]
    fn the_last_state_of_a_removed_allocation_is_still_reported() {
        let mut reports = Reports::default();
        reports.update(A, state(ClientStatus::Complete, ""));
        reports.remove(A);
        let batch = reports.batch();
        assert_eq!(summary(&batch), [(A, 1, ClientStatus::Complete)]);
        reports.acknowledged(&batch);
        assert!(reports.allocs.is_empty());
        reports.update(B, state(ClientStatus::Running, ""));
        reports.handle(AllocEvent::Unlisted(B));
        assert!(reports.batch().is_empty(), "an unlisted allocation is not reported");
    }

    #[test]
    fn all_live_allocations_are_reported_in_bounded_reports() {
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
    fn states_acknowledged_before_a_restart_are_not_reported_again() {
        let mut reports = Reports::default();
        let running = state(ClientStatus::Running, "");
        reports.restore(A, running.clone(), Some(running.clone()));
        reports.update(A, running);
        assert!(reports.batch().is_empty());
    }
}
