//! [`Error`]: failures of the database and of connections to it, distinguished by how a caller should respond.

use std::borrow::Cow;
use std::path::PathBuf;
use std::time::Duration;

use model::{Epoch, Index};
use sqlx::error::DatabaseError;
use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

/// What an operator can do about a database that lost acknowledged writes.
const HOW_TO_GO_ON: &str =
    "connect to the database that has them, or go on without them by `drover operator accept-database`";

/// A failure of the database, or of a connection to it. Nothing was written unless a variant says otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another applier took over.
    #[error("epoch {epoch} no longer holds the applier's lease")]
    Deposed {
        /// The epoch that this applier held; 0 if it never held one.
        epoch: Epoch,
    },
    /// The statement may or may not have taken effect: the connection was lost before the answer came, or no answer came in
    /// time. After a commit, call [`Writer::resolve_commit`](crate::Writer::resolve_commit); everything else may be
    /// repeated.
    #[error("unknown outcome of an attempt to {action}")]
    Unknown {
        /// What was attempted.
        action: &'static str,
        /// The error that ended the connection; `None` if no answer came in time.
        #[source]
        source: Option<sqlx::Error>,
    },
    /// The server reported a success with a warning, for instance because an administrator cancelled the wait for a
    /// synchronous standby: the statement has taken effect, but perhaps on this server only. Otherwise as
    /// [`Error::Unknown`].
    #[error("unknown outcome of an attempt to {action}: the database server warns: {warning}")]
    InDoubt {
        /// What was attempted.
        action: &'static str,
        /// The server's warning.
        warning: String,
    },
    /// The server loses acknowledged writes when its host crashes.
    #[error(
        "the database server loses acknowledged writes when its host crashes: set {off} to on in postgresql.conf, or accept \
         that by --allow-unsafe-database"
    )]
    Unsafe {
        /// The settings that are off.
        off: String,
    },
    /// The head is not at the index that the commit was to follow.
    #[error("the head is at index {found}, expected {expected}")]
    Moved {
        /// The index that the commit was to follow.
        expected: Index,
        /// The index of the head.
        found: Index,
    },
    /// The commit was given up by [`Writer::resolve_commit`](crate::Writer::resolve_commit) before the server executed it.
    #[error("the commit after index {after} was given up before it began")]
    GivenUp {
        /// The index that the commit was to follow.
        after: Index,
    },
    /// The log is behind what this process, or another one, has seen: acknowledged writes were lost. Nothing is read or written until an
    /// operator accepts the database ([`Writer::accept`](crate::Writer::accept)).
    #[error("{}; {}", went_back(*seen, *found), HOW_TO_GO_ON)]
    WentBack {
        /// The highest index that was seen.
        seen: Index,
        /// The index of the head now.
        found: Index,
    },
    /// The log has another change set than this process has seen: it went back, and went on differently. Nothing is read or
    /// written until an operator accepts the database ([`Writer::accept`](crate::Writer::accept)).
    #[error("{}; {}", diverged(*index), HOW_TO_GO_ON)]
    Diverged {
        /// The index of the change set.
        index: Index,
    },
    /// The database was moved to another server, for instance by a restore, and may lack acknowledged writes. Nothing is
    /// read or written until an operator accepts the database ([`Writer::accept`](crate::Writer::accept)).
    #[error(
        "{}: it was restored or moved here, or is a copy; if it is the one to go on with, accept it by \
         `drover operator accept-database`",
        other_system(*remembered, *found)
    )]
    OtherSystem {
        /// The system identifier that is stored in the database.
        remembered: i64,
        /// The system identifier of the server.
        found: i64,
    },
    /// An earlier check found that the database may lack acknowledged writes. Nothing is read or written until an operator
    /// accepts the database ([`Writer::accept`](crate::Writer::accept)).
    #[error("nothing is written before an operator accepts the database: {reason}; {}", HOW_TO_GO_ON)]
    Refusing {
        /// What the earlier check found ([`Error::reason_to_refuse`]).
        reason: String,
    },
    /// The server is a standby.
    #[error("the database server is a standby, not the primary")]
    NotPrimary,
    /// The database does not have the schema that this program needs.
    #[error("{}", missing_schema(*needed, *found))]
    Schema {
        /// The newest migration that this program knows.
        needed: i64,
        /// The newest migration that was applied; 0 for none.
        found: i64,
    },
    /// The database was not ready in time.
    #[error("the database was not ready within {waited:?}")]
    NotReady {
        /// How long this process waited.
        waited: Duration,
        /// The failure of the last attempt.
        #[source]
        source: Option<Box<Error>>,
    },
    /// Migrating the schema failed.
    #[error("cannot migrate the schema")]
    Migrate(#[from] MigrateError),
    /// Several loads failed because the log was trimmed faster than the state could be loaded.
    #[error("the log is trimmed faster than the state can be loaded")]
    TrimmedWhileLoading,
    /// The log lacks the change sets that follow the last one in the object tables.
    #[error("the change sets after index {after} are missing")]
    Gap {
        /// The last index before the gap.
        after: Index,
    },
    /// The object tables changed during every attempt to compare them.
    #[error("the object tables changed during every comparison")]
    TablesChanging,
    /// The loaded objects are inconsistent.
    #[error("the object tables and the log are inconsistent")]
    Inconsistent(#[from] state::Inconsistent),
    /// A value in the database cannot be decoded.
    #[error("unreadable {what}")]
    Unreadable {
        /// What the value should have been.
        what: &'static str,
        /// Why it cannot be decoded.
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
        /// What was attempted.
        action: &'static str,
        /// The server's message, which names the table.
        refusal: String,
    },
    /// The password file cannot be used.
    #[error("cannot use the password file {}", path.display())]
    PasswordFile {
        /// The path of the file.
        path: PathBuf,
        /// Why it cannot be used.
        #[source]
        source: std::io::Error,
    },
    /// A file with certificates or a key that the settings of the connection name cannot be used.
    #[error("cannot use the file {}, which {setting} names", path.display())]
    CertificateFile {
        /// The setting that names the file, and where it is set.
        setting: String,
        /// The path of the file.
        path: PathBuf,
        /// Why it cannot be used.
        #[source]
        source: std::io::Error,
    },
    /// The server's certificate has expired.
    #[error(
        "cannot connect to the database: the server's certificate has expired; renew it with `drover operator tls renew`, \
         copy it to the server, and let the server read it with `select pg_reload_conf()`"
    )]
    CertificateExpired(#[source] sqlx::Error),
    /// Any other failure of the database or of the connection to it.
    #[error("cannot {action}")]
    Database {
        /// What was attempted.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: sqlx::Error,
    },
}

