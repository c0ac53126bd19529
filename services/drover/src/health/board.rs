//! Where a process's parts leave what is known of them, for the health endpoint's thread to read at any time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agent::Presence;
use bus::{Bus, Contact};
use model::{HistoryId, Index, ProcessId};
use state::{Replica, State};
use telemetry::clock;
use tokio_util::sync::CancellationToken;

use super::facts::{Announced, Facts, Nats, Parts, Probed};
use super::report::Report;
use super::verdict;

/// What is known of one process. Clones share it.
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

/// What the parts brought so far.
#[derive(Debug)]
struct Sources {
    bus: Option<Bus>,
    servers: Option<Servers>,
    presence: Option<Presence>,
    /// When the event loop ran last.
    beat: Instant,
    /// What was announced when the event loop ran last; the replica is to have it by the next time.
    target: Option<(HistoryId, Index)>,
    /// When the replica last had what it was to have.
    caught_up: Instant,
    database: Tried,
    api: Tried,
}

/// What a process has that follows the change feed.
#[derive(Debug, Clone)]
struct Servers {
    process: ProcessId,
    replica: Arc<Replica>,
    contact: Contact,
}

/// What came of trying something, and when.
#[derive(Debug, Clone, Default)]
enum Tried {
    #[default]
    Never,
    Worked(Instant),
    Failed {
        since: Instant,
        why: String,
    },
}

/// What the event loop tries from time to time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Database,
    Api,
}

impl Board {
    /// For a process that calls itself `service` and ends with `stop`.
    pub(crate) fn new(service: &'static str, parts: Parts, stop: CancellationToken) -> Self {
        let now = clock::monotonic();
        let sources = Sources {
            bus: None,
            servers: None,
            presence: None,
            beat: now,
            target: None,
            caught_up: now,
            database: Tried::Never,
            api: Tried::Never,
        };
        Self(Arc::new(Inner { service, parts, started: now, stop, sources: Mutex::new(sources) }))
    }

    /// What the process runs.
    pub(crate) fn parts(&self) -> Parts {
        self.0.parts
    }

    /// The process is connected.
    pub(crate) fn set_bus(&self, bus: Bus) {
        self.sources().bus = Some(bus);
    }

    /// The process, which has this id, follows the change feed with this replica.
    pub(crate) fn set_servers(&self, process: ProcessId, bus: &Bus, replica: &Arc<Replica>) {
        self.set_bus(bus.clone());
        let servers = Servers { process, replica: Arc::clone(replica), contact: bus.contact() };
        self.sources().servers = Some(servers);
    }

    /// The process runs an agent, which shows here how it stands.
    pub(crate) fn set_presence(&self, presence: Presence) {
        self.sources().presence = Some(presence);
    }

