//! Roles of processes. Credentials are issued for a role, and permissions follow from it
//! ([`permissions`](crate::permissions)).

use std::fmt;
use std::str::FromStr;

use model::cluster::Singleton;

/// The role of a process in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Serves the HTTP API.
    Api,
    /// Leases evaluations to schedulers.
    EvalBroker,
    /// Computes plans.
    Scheduler,
    /// Writes the state and publishes the change feed.
    PlanApplier,
    /// Handles messages of agents and expires nodes.
    NodeTracker,
    /// Advances deployments.
    DeploymentWatcher,
    /// Runs tasks on one node. Its credentials name the node.
    Agent,
    /// All services in one process, as `drover dev` runs them. Has the permissions of all of them.
    Servers,
    /// Many simulated nodes in one process. Its credentials exist on private servers only.
    SimNodes,
    /// A test or a benchmark that subscribes to everything. Its credentials exist on private servers only.
    Observer,
}

impl Role {
    /// Services that run as processes of their own.
    pub const SERVICES: [Self; 6] = [
        Self::Api,
        Self::EvalBroker,
        Self::Scheduler,
        Self::PlanApplier,
        Self::NodeTracker,
        Self::DeploymentWatcher,
    ];

    /// Every role.
    pub const ALL: [Self; 10] = [
        Self::Api,
        Self::EvalBroker,
        Self::Scheduler,
        Self::PlanApplier,
        Self::NodeTracker,
        Self::DeploymentWatcher,
        Self::Agent,
        Self::Servers,
        Self::SimNodes,
        Self::Observer,
    ];

    /// The name of the role in subjects, in credentials and in directory names.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::EvalBroker => "eval-broker",
            Self::Scheduler => "scheduler",
            Self::PlanApplier => "plan-applier",
            Self::NodeTracker => "node-tracker",
            Self::DeploymentWatcher => "deployment-watcher",
            Self::Agent => "agent",
            Self::Servers => "servers",
            Self::SimNodes => "sim-nodes",
            Self::Observer => "observer",
        }
    }

    /// The role of the service that holds a singleton's lease.
    pub const fn of_singleton(service: Singleton) -> Self {
        match service {
            Singleton::EvalBroker => Self::EvalBroker,
            Singleton::NodeTracker => Self::NodeTracker,
            Singleton::DeploymentWatcher => Self::DeploymentWatcher,
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that is not the name of a role.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown role {0:?}; roles are {roles}", roles = Role::ALL.map(Role::as_str).join(", "))]
pub struct UnknownRole(pub String);

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or_else(|| UnknownRole(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_is_read_from_its_own_name() {
        for role in Role::ALL {
            assert_eq!(role.to_string().parse(), Ok(role));
        }
        let error = "nobody".parse::<Role>().unwrap_err().to_string();
        assert!(error.starts_with("unknown role \"nobody\"; roles are api, eval-broker"), "{error}");
    }
}
