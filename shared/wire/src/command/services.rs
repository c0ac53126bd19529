//! Commands about registrations of services.

use model::change::Cause;
use model::{Epoch, NodeId, Text};
use serde::{Deserialize, Serialize};

use super::info::{Class, CommandBody, CommandInfo};
use crate::role::Role;
use crate::services::AllocServices;

/// Adds the commands of this file to [`Command`](super::Command).
macro_rules! service_commands {
    ($($so_far:tt)*) => {
        collect! {
            $($so_far)*
            /// Sets which services of allocations are registered, for one or several nodes.
            UpdateServices(UpdateServices),
            /// Deletes the registration of a service.
            DeleteService(DeleteService),
        }
    };
}

/// Sets which services of allocations are registered, for one or several nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateServices {
    /// The tracker's epoch.
    pub epoch: Epoch,
    /// The sets of each node.
    pub nodes: Vec<NodeServices>,
}

impl CommandBody for UpdateServices {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::NodeTracker,
            class: Class::Nodes,
            cause: Cause::ServiceRegistration,
            is_expensive: false,
            is_deferrable: false,
        }
    }
}

/// The sets of allocations of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeServices {
    /// The node.
    pub node: NodeId,
    /// Boot number of its agent.
    pub boot: u32,
    /// The allocations with the whole set of each.
    pub allocs: Vec<AllocServices>,
}

/// Deletes the registration of a service (http-api §21).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteService {
    /// The namespace of the registration.
    pub namespace: Text,
    /// Its id.
    pub id: Text,
}

impl CommandBody for DeleteService {
    fn info(&self) -> CommandInfo {
        CommandInfo {
            sender: Role::Api,
            class: Class::Rest,
            cause: Cause::ServiceDeregistration,
            is_expensive: false,
            is_deferrable: true,
        }
    }
}

#[cfg(any(test, feature = "samples"))]
mod samples {
    use super::*;
    use crate::command::Sample;
    use crate::samples::{EPOCH, NODE, alloc_services};

    impl Sample for UpdateServices {
        fn samples() -> Vec<Self> {
            let services = NodeServices { node: NODE, boot: 13, allocs: vec![alloc_services()] };
            vec![Self { epoch: EPOCH, nodes: vec![services] }]
        }
    }

    impl Sample for DeleteService {
        fn samples() -> Vec<Self> {
            vec![Self { namespace: "default".into(), id: alloc_services().services[0].id.clone() }]
        }
    }
}
