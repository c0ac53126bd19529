//! The command that grants the lease of a singleton service, and requests about leases (`docs/architecture/leases.md`).

use std::time::Duration;

use model::change::Cause;
use model::cluster::Singleton;
use model::{Epoch, ProcessId};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;

/// Duration of a lease that is not renewed (`docs/architecture/leases.md`).
pub const LEASE: Duration = Duration::from_secs(3);

/// Adds the command of this file to [`Command`](super::Command).
macro_rules! lease_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Requests the lease of a singleton service for a process.
            TakeLease(TakeLease),
        }
    };
}

/// Requests the lease of a singleton service for a process (`docs/architecture/leases.md`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch of a holder that no longer responds. Its lease is granted before it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gone: Option<Epoch>,
}

impl CommandBody for TakeLease {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::of_singleton(self.service),
            class: Class::Rest,
            cause: Cause::Lease,
            is_expensive: false,
            is_deferrable: false,
        }
    }
}

/// Checks whether the active process of a singleton is alive. *No responders* means that it is gone. The response is
/// [`HolderAlive`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeHolder {}

/// The active process of a singleton is alive.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HolderAlive {}

/// Renews the lease of a singleton's active process. This is not a command: nothing is written. The response is
/// [`Answer`](super::Answer), in which `Done` holds the epoch. If the epoch is not the lease's, the request is refused
/// as deposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RenewLease {
    /// The service.
    pub service: Singleton,
    /// The process.
    pub process: ProcessId,
    /// The epoch of its lease.
    pub epoch: Epoch,
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{EPOCH, PROCESS};

    impl Sample for TakeLease {
        fn samples() -> Vec<Self> {
            vec![Self { service: Singleton::NodeTracker, process: PROCESS, gone: Some(EPOCH) }]
        }
    }
}
