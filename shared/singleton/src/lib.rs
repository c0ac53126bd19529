//! The shell of services of which one process at a time is active: the lease, and the actor that owns a pure core.
//!
//! [`run`] waits for a lease, is active while the process holds it, and waits again. [`start`] starts the actor of one
//! [`Core`]: it restores the core from the replica's state, follows the changes, sets the timer, sends the core's commands
//! one at a time, and retires the core when the process is no longer active. Several cores may be active under one lease.

mod core;
mod shell;
mod write;

use std::sync::Arc;

use actix::{Actor as _, Addr};
use bus::Bus;
use bus::lease::Lease;
use model::cluster::Singleton;
use model::{Epoch, ProcessId, Timestamp};
use state::{FollowEvent, Replica, Snapshot, Step};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub use crate::core::{Core, Write};
pub use crate::shell::Shell;

/// Calls `active` whenever this process gets the lease of `service`, and drops its future when the lease is lost. Returns
/// after `stop`.
///
/// Must be called on a thread of an actix system.
///
/// # Errors
/// If `active` ends by itself with an error.
pub async fn run(
    service: Singleton,
    bus: &Bus,
    replica: &Arc<Replica>,
    process: ProcessId,
    stop: &CancellationToken,
    active: impl AsyncFn(&Lease) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    loop {
        let lease = tokio::select! {
            lease = bus::lease::hold(bus, replica, service, process) => lease,
            () = stop.cancelled() => return Ok(()),
        };
        tokio::select! {
            ended = active(&lease) => ended?,
            () = lease.lost() => {}
            () = stop.cancelled() => return Ok(()),
        }
    }
}

/// A core that runs in its actor. Dropping it stops the actor and its tasks.
pub struct Running<C: Core> {
    address: Addr<Shell<C>>,
    /// Dropping the set aborts its tasks.
    tasks: JoinSet<()>,
}

impl<C: Core> std::fmt::Debug for Running<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl<C: Core> Running<C> {
    /// The actor's address, to which a service sends messages of its own.
    pub fn address(&self) -> Addr<Shell<C>> {
        self.address.clone()
    }

    /// Returns when the actor has stopped or one of its tasks has ended, which is unexpected.
    pub async fn ended(&mut self) {
        let _ = self.tasks.join_next().await;
    }
}

impl<C: Core> Drop for Running<C> {
    fn drop(&mut self) {
        // The actor's timer would otherwise keep it alive after its last address is gone.
        self.address.do_send(shell::Stop);
    }
}

/// Starts a core from the replica's state. Its commands carry `epoch`.
///
/// Must be called on a thread of an actix system.
pub async fn start<C: Core>(
    bus: &Bus,
    replica: &Replica,
    epoch: Epoch,
    restore: impl FnOnce(Snapshot, Timestamp) -> C,
) -> Running<C> {
    let mut follower = replica.follow();
    let (FollowEvent::Reset(state) | FollowEvent::Step(Step { after: state, .. })) = follower.next().await;
    let (writes, to_write) = mpsc::channel(1);
    let contact = bus.contact();
    let core = restore(state, contact.cluster_now());
    let address = Shell::new(core, epoch, contact, writes).start();
    let mut tasks = JoinSet::new();
    // Runs on the actor's own thread, so that no change has to wake another thread.
    tasks.spawn_local(shell::follow(follower, address.clone()));
    tasks.spawn(write::write(to_write, bus.clone(), address.clone()));
    Running { address, tasks }
}