impl Error {
    /// Whether the statement may or may not have taken effect.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::InDoubt { .. })
    }

    /// Whether nothing may be read or written until an operator accepts the database.
    pub fn needs_acceptance(&self) -> bool {
        self.reason_to_refuse().is_some()
    }

    /// Why nothing may be read or written until an operator accepts the database, without what to do about it; `None` if
    /// the error is another one.
    pub fn reason_to_refuse(&self) -> Option<String> {
        if let Self::WentBack { seen, found } = self {
            Some(went_back(*seen, *found))
        } else if let Self::Diverged { index } = self {
            Some(diverged(*index))
        } else if let Self::OtherSystem { remembered, found } = self {
            Some(other_system(*remembered, *found))
        } else if let Self::Refusing { reason } = self {
            Some(reason.clone())
        } else {
            None
        }
    }

    /// Turns an `insufficient_privilege` error into [`Error::Forbidden`], which names the role that lacks the right.
    pub(crate) fn of_role(self, role: &str) -> Self {
        /// The SQLSTATE `insufficient_privilege`.
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

    /// Whether the only reason is a lock that another transaction holds, so that a later attempt may succeed.
    pub fn is_busy(&self) -> bool {
        /// The SQLSTATE `lock_not_available`, which a lock timeout raises.
        const LOCK_NOT_AVAILABLE: &str = "55P03";
        let Self::Database { source, .. } = self else { return false };
        code(source).is_some_and(|code| code == LOCK_NOT_AVAILABLE)
    }
}

