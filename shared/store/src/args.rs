//! Settings: the database's URL and password, timeouts, and limits of the log.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Nanos;

use crate::error::Error;
use crate::trimming::{LOG_KEEP_MIN, Limits};

/// Settings of the connection to the database and of the log.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Database")]
pub struct Args {
    /// URL of the PostgreSQL database, for instance
    /// postgres://drover_api@db.example.org/drover?sslmode=verify-full&sslrootcert=/run/drover/ca.pem.
    #[arg(long, env = "DROVER_DATABASE_URL", hide_env_values = true)]
    pub database_url: String,
    /// File with the password for the database. It takes precedence over a password in the URL. The file is read for every
    /// new connection, so a new password needs no restart.
    #[arg(long, env = "DROVER_DATABASE_PASSWORD_FILE", value_name = "FILE")]
    pub database_password_file: Option<PathBuf>,
    /// How long to wait at startup for the database and for the schema that this program needs, in seconds.
    #[arg(long, env = "DROVER_DATABASE_WAIT_SECS", default_value_t = 60)]
    pub database_wait_secs: u32,
    /// Use a PostgreSQL that loses acknowledged writes when its host crashes, because `fsync` or `full_page_writes` is off.
    /// The plan applier refuses it otherwise.
    #[arg(long, env = "DROVER_ALLOW_UNSAFE_DATABASE")]
    pub allow_unsafe_database: bool,
    /// How long the plan applier's lease lasts without renewal, in milliseconds.
    #[arg(long, env = "DROVER_APPLIER_LEASE_MS", default_value_t = 3_000)]
    pub applier_lease_ms: u32,
    /// How long the plan applier keeps the log of changes, in seconds; at least ten minutes.
    #[arg(long, env = "DROVER_LOG_KEEP_SECS", default_value_t = 3_600)]
    #[arg(value_parser = clap::value_parser!(u32).range(LOG_KEEP_SECS_MIN..))]
    pub log_keep_secs: u32,
    /// Maximum size of the log of changes, in MiB. When the log is larger, it is kept for a shorter time, but never for
    /// less than ten minutes. If even ten minutes of it are larger, the plan applier refuses commands that can wait until
    /// some of the log is older than that.
    #[arg(long, env = "DROVER_LOG_MAX_MB", default_value_t = 16_384)]
    #[arg(value_parser = clap::value_parser!(u32).range(LOG_MB_MIN..))]
    pub log_max_mb: u32,
}

/// [`LOG_KEEP_MIN`] in seconds.
const LOG_KEEP_SECS_MIN: i64 = LOG_KEEP_MIN.0 / Nanos::SECOND.0;
/// A smaller log would hold only a few of the largest commands.
const LOG_MB_MIN: i64 = 64;

impl Args {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.database_wait_secs.into())
    }

    pub(crate) fn log_limits(&self) -> Limits {
        Limits {
            keep: Nanos::from_secs(self.log_keep_secs.into()).max(LOG_KEEP_MIN),
            bytes_max: u64::from(self.log_max_mb) << 20,
        }
    }
}

/// Reads the password in a file: one line of printable ASCII. Leading and trailing white space is removed.
pub(crate) fn password(path: &Path) -> Result<String, Error> {
    let failed = |source| Error::PasswordFile { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let password = text.trim();
    if password.is_empty() || !password.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        let expected = "expected one line of printable ASCII characters";
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, expected)));
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_holds_a_password_in_one_line() {
        let file = std::env::temp_dir().join(format!("drover-password-{}", std::process::id()));
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            password(&file)
        };
        assert_eq!(read("secret\n").unwrap(), "secret");
        for text in ["", "\n", "two\nlines\n", "p\u{e4}ss\n"] {
            let Err(Error::PasswordFile { path, source }) = read(text) else { panic!("{text:?} is taken") };
            assert_eq!((path, source.kind()), (file.clone(), io::ErrorKind::InvalidData));
        }
        std::fs::remove_file(&file).unwrap();
        let Err(Error::PasswordFile { source, .. }) = password(&file) else { panic!("there is no file") };
        assert_eq!(source.kind(), io::ErrorKind::NotFound);
    }
}
