//! The plan applier's side: the lease, commits, and what became of them. What is committed, the applier decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fail::fail_point;
use futures::FutureExt;
use model::{Epoch, HistoryId, Index, ProcessId, RootKeyId, Timestamp};
use sqlx::Connection;
use uuid::Uuid;
use wire::feed::Head;

use crate::args::Args;
use crate::error::{Error, commit, database};
use crate::head::{self, Location, Take};
use crate::log::{self, LogRow, Writing};
use crate::partitions;
use crate::projector::Projector;
use crate::schema;
use crate::secrets;
use crate::server::{Connections, Limits, Server};
use crate::trimming::{self, LogSize};

/// What became of a commit whose outcome was unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It happened, all of it, and is durable.
    Committed,
    /// It did not happen, and will not, should the server still come upon it.
    NotCommitted,
}

/// The plan applier's way to write the log.
///
/// Clones are the same writer, with one epoch. Calls may overlap, and go on to their end when their caller goes away.
#[derive(Debug, Clone)]
pub struct Writer {
    connections: Connections,
    /// For the log's parts: nothing there may wait for anybody.
    maintenance: Connections,
    lease: Duration,
    log_limits: trimming::Limits,
    epoch: Arc<AtomicEpoch>,
    /// What commits have to know, so that none comes after it was given up.
    fence: Arc<AtomicU64>,
    /// Where commits find the head's row.
    location: Arc<Location>,
}

/// The epoch that is held, or was; 0 before any.
#[derive(Debug, Default)]
pub(crate) struct AtomicEpoch(AtomicU64);

impl AtomicEpoch {
    /// # Errors
    /// If none was ever held.
    pub(crate) fn get(&self) -> Result<Epoch, Error> {
        match Epoch(self.0.load(Ordering::SeqCst)) {
            epoch @ Epoch(0) => Err(Error::Deposed { epoch }),
            epoch => Ok(epoch),
        }
    }
}

impl Writer {
    /// Waits, no longer than the settings say, until the database answers. Call [`Self::migrate`] next.
    ///
    /// # Errors
    /// [`Error::NotReady`].
    pub async fn connect(args: &Args) -> Result<Self, Error> {
        let lease = Duration::from_millis(args.applier_lease_ms.into());
        let limits = Limits {
            name: "drover applier",
            statement: Duration::from_secs(10),
            lock: Duration::from_secs(5),
            // So that a stopped holder keeps no lock for as long as the lease.
            idle_in_transaction: lease / 2,
            patience: Duration::from_secs(15),
            settings: &[],
        };
        let maintenance = Limits { name: "drover maintenance", lock: Duration::from_millis(50), ..limits };
        let server = Server::new(args)?;
        server.ready(|| server.open(&limits)).await?;
        let connections = Connections::new(&server, limits);
        Ok(Self {
            connections,
            maintenance: Connections::new(&server, maintenance),
            lease,
            log_limits: args.log_limits(),
            epoch: Arc::default(),
            fence: Arc::default(),
            location: Arc::default(),
        })
    }

    /// Brings the schema up to date; appliers that do so at the same time wait for each other.
    ///
    /// # Errors
    /// If a migration fails; then nothing was changed.
    pub async fn migrate(&self) -> Result<(), Error> {
        let server = self.connections.server();
        let mut connection = server.open(&schema::MIGRATING).await?;
        schema::migrate(&mut connection).await.map_err(|error| error.of_role(server.role()))
    }

