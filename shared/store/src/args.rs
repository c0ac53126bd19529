//! Settings: where the database is, and how long things may take.

use std::time::Duration;

/// Where the database is, and how long things may take.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub struct Args {
    /// PostgreSQL, for instance postgres://drover:secret@localhost/drover.
    #[arg(long, env = "DROVER_DATABASE_URL", hide_env_values = true)]
    pub database_url: String,
    /// How long to wait at the start for the database, and for the schema that this program needs, in seconds.
    #[arg(long, env = "DROVER_DATABASE_WAIT_SECS", default_value_t = 60)]
    pub database_wait_secs: u32,
    /// How long the plan applier's lease lives when nobody renews it, in milliseconds.
    #[arg(long, env = "DROVER_APPLIER_LEASE_MS", default_value_t = 3_000)]
    pub applier_lease_ms: u32,
}

impl Args {
    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs(self.database_wait_secs.into())
    }
}
