//! Sends the heartbeats of all nodes, on a thread and a connection that do nothing else.
//!
//! In a real agent, a heartbeat is delayed at most by that agent's own work. If one thread sent the heartbeats of
//! thousands of agents and also did their work, a burst of work would delay all heartbeats at once, and all nodes would
//! be taken for dead.

use anyhow::Context as _;
use bus::Bus;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;
use wire::Role;

/// The thread and the connection. Clones share them. The thread runs until the process ends.
#[derive(Clone)]
pub(super) struct HeartbeatThread {
    bus: Bus,
    thread: Handle,
}

impl HeartbeatThread {
    pub(super) async fn start(args: &bus::Args) -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the heartbeat thread")?;
        let thread = runtime.handle().clone();
        let forever = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new()
            .name("heartbeats".to_owned())
            .spawn(forever)
            .context("cannot start the heartbeat thread")?;
        let args = args.clone();
        // Connects on the thread, so that the connection's own task runs there too.
        let connecting = thread.spawn(async move { Bus::connect(&args, Role::SimNodes).await });
        let bus = connecting
            .await
            .context("cannot start the heartbeat thread")?
            .context("cannot connect to NATS")?;
        Ok(Self { bus, thread })
    }

    /// The connection of the thread.
    pub(super) fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Runs a node's heartbeats on the thread, until the returned set is dropped.
    pub(super) fn spawn(&self, heartbeats: impl Future<Output = ()> + Send + 'static) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        tasks.spawn_on(heartbeats, &self.thread);
        tasks
    }
}
