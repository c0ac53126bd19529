//! [`Writer`]: the plan applier's access to the database: the lease, commits and their outcomes, and maintenance of the
//! log. The plan applier decides what is committed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fail::fail_point;
use futures::FutureExt;
use model::{HistoryId, Index, ProcessId, RootKeyId, Timestamp};
use sqlx::Connection;
use uuid::Uuid;
use wire::LogRow;
use wire::feed::Head;

use crate::args::Args;
use crate::atomic_epoch::AtomicEpoch;
use crate::error::{Error, commit, database};
use crate::head::{self, Confirmed, Location, TakeOutcome};
use crate::log::{self, AppendGuard};
use crate::partitions;
use crate::projector::Projector;
use crate::schema;
use crate::secrets;
use crate::server::{Connections, Limits, Server};
use crate::trimming::{self, LogSize};

/// The outcome of a commit whose answer was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All of it was committed, and is durable.
    Committed,
    /// None of it was committed, nor will be: the server discards the commit if it executes it later.
    NotCommitted,
}

/// Writes the log for the plan applier.
///
/// Clones share connections and epoch. Calls may overlap; each runs to completion even if its caller is cancelled.
#[derive(Debug, Clone)]
pub struct Writer {
    connections: Connections,
    /// For statements on the log's partitions, which must not wait for other transactions.
    maintenance: Connections,
    lease: Duration,
    log_limits: trimming::Limits,
    epoch: Arc<AtomicEpoch>,
    /// The fence that commits carry, so that none takes effect after it was given up.
    fence: Arc<AtomicU64>,
    /// The last known position of the head's row.
    location: Arc<Location>,
}

