//! What can go wrong between us and the database, told apart by what is to be done about it.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use model::{Epoch, Index};
use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What can go wrong. Where nothing else is said, nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another applier took over.
    #[error("epoch {epoch} no longer holds the applier's lease")]
    Deposed {
        /// The epoch that was; 0 where none was taken.
        epoch: Epoch,
    },
    /// It may have happened or not: the connection was lost before the answer came, or no answer came in time. After a
    /// commit, ask [`Writer::find_out`](crate::Writer::find_out); all else may be done again.
    #[error("cannot tell whether it happened: {action}")]
    Unknown {
        /// What was tried.
        action: &'static str,
        /// What ended the connection; `None` where no answer came in time.
        #[source]
        source: Option<sqlx::Error>,
    },
    /// The head is elsewhere than where the commit should have begun.
    #[error("the head is at index {found} instead of {expected}")]
    Moved {
        /// Where it should have been.
        expected: Index,
        /// Where it is.
        found: Index,
    },
    /// The commit was given up ([`Writer::find_out`](crate::Writer::find_out)) before the server came upon it.
    #[error("the commit after index {after} was given up before it began")]
    GivenUp {
        /// Where it should have begun.
        after: Index,
    },
    /// The log is behind what this process has seen: acknowledged writes were lost. Nothing is read or written until an
    /// operator accepts it ([`Writer::accept`](crate::Writer::accept)).
    #[error("the database went back from index {seen} to {found}: acknowledged writes are lost")]
    WentBack {
        /// The highest index that this process has seen.
        seen: Index,
        /// Where the head is now.
        found: Index,
    },
    /// The database was moved to another system, by a restore for instance, and may lack acknowledged writes. Nothing
    /// is read or written until an operator accepts it ([`Writer::accept`](crate::Writer::accept)).
    #[error("the database is that of system {remembered}, but the server is system {found}")]
    OtherSystem {
        /// The system identifier that the database remembers.
        remembered: i64,
        /// The server's.
        found: i64,
    },
    /// It was found before that the database may lack acknowledged writes. Nothing is read or written until an operator
    /// accepts it ([`Writer::accept`](crate::Writer::accept)).
    #[error("nothing is written before an operator accepts the database: {reason}")]
    Refusing {
        /// What was found.
        reason: String,
    },
    /// The server is a standby.
    #[error("the database server is a standby, not the primary")]
    NotPrimary,
    /// The database does not have the schema that this program needs.
    #[error(
        "the database's schema has version {found}, but this program needs {needed}: is an applier running?"
    )]
    Schema {
        /// The newest migration that this program knows.
        needed: i64,
        /// The newest that was applied; 0 for none.
        found: i64,
    },
    /// The database was not ready in time.
    #[error("the database was not ready within {waited:?}")]
    NotReady {
        /// How long it was waited for.
        waited: Duration,
        /// What was wrong the last time it was tried.
        #[source]
        source: Option<Box<Error>>,
    },
    /// Migrating the schema failed.
    #[error("cannot migrate the schema")]
    Migrate(#[from] MigrateError),
    /// The log was trimmed faster than the state could be loaded, several times.
    #[error("the log is trimmed faster than the state can be loaded")]
    TrimmedWhileLoading,
    /// Change sets are missing after that index, to go on from where the object tables are.
    #[error("the change sets after index {after} are missing")]
    Gap {
        /// The last index that is there.
        after: Index,
    },
    /// The object tables moved on whenever they were to be compared.
    #[error("the object tables do not rest")]
    Moving,
    /// What was loaded does not fit together.
    #[error("the object tables and the log do not fit together")]
    Inconsistent(#[from] state::Inconsistent),
    /// What was read is not what should be there.
    #[error("unreadable {what}")]
    Unreadable {
        /// What it should have been.
        what: &'static str,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The role that this program logs in with lacks a right.
    #[error(
        "role {role} may not {action}, {refusal}: \
         `drover operator postgres grants` prints the SQL that gives each role its rights"
    )]
    Forbidden {
        /// The role.
        role: String,
        /// What was tried.
        action: &'static str,
        /// What the server said, which names the table.
        refusal: String,
    },
    /// The file with the password cannot be used.
    #[error("cannot use the password file {}", path.display())]
    PasswordFile {
        /// Where it should be.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: std::io::Error,
    },
    /// Anything else that the database or the way to it did.
    #[error("cannot {action}")]
    Database {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
}

impl Error {
    /// Whether nothing may be read or written before an operator accepts the database as it is.
    pub fn needs_acceptance(&self) -> bool {
        matches!(self, Self::WentBack { .. } | Self::OtherSystem { .. } | Self::Refusing { .. })
    }

    /// Says whose right is missing, where one is.
    pub(crate) fn of_role(self, role: &str) -> Self {
        /// `insufficient_privilege`.
        const INSUFFICIENT_PRIVILEGE: &str = "42501";
        let (action, source) = if let Self::Database { action, source } = &self {
            (*action, source)
        } else if let Self::Migrate(
            MigrateError::Execute(source) | MigrateError::ExecuteMigration(source, _),
        ) = &self
        {
            ("migrate the schema", source)
        } else {
            return self;
        };
        match source.as_database_error() {
            Some(error) if error.code().is_some_and(|code| code == INSUFFICIENT_PRIVILEGE) => {
                Self::Forbidden { role: role.to_owned(), action, refusal: error.message().to_owned() }
            }
            Some(_) | None => self,
        }
    }

    /// Whether it is only that another transaction was in the way, so that it may well work later.
    pub fn is_busy(&self) -> bool {
        /// `lock_not_available`, which a lock time-out is.
        const LOCK_NOT_AVAILABLE: &str = "55P03";
        let Self::Database { source, .. } = self else { return false };
        code(source).is_some_and(|code| code == LOCK_NOT_AVAILABLE)
    }
}

/// For what has no effect unless it is answered: reads, and statements in a transaction that is still to be committed.
pub(crate) fn database(action: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Database { action, source }
}

/// For what may have had its effect although no answer came: a commit, or a write that is a transaction of its own.
pub(crate) fn commit(action: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| {
        if is_refusal(&source) {
            Error::Database { action, source }
        } else {
            Error::Unknown { action, source: Some(source) }
        }
    }
}

pub(crate) fn unreadable<E>(what: &'static str) -> impl Fn(E) -> Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| Error::Unreadable { what, source: Box::new(source) }
}

/// Whether the server said that it did not do it. What ends the session as well, such as a server that is going down or
/// a pooler that lost it, may be said at any moment, also after the commit.
fn is_refusal(error: &sqlx::Error) -> bool {
    let error = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| error.severity() == PgSeverity::Error)
}

/// What the server calls the error; `None` for one that is not the server's.
pub(crate) fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}
