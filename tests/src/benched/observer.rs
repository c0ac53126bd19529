//! Whoever is told of a change set on the feed knows that it is durable: the observer follows from the first one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bus::{Bus, Requests};
use clap::Parser as _;
use model::Index;
use model::change::ChangeSet;
use private_servers::{Nats, Postgres};
use state::State;
use store::{Database, LogRow, Tail};
use telemetry::clock;
use wire::feed::Changes;
use wire::{Subject, Wire as _};

use super::PATIENCE;

/// Bytes of the log that are read at once where the feed has lost something.
const PAGE_BYTES: usize = 8 << 20;
/// How long nothing may come before it is looked up in the log: what was sent when something was killed may be lost.
const SILENCE_MAX: Duration = Duration::from_millis(50);

/// Follows the feed from its beginning.
pub struct Observer {
    feed: Requests,
    database: Option<Database>,
    state: State,
}

#[derive(clap::Parser)]
struct BusSettings {
    #[command(flatten)]
    bus: bus::Args,
}

#[derive(clap::Parser)]
struct StoreSettings {
    #[command(flatten)]
    store: store::Args,
}

impl Observer {
    pub(super) async fn connect(nats: &Nats) -> Self {
        let BusSettings { bus } = BusSettings::parse_from(["observer", "--nats-url", &nats.url()]);
        let bus = Bus::connect(&bus, "observer").await.expect("nats-server is there");
        let feed = bus.serve(Subject::Changes.to_string()).await.expect("the feed can be listened to");
        Self { feed, database: None, state: State::default() }
    }

    /// Waits until there is a log that can be read.
    pub(super) async fn read_log(&mut self, postgres: &Postgres) {
        let StoreSettings { store } =
            StoreSettings::parse_from(["observer", "--database-url", &postgres.url()]);
        self.database = Some(Database::connect(&store).await.expect("the applier makes the schema"));
    }

    /// The state as far as it was followed.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Waits until something is so in the state, and tells when the message came by which it became so.
    ///
    /// # Panics
    /// If it does not come to be.
    pub async fn until(&mut self, what: &str, mut is_so: impl FnMut(&State) -> bool) -> Instant {
        let (began, mut came) = (clock::monotonic(), clock::monotonic());
        while !is_so(&self.state) {
            assert!(began.elapsed() < PATIENCE, "in vain waited until {what}");
            match tokio::time::timeout(SILENCE_MAX, self.feed.next()).await {
                Ok(request) => {
                    came = clock::monotonic();
                    let changes = request.expect("NATS is there").body().expect("a message of the feed");
                    self.take(changes).await;
                }
                Err(_) => {
                    came = clock::monotonic();
                    self.catch_up(None).await;
                }
            }
        }
        came
    }

    async fn take(&mut self, changes: Changes) {
        for (index, set) in (changes.first.0..).map(Index).zip(changes.sets) {
            match set {
                _ if index <= self.state.index() => {}
                Some(set) if index == self.state.index().next() => self.apply(&set),
                _ => self.catch_up(Some(index)).await,
            }
        }
    }

    /// Reads from the log what the feed has lost, or was too small for; to where it ends now where no index is named, as far
    /// as it can be read.
    async fn catch_up(&mut self, mut target: Option<Index>) {
        let database = self.database.clone().expect("the log is there before anything is waited for");
        while target.is_none_or(|target| self.state.index() < target) {
            match database.changes_after(self.state.index(), PAGE_BYTES).await {
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
        let set = Arc::new(set.expect("a change set of the log"));
        self.state.apply(&set).expect("the log fits together");
    }
}