fn went_back(seen: Index, found: Index) -> String {
    format!("the database went back from index {seen} to {found}: acknowledged writes are lost")
}

fn diverged(index: Index) -> String {
    format!(
        "the database has another change set at index {index} than was seen before: acknowledged writes are lost"
    )
}

fn other_system(remembered: i64, found: i64) -> String {
    format!("the database belongs to system {remembered}, but the server is system {found}")
}

fn missing_schema(needed: i64, found: i64) -> String {
    if found == 0 {
        "the database has no tables yet; a plan applier makes them when it starts".to_owned()
    } else {
        format!(
            "the database's schema has version {found}, but this program needs {needed}; a plan applier of this program's \
             version migrates it when it starts"
        )
    }
}

/// An error with all its causes, in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Converts errors of opening a connection.
pub(crate) fn connection(source: sqlx::Error) -> Error {
    let text = chain(&source).to_lowercase();
    if text.contains("certificate") && text.contains("expired") {
        Error::CertificateExpired(source)
    } else {
        database("connect to the database")(source)
    }
}

/// Converts errors of statements that have no effect unless they are answered: reads, and statements in a transaction that
/// is not committed yet.
pub(crate) fn database(action: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| Error::Database { action, source }
}

/// Converts errors of statements that may have taken effect without an answer: a commit, or a write that is a transaction
/// of its own.
pub(crate) fn commit(action: &'static str) -> impl Fn(sqlx::Error) -> Error {
    move |source| {
        if is_refusal(&source) {
            Error::Database { action, source }
        } else {
            Error::Unknown { action, source: Some(source) }
        }
    }
}

/// Change sets are the only messages that the store decodes.
impl From<wire::DecodeError> for Error {
    fn from(error: wire::DecodeError) -> Self {
        unreadable("change set")(error)
    }
}

pub(crate) fn unreadable<E>(what: &'static str) -> impl Fn(E) -> Error
where
    E: std::error::Error + Send + Sync + 'static,
{
    move |source| Error::Unreadable { what, source: Box::new(source) }
}

/// Whether the server reported that it did not execute the statement. An error that also ends the session, such as a
/// shutdown of the server or a pooler that lost the server, may be reported at any moment, even after the commit.
fn is_refusal(error: &sqlx::Error) -> bool {
    let error = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    error.is_some_and(|error| error.severity() == PgSeverity::Error)
}

/// The SQLSTATE of an error; `None` for an error that does not come from the server.
pub(crate) fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_database_is_refused_with_what_to_do() {
        let errors = [
            Error::WentBack { seen: Index(616), found: Index(611) },
            Error::Diverged { index: Index(616) },
            Error::OtherSystem { remembered: 5, found: 6 },
            Error::Refusing { reason: "the database went back".to_owned() },
        ];
        for error in errors {
            let text = error.to_string();
            assert!(error.needs_acceptance() && text.contains("`drover operator accept-database`"), "{text}");
            let reason = error.reason_to_refuse().expect("there is a reason to refuse the database");
            assert!(text.contains(&reason) && !reason.contains("accept-database"), "{reason}");
        }
        assert!(!Error::NotPrimary.needs_acceptance());
    }

    #[test]
    fn a_missing_schema_is_named_with_who_makes_it() {
        let text = |found| Error::Schema { needed: 12, found }.to_string();
        assert_eq!(text(0), "the database has no tables yet; a plan applier makes them when it starts");
        assert!(text(11).starts_with("the database's schema has version 11, but this program needs 12; "));
    }

    #[test]
    fn an_expired_certificate_is_renewed_and_read_again_without_a_restart() {
        let failed = |text: &str| connection(sqlx::Error::Io(std::io::Error::other(text.to_owned())));
        let text = failed("invalid peer certificate: certificate expired: verification time 3").to_string();
        assert!(text.contains("tls renew") && text.contains("pg_reload_conf"), "{text}");
        let other = failed("invalid peer certificate: UnknownIssuer");
        assert_eq!(other.to_string(), "cannot connect to the database");
    }
}
