//! The list of the cluster's processes, as each described itself last. Pure.

use std::time::{Duration, Instant};

use model::cluster::Singleton;
use model::{Epoch, ProcessId, Text};
use telemetry::metrics::catalogue::APPLIER;
use wire::metrics::{LABEL_BYTES_MAX, PartHealth, ProcessInfo, SERVICES_MAX};

use super::{ClusterMetrics, HIDDEN_AFTER, Process};

/// Time for which a process that went silent is listed as silent.
const SILENT_LISTED: Duration = Duration::from_secs(60);

/// A process of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// Id.
    pub(crate) id: ProcessId,
    /// Name of the process: the service, or the group of services, that it was started as.
    pub(crate) name: Text,
    /// What it said about itself.
    pub(crate) info: ProcessInfo,
    /// Time since its last message.
    pub(crate) heard_ago: Duration,
    /// Whether it has been silent for longer than a process that works ever is.
    pub(crate) is_silent: bool,
    /// The services that it runs.
    pub(crate) services: Vec<MemberService>,
}

/// A service of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemberService {
    /// Name of the service.
    pub(crate) name: Text,
    /// What the process does in it.
    pub(crate) state: ServiceState,
}

/// What a process does in a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServiceState {
    /// It is the active one.
    Active(Epoch),
    /// Another process may be the active one, and this one waits.
    Standby,
    /// It runs, as any number of others do.
    Running,
    /// It is not known, because the process is silent.
    Unknown,
}

/// Whether one process of a service is active at a time.
fn is_singleton(service: &str) -> bool {
    service == APPLIER || Singleton::ALL.iter().any(|singleton| singleton.as_str() == service)
}

impl ClusterMetrics {
    /// The processes, by their ids. One that is silent is listed for [`SILENT_LISTED`] longer; one that said that it ends
    /// is not.
    ///
    /// A process is the active one of a service if it says so, with the newest epoch of all that say so, and no newer
    /// epoch is known from the state (`newest_epoch`).
    pub(crate) fn members(&self, now: Instant, newest_epoch: impl Fn(&str) -> Option<Epoch>) -> Vec<Member> {
        let processes = self.processes.iter().filter_map(|(id, process)| {
            let heard_ago = now.saturating_duration_since(process.last_received);
            let is_listed = heard_ago < HIDDEN_AFTER.saturating_add(SILENT_LISTED);
            is_listed.then_some((*id, process, heard_ago))
        });
        let member = |(id, process, heard_ago): (ProcessId, &Process, Duration)| {
            let service = |name: &Text| {
                let claim = process.active.iter().find(|(service, _)| service == name);
                let epoch = claim.map(|(_, epoch)| *epoch).filter(|epoch| {
                    self.active(name) == Some(id) && newest_epoch(name).is_none_or(|newest| newest <= *epoch)
                });
                let state = match epoch {
                    _ if process.is_silent => ServiceState::Unknown,
                    Some(epoch) => ServiceState::Active(epoch),
                    None if is_singleton(name) => ServiceState::Standby,
                    None => ServiceState::Running,
                };
                MemberService { name: name.clone(), state }
            };
            Member {
                id,
                name: process.service.clone(),
                info: process.info.clone(),
                heard_ago,
                is_silent: process.is_silent,
                services: services(process).iter().map(service).collect(),
            }
        };
        processes.map(member).collect()
    }
}

/// The services of a process: those that it names, or the one that it is called after.
fn services(process: &Process) -> &[Text] {
    match process.info.services.as_slice() {
        [] => std::slice::from_ref(&process.service),
        named => named,
    }
}

/// The same with texts and lists of limited size.
pub(super) fn bounded(info: &ProcessInfo) -> ProcessInfo {
    let health = |health: &PartHealth| PartHealth {
        is_known: health.is_known,
        problem: health.problem.as_ref().map(truncated),
    };
    ProcessInfo {
        host: truncated(&info.host),
        version: truncated(&info.version),
        services: info.services.iter().take(SERVICES_MAX).map(truncated).collect(),
        nats: health(&info.nats),
        database: health(&info.database),
        ..*info
    }
}

