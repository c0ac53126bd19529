//! Waits for changes of files and directories, by inotify. One instance of it serves the whole agent.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use telemetry::chain;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// The events that count as a change: of a file, its content; of a directory, its entries and the content of files in
/// it.
const CHANGES: AddWatchFlags = AddWatchFlags::IN_MODIFY
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_MOVE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_DELETE_SELF);

/// Watches files and directories. Clones share one inotify instance.
#[derive(Debug, Clone)]
pub(crate) struct Watcher(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inotify: AsyncFd<Descriptor>,
    watched: Mutex<BTreeMap<WatchDescriptor, Watched>>,
}

/// An inotify instance as a descriptor.
#[derive(Debug)]
struct Descriptor(Inotify);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A file or directory that is watched.
#[derive(Debug)]
struct Watched {
    changes: watch::Sender<()>,
    /// How many watches there are of it.
    watches: usize,
}

/// A watch of one file or directory.
#[derive(Debug)]
pub(crate) struct Watch {
    watcher: Watcher,
    descriptor: WatchDescriptor,
    changes: watch::Receiver<()>,
}

impl Watcher {
    /// Creates an inotify instance. [`Self::run`] has to run for watches to notice anything.
    pub(crate) fn new() -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        // SAFETY: `Descriptor` owns the file descriptor, and neither replaces nor closes it while `AsyncFd` owns it.
        let inotify = unsafe { AsyncFd::register(Descriptor(inotify)) }?;
        Ok(Self(Arc::new(Shared { inotify, watched: Mutex::default() })))
    }

    /// Watches a file or directory from now on.
    pub(crate) fn watch(&self, path: &Path) -> io::Result<Watch> {
        let mut watched = self.watched();
        let descriptor = self.0.inotify.get_ref().0.add_watch(path, CHANGES)?;
        let entry = watched
            .entry(descriptor)
            .or_insert_with(|| Watched { changes: watch::Sender::new(()), watches: 0 });
        entry.watches += 1;
        Ok(Watch { watcher: self.clone(), descriptor, changes: entry.changes.subscribe() })
    }

    /// Tells watches of changes until it is dropped.
    pub(crate) async fn run(&self) {
        loop {
            let events = match self.0.inotify.readable().await {
                Ok(mut ready) => ready.try_io(|inotify| Ok(inotify.get_ref().0.read_events()?)),
                Err(error) => Ok(Err(error)),
            };
            match events {
                Ok(Ok(events)) => {
                    let watched = self.watched();
                    for event in events {
                        if event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW) {
                            // Any of them may have changed.
                            watched.values().for_each(|watched| watched.changes.send_replace(()));
                        } else if let Some(watched) = watched.get(&event.wd) {
                            watched.changes.send_replace(());
                        }
                    }
                }
                Ok(Err(error)) => {
                    tracing::error!(
                        error = chain(&error),
                        "cannot watch files; changes will be noticed later"
                    );
                    return std::future::pending().await;
                }
                // There was nothing to read.
                Err(_) => {}
            }
        }
    }

    fn watched(&self) -> MutexGuard<'_, BTreeMap<WatchDescriptor, Watched>> {
        self.0.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    /// Waits for a change after the watch was created, or after the last change that was waited for. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // The sender lives as long as this watch.
        let _ = self.changes.changed().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = self.watcher.watched();
        let Some(entry) = watched.get_mut(&self.descriptor) else { return };
        entry.watches -= 1;
        if entry.watches == 0 {
            watched.remove(&self.descriptor);
            // Fails if the file or directory was deleted.
            let _ = self.watcher.0.inotify.get_ref().0.rm_watch(self.descriptor);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    async fn is_noticed(watch: &mut Watch) -> bool {
        timeout(Duration::from_secs(20), watch.changed()).await.is_ok()
    }

    async fn is_quiet(watch: &mut Watch) -> bool {
        timeout(Duration::from_millis(50), watch.changed()).await.is_err()
    }

    #[tokio::test]
    async fn changes_in_a_directory_and_of_a_file_are_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a");
        fs::write(&file, "").unwrap();
        let watcher = Watcher::new().unwrap();
        let running = watcher.clone();
        tokio::spawn(async move { running.run().await });
        let mut of_dir = watcher.watch(dir.path()).unwrap();
        let mut again = watcher.watch(dir.path()).unwrap();
        let mut of_file = watcher.watch(&file).unwrap();
        assert!(is_quiet(&mut of_dir).await);
        fs::write(dir.path().join("b"), "").unwrap();
        assert!(is_noticed(&mut of_dir).await && is_noticed(&mut again).await);
        assert!(is_quiet(&mut of_file).await);
        fs::write(&file, "more").unwrap();
        assert!(is_noticed(&mut of_file).await);

        drop(again);
        drop(of_file);
        assert_eq!(watcher.watched().len(), 1);
        while !is_quiet(&mut of_dir).await {}
        fs::remove_file(&file).unwrap();
        assert!(is_noticed(&mut of_dir).await, "a second watch of the same directory has its own end");
        drop(of_dir);
        assert!(watcher.watched().is_empty());
    }
}
