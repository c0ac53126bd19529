//! The log from which replicas catch up: implements the feed's `Log` with the database of `store`.

use bus::feed::{Log, LogError, LogPage};
use model::Index;
use state::{Scope, State};
use store::{Database, Head, Loaded, Tail};

/// Maximum bytes of change sets per read.
const PAGE_BYTES: usize = 8 << 20;

/// The database as the source of the feed's log.
pub(crate) struct DatabaseLog {
    pub(crate) database: Database,
    /// The part of the state that is loaded.
    pub(crate) scope: Scope,
}

impl Log for DatabaseLog {
    async fn load(&self) -> Result<(State, Head), LogError> {
        let Loaded { state, head, .. } = self.database.load(self.scope).await?;
        Ok((state, head))
    }

    async fn after(&self, index: Index) -> Result<LogPage, LogError> {
        match self.database.changes_after(index, PAGE_BYTES).await? {
            Tail::Page { rows, head, previous } => {
                let sets = rows.into_iter().map(|row| row.bytes).collect();
                Ok(LogPage::Sets { head, previous, sets })
            }
            Tail::Trimmed => Ok(LogPage::Trimmed),
        }
    }

    async fn head(&self) -> Result<Head, LogError> {
        Ok(self.database.head().await?)
    }

    fn address(&self) -> String {
        self.database.address()
    }
}
