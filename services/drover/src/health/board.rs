//! The status board of a process: its services record their health there, and the health endpoint's thread reads it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent::Presence;
use bus::{Bus, Contact, LeaseStatus, LeaseStatuses};
use model::{HistoryId, Index, ProcessId};
use state::Replica;
use telemetry::clock;
use telemetry::metrics::catalogue::APPLIER;
use tokio_util::sync::CancellationToken;
use wire::metrics::ProcessInfo;

use super::facts::{
    Announced, DatabaseMatch, Facts, Holder, Lease, LogFailure, LostLease, Nats, Parts, ProbeResult,
};
use super::info::{self, Identity};
use super::report::Report;
use super::verdict;

/// The recorded health of one process. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Board(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    service: &'static str,
    parts: Parts,
    started: Instant,
    stop: CancellationToken,
    sources: Mutex<Sources>,
}

/// The records of the services so far.
#[derive(Debug)]
struct Sources {
    bus: Option<Bus>,
    servers: Option<Servers>,
    presence: Option<Presence>,
    /// When the event loop last ran.
    beat: Instant,
    /// The head that was known when the event loop last ran. The replica is expected to reach it by the next time.
    target: Option<(HistoryId, Index)>,
    /// When the replica last had reached its target.
    caught_up: Instant,
    database: LastProbe,
    api: LastProbe,
}

/// The sources of a process that follows the feed.
#[derive(Debug, Clone)]
struct Servers {
    process: ProcessId,
    replica: Arc<Replica>,
    contact: Contact,
    leases: LeaseStatuses,
}

/// The last result of a probe, and its time.
#[derive(Debug, Clone, Default)]
enum LastProbe {
    #[default]
    NotYet,
    Succeeded(Instant),
    Failed {
        since: Instant,
        error: String,
    },
}

/// A target that the event loop probes periodically.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Database,
    Api,
}

impl Board {
    /// The board of a process with the name `service` that is stopped by `stop`.
    pub(crate) fn new(service: &'static str, parts: Parts, stop: CancellationToken) -> Self {
        let now = clock::monotonic();
        let sources = Sources {
            bus: None,
            servers: None,
            presence: None,
            beat: now,
            target: None,
            caught_up: now,
            database: LastProbe::NotYet,
            api: LastProbe::NotYet,
        };
        Self(Arc::new(Inner { service, parts, started: now, stop, sources: Mutex::new(sources) }))
    }

    /// The services that the process runs.
    pub(crate) fn parts(&self) -> Parts {
        self.0.parts
    }

    /// Records that the process is connected to NATS.
    pub(crate) fn set_bus(&self, bus: Bus) {
        self.sources().bus = Some(bus);
    }

    /// Records that the process with this id follows the feed with this replica.
    pub(crate) fn set_servers(&self, process: ProcessId, bus: &Bus, replica: &Arc<Replica>) {
        self.set_bus(bus.clone());
        let (replica, leases) = (Arc::clone(replica), bus.leases().clone());
        self.sources().servers = Some(Servers { process, replica, contact: bus.contact(), leases });
    }

    /// Records that the process runs an agent, which keeps its registration in `presence`.
    pub(crate) fn set_presence(&self, presence: Presence) {
        self.sources().presence = Some(presence);
    }

    /// Records that the event loop runs.
    pub(crate) fn record_beat(&self, now: Instant) {
        let mut sources = self.sources();
        sources.beat = now;
        let Some(Servers { replica, contact, .. }) = sources.servers.clone() else { return };
        let state = replica.snapshot();
        let has_it = |(history, index)| state.history() == history && state.index() >= index;
        if sources.target.is_none_or(has_it) {
            sources.caught_up = now;
        }
        sources.target = contact.head().map(|head| (head.history, head.index));
    }

    /// Records the result of a probe.
    pub(crate) fn record_probe(&self, target: Target, now: Instant, result: Result<(), String>) {
        let mut sources = self.sources();
        let last = match target {
            Target::Database => &mut sources.database,
            Target::Api => &mut sources.api,
        };
        *last = match (result, &*last) {
            (Ok(()), _) => LastProbe::Succeeded(now),
            (Err(error), LastProbe::Failed { since, .. }) => LastProbe::Failed { since: *since, error },
            (Err(error), LastProbe::Succeeded(at)) => LastProbe::Failed { since: *at, error },
            (Err(error), LastProbe::NotYet) => LastProbe::Failed { since: self.0.started, error },
        };
    }

    /// Reports whether the process is live.
    pub(crate) fn live(&self, now: Instant) -> Report {
        verdict::live(&self.facts(now))
    }

    /// Reports whether the process is ready to do its work.
    pub(crate) fn ready(&self, now: Instant) -> Report {
        verdict::ready(&self.facts(now))
    }

    /// Whether the process has started, given its readiness report. An agent has started even if it has not reached the
    /// servers, because it runs its tasks without them.
    pub(crate) fn is_started(&self, ready: &Report) -> bool {
        let is_agent_alone = self.0.parts == Parts::AGENT;
        ready.is_ok() || (is_agent_alone && self.sources().presence.is_some())
    }

    /// What the process says about itself to the cluster.
    pub(crate) fn describe(&self, identity: &Identity, now: Instant) -> ProcessInfo {
        info::info(&self.facts(now), identity)
    }

