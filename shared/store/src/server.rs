//! Connections to the server: their settings, the checks on each new one, and the tasks in which work on them runs to
//! completion.
//!
//! This replaces sqlx's pool, because a connection that was abandoned in the middle of a statement must never be used
//! again. Work runs in a task that nobody cancels, and its connection is reused only if the work succeeded. The server
//! enforces the time limits; [`Limits::timeout`] covers the case that the server is not reachable at all.

use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use model::{HistoryId, Index};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use telemetry::clock;
use telemetry::repeats::{Outage, Repeats};
use tokio::time::{sleep, timeout};

use wire::feed::Head;

use crate::args::{self, Args};
use crate::certificates::{self, CertificateFile};
use crate::durability;
use crate::error::{self, Error, database};
use crate::warnings;

/// How many idle connections are kept. More are opened as needed.
const IDLE_MAX: usize = 2;
/// How often a database that is not ready is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// Limits and settings of the connections for one purpose.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The application name, which the server's list of sessions shows.
    pub(crate) name: &'static str,
    /// How long a statement may take.
    pub(crate) statement: Duration,
    /// How long a statement may wait for a lock.
    pub(crate) lock: Duration,
    /// How long a transaction may be idle before the server ends it, and with it the locks of a stopped process.
    pub(crate) idle_in_transaction: Duration,
    /// How long the caller waits for the work as a whole.
    pub(crate) timeout: Duration,
    /// Whether commits must be durable when they are answered.
    pub(crate) durable: bool,
    /// Further settings of the session.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

/// The server and the highest index observed on it, shared by all connections of one owner.
#[derive(Debug)]
pub(crate) struct Server {
    options: PgConnectOptions,
    password_file: Option<PathBuf>,
    /// The files with certificates and keys that connections read.
    certificates: Vec<CertificateFile>,
    wait: Duration,
    /// Whether a server may be used that loses commits in a crash.
    allow_unsafe: bool,
    observed: Mutex<Option<Observed>>,
}

/// The highest index observed in a history.
#[derive(Debug, Clone, Copy)]
struct Observed {
    history: HistoryId,
    index: Index,
}

/// Connections for one purpose.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    server: Arc<Server>,
    limits: Limits,
    idle: Arc<Mutex<Vec<PgConnection>>>,
}

impl Server {
    pub(crate) fn new(args: &Args) -> Result<Arc<Self>, Error> {
        let options =
            PgConnectOptions::from_str(&args.database_url).map_err(database("parse the database URL"))?;
        // Callers log the errors of statements.
        let options = options.disable_statement_logging();
        let password_file = args.database_password_file.clone();
        // A missing file is an error at once, unlike a database that does not answer yet.
        password_file.as_deref().map(args::password).transpose()?;
        let certificates = certificates::read_by(&args.database_url, options.get_ssl_mode());
        certificates::check(&certificates)?;
        let (wait, allow_unsafe) = (args.wait(), args.allow_unsafe_database);
        let observed = Mutex::new(None);
        Ok(Arc::new(Self { options, password_file, certificates, wait, allow_unsafe, observed }))
    }

    /// Host, port and name of the database, for messages.
    pub(crate) fn address(&self) -> String {
        let options = &self.options;
        let host = match options.get_socket() {
            Some(directory) => directory.display().to_string(),
            None => options.get_host().to_owned(),
        };
        let name = options.get_database().unwrap_or_else(|| options.get_username());
        format!("{host}:{}/{name}", options.get_port())
    }

    /// The role that connections log in with.
    pub(crate) fn role(&self) -> &str {
        self.options.get_username()
    }

