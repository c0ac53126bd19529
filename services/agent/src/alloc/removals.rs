//! Removes what is left of allocations, in the background.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

use model::AllocId;
use telemetry::chain;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::{JoinError, JoinSet};

use super::hooks::{self, AllocRun, Predecessors};
use super::runner::{begun_file, spec_file};
use crate::context::Context;
use crate::disk::{secrets, store};
use crate::task::commands::Outcome;
use crate::task::runner::end_leftovers;
use crate::work::spec::AllocSpec;

/// The extent of a removal of an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    /// Its files and its state.
    All,
    /// Nothing: its state is set aside, and its files are kept in case that it is started again.
    SetAside,
}

/// The removals that have not finished.
pub(crate) struct Removals {
    context: Arc<Context>,
    tasks: JoinSet<AllocId>,
    /// The number of removals of each allocation.
    running: BTreeMap<AllocId, usize>,
    permits: Arc<Semaphore>,
}

impl Removals {
    /// Creates the set without any.
    pub(crate) fn new(context: Arc<Context>) -> Self {
        let permits = Arc::new(Semaphore::new(context.config.limits.gc_parallel_max));
        Self { context, tasks: JoinSet::new(), running: BTreeMap::new(), permits }
    }

    /// Starts to remove an allocation. Its unsupervised processes are ended first.
    pub(crate) fn start(&mut self, id: AllocId, removal: Removal) {
        self.start_reporting(id, removal, None);
    }

    /// The same. `done` is sent when the removal has finished.
    pub(crate) fn start_reporting(
        &mut self,
        id: AllocId,
        removal: Removal,
        done: Option<oneshot::Sender<Outcome>>,
    ) {
        let (context, permits) = (Arc::clone(&self.context), Arc::clone(&self.permits));
        *self.running.entry(id).or_default() += 1;
        self.tasks.spawn(async move {
            let _permit = permits.acquire().await;
            end_leftovers(&context, id).await;
            run_hooks(&context, id, removal).await;
            match removal {
                Removal::All => {
                    remove_network(&context, id).await;
                    remove_alloc_dir(&context, id).await;
                    // The state goes last: while it exists, the files are known to belong to an allocation.
                    remove(id, &context.store.alloc(id)).await;
                }
                Removal::SetAside => match context.store.set_alloc_aside(id) {
                    Ok(aside) => {
                        tracing::info!(alloc.id = %id, kept_as = %aside.display(), "unreadable state was set aside");
                    }
                    Err(error) => tracing::error!(
                        alloc.id = %id, error = chain(&error), "cannot set the unreadable state of an allocation aside"
                    ),
                },
            }
            if let Some(done) = done {
                // Fails if the requester has stopped waiting.
                let _ = done.send(Ok(()));
            }
            id
        });
    }

    /// Waits until one has finished; `None` if there is none. Cancel safe.
    pub(crate) async fn finished(&mut self) -> Option<()> {
        let removal = self.tasks.join_next().await?;
        self.record(removal);
        Some(())
    }

    /// Waits until all removals of an allocation have finished, because it is created again.
    pub(crate) async fn until_finished(&mut self, id: AllocId) {
        while self.running.contains_key(&id) && self.finished().await.is_some() {}
    }

    fn record(&mut self, removal: Result<AllocId, JoinError>) {
        match removal {
            Ok(id) => {
                if let Some(count) = self.running.get_mut(&id) {
                    *count -= 1;
                }
                self.running.retain(|_, count| *count > 0);
            }
            Err(error) => tracing::error!(
                error = chain(&error),
                "the removal of an allocation's files panicked or was cancelled"
            ),
        }
    }
}

/// Lets the hooks of an allocation clean up what is left, if its specification can be read.
async fn run_hooks(context: &Arc<Context>, id: AllocId, removal: Removal) {
    let Ok(Some(spec)) = store::read::<AllocSpec>(&spec_file(context, id)) else { return };
    let alloc = AllocRun { context: Arc::clone(context), spec: Arc::new(spec) };
    let hooks = hooks::all(Predecessors::default());
    if begun_file(context, id).exists() {
        hooks.postrun(&alloc).await;
    }
    match removal {
        Removal::All => hooks.destroy(&alloc).await,
        Removal::SetAside => {}
    }
}

/// Removes the network of an allocation whose hooks could not do so.
async fn remove_network(context: &Context, id: AllocId) {
    if let Err(error) = context.networks.remove(id).await {
        tracing::warn!(alloc.id = %id, error, "cannot remove the network of an allocation");
    }
}

/// Removes the directory of an allocation, after what is mounted in it.
async fn remove_alloc_dir(context: &Context, id: AllocId) {
    let root = context.dirs(id).root;
    let mounted = root.clone();
    match tokio::task::spawn_blocking(move || secrets::unmount(&mounted)).await.map_err(io::Error::other) {
        Ok(Ok(())) => {}
        Ok(Err(error)) | Err(error) => {
            tracing::warn!(alloc.id = %id, error = chain(&error), "cannot unmount the secrets of an allocation");
        }
    }
    remove(id, &root).await;
}

async fn remove(id: AllocId, dir: &Path) {
    match tokio::fs::remove_dir_all(dir).await {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::warn!(alloc.id = %id, dir = %dir.display(), error = chain(&error), "cannot remove an allocation's files");
        }
    }
}
