//! The database's login roles: their names, what each may do, and the SQL that creates them in a database.
//!
//! [`rights`] is the single table of rights. It is the source of the script that an administrator runs once ([`script`]),
//! of the grants that the plan applier issues in the transaction of a migration ([`grants`]), and of the comparison of a
//! database with the table ([`check`]).

mod check;
mod grants;
mod passwords;
mod rights;
mod scram;
mod script;

use state::{Scope, Table};

pub use check::check;
pub(crate) use grants::apply;
pub use passwords::{PASSWORD_FILE, Passwords};
pub use script::{has_passwords, is_plain_name, script};

/// A login role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Owns the database and everything in it: migrates the schema and writes the state.
    PlanApplier,
    /// Reads what the HTTP API shows.
    Api,
    /// Reads what the evaluation broker needs.
    EvalBroker,
    /// Reads what schedulers need.
    Scheduler,
    /// Reads what the node-tracker needs.
    NodeTracker,
    /// Reads what the deployment watcher needs.
    DeploymentWatcher,
    /// For people: reads everything that is not secret.
    Reader,
}

impl Role {
    /// Every role; the owner first.
    pub const ALL: [Self; 7] = [
        Self::PlanApplier,
        Self::Api,
        Self::EvalBroker,
        Self::Scheduler,
        Self::NodeTracker,
        Self::DeploymentWatcher,
        Self::Reader,
    ];

    /// The name of the service that logs in with the role, as on the command line; `reader` for people.
    pub fn service(self) -> &'static str {
        match self {
            Self::PlanApplier => "plan-applier",
            Self::Api => "api",
            Self::EvalBroker => "eval-broker",
            Self::Scheduler => "scheduler",
            Self::NodeTracker => "node-tracker",
            Self::DeploymentWatcher => "deployment-watcher",
            Self::Reader => "reader",
        }
    }

    /// The role's name in PostgreSQL.
    pub fn name(self) -> &'static str {
        match self {
            Self::PlanApplier => "drover_plan_applier",
            Self::Api => "drover_api",
            Self::EvalBroker => "drover_eval_broker",
            Self::Scheduler => "drover_scheduler",
            Self::NodeTracker => "drover_node_tracker",
            Self::DeploymentWatcher => "drover_deployment_watcher",
            Self::Reader => "drover_reader",
        }
    }

    /// The role of a service, by the service's name on the command line.
    pub fn of_service(service: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.service() == service)
    }

    /// The tables of the state that the role reads: those that the service's replica keeps. Empty for people, whose rights
    /// are listed by column.
    pub fn scope(self) -> Scope {
        match self {
            Self::PlanApplier | Self::Api => Scope::ALL,
            Self::EvalBroker => Scope::of(&[
                Table::Jobs,
                Table::Evals,
                Table::Unblocked,
                Table::SchedulerConfig,
                Table::Leases,
            ]),
            Self::Scheduler => {
                Scope::ALL.without(&[Table::JobSummaries, Table::JobSubmissions, Table::Unblocked])
            }
            Self::NodeTracker => Scope::ALL.without(&[
                Table::JobSummaries,
                Table::JobSubmissions,
                Table::Evals,
                Table::Deployments,
                Table::Unblocked,
            ]),
            Self::DeploymentWatcher => Scope::of(&[
                Table::Jobs,
                Table::JobSummaries,
                Table::Evals,
                Table::Allocs,
                Table::Deployments,
                Table::Nodes,
                Table::Leases,
            ]),
            Self::Reader => Scope::of(&[]),
        }
    }

    /// The maximum number of connections of the role, over all processes that use it. A process keeps up to 4 open, a plan
    /// applier up to 14. Connections of a dead process remain until the server notices.
    pub(crate) fn connections_max(self) -> u16 {
        match self {
            Self::PlanApplier => 60,
            Self::Api => 50,
            Self::Scheduler => 100,
            Self::EvalBroker | Self::NodeTracker | Self::DeploymentWatcher => 15,
            Self::Reader => 10,
        }
    }

    /// The comment on the role in the database.
    pub(crate) fn comment(self) -> &'static str {
        match self {
            Self::PlanApplier => "Drover's plan applier: owns the database, migrates it and writes the state",
            Self::Api => "Drover's HTTP API: reads the state",
            Self::EvalBroker => "Drover's evaluation broker: reads evaluations and what they depend on",
            Self::Scheduler => "Drover's schedulers: read what plans are made from",
            Self::NodeTracker => "Drover's node-tracker: reads nodes and their allocations",
            Self::DeploymentWatcher => "Drover's deployment watcher: reads deployments and their allocations",
            Self::Reader => "People who look things up in Drover's database: reads what is no secret",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_found_by_its_service_and_named_after_it() {
        for role in Role::ALL {
            assert_eq!(Role::of_service(role.service()), Some(role));
            assert_eq!(role.name(), format!("drover_{}", role.service().replace('-', "_")));
        }
        assert_eq!(Role::of_service("agent"), None);
    }
}
