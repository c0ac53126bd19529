//! Whoever is told of a change set on the feed knows that it is durable: the observer follows from the first one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::Requests;
use clap::Parser as _;
use model::change::{Change, ChangeSet};
use model::{Index, JobKey};
use private_servers::{Nats, Postgres};
use state::State;
use store::{Database, LogRow, Tail};
use telemetry::clock;
use wire::feed::Changes;
use wire::{Role, Subject, Wire as _};

use super::PATIENCE;
use crate::harness;

/// Bytes of the log that are read at once where the feed has lost something.
const PAGE_BYTES: usize = 8 << 20;
/// How long nothing may come before it is looked up in the log: what was sent when something was killed may be lost.
const SILENCE_MAX: Duration = Duration::from_millis(50);

/// Follows the feed from its beginning.
pub struct Observer {
    feed: Requests,
    database: Option<Database>,
    index: Index,
    seen: Seen,
}

/// What an observer makes of what it hears.
enum Seen {
    All(Box<State>),
    /// How many allocations of each job were placed: a tenth of the work, which is done on the cores that are measured.
    Placed(HashMap<JobKey, u64>),
}

#[derive(clap::Parser)]
struct StoreSettings {
    #[command(flatten)]
    store: store::Args,
}

impl Observer {
    pub(super) async fn connect(nats: &Nats) -> Self {
        let bus = harness::connect(nats, Role::Observer).await;
        let feed = bus.serve(Subject::Changes.to_string()).await.expect("the feed can be listened to");
        Self { feed, database: None, index: Index::ZERO, seen: Seen::All(Box::default()) }
    }

    /// Waits until there is a log that can be read.
    pub(super) async fn read_log(&mut self, postgres: &Postgres) {
        let StoreSettings { store } =
            StoreSettings::parse_from(["observer", "--database-url", &postgres.url()]);
        self.database = Some(Database::connect(&store).await.expect("the applier makes the schema"));
    }

    /// The state as far as it was followed.
    ///
    /// # Panics
    /// If only placements are counted.
    pub fn state(&self) -> &State {
        match &self.seen {
            Seen::All(state) => state,
            Seen::Placed(_) => panic!("only placements are counted"),
        }
    }

    /// Counts nothing but what is placed from now on.
    pub(super) fn count_placements(&mut self) {
        if matches!(self.seen, Seen::All(_)) {
            self.seen = Seen::Placed(HashMap::new());
        }
    }

    /// How many allocations of a job were placed since nothing else is counted.
    pub(super) fn placed(&self, job: &JobKey) -> u64 {
        match &self.seen {
            Seen::Placed(placed) => placed.get(job).copied().unwrap_or_default(),
            Seen::All(_) => 0,
        }
    }

    /// Waits until something is so in the state, and tells when the message came by which it became so.
    ///
    /// # Panics
    /// If it does not come to be.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&State) -> bool) -> Instant {
        let (began, mut came) = (clock::monotonic(), clock::monotonic());
        while !is_so(self.state()) {
            assert!(began.elapsed() < PATIENCE, "in vain waited until {what}");
            came = self.hear().await;
        }
        came
    }

    /// Takes in what comes next, and tells when it came.
    pub(super) async fn hear(&mut self) -> Instant {
        let heard = tokio::time::timeout(SILENCE_MAX, self.feed.next()).await;
        let came = clock::monotonic();
        match heard {
            Ok(request) => {
                self.take(request.expect("NATS is there").body().expect("a message of the feed")).await;
            }
            Err(_) => self.catch_up(None).await,
        }
        came
    }

    async fn take(&mut self, changes: Changes) {
        for (index, set) in (changes.first.0..).map(Index).zip(changes.sets) {
            match set {
                _ if index <= self.index => {}
                Some(set) if index == self.index.next() => self.apply(&set),
                _ => self.catch_up(Some(index)).await,
            }
        }
    }

    /// Reads from the log what the feed has lost, or was too small for; to where it ends now where no index is named, as far
    /// as it can be read.
    async fn catch_up(&mut self, mut target: Option<Index>) {
        let database = self.database.clone().expect("the log is there before anything is waited for");
        while target.is_none_or(|target| self.index < target) {
            match database.changes_after(self.index, PAGE_BYTES).await {
                Ok(Tail::Page { rows, .. }) if rows.is_empty() => return,
                Ok(Tail::Page { rows, head }) => {
                    target = target.or(Some(head.index));
                    rows.iter().for_each(|LogRow { bytes, .. }| self.apply(bytes));
                }
                Ok(Tail::Trimmed) => panic!("the log was trimmed while it was followed"),
                // The database is away for a moment.
                Err(_) => return,
            }
        }
    }

    fn apply(&mut self, bytes: &[u8]) {
        let set = wire::decode::<ChangeSet>(ChangeSet::KIND, ChangeSet::VERSION, bytes);
        let set = set.expect("a change set of the log");
        self.index = set.index;
        match &mut self.seen {
            Seen::All(state) => state.apply(&Arc::new(set)).expect("the log fits together"),
            Seen::Placed(placed) => {
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
