//! Settings: where the database is, and how long things may take.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use model::Nanos;

use crate::error::Error;
use crate::trimming::{KEPT_MIN, Limits};

/// Where the database is, and how long things may take.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// PostgreSQL, for instance
    /// postgres://drover_api@db.example.org/drover?sslmode=verify-full&sslrootcert=/run/drover/ca.pem.
    #[arg(long, env = "DROVER_DATABASE_URL", hide_env_values = true)]
    pub database_url: String,
    /// File with the password for the database, which goes before one in the URL. It is read for every new connection, so
    /// that a new password needs no restart.
    #[arg(long, env = "DROVER_DATABASE_PASSWORD_FILE", value_name = "FILE")]
    pub database_password_file: Option<PathBuf>,
    /// How long to wait at the start for the database, and for the schema that this program needs, in seconds.
    #[arg(long, env = "DROVER_DATABASE_WAIT_SECS", default_value_t = 60)]
    pub database_wait_secs: u32,
    /// How long the plan applier's lease lives when nobody renews it, in milliseconds.
    #[arg(long, env = "DROVER_APPLIER_LEASE_MS", default_value_t = 3_000)]
    pub applier_lease_ms: u32,
    /// How far back the plan applier keeps the log of changes, in seconds; ten minutes at least.
    #[arg(long, env = "DROVER_LOG_KEEP_SECS", default_value_t = 3_600)]
    #[arg(value_parser = clap::value_parser!(u32).range(LOG_KEEP_SECS_MIN..))]
    pub log_keep_secs: u32,
    /// The most space that the log of changes may take, in MiB. It goes back less far then; when even ten minutes take
    /// more, the plan applier takes no commands until they are over.
    #[arg(long, env = "DROVER_LOG_MAX_MB", default_value_t = 16_384)]
    #[arg(value_parser = clap::value_parser!(u32).range(LOG_MB_MIN..))]
    pub log_max_mb: u32,
}

/// As [`KEPT_MIN`] says.
const LOG_KEEP_SECS_MIN: i64 = KEPT_MIN.0 / Nanos::SECOND.0;
/// Less would hold hardly more than a few of the largest commands.
const LOG_MB_MIN: i64 = 64;

impl Args {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.database_wait_secs.into())
    }

    pub(crate) fn log_limits(&self) -> Limits {
        Limits {
            keep: Nanos::from_secs(self.log_keep_secs.into()).max(KEPT_MIN),
            bytes_max: u64::from(self.log_max_mb) << 20,
        }
    }
}

/// The password that a file holds: its one line, of printable ASCII, without spaces around it.
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