    /// Becomes the active applier under a new epoch, if no other process's lease lives; with `force` even then, because
    /// probes found that nobody is there. What the last applier was committing is through, or will never be.
    ///
    /// # Errors
    /// On [`Error::Unknown`] do it again.
    pub async fn take(&self, process: ProcessId, force: bool) -> Result<Take, Error> {
        let lease = self.lease;
        let action = "take the applier's lease";
        let server = Arc::clone(self.connections.server());
        let work = self.connections.run(action, move |connection| {
            async move {
                let mut transaction = connection.begin().await.map_err(database(action))?;
                head::lock(&mut transaction).await?;
                server.check_head(&head::read(&mut transaction).await?)?;
                fail_point!("take.locked");
                let take = head::take(&mut transaction, process, lease, force).await?;
                let fence = match &take {
                    Take::Active(_) => head::raise_fence(&mut transaction).await?,
                    Take::Held { .. } => 0,
                };
                fail_point!("take.raised");
                transaction.commit().await.map_err(commit(action))?;
                fail_point!("take.done");
                Ok((take, fence))
            }
            .boxed()
        });
        let (take, fence) = work.await?;
        if let Take::Active(head) = &take {
            self.saw(head);
            self.fence.store(fence, Ordering::SeqCst);
            self.epoch.0.store(head.epoch.0, Ordering::SeqCst);
        }
        Ok(take)
    }

    /// Appends change sets to the log, the first at the index after `from`, moves the head, and renews the lease: all or
    /// nothing, durable when this returns.
    ///
    /// # Errors
    /// On [`Error::Unknown`] ask [`Self::find_out`] before anything else. On every other error nothing was written.
    ///
    /// # Panics
    /// If there is none, or they do not follow each other.
    pub async fn commit(&self, from: Index, rows: Vec<LogRow>) -> Result<(), Error> {
        assert!(!rows.is_empty(), "a commit has something to commit");
        let follow = rows.iter().zip(from.0 + 1..).all(|(row, expected)| row.index.0 == expected);
        assert!(follow, "change sets of a commit follow each other from index {from}");
        let writing = Writing { epoch: self.epoch.get()?, fence: self.fence.load(Ordering::SeqCst) };
        let (lease, location) = (self.lease, Arc::clone(&self.location));
        let last = Index(from.0 + rows.len() as u64);
        let work = self.connections.run("commit change sets", move |connection| {
            async move {
                fail_point!("commit.judged");
                if log::append(connection, writing, from, &rows, lease, &location).await? {
                    fail_point!("commit.done");
                    return Ok(());
                }
                let head = head::read(connection).await?;
                Err(if head.epoch != writing.epoch {
                    Error::Deposed { epoch: writing.epoch }
                } else if head.index != from {
                    Error::Moved { expected: from, found: head.index }
                } else {
                    Error::GivenUp { after: from }
                })
            }
            .boxed()
        });
        work.await?;
        self.connections.server().saw_growth(last);
        Ok(())
    }

    /// Says what became of a commit that ended in [`Error::Unknown`], and that is for good; waits until it has ended.
    ///
    /// The look-up writes the head, too: what it found is then on a synchronous standby as well (design §5).
    ///
    /// # Errors
    /// On [`Error::Deposed`] it is the next applier's business. On any other error it is still not known: ask again.
    pub async fn find_out(&self, from: Index, rows: Vec<LogRow>) -> Result<Outcome, Error> {
        let (epoch, lease) = (self.epoch.get()?, self.lease);
        let requests: Vec<Uuid> = rows.iter().map(|row| row.request_id.0).collect();
        let action = "find out about a commit";
        let work = self.connections.run(action, move |connection| {
            async move {
                let mut transaction = connection.begin().await.map_err(database(action))?;
                head::lock(&mut transaction).await?;
                fail_point!("find-out.locked");
                let committed = log::has(&mut transaction, epoch, from, &requests).await?;
                let head = head::renew(&mut transaction, epoch, lease).await?;
                let fence = head::raise_fence(&mut transaction).await?;
                fail_point!("find-out.renewed");
                transaction.commit().await.map_err(commit(action))?;
                Ok((committed, head, fence))
            }
            .boxed()
        });
        let (committed, head, fence) = work.await?;
        self.saw(&head);
        self.fence.store(fence, Ordering::SeqCst);
        Ok(if committed { Outcome::Committed } else { Outcome::NotCommitted })
    }

