//! What beats for all nodes: a thread and a connection with nothing else to do.
//!
//! An agent's heartbeat waits for its own work at most. Were those of thousands of agents sent by the thread that does the
//! work of all of them, they would all be late at once when there is much of it, and all be taken for dead.

use anyhow::Context as _;
use bus::Bus;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use wire::Role;

/// Clones share it; it beats for as long as the process lives.
#[derive(Clone)]
pub(super) struct Heart {
    bus: Bus,
    thread: Handle,
}

impl Heart {
    pub(super) async fn start(args: &bus::Args) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build().context("cannot run a heart")?;
        let thread = runtime.handle().clone();
        let forever = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("heart".to_owned()).spawn(forever).context("cannot run a heart")?;
        let args = args.clone();
        // From there, where the connection's own task is then, too.
        let connecting = thread.spawn(async move { Bus::connect(&args, Role::SimNodes).await });
        let bus = connecting.await.context("cannot run a heart")?.context("cannot connect to NATS")?;
        Ok(Self { bus, thread })
    }

    /// The connection.
    pub(super) fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Lets somebody beat on the thread, until what is returned is dropped.
    pub(super) fn beat(&self, beats: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
        let mut beating = JoinSet::new();
        beating.spawn_on(beats, &self.thread);
        beating
    }
}