    /// Whether the process has been told to stop.
    pub(crate) fn is_ending(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Waits until the process is told to stop.
    pub(crate) async fn ending(&self) {
        self.0.stop.cancelled().await;
    }

    /// The facts at the time `now`.
    pub(super) fn facts(&self, now: Instant) -> Facts {
        let Inner { service, parts, started, stop, .. } = &*self.0;
        let sources = self.sources();
        let since = |then: Instant| now.saturating_duration_since(then);
        let probed = |last: &LastProbe| match last {
            LastProbe::NotYet => ProbeResult::Pending,
            LastProbe::Succeeded(at) => ProbeResult::Succeeded { ago: since(*at) },
            LastProbe::Failed { since: then, error } => {
                ProbeResult::Failed { since: since(*then), error: error.clone() }
            }
        };
        let nats = match &sources.bus {
            None => Nats::NotYet,
            Some(bus) => match bus.outage() {
                Some(outage) => Nats::Lost(outage),
                None => bus.refused().map_or(Nats::Connected, Nats::Refuses),
            },
        };
        let mut facts = Facts {
            service,
            parts: *parts,
            up: since(*started),
            beat_ago: since(sources.beat),
            is_ending: stop.is_cancelled(),
            nats,
            replica: None,
            behind_for: Duration::ZERO,
            head: None,
            applier_lease: Lease::UNKNOWN,
            leases: Vec::new(),
            database: probed(&sources.database),
            database_match: DatabaseMatch::Unknown,
            log_failure: None,
            api: probed(&sources.api),
            registration: sources.presence.as_ref().and_then(Presence::registration),
        };
        let Some(Servers { process, replica, contact, leases }) = sources.servers.clone() else {
            return facts;
        };
        facts.behind_for = since(sources.caught_up);
        drop(sources);
        let state = replica.snapshot();
        facts.replica = contact.is_loaded().then(|| state.index());
        let head = contact.head();
        let ago = contact.heard_ago().unwrap_or_default();
        facts.head = head.map(|head| Announced { index: head.index, ago });
        facts.database_match = match contact.database() {
            bus::DatabaseMatch::Unknown => DatabaseMatch::Unknown,
            bus::DatabaseMatch::Same => DatabaseMatch::Same,
            bus::DatabaseMatch::Other(other) => DatabaseMatch::Other(other.to_string()),
            bus::DatabaseMatch::WentBack(lost) => DatabaseMatch::Other(lost.to_string()),
        };
        let failure = contact.log_failure();
        facts.log_failure =
            failure.map(|failure| LogFailure { since: since(failure.since), error: failure.error });

        let lease = |service: &str, holder: Option<Holder>| match leases.get(service, now) {
            Some(LeaseStatus::Held { epoch, .. }) => Lease::Held { epoch },
            status @ (Some(LeaseStatus::Lost { .. }) | None) => {
                let lost = status.and_then(|status| lost(status, now));
                // A lease that this process has lost stays its own in the state until another process takes it.
                Lease::NotHeld { lost, holder: holder.filter(|holder| holder.process != process) }
            }
        };
        let applier = head.map(|head| Holder { process: head.applier, epoch: head.epoch });
        facts.applier_lease = lease(APPLIER, applier);
        let singletons = parts.singletons.iter().map(|singleton| {
            let holder = state.lease(*singleton);
            let holder = holder.map(|lease| Holder { process: lease.holder, epoch: lease.epoch });
            (*singleton, lease(singleton.as_str(), holder))
        });
        facts.leases = singletons.collect();
        facts
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lost lease at the time `now`.
fn lost(status: LeaseStatus, now: Instant) -> Option<LostLease> {
    match status {
        LeaseStatus::Lost { epoch, at, reason } => {
            Some(LostLease { epoch, ago: now.saturating_duration_since(at), reason })
        }
        LeaseStatus::Held { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_probe_has_failed_since_its_last_success() {
        let board = Board::new("it", Parts::API, CancellationToken::new());
        let start = board.0.started;
        let at = |secs| start + Duration::from_secs(secs);
        let failed = |now: Instant| match board.facts(now).api {
            ProbeResult::Failed { since, error } => (since.as_secs(), error),
            other @ (ProbeResult::Pending | ProbeResult::Succeeded { .. }) => panic!("{other:?}"),
        };
        assert_eq!(board.facts(at(1)).api, ProbeResult::Pending);
        board.record_probe(Target::Api, at(2), Err("refused".to_owned()));
        assert_eq!(failed(at(3)), (3, "refused".to_owned()));
        board.record_probe(Target::Api, at(4), Ok(()));
        assert_eq!(board.facts(at(6)).api, ProbeResult::Succeeded { ago: Duration::from_secs(2) });
        board.record_probe(Target::Api, at(7), Err("refused".to_owned()));
        board.record_probe(Target::Api, at(8), Err("timed out".to_owned()));
        assert_eq!(failed(at(9)), (5, "timed out".to_owned()));
        assert_eq!(board.facts(at(9)).database, ProbeResult::Pending);
    }

    #[test]
    fn a_process_says_that_it_ends_and_when_its_event_loop_ran() {
        let stop = CancellationToken::new();
        let board = Board::new("it", Parts::AGENT, stop.clone());
        let at = |secs| board.0.started + Duration::from_secs(secs);
        board.record_beat(at(5));
        assert_eq!(board.facts(at(7)).beat_ago, Duration::from_secs(2));
        assert!(!board.facts(at(7)).is_ending);
        stop.cancel();
        assert!(board.facts(at(7)).is_ending);
    }
}