    /// Renews the lease by a durable write, which proves what [`Self::confirm`] proves.
    ///
    /// # Errors
    /// On [`Error::Deposed`] somebody else is the applier. On any other error do it again.
    pub async fn renew(&self) -> Result<Head, Error> {
        let (epoch, lease) = (self.epoch.get()?, self.lease);
        let action = "renew the applier's lease";
        fail_point!("renew.begin");
        let work =
            self.connections.run(action, move |connection| head::renew(connection, epoch, lease).boxed());
        let head = work.await?;
        fail_point!("renew.done");
        self.saw(&head);
        Ok(head)
    }

    /// Proves that this is still the active applier, by a check that begins after the call, and says where the head is.
    ///
    /// # Errors
    /// As [`Self::renew`].
    pub async fn confirm(&self) -> Result<Head, Error> {
        let (epoch, location) = (self.epoch.get()?, Arc::clone(&self.location));
        let action = "confirm the applier's epoch";
        fail_point!("confirm.begin");
        let work = self.connections.run(action, move |connection| {
            async move { head::confirm(connection, epoch, &location).await }.boxed()
        });
        let (head, lives) = work.await?;
        fail_point!("confirm.done");
        // A server that lost its place as primary may not have noticed, but nobody could renew the lease there.
        if lives { Ok(head) } else { self.renew().await }
    }

    /// Looks after the log's parts, and says how the log stands: to be called every second or so. `now` is the cluster's
    /// time. It never waits for other transactions: where one is in the way, the next call goes on.
    ///
    /// # Errors
    /// If it failed, if only because somebody was in the way of even looking ([`Error::is_busy`]); do it again.
    pub async fn look_after_log(&self, now: Timestamp) -> Result<LogSize, Error> {
        let (epoch, limits) = (self.epoch.get()?, self.log_limits);
        let work = self.maintenance.run("look after the log", move |connection| {
            partitions::look_after(connection, epoch, now, limits).boxed()
        });
        work.await
    }

    /// Keeps the private half of a key that the cluster signs with (PKCS #8). The log is told of the key after it.
    ///
    /// # Errors
    /// If it failed; do it again.
    pub async fn keep_root_key(&self, id: RootKeyId, secret: &[u8]) -> Result<(), Error> {
        let secret = secret.to_vec();
        let work = self.maintenance.run("keep the private half of a root key", move |connection| {
            async move { secrets::keep_root_key(connection, id, &secret).await }.boxed()
        });
        work.await
    }

    /// Takes note of how far the log was when somebody else announced it.
    pub fn heard_of(&self, head: &Head) {
        self.saw(head);
    }

    /// Has every applier refuse the database, this one and those that are started later, until an operator accepts it:
    /// it was found to lack what was acknowledged.
    ///
    /// # Errors
    /// If it failed; do it again.
    pub async fn refuse(&self, reason: &str) -> Result<(), Error> {
        let mut connection = self.connections.server().open(&schema::MIGRATING).await?;
        head::refuse(&mut connection, reason).await
    }

    /// Whether the database is, or has become again, one that may be written to.
    ///
    /// # Errors
    /// Why it may not.
    pub async fn check(&self) -> Result<(), Error> {
        self.connections.check().await
    }

    /// Accepts a database that went back or was moved to another system, as an operator decides: it begins a new history
    /// as it is, and whoever was the applier is no more.
    ///
    /// # Errors
    /// If it failed; do it again.
    pub async fn accept(&self, history: HistoryId) -> Result<Head, Error> {
        // Not on a checked connection: that is what would refuse it.
        let server = self.connections.server();
        let mut connection = server.open(&schema::MIGRATING).await?;
        let begun = head::begin_history(&mut connection, history).await;
        begun.map_err(|error| error.of_role(server.role()))?;
        head::read(&mut connection).await
    }

    /// How long nobody else takes over after a renewal.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// What keeps the object tables behind the log, under this writer's epoch.
    pub fn projector(&self) -> Projector {
        Projector::new(self.connections.server(), Arc::clone(&self.epoch))
    }

    fn saw(&self, head: &Head) {
        self.connections.server().saw(head.history, head.index);
    }
}
