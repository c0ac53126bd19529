//! The agent's data directory, which one agent at a time uses. Two of them would run every task twice.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use dir_lock::{DirLock, Error};
use model::NodeId;
use telemetry::clock;
use tokio::time::sleep;

use super::config::{Args, state_dir};
use super::identity::Identity;
use crate::disk::store::Store;

/// How long a starting agent waits for the one before it, which ends within five seconds after it was told to stop.
const LOCK_TIMEOUT: Duration = Duration::from_secs(6);
/// The pause before the next attempt to lock the directory.
const LOCK_RETRY: Duration = Duration::from_millis(50);

/// The agent's data directory. No other agent can use it as long as this value exists.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    store: Store,
    _lock: DirLock,
}

impl DataDir {
    /// Creates the directory if it does not exist, and locks it. If an agent uses it, this waits for a moment, because that
    /// agent may be ending.
    ///
    /// # Errors
    /// If the directory cannot be used, or an agent still uses it.
    pub async fn open(args: &Args) -> anyhow::Result<Self> {
        let path = std::path::absolute(&args.data_dir)?;
        // Created separately, because every directory that `Store::open` creates gets the state directory's permissions.
        std::fs::create_dir_all(&path)
            .with_context(|| format!("cannot create the data directory {}", path.display()))?;
        let lock = lock(&path, LOCK_TIMEOUT)
            .await
            .with_context(|| format!("cannot use the data directory {}", path.display()))?;
        let dir = state_dir(&path);
        let store = Store::open(&dir)
            .with_context(|| format!("cannot open the state directory {}", dir.display()))?;
        Ok(Self { path, store, _lock: lock })
    }

    /// Returns the id of this node. On the first start the id is the one that the agent's credentials were `issued_for`, or
    /// a new one.
    ///
    /// # Errors
    /// If the directory belongs to another node than the credentials, or the id cannot be read or written.
    pub fn node_id(&self, issued_for: Option<NodeId>) -> anyhow::Result<NodeId> {
        let node = Identity::node(&self.store, issued_for).context("cannot read or create the node id")?;
        match issued_for {
            Some(issued_for) if issued_for != node => bail!(
                "the NATS credentials belong to node {issued_for}, but the data directory {} belongs to node {node}: use \
                 the credentials of node {node}, or an empty data directory",
                self.path.display()
            ),
            Some(_) | None => Ok(node),
        }
    }

    /// The agent's state in the directory.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }
}

/// Locks a directory. If it is locked, this waits for at most `within`.
async fn lock(dir: &Path, within: Duration) -> Result<DirLock, Error> {
    let begun = clock::monotonic();
    let mut is_waiting = false;
    loop {
        match DirLock::try_acquire(dir) {
            Err(Error::InUse { pid, .. }) if clock::monotonic().saturating_duration_since(begun) < within => {
                if !std::mem::replace(&mut is_waiting, true) {
                    tracing::info!(dir = %dir.display(), pid, "waiting for an agent that uses the data directory");
                }
                sleep(LOCK_RETRY).await;
            }
            locked => return locked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path) -> Args {
        Args { data_dir: dir.to_owned(), ..Args::default() }
    }

    #[tokio::test]
    async fn an_agent_waits_for_one_that_ends_and_is_refused_by_one_that_stays() {
        let dir = tempfile::tempdir().unwrap();
        let first = DataDir::open(&args(dir.path())).await.unwrap();
        let refused = lock(dir.path(), Duration::from_millis(100)).await.unwrap_err();
        let expected = format!("process {} uses {}", std::process::id(), dir.path().display());
        assert_eq!(refused.to_string(), expected);

        let args = args(dir.path());
        let second = tokio::spawn(async move { DataDir::open(&args).await.map(|_| ()) });
        sleep(Duration::from_millis(100)).await;
        assert!(!second.is_finished());
        drop(first);
        second.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_node_keeps_its_id_and_refuses_the_credentials_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let data_dir = DataDir::open(&args(dir.path())).await.unwrap();
        let node = NodeId::from_bytes([5; 16]);
        assert_eq!(data_dir.node_id(Some(node)).unwrap(), node);
        assert_eq!(data_dir.node_id(None).unwrap(), node);
        let error = data_dir.node_id(Some(NodeId::from_bytes([6; 16]))).unwrap_err().to_string();
        assert!(error.contains(&format!("belongs to node {node}")), "{error}");
    }
}
