//! Connections: how they are set up, what is checked on each new one, and who carries the work on them to its end.
//!
//! No pool of sqlx: a connection that was given up in the middle of something must never come back. Work runs in a task
//! that nobody cancels, and its connection is used again only after it succeeded. Limits of time are the server's;
//! [`Limits::patience`] is for the case that the server is not heard of at all any more.

use std::future::Future;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use model::{HistoryId, Index};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Connection};
use tokio::time::{sleep, timeout};

use wire::feed::Head;

use crate::args::{self, Args};
use crate::error::{Error, database};

/// Connections that are kept for the next use; more are made while they are needed.
const IDLE_MAX: usize = 2;
/// How often a database that is not ready is tried again.
const RETRY: Duration = Duration::from_millis(200);

/// What connections for one purpose may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// What the server's list of sessions shows.
    pub(crate) name: &'static str,
    /// How long a statement may take.
    pub(crate) statement: Duration,
    /// How long one may wait for a lock.
    pub(crate) lock: Duration,
    /// How long a transaction may be left alone before the server ends it, and with it the locks of a stopped process.
    pub(crate) idle_in_transaction: Duration,
    /// How long the caller waits for the whole of the work.
    pub(crate) patience: Duration,
    /// Further settings of the server.
    pub(crate) settings: &'static [(&'static str, &'static str)],
}

/// The server and what was seen of it, for all connections of one owner.
#[derive(Debug)]
pub(crate) struct Server {
    options: PgConnectOptions,
    password_file: Option<PathBuf>,
    wait: Duration,
    seen: Mutex<Option<Seen>>,
}

/// The highest index that was seen of a history.
#[derive(Debug, Clone, Copy)]
struct Seen {
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
        let options = PgConnectOptions::from_str(&args.database_url)
            .map_err(database("understand the database's URL"))?;
        // Statements are logged by whoever handles their errors.
        let options = options.disable_statement_logging();
        let password_file = args.database_password_file.clone();
        // One that is missing is said at once, and not waited for like a database that does not answer.
        password_file.as_deref().map(args::password).transpose()?;
        Ok(Arc::new(Self { options, password_file, wait: args.wait(), seen: Mutex::new(None) }))
    }

    /// The role that connections log in with.
    pub(crate) fn role(&self) -> &str {
        self.options.get_username()
    }

    /// Tries until it works or the time for that is up.
    pub(crate) async fn ready<T, F>(&self, attempt: impl Fn() -> F) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Error>>,
    {
        let mut last: Option<Error> = None;
        let ready = timeout(self.wait, async {
            loop {
                match attempt().await {
                    Ok(ready) => return ready,
                    Err(error) => {
                        let error = error.of_role(self.role());
                        if last.as_ref().is_none_or(|last| chain(last) != chain(&error)) {
                            tracing::info!(error = chain(&error), "waiting for the database");
                        }
                        last = Some(error);
                    }
                }
                sleep(RETRY).await;
            }
        });
        ready.await.map_err(|_| Error::NotReady { waited: self.wait, source: last.map(Box::new) })
    }

    /// A connection on which nothing was checked: there may be no schema yet, or one that is not to be used.
    pub(crate) async fn open(&self, limits: &Limits) -> Result<PgConnection, Error> {
        let millis = |duration: Duration| duration.as_millis().to_string();
        let options = self.options.clone().application_name(limits.name).options([
            ("statement_timeout", millis(limits.statement)),
            ("lock_timeout", millis(limits.lock)),
            ("idle_in_transaction_session_timeout", millis(limits.idle_in_transaction)),
            // That something is there already is what `if not exists` is for.
            ("client_min_messages", "warning".to_owned()),
            // Of a table that grows the planner knows too little, and would spend a tenth of a second on machine code for a
            // page that is read in one millisecond.
            ("jit", "off".to_owned()),
        ]);
        let mut options = options.options(limits.settings.iter().copied());
        if let Some(file) = &self.password_file {
            options = options.password(&args::password(file)?);
        }
        PgConnection::connect_with(&options).await.map_err(database("connect to the database"))
    }

    /// Takes note of how far the log was.
    pub(crate) fn saw(&self, history: HistoryId, index: Index) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *seen {
            Some(seen) if seen.history == history => seen.index = seen.index.max(index),
            Some(_) | None => *seen = Some(Seen { history, index }),
        }
    }

    /// Takes note that the log of the same history has grown.
    pub(crate) fn saw_growth(&self, index: Index) {
        if let Some(seen) = &mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            seen.index = seen.index.max(index);
        }
    }

    /// Refuses a server that does not have, or may not have, all that was acknowledged (design §5).
    async fn check(&self, connection: &mut PgConnection) -> Result<(), Error> {
        // What is seen from now on may be newer than what is found.
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
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
        went_back(seen, history, index)?;
        self.saw(history, index);
        Ok(())
    }

    /// Refuses a head that is behind what was seen of its history.
    pub(crate) fn check_head(&self, head: &Head) -> Result<(), Error> {
        let seen = *self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        went_back(seen, head.history, head.index)
    }
}

/// An error with all its causes, in one line.
fn chain(error: &Error) -> String {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

fn went_back(seen: Option<Seen>, history: HistoryId, index: Index) -> Result<(), Error> {
    match seen {
        Some(seen) if seen.history == history && index < seen.index => {
            Err(Error::WentBack { seen: seen.index, found: index })
        }
        Some(_) | None => Ok(()),
    }
}

impl Connections {
    pub(crate) fn new(server: &Arc<Server>, limits: Limits) -> Self {
        Self { server: Arc::clone(server), limits, idle: Arc::default() }
    }

    pub(crate) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Does `work` on a checked connection. It goes on to its end when the caller goes away.
    pub(crate) async fn run<T, W>(&self, action: &'static str, work: W) -> Result<T, Error>
    where
        T: Send + 'static,
        W: for<'c> FnOnce(&'c mut PgConnection) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    {
        let this = self.clone();
        let task = tokio::spawn(async move {
            let mut connection = this.connection().await?;
            let result = work(&mut connection).await.map_err(|error| error.of_role(this.server.role()));
            this.give_back(connection, &result);
            result
        });
        match timeout(self.limits.patience, task).await {
            Ok(Ok(result)) => result,
            Ok(Err(join)) => match join.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(Error::Unknown { action, source: None }),
            },
            Err(_) => Err(Error::Unknown { action, source: None }),
        }
    }

    /// Checks the server on a new connection.
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

    /// After a failure nobody knows what a connection is in the middle of, nor whether the others still live.
    fn give_back<T>(&self, connection: PgConnection, result: &Result<T, Error>) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(_) if idle.len() < IDLE_MAX => idle.push(connection),
            Ok(_) => {}
            Err(_) => idle.clear(),
        }
    }
}
