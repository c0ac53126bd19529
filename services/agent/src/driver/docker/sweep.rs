//! Finds and removes containers of this node that no task has any more: those of an agent that was killed while it started
//! them, or whose state is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use telemetry::{chain, clock};
use tokio::time::sleep;

use super::create::NODE_LABEL;
use super::settings::Dangling;
use crate::engine::{Engine, Summary};

/// The containers that tasks have, by their ids.
#[derive(Debug, Clone, Default)]
pub(super) struct Tracked(Arc<Mutex<BTreeSet<String>>>);

impl Tracked {
    pub(super) fn add(&self, container: &str) {
        self.lock().insert(container.to_owned());
    }

    pub(super) fn remove(&self, container: &str) {
        self.lock().remove(container);
    }

    fn contains(&self, container: &str) -> bool {
        self.lock().contains(container)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // A poisoned lock is harmless, because each change is a single step.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes dangling containers periodically. The first time is after a whole period, so that tasks have been recovered.
pub(super) async fn run(engine: Engine, node: String, dangling: Dangling, tracked: Tracked) {
    let labels = BTreeMap::from([(NODE_LABEL.to_owned(), node)]);
    loop {
        sleep(dangling.period).await;
        let found = match engine.containers(&labels).await {
            Ok(found) => found,
            Err(error) => {
                // There may be no engine on this node.
                tracing::debug!(error = chain(&error), "cannot look for dangling containers");
                continue;
            }
        };
        let now_secs = clock::now().as_secs();
        let grace_secs = i64::try_from(dangling.creation_grace.as_secs()).unwrap_or(i64::MAX);
        for container in
            old(&found, now_secs, grace_secs).filter(|container| !tracked.contains(&container.id))
        {
            remove(&engine, container, dangling.dry_run).await;
        }
    }
}

/// The containers that were created longer ago than the grace.
fn old(found: &[Summary], now_secs: i64, grace_secs: i64) -> impl Iterator<Item = &Summary> {
    found.iter().filter(move |container| now_secs.saturating_sub(container.created) > grace_secs)
}

async fn remove(engine: &Engine, container: &Summary, dry_run: bool) {
    let names = container.names.iter().flatten().cloned().collect::<Vec<_>>().join(", ");
    if dry_run {
        tracing::info!(container = container.id, names, "a dangling container would be removed");
        return;
    }
    match engine.remove(&container.id).await {
        Ok(()) => tracing::info!(container = container.id, names, "removed a dangling container"),
        Err(error) => {
            tracing::warn!(
                container = container.id,
                names,
                error = chain(&error),
                "cannot remove a dangling container"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_that_may_still_be_starting_are_left() {
        let container = |id: &str, created| Summary { id: id.to_owned(), created, ..Summary::default() };
        let found = [container("a", 100), container("b", 399), container("c", 400)];
        let ids: Vec<&str> = old(&found, 700, 300).map(|container| container.id.as_str()).collect();
        assert_eq!(ids, ["a", "b"]);
    }
}
