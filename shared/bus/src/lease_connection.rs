//! [`LeaseConnection`]: a connection to NATS and a thread that do nothing but keep a lease.
//!
//! A process that is flooded with messages still renews its lease in time: neither the renewal nor its response waits
//! behind other messages, and the thread is free while the others compute.

use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::connection::Bus;
use crate::error::Error;

/// The connection and the thread. Both end when this is dropped.
#[derive(Debug)]
pub(crate) struct LeaseConnection {
    bus: Bus,
    runtime: Handle,
    _end: DropGuard,
}

impl LeaseConnection {
    /// Opens a connection with the settings of `base`, and waits until it is connected.
    ///
    /// # Errors
    /// If the settings cannot be used any more, or the thread cannot be started.
    pub(crate) async fn open(base: &Bus) -> Result<Self, Error> {
        let ended = CancellationToken::new();
        let end = ended.clone().drop_guard();
        let (ready, is_ready) = oneshot::channel();
        let base = base.clone();
        let run = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                // Sending fails if the caller does not wait any more.
                Err(error) => return drop(ready.send(Err(Error::Thread(error)))),
            };
            let handle = runtime.handle().clone();
            runtime.block_on(ended.run_until_cancelled(async {
                let opened = base.open_another().await.map(|bus| (bus, handle));
                let is_open = opened.is_ok();
                if ready.send(opened).is_ok() && is_open {
                    std::future::pending::<()>().await;
                }
            }));
        };
        thread::Builder::new().name("lease".to_owned()).spawn(run).map_err(Error::Thread)?;
        let (bus, runtime) = is_ready.await.map_err(|_| Error::Disconnected)??;
        Ok(Self { bus, runtime, _end: end })
    }

    /// Runs `work` with the connection, in the thread. Tasks that it spawns run there, too.
    ///
    /// # Panics
    /// If `work` panics.
    pub(crate) async fn run<T, F>(&self, work: impl FnOnce(Bus) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let work = self.runtime.spawn(work(self.bus.clone()));
        work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }
}
