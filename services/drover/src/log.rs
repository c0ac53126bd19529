//! The log that replicas are repaired from: the feed of `bus` over the database of `store`.

use bus::feed::{Log, LogError, LogPage};
use model::Index;
use state::{Scope, State};
use store::{Database, Tail};

/// Bytes of change sets that are read at once.
const PAGE_BYTES: usize = 8 << 20;

/// The database as the feed sees it.
pub(crate) struct DatabaseLog {
    pub(crate) database: Database,
    /// What of the state is loaded.
    pub(crate) scope: Scope,
}

impl Log for DatabaseLog {
    async fn load(&self) -> Result<State, LogError> {
        Ok(self.database.load(self.scope).await?.state)
    }

    async fn after(&self, index: Index) -> Result<LogPage, LogError> {
        match self.database.changes_after(index, PAGE_BYTES).await? {
            Tail::Page { rows, head } => {
                let sets = rows.into_iter().map(|row| row.bytes).collect();
                Ok(LogPage::Sets { history: head.history, head: head.index, sets })
            }
            Tail::Trimmed => Ok(LogPage::Trimmed),
        }
    }
}