impl Writer {
    /// Waits until the database answers, at most for [`Args::database_wait_secs`]. Call [`Self::migrate`] next.
    ///
    /// # Errors
    /// [`Error::NotReady`].
    pub async fn connect(args: &Args) -> Result<Self, Error> {
        let lease = Duration::from_millis(args.applier_lease_ms.into());
        let limits = Limits {
            name: "drover applier",
            statement: Duration::from_secs(10),
            lock: Duration::from_secs(5),
            // Half the lease, so that a stopped applier keeps its locks for less than the lease.
            idle_in_transaction: lease / 2,
            timeout: Duration::from_secs(15),
            durable: true,
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

    /// Brings the schema up to date. Appliers that migrate at the same time wait for each other.
    ///
    /// # Errors
    /// If a migration fails; then nothing was changed.
    pub async fn migrate(&self) -> Result<(), Error> {
        let server = self.connections.server();
        let mut connection = server.open(&schema::MIGRATING).await?;
        schema::migrate(&mut connection).await.map_err(|error| error.of_role(server.role()))
    }

    /// Becomes the active applier under a new epoch, if no other process has an unexpired lease. With `force`, becomes it in
    /// any case, because probes found that the holder is gone. A commit of the previous applier has either completed
    /// before, or never takes effect.
    ///
    /// # Errors
    /// After an unknown outcome ([`Error::is_unknown`]), call it again.
    pub async fn take_lease(&self, process: ProcessId, force: bool) -> Result<TakeOutcome, Error> {
        let lease = self.lease;
        let action = "take the applier's lease";
        let server = Arc::clone(self.connections.server());
        let work = self.connections.run(action, move |connection| {
            async move {
                let mut transaction = connection.begin().await.map_err(database(action))?;
                head::lock(&mut transaction).await?;
                server.check_head(&head::read(&mut transaction).await?)?;
                fail_point!("take.locked");
                let outcome = head::take_lease(&mut transaction, process, lease, force).await?;
                let fence = match &outcome {
                    TakeOutcome::Active(_) => head::raise_fence(&mut transaction).await?,
                    TakeOutcome::Held { .. } => 0,
                };
                fail_point!("take.raised");
                transaction.commit().await.map_err(commit(action))?;
                fail_point!("take.done");
                Ok((outcome, fence))
            }
            .boxed()
        });
        let (outcome, fence) = work.await?;
        if let TakeOutcome::Active(Confirmed { head, .. }) = &outcome {
            self.observe(head);
            self.fence.store(fence, Ordering::SeqCst);
            self.epoch.set(head.epoch);
        }
        Ok(outcome)
    }

    /// Appends change sets to the log, the first at the index after `from`, moves the head, and renews the lease. All of
    /// this happens or nothing. It is durable when the call returns. Returns the time by the database's clock.
    ///
    /// # Errors
    /// After an unknown outcome ([`Error::is_unknown`]), call [`Self::resolve_commit`] before anything else. After any other
    /// error, nothing was written.
    ///
    /// # Panics
    /// If there are no change sets, or their indexes are not consecutive.
    pub async fn commit(&self, from: Index, rows: Vec<LogRow>) -> Result<Timestamp, Error> {
        assert!(!rows.is_empty(), "a commit has at least one change set");
        let are_consecutive = rows.iter().zip(from.0 + 1..).all(|(row, expected)| row.index.0 == expected);
        assert!(are_consecutive, "change sets of a commit are consecutive after index {from}");
        let guard = AppendGuard { epoch: self.epoch.get()?, fence: self.fence.load(Ordering::SeqCst) };
        let (lease, location) = (self.lease, Arc::clone(&self.location));
        let last = Index(from.0 + rows.len() as u64);
        let work = self.connections.run("commit change sets", move |connection| {
            async move {
                fail_point!("commit.judged");
                if let Some(now) = log::append(connection, guard, from, &rows, lease, &location).await? {
                    fail_point!("commit.done");
                    return Ok(now);
                }
                let head = head::read(connection).await?;
                Err(if head.epoch != guard.epoch {
                    Error::Deposed { epoch: guard.epoch }
                } else if head.index != from {
                    Error::Moved { expected: from, found: head.index }
                } else {
                    Error::GivenUp { after: from }
                })
            }
            .boxed()
        });
        let now = work.await?;
        self.connections.server().observe_growth(last);
        Ok(now)
    }

    /// Determines the outcome of a commit whose outcome is unknown ([`Error::is_unknown`]). Waits until the commit's transaction has ended;
    /// the outcome is final.
    ///
    /// The transaction also writes the head: its own commit proves that what it found is on a synchronous standby as well
    /// (`docs/architecture/commit-path.md`).
    ///
    /// # Errors
    /// [`Error::Deposed`] if another applier took over, which then owns the log. After any other error the outcome is still
    /// unknown: call it again.
    pub async fn resolve_commit(&self, from: Index, rows: Vec<LogRow>) -> Result<Outcome, Error> {
        let (epoch, lease) = (self.epoch.get()?, self.lease);
        let requests: Vec<Uuid> = rows.iter().map(|row| row.request_id.0).collect();
        let action = "resolve a commit";
        let work = self.connections.run(action, move |connection| {
            async move {
                let mut transaction = connection.begin().await.map_err(database(action))?;
                head::lock(&mut transaction).await?;
                fail_point!("find-out.locked");
                let committed = log::contains(&mut transaction, epoch, from, &requests).await?;
                let Confirmed { head, .. } = head::renew(&mut transaction, epoch, lease).await?;
                let fence = head::raise_fence(&mut transaction).await?;
                fail_point!("find-out.renewed");
                transaction.commit().await.map_err(commit(action))?;
                Ok((committed, head, fence))
            }
            .boxed()
        });
        let (committed, head, fence) = work.await?;
        self.observe(&head);
        self.fence.store(fence, Ordering::SeqCst);
        Ok(if committed { Outcome::Committed } else { Outcome::NotCommitted })
    }

    /// Renews the lease by a durable write. This proves what [`Self::confirm`] proves.
    ///
    /// # Errors
    /// [`Error::Deposed`] if another applier took over. After any other error, call it again.
    pub async fn renew(&self) -> Result<Confirmed, Error> {
        let (epoch, lease) = (self.epoch.get()?, self.lease);
        let action = "renew the applier's lease";
        fail_point!("renew.begin");
        let work =
            self.connections.run(action, move |connection| head::renew(connection, epoch, lease).boxed());
        let confirmed = work.await?;
        fail_point!("renew.done");
        self.observe(&confirmed.head);
        Ok(confirmed)
    }

    /// Proves that this is still the active applier, by a check that begins after the call.
    ///
    /// # Errors
    /// As [`Self::renew`].
    pub async fn confirm(&self) -> Result<Confirmed, Error> {
        let (epoch, location) = (self.epoch.get()?, Arc::clone(&self.location));
        let action = "confirm the applier's epoch";
        fail_point!("confirm.begin");
        let work = self.connections.run(action, move |connection| {
            async move { head::confirm(connection, epoch, &location).await }.boxed()
        });
        let (confirmed, lives) = work.await?;
        fail_point!("confirm.done");
        // A server that is no longer the primary may not have noticed that. Nobody can renew the lease there, so an
        // unexpired lease proves that no other server has an active applier.
        if lives { Ok(confirmed) } else { self.renew().await }
    }

    /// Maintains the log's partitions and returns the size of the log. Call it every second or so; `now` is the cluster's
    /// time. It never waits for other transactions: a step that one of them blocks is left to the next call.
    ///
    /// # Errors
    /// If the database fails, or if another transaction blocked even reading the partitions ([`Error::is_busy`]). Call it
    /// again.
    pub async fn maintain_log(&self, now: Timestamp) -> Result<LogSize, Error> {
        let (epoch, limits) = (self.epoch.get()?, self.log_limits);
        let work = self.maintenance.run("maintain the log", move |connection| {
            partitions::maintain(connection, epoch, now, limits).boxed()
        });
        work.await
    }

    /// Stores a private key that the cluster signs with (PKCS #8). Call it before the key's public half is committed.
    ///
    /// # Errors
    /// If the database fails; call it again.
    pub async fn store_root_key(&self, id: RootKeyId, secret: &[u8]) -> Result<(), Error> {
        let secret = secret.to_vec();
        let work = self.maintenance.run("store the private half of a root key", move |connection| {
            async move { secrets::store_root_key(connection, id, &secret).await }.boxed()
        });
        work.await
    }

    /// Removes the private keys whose ids are not in `kept`, which are those of all public keys at the head of the log. A
    /// private key remains without a public one if an applier ended before it had committed the public half. Returns how many
    /// were removed; none if `kept` is empty or another applier has taken over.
    ///
    /// # Errors
    /// If the database fails; call it again.
    pub async fn remove_other_root_keys(&self, kept: &[RootKeyId]) -> Result<u64, Error> {
        if kept.is_empty() {
            return Ok(0);
        }
        let (epoch, kept) = (self.epoch.get()?, kept.iter().map(|id| id.0).collect::<Vec<Uuid>>());
        let work = self.maintenance.run("remove private halves of root keys", move |connection| {
            async move { secrets::remove_other_root_keys(connection, epoch, &kept).await }.boxed()
        });
        work.await
    }

    /// Records that a history was durable up to an index, as another applier announced or a replica shows.
    pub fn observe_head(&self, history: HistoryId, index: Index) {
        self.connections.server().observe(history, index);
    }

    /// Marks the database as lacking acknowledged writes, for this reason ([`Error::reason_to_refuse`]), unless it has begun
    /// another history than this process knows of. Every applier, including those that are started later, refuses it until
    /// an operator accepts it.
    ///
    /// # Errors
    /// If the database fails; call it again.
    pub async fn mark_refused(&self, reason: &str) -> Result<(), Error> {
        let server = self.connections.server();
        let mut connection = server.open(&schema::MIGRATING).await?;
        head::mark_refused(&mut connection, reason, server.observed_history()).await
    }

    /// Checks whether the database may be written to, possibly after an operator accepted it.
    ///
    /// # Errors
    /// The reason why it may not be written to.
    pub async fn check(&self) -> Result<(), Error> {
        self.connections.check().await
    }

    /// Reads the head of a database that may have to be refused. Returns it with the reason why the database is refused, if it
    /// is.
    ///
    /// # Errors
    /// If the database fails, has no tables, or is a standby.
    pub async fn inspect(&self) -> Result<(Head, Option<String>), Error> {
        let server = self.connections.server();
        let inspect = async {
            let mut connection = server.open(&schema::MIGRATING).await?;
            match schema::check(&mut connection).await {
                // A restored database may be older than this program.
                Ok(()) | Err(Error::Schema { found: 1.., .. }) => {}
                Err(error) => return Err(error),
            }
            let head = head::read(&mut connection).await?;
            match server.check(&mut connection).await {
                Ok(()) => Ok((head, None)),
                Err(error) => match error.reason_to_refuse() {
                    Some(reason) => Ok((head, Some(reason))),
                    None => Err(error),
                },
            }
        };
        inspect.await.map_err(|error| error.of_role(server.role()))
    }

    /// Accepts, on behalf of an operator, a database that went back or was moved to another server. It begins a new history
    /// from its current content, and the active applier is deposed.
    ///
    /// # Errors
    /// If the database fails; call it again.
    pub async fn accept(&self, history: HistoryId) -> Result<Head, Error> {
        // Without the checks on new connections, which would refuse this database.
        let server = self.connections.server();
        let mut connection = server.open(&schema::MIGRATING).await?;
        let begun = head::begin_history(&mut connection, history).await;
        begun.map_err(|error| error.of_role(server.role()))?;
        head::read(&mut connection).await
    }

    /// Host, port and name of the database, for messages.
    pub fn address(&self) -> String {
        self.connections.server().address()
    }

    /// How long a renewal keeps other processes from taking over.
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// The projector that writes the object tables under this writer's epoch.
    pub fn projector(&self) -> Projector {
        Projector::new(self.connections.server(), Arc::clone(&self.epoch))
    }

    fn observe(&self, head: &Head) {
        self.connections.server().observe(head.history, head.index);
    }
}