/// A text of at most [`LABEL_BYTES_MAX`].
fn truncated(text: &Text) -> Text {
    let end = text.floor_char_boundary(LABEL_BYTES_MAX);
    text.get(..end).map(Text::from).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use telemetry::clock;
    use wire::metrics::{Counters, Distributions, Gauges, ProcessMetrics};

    use super::*;

    const A: ProcessId = ProcessId::from_bytes([1; 16]);
    const B: ProcessId = ProcessId::from_bytes([2; 16]);

    fn message(process: ProcessId, sequence: u64, active: &[(&str, u64)]) -> ProcessMetrics {
        let services = ["eval-broker", "api"].map(Text::from).to_vec();
        ProcessMetrics {
            process,
            service: "servers".into(),
            at: model::Timestamp::UNSET,
            sequence,
            is_last: false,
            info: ProcessInfo { host: "host1".into(), pid: 7, services, ..ProcessInfo::default() },
            active: active.iter().map(|(name, epoch)| ((*name).into(), Epoch(*epoch))).collect(),
            left_out: 0,
            names: Vec::new(),
            counters: Counters::default(),
            gauges: Gauges::default(),
            distributions: Distributions::default(),
        }
    }

    /// The state of the broker in each process.
    fn broker(cluster: &ClusterMetrics, now: Instant, newest: Option<u64>) -> Vec<ServiceState> {
        let members = cluster.members(now, |_| newest.map(Epoch));
        members.iter().map(|member| member.services[0].state).collect()
    }

    #[test]
    fn the_newest_lease_decides_who_is_active() {
        let now = clock::monotonic();
        let mut cluster = ClusterMetrics::new(now);
        cluster.record(&message(A, 1, &[("eval-broker", 3)]), Vec::new(), now).unwrap();
        cluster.record(&message(B, 1, &[]), Vec::new(), now).unwrap();
        let active = |epoch| ServiceState::Active(Epoch(epoch));
        assert_eq!(broker(&cluster, now, None), [active(3), ServiceState::Standby]);
        assert_eq!(broker(&cluster, now, Some(3)), [active(3), ServiceState::Standby]);
        // The lease has a new holder, which has not said so yet.
        assert_eq!(broker(&cluster, now, Some(4)), [ServiceState::Standby, ServiceState::Standby]);
        cluster.record(&message(B, 2, &[("eval-broker", 4)]), Vec::new(), now).unwrap();
        assert_eq!(broker(&cluster, now, Some(4)), [ServiceState::Standby, active(4)]);
        let services = &cluster.members(now, |_| None)[0].services;
        assert_eq!((&*services[1].name, services[1].state), ("api", ServiceState::Running));
    }

    #[test]
    fn a_silent_process_is_listed_for_a_minute_and_is_active_in_nothing() {
        let begin = clock::monotonic();
        let mut cluster = ClusterMetrics::new(begin);
        cluster.record(&message(A, 1, &[("eval-broker", 3)]), Vec::new(), begin).unwrap();
        let mut after = |time: Duration| {
            cluster.advance_to(begin + time);
            let members = cluster.members(begin + time, |_| None);
            members.first().map(|member| (member.is_silent, member.services[0].state))
        };
        let second = Duration::from_secs(1);
        assert_eq!(after(HIDDEN_AFTER - second), Some((false, ServiceState::Active(Epoch(3)))));
        assert_eq!(after(HIDDEN_AFTER), Some((true, ServiceState::Unknown)));
        assert_eq!(after(HIDDEN_AFTER + SILENT_LISTED - second), Some((true, ServiceState::Unknown)));
        assert_eq!(after(HIDDEN_AFTER + SILENT_LISTED), None);
    }

    #[test]
    fn a_process_that_ends_is_not_listed() {
        let now = clock::monotonic();
        let mut cluster = ClusterMetrics::new(now);
        cluster.record(&message(A, 1, &[]), Vec::new(), now).unwrap();
        let last = ProcessMetrics { is_last: true, ..message(A, 2, &[]) };
        cluster.record(&last, Vec::new(), now).unwrap();
        assert_eq!(cluster.members(now, |_| None), []);
    }

    #[test]
    fn what_a_process_says_is_truncated() {
        let long = Text::from("x".repeat(LABEL_BYTES_MAX + 1));
        let info = ProcessInfo {
            host: long.clone(),
            services: vec![long; SERVICES_MAX + 1],
            ..ProcessInfo::default()
        };
        let bounded = bounded(&info);
        assert_eq!(bounded.host.len(), LABEL_BYTES_MAX);
        assert_eq!((bounded.services.len(), bounded.services[0].len()), (SERVICES_MAX, LABEL_BYTES_MAX));
    }
}