    /// Repeats `attempt` until it succeeds or the time to wait for the database is over.
    pub(crate) async fn ready<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut last: Option<Error> = None;
        let outage = Outage::default();
        let ready = timeout(self.wait, async {
            loop {
                match attempt().await {
                    Ok(ready) => return ready,
                    Err(error) => {
                        let error = error.of_role(self.role());
                        let text = telemetry::chain(&error);
                        if let Some(Repeats { attempts, lasting_secs, .. }) =
                            outage.failed(&text, clock::monotonic())
                        {
                            tracing::info!(error = text, attempts, lasting_secs, "waiting for the database");
                        }
                        last = Some(error);
                    }
                }
                sleep(RETRY).await;
            }
        });
        ready.await.map_err(|_| Error::NotReady { waited: self.wait, source: last.map(Box::new) })
    }

    /// Opens a connection without checking the database: there may be no schema yet, or the database may have to be
    /// refused.
    pub(crate) async fn open(&self, limits: &Limits) -> Result<PgConnection, Error> {
        let millis = |duration: Duration| duration.as_millis().to_string();
        let options = self.options.clone().application_name(limits.name).options([
            ("statement_timeout", millis(limits.statement)),
            ("lock_timeout", millis(limits.lock)),
            ("idle_in_transaction_session_timeout", millis(limits.idle_in_transaction)),
            // `if not exists` is meant to pass over existing objects without a notice.
            ("client_min_messages", "warning".to_owned()),
            // The planner's estimates for a growing table are poor. It would spend a tenth of a second on JIT compilation for
            // a page that is read in one millisecond.
            ("jit", "off".to_owned()),
        ]);
        let mut options = options.options(limits.settings.iter().copied());
        if let Some(file) = &self.password_file {
            options = options.password(&args::password(file)?);
        }
        let mut connection = PgConnection::connect_with(&options).await.map_err(|source| {
            // The driver does not name a file that it cannot read.
            certificates::check(&self.certificates).err().unwrap_or_else(|| error::connection(source))
        })?;
        if limits.durable {
            durability::require(&mut connection, self.allow_unsafe).await?;
        }
        Ok(connection)
    }

    /// Records an index that the log has reached in a history.
    pub(crate) fn observe(&self, history: HistoryId, index: Index) {
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *observed {
            Some(observed) if observed.history == history => observed.index = observed.index.max(index),
            Some(_) | None => *observed = Some(Observed { history, index }),
        }
    }

    /// Records that the log of the current history has grown.
    pub(crate) fn observe_growth(&self, index: Index) {
        if let Some(observed) = &mut *self.observed.lock().unwrap_or_else(PoisonError::into_inner) {
            observed.index = observed.index.max(index);
        }
    }

    /// The history of the observed index.
    pub(crate) fn observed_history(&self) -> Option<HistoryId> {
        let observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        observed.map(|observed| observed.history)
    }

    /// Fails if the server does not have, or may not have, everything that was acknowledged (`docs/architecture/log.md`).
    pub(crate) async fn check(&self, connection: &mut PgConnection) -> Result<(), Error> {
        // Read before the query, because an index that is observed during the query may be newer than its result.
        let observed = *self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let found = sqlx::query!(
            r#"select pg_is_in_recovery() as "is_standby!", server.system_identifier as "system!",
                head.system_identifier as remembered, head.history, head.index, head.refuses_writes
            from pg_control_system() server, head"#
        )
        .fetch_one(connection)
        .await
        .map_err(database("check a new connection"))?;
        if found.is_standby {
            return Err(Error::NotPrimary);
        }
        if found.system != found.remembered {
            return Err(Error::OtherSystem { remembered: found.remembered, found: found.system });
        }
        if let Some(reason) = found.refuses_writes {
            return Err(Error::Refusing { reason });
        }
        let (history, index) = (HistoryId(found.history), crate::head::index(found.index));
        check_not_behind(observed, history, index)?;
        self.observe(history, index);
        Ok(())
    }

    /// Fails if a head is behind the highest index observed in its history.
    pub(crate) fn check_head(&self, head: &Head) -> Result<(), Error> {
        let observed = *self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        check_not_behind(observed, head.history, head.index)
    }
}

fn check_not_behind(observed: Option<Observed>, history: HistoryId, index: Index) -> Result<(), Error> {
    match observed {
        Some(observed) if observed.history == history && index < observed.index => {
            Err(Error::WentBack { seen: observed.index, found: index })
        }
        Some(_) | None => Ok(()),
    }
}

/// The result of work whose commits must be durable. A success is in doubt if the server warned meanwhile.
fn in_doubt<T>(action: &'static str, result: Result<T, Error>, warnings: Vec<String>) -> Result<T, Error> {
    for warning in &warnings {
        tracing::warn!(action, warning, "the database server warns");
    }
    let doubt = warnings.into_iter().find(|warning| warnings::puts_commit_in_doubt(warning));
    match (result, doubt) {
        (Ok(_), Some(warning)) => Err(Error::InDoubt { action, warning }),
        (result, _) => result,
    }
}

impl Connections {
    pub(crate) fn new(server: &Arc<Server>, limits: Limits) -> Self {
        Self { server: Arc::clone(server), limits, idle: Arc::default() }
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Runs `work` on a checked connection. The work runs to completion even if the caller is cancelled.
    pub(crate) async fn run<T, W>(&self, action: &'static str, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    {
        let this = self.clone();
        let task = tokio::spawn(async move {
            let mut connection = this.connection().await?;
            let result = if this.limits.durable {
                let (result, warnings) = warnings::collect(work(&mut connection)).await;
                in_doubt(action, result, warnings)
            } else {
                work(&mut connection).await
            };
            let result = result.map_err(|error| error.of_role(this.server.role()));
            this.release(connection, &result);
            result
        });
        match timeout(self.limits.timeout, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(join)) => match join.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::Unknown { action, source: None }),
            },
            Err(_) => Err(Error::Unknown { action, source: None }),
        }
    }

    /// Opens a new connection and checks the database.
    pub(crate) async fn check(&self) -> Result<(), Error> {
        let mut connection = self.server.open(&self.limits).await?;
        let checked = self.server.check(&mut connection).await;
        checked.map_err(|error| error.of_role(self.server.role()))
    }

    async fn connection(&self) -> Result<PgConnection, Error> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let mut connection = self.server.open(&self.limits).await?;
        let checked = self.server.check(&mut connection).await;
        checked.map_err(|error| error.of_role(self.server.role()))?;
        Ok(connection)
    }

    /// Keeps the connection for reuse after a success. After a failure, the connection may be in the middle of a statement
    /// and the other idle connections may be dead, so all of them are closed.
    fn release<T>(&self, connection: PgConnection, result: &Result<T, Error>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) if idle.len() < IDLE_MAX => idle.push(connection),
            Ok(_) => {}
            Err(_) => idle.clear(),
        }
    }
}
