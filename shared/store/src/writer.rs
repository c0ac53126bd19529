//! The plan applier's side: the lease, commits, and what became of them. What is committed, the applier decides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use model::{Epoch, HistoryId, Index, ProcessId};
use sqlx::Connection;
use uuid::Uuid;
use wire::feed::Head;

use crate::args::Args;
use crate::error::{Error, commit, database};
use crate::head::{self, Take};
use crate::log::{self, LogRow};
use crate::partitions;
use crate::projector::Projector;
use crate::schema;
use crate::server::{Connections, Limits, Server};

/// What became of a commit whose outcome was unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It happened, all of it, and is durable.
    Committed,
    /// It did not happen. Should the server still come upon it, the next commit is refused ([`Error::Moved`]).
    NotCommitted,
}

/// The plan applier's way to write the log.
///
/// Clones are the same writer, with one epoch. Calls may overlap, and go on to their end when their caller goes away.
#[derive(Debug, Clone)]
pub struct Writer {
    connections: Connections,
    /// For making partitions, which must not wait for anybody.
    maintenance: Connections,
    lease: Duration,
    epoch: Arc<AtomicEpoch>,
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
            epoch: Arc::default(),
        })
    }

    /// Brings the schema up to date; appliers that do so at the same time wait for each other.
    ///
    /// # Errors
    /// If a migration fails; then nothing was changed.
    pub async fn migrate(&self) -> Result<(), Error> {
        let mut connection = self.connections.server().open(&schema::MIGRATING).await?;
        schema::migrate(&mut connection).await
    }

    /// Becomes the active applier under a new epoch, if no other process's lease lives; with `force` even then, because
    /// probes found that nobody is there. What the last applier was committing is through, or will never be.
    ///
    /// # Errors
    /// On [`Error::Unknown`] do it again.
    pub async fn take(&self, process: ProcessId, force: bool) -> Result<Take, Error> {
        let lease = self.lease;
        let action = "take the applier's lease";
        let work = self.connections.run(action, move |connection| {
            async move {
                let mut transaction = connection.begin().await.map_err(database(action))?;
                head::lock(&mut transaction).await?;
                let take = head::take(&mut transaction, process, lease, force).await?;
                transaction.commit().await.map_err(commit(action))?;
                Ok(take)
            }
            .boxed()
        });
        let take = work.await?;
        if let Take::Active(head) = &take {
            self.saw(head);
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
        let (epoch, lease) = (self.epoch.get()?, self.lease);
        let last = Index(from.0 + rows.len() as u64);
        let work = self.connections.run("commit change sets", move |connection| {
            async move {
                if log::append(connection, epoch, from, &rows, lease).await? {
                    return Ok(());
                }
                let head = head::read(connection).await?;
                match head.epoch == epoch {
                    true => Err(Error::Moved { expected: from, found: head.index }),
                    false => Err(Error::Deposed { epoch }),
                }
            }
            .boxed()
        });
        work.await?;
        self.connections.server().saw_growth(last);
        Ok(())
    }

    /// Says what became of a commit that ended in [`Error::Unknown`]; waits until it has ended.
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
                let committed = log::has(&mut transaction, epoch, from, &requests).await?;
                let head = head::renew(&mut transaction, epoch, lease).await?;
                transaction.commit().await.map_err(commit(action))?;
                Ok((committed, head))
            }
            .boxed()
        });
        let (committed, head) = work.await?;
        self.saw(&head);
        Ok(if committed { Outcome::Committed } else { Outcome::NotCommitted })
    }

    /// Renews the lease by a durable write, which proves what [`Self::confirm`] proves.
    ///
    /// # Errors
    /// On [`Error::Deposed`] somebody else is the applier. On any other error do it again.
    pub async fn renew(&self) -> Result<Head, Error> {
        let (epoch, lease) = (self.epoch.get()?, self.lease);
        let action = "renew the applier's lease";
        let work =
            self.connections.run(action, move |connection| head::renew(connection, epoch, lease).boxed());
        let head = work.await?;
        self.saw(&head);
        Ok(head)
    }

    /// Proves that this is still the active applier, by a check that begins after the call, and says where the head is.
    ///
    /// # Errors
    /// As [`Self::renew`].
    pub async fn confirm(&self) -> Result<Head, Error> {
        let epoch = self.epoch.get()?;
        let action = "confirm the applier's epoch";
        let work = self.connections.run(action, move |connection| head::confirm(connection, epoch).boxed());
        let (head, lives) = work.await?;
        // A server that lost its place as primary may not have noticed, but nobody could renew the lease there.
        if lives { Ok(head) } else { self.renew().await }
    }

    /// Makes partitions of the log ahead of the head where they are missing. To be called every second or so. It never
    /// waits for other transactions, but fails ([`Error::is_busy`]); there is time to try again.
    ///
    /// # Errors
    /// If it failed; do it again.
    pub async fn make_partitions(&self) -> Result<(), Error> {
        self.maintenance
            .run("make partitions of the log", |connection| partitions::make(connection).boxed())
            .await
    }

    /// Accepts a database that went back or was moved to another system, as an operator decides: it begins a new history
    /// as it is, and whoever was the applier is no more.
    ///
    /// # Errors
    /// If it failed; do it again.
    pub async fn accept(&self, history: HistoryId) -> Result<(), Error> {
        // Not on a checked connection: that is what would refuse it.
        let mut connection = self.connections.server().open(&schema::MIGRATING).await?;
        head::begin_history(&mut connection, history).await
    }

    /// What keeps the object tables behind the log, under this writer's epoch.
    pub fn projector(&self) -> Projector {
        Projector::new(self.connections.server(), Arc::clone(&self.epoch))
    }

    fn saw(&self, head: &Head) {
        self.connections.server().saw(head.history, head.index);
    }
}