    /// The event loop runs.
    pub(crate) fn beat(&self, now: Instant) {
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

    /// Something was tried.
    pub(crate) fn tried(&self, subject: Subject, now: Instant, result: Result<(), String>) {
        let mut sources = self.sources();
        let tried = match subject {
            Subject::Database => &mut sources.database,
            Subject::Api => &mut sources.api,
        };
        *tried = match (result, &*tried) {
            (Ok(()), _) => Tried::Worked(now),
            (Err(why), Tried::Failed { since, .. }) => Tried::Failed { since: *since, why },
            (Err(why), Tried::Worked(at)) => Tried::Failed { since: *at, why },
            (Err(why), Tried::Never) => Tried::Failed { since: self.0.started, why },
        };
    }

    /// Whether the process lives.
    pub(crate) fn live(&self, now: Instant) -> Report {
        verdict::live(&self.facts(now))
    }

    /// Whether the process is ready for what it is there for.
    pub(crate) fn ready(&self, now: Instant) -> Report {
        verdict::ready(&self.facts(now))
    }

    /// Whether the process has come to where it works, as the report of its readiness says. An agent works also without
    /// servers.
    pub(crate) fn is_started(&self, ready: &Report) -> bool {
        let is_agent_alone = self.0.parts == Parts::AGENT;
        ready.is_ok() || (is_agent_alone && self.sources().presence.is_some())
    }

    /// Whether the process was told to stop.
    pub(crate) fn is_ending(&self) -> bool {
        self.0.stop.is_cancelled()
    }

    /// Waits until it is.
    pub(crate) async fn ending(&self) {
        self.0.stop.cancelled().await;
    }

    /// All of it, as it is now.
    pub(super) fn facts(&self, now: Instant) -> Facts {
        let Inner { service, parts, started, stop, .. } = &*self.0;
        let sources = self.sources();
        let since = |then: Instant| now.saturating_duration_since(then);
        let probed = |tried: &Tried| match tried {
            Tried::Never => Probed::Pending,
            Tried::Worked(at) => Probed::Worked { ago: since(*at) },
            Tried::Failed { since: then, why } => Probed::Failed { since: since(*then), why: why.clone() },
        };
        let nats = match &sources.bus {
            None => Nats::Never,
            Some(bus) => bus.outage().map_or(Nats::Connected, Nats::Lost),
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
            is_applier: false,
            leases: Vec::new(),
            database: probed(&sources.database),
            api: probed(&sources.api),
            registration: sources.presence.as_ref().and_then(Presence::registration),
        };
        let Some(Servers { process, replica, contact }) = sources.servers.clone() else { return facts };
        facts.behind_for = since(sources.caught_up);
        drop(sources);
        let state = replica.snapshot();
        facts.replica = contact.is_loaded().then(|| state.index());
        let head = contact.head();
        facts.is_applier = parts.applier && head.is_some_and(|head| head.applier == process);
        let ago = contact.heard_ago().unwrap_or_default();
        facts.head = head.map(|head| Announced { index: head.index, ago });
        facts.leases = leases(*parts, &state, process);
        facts
    }

    fn sources(&self) -> MutexGuard<'_, Sources> {
        self.0.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The leases that a process holds, as far as its replica knows.
fn leases(parts: Parts, state: &State, process: ProcessId) -> Vec<(model::cluster::Singleton, model::Epoch)> {
    let held = parts.singletons.iter().filter_map(|singleton| state.lease(*singleton));
    held.filter(|lease| lease.holder == process).map(|lease| (lease.service, lease.epoch)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_has_failed_since_it_last_worked() {
        let board = Board::new("it", Parts::API, CancellationToken::new());
        let start = board.0.started;
        let at = |secs| start + Duration::from_secs(secs);
        let failed = |now: Instant| match board.facts(now).api {
            Probed::Failed { since, why } => (since.as_secs(), why),
            other @ (Probed::Pending | Probed::Worked { .. }) => panic!("{other:?}"),
        };
        assert_eq!(board.facts(at(1)).api, Probed::Pending);
        board.tried(Subject::Api, at(2), Err("refused".to_owned()));
        assert_eq!(failed(at(3)), (3, "refused".to_owned()));
        board.tried(Subject::Api, at(4), Ok(()));
        assert_eq!(board.facts(at(6)).api, Probed::Worked { ago: Duration::from_secs(2) });
        board.tried(Subject::Api, at(7), Err("refused".to_owned()));
        board.tried(Subject::Api, at(8), Err("timed out".to_owned()));
        assert_eq!(failed(at(9)), (5, "timed out".to_owned()));
        assert_eq!(board.facts(at(9)).database, Probed::Pending);
    }

    #[test]
    fn a_process_says_that_it_ends_and_when_its_event_loop_ran() {
        let stop = CancellationToken::new();
        let board = Board::new("it", Parts::AGENT, stop.clone());
        let at = |secs| board.0.started + Duration::from_secs(secs);
        board.beat(at(5));
        assert_eq!(board.facts(at(7)).beat_ago, Duration::from_secs(2));
        assert!(!board.facts(at(7)).is_ending);
        stop.cancel();
        assert!(board.facts(at(7)).is_ending);
    }
}
