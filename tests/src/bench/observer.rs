//! Observes when changes become durable. A change set is published on the feed only after its commit, so the observer
//! follows the feed from the first change set.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::Requests;
use clap::Parser as _;
use model::change::{Change, ChangeSet};
use model::{Index, JobKey};
use private_servers::{Nats, Postgres};
use state::State;
use store::{Database, Tail};
use telemetry::clock;
use wire::LogRow;
use wire::feed::Changes;
use wire::{Role, Subject, Wire as _};

use super::TIMEOUT;
use crate::harness;

/// Bytes of the log that are read at once where the feed has lost messages.
const PAGE_BYTES: usize = 8 << 20;
/// How long the feed may be silent before the log is read. A message may be lost when a process is killed while sending
/// it.
const SILENCE_MAX: Duration = Duration::from_millis(50);

/// Follows the feed from its beginning.
pub struct Observer {
    feed: Requests,
    database: Option<Database>,
    index: Index,
    tracking: Tracking,
}

/// The data that an observer updates with each change.
enum Tracking {
    State(Box<State>),
    /// How many allocations of each job were placed. Counting takes a tenth of the processor time of keeping the state,
    /// on the cores that are being measured.
    Placements(HashMap<JobKey, u64>),
}

#[derive(clap::Parser)]
struct StoreSettings {
    #[command(flatten)]
    store: store::Args,
}

impl Observer {
    pub(super) async fn connect(nats: &Nats) -> Self {
        let bus = harness::connect(nats, Role::Observer).await;
        let feed = bus.serve(Subject::Changes.to_string()).await.expect("the feed can be subscribed to");
        Self { feed, database: None, index: Index::ZERO, tracking: Tracking::State(Box::default()) }
    }

    /// Waits until the log can be read, and reads it from then on where the feed has gaps.
    pub(super) async fn read_log(&mut self, postgres: &Postgres) {
        let StoreSettings { store } =
            StoreSettings::parse_from(["observer", "--database-url", &postgres.url()]);
        self.database = Some(Database::connect(&store).await.expect("the applier creates the schema"));
    }

    /// The state up to the last change set that was received.
    ///
    /// # Panics
    /// If only placements are counted.
    pub fn state(&self) -> &State {
        match &self.tracking {
            Tracking::State(state) => state,
            Tracking::Placements(_) => panic!("only placements are counted"),
        }
    }

    /// Counts only placements from now on.
    pub(super) fn count_placements(&mut self) {
        if matches!(self.tracking, Tracking::State(_)) {
            self.tracking = Tracking::Placements(HashMap::new());
        }
    }

    /// How many allocations of a job were placed since counting began.
    pub(super) fn placed(&self, job: &JobKey) -> u64 {
        match &self.tracking {
            Tracking::Placements(placed) => placed.get(job).copied().unwrap_or_default(),
            Tracking::State(_) => 0,
        }
    }

    /// Waits until a condition holds in the state. Returns when the message arrived that made it hold.
    ///
    /// # Panics
    /// If the condition does not hold in time.
    pub async fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&State) -> bool) -> Instant {
        let (began, mut received) = (clock::monotonic(), clock::monotonic());
        while !condition(self.state()) {
            assert!(began.elapsed() < TIMEOUT, "timed out waiting until {what}");
            received = self.receive().await;
        }
        received
    }

    /// Handles the next message of the feed, or reads the log after a silence. Returns when the message arrived.
    pub(super) async fn receive(&mut self) -> Instant {
        let message = tokio::time::timeout(SILENCE_MAX, self.feed.next()).await;
        let received = clock::monotonic();
        match message {
            Ok(request) => {
                self.apply_changes(request.expect("NATS runs").body().expect("a message of the feed")).await;
            }
            Err(_) => self.catch_up(None).await,
        }
        received
    }

    async fn apply_changes(&mut self, changes: Changes) {
        for (index, set) in (changes.first.0..).map(Index).zip(changes.sets) {
            match set {
                _ if index <= self.index => {}
                Some(set) if index == self.index.next() => self.apply(&set),
                _ => self.catch_up(Some(index)).await,
            }
        }
    }

    /// Reads change sets from the log that the feed lost or that were too large for it. Without a target, reads up to
    /// the current end of the log. Stops early if the log cannot be read.
    async fn catch_up(&mut self, mut target: Option<Index>) {
        let database = self.database.clone().expect("read_log was called before waiting");
        while target.is_none_or(|target| self.index < target) {
            match database.changes_after(self.index, PAGE_BYTES).await {
                Ok(Tail::Page { rows, .. }) if rows.is_empty() => return,
                Ok(Tail::Page { rows, head, .. }) => {
                    target = target.or(Some(head.index));
                    rows.iter().for_each(|LogRow { bytes, .. }| self.apply(bytes));
                }
                Ok(Tail::Trimmed) => panic!("the log was trimmed while it was followed"),
                // The database is unavailable for a moment.
                Err(_) => return,
            }
        }
    }

    fn apply(&mut self, bytes: &[u8]) {
        let set = wire::decode::<ChangeSet>(ChangeSet::KIND, ChangeSet::VERSION, bytes);
        let set = set.expect("the log holds change sets");
        self.index = set.index;
        match &mut self.tracking {
            Tracking::State(state) => {
                state.apply(&Arc::new(set)).expect("the change sets of the log follow each other")
            }
            Tracking::Placements(placed) => {
                for change in set.changes {
                    if let Change::AllocsPlaced(placements) = change {
                        *placed.entry(placements.common.job.job.clone()).or_default() +=
                            placements.len() as u64;
                    }
                }
            }
        }
    }
}
