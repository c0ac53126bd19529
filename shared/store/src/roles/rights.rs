//! The table of rights: for every relation and function of the schema, which roles may do what with it.
//!
//! The owner, [`Role::PlanApplier`], has all rights on all of them. A migration that adds a relation or a column has to add
//! it here, unless a kind of small object declares it; a test compares this table with a migrated database.

use model::SmallObject;
use state::Table;

use super::Role;

/// A relation of the schema.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relation {
    pub(super) name: &'static str,
    services: Services,
    people: People,
}

/// The services that read a relation, besides the owner. None of them writes any.
#[derive(Debug, Clone, Copy)]
enum Services {
    /// Every service.
    All,
    /// Services whose replica keeps that table of the state.
    Scope(Table),
    /// No service.
    Nobody,
}

/// What people may read of a relation.
#[derive(Debug, Clone, Copy)]
enum People {
    /// All of it.
    All,
    /// The columns in `shown`. The others are in `hidden`: objects in MessagePack, which may contain secrets and which psql
    /// cannot show anyway, and the text of job files.
    Columns { shown: &'static [&'static str], hidden: &'static [&'static str] },
    /// None of it.
    Nothing,
}

/// What a role may do with a relation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Nothing,
    /// `select` on these columns.
    Columns(&'static [&'static str]),
    /// `select`.
    Read,
    /// Everything: the role owns the relation.
    Own,
}

impl Relation {
    pub(super) fn access(&self, role: Role) -> Access {
        let is_read = match (role, self.services) {
            (Role::PlanApplier, _) => return Access::Own,
            (Role::Reader, _) => {
                return match self.people {
                    People::All => Access::Read,
                    People::Columns { shown, .. } => Access::Columns(shown),
                    People::Nothing => Access::Nothing,
                };
            }
            (_, Services::All) => true,
            (_, Services::Scope(table)) => role.scope().has(table),
            (_, Services::Nobody) => false,
        };
        if is_read { Access::Read } else { Access::Nothing }
    }

    /// The columns that people may not read, in a relation of which they may read others.
    pub(super) fn hidden(&self) -> &'static [&'static str] {
        match self.people {
            People::Columns { hidden, .. } => hidden,
            People::All | People::Nothing => &[],
        }
    }
}

/// The entry of a relation. Partitions of the log have none: roles with access to the log read them through the parent
/// table.
pub(super) fn relation(name: &str) -> Option<&'static Relation> {
    relations().find(|relation| relation.name == name)
}

/// Whether a relation is a partition of the log.
pub(super) fn is_log_partition(name: &str) -> bool {
    name.strip_prefix("changes_")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// What a role may do with a relation, by its name. No role but the owner has rights on a relation that this program does
/// not know.
pub(super) fn access(name: &str, role: Role) -> Access {
    match relation(name) {
        Some(relation) => relation.access(role),
        None if role == Role::PlanApplier => Access::Own,
        None => Access::Nothing,
    }
}

/// A function with its argument types, as PostgreSQL spells it, and the roles that may call it.
pub(super) struct Function {
    pub(super) signature: &'static str,
    pub(super) callers: &'static [Role],
}

/// The functions of the schema. No other roles may call them.
pub(super) const FUNCTIONS: &[Function] =
    &[Function { signature: "moment(bigint)", callers: &[Role::PlanApplier, Role::Reader] }];

/// Functions of PostgreSQL itself that the services call. By default all roles may call them; an administrator can revoke
/// that.
pub(super) const SYSTEM_FUNCTIONS: &[Function] = &[Function {
    signature: "pg_catalog.pg_control_system()",
    callers: &[
        Role::PlanApplier,
        Role::Api,
        Role::EvalBroker,
        Role::Scheduler,
        Role::NodeTracker,
        Role::DeploymentWatcher,
    ],
}];

/// Functions of PostgreSQL that create large objects, which do not belong to any table. By default all roles may call them.
pub(super) const LARGE_OBJECT_FUNCTIONS: &[&str] =
    &["pg_catalog.lo_creat(integer)", "pg_catalog.lo_create(oid)", "pg_catalog.lo_from_bytea(oid, bytea)"];

/// The relations of the schema, except the partitions of the log and the tables of small objects.
const RELATIONS: &[Relation] = &[
    // The log contains everything that was ever registered, including secrets in the environment of tasks. Services read
    // it, because their replicas follow it. People may not.
    Relation { name: "changes", services: Services::All, people: People::Nothing },
    Relation { name: "head", services: Services::All, people: People::All },
    Relation { name: "projection", services: Services::All, people: People::All },
    Relation { name: "_sqlx_migrations", services: Services::All, people: People::All },
    Relation { name: "migration_lock", services: Services::Nobody, people: People::Nothing },
    // The private keys that the cluster signs with. Only the plan applier writes them, and no service reads them from here.
    Relation { name: "root_key_secrets", services: Services::Nobody, people: People::Nothing },
    Relation {
        name: "jobs",
        services: Services::Scope(Table::Jobs),
        people: People::Columns {
            shown: &[
                "namespace",
                "job_id",
                "create_index",
                "version",
                "name",
                "type",
                "priority",
                "status",
                "status_description",
                "stopped",
                "stable",
                "parent_id",
                "node_pool",
                "version_tag",
                "modify_index",
                "job_modify_index",
                "submit_time",
            ],
            hidden: &["body"],
        },
    },
    Relation { name: "plan_indexes", services: Services::Scope(Table::Jobs), people: People::All },
    Relation {
        name: "job_submissions",
        services: Services::Scope(Table::JobSubmissions),
        people: People::Columns {
            shown: &["namespace", "job_id", "create_index", "version", "format", "job_modify_index"],
            hidden: &["source", "body"],
        },
    },
    Relation {
        name: "job_summaries",
        services: Services::Scope(Table::JobSummaries),
        people: People::Columns {
            shown: &[
                "namespace",
                "job_id",
                "queued",
                "starting",
                "running",
                "complete",
                "failed",
                "lost",
                "unknown",
                "create_index",
                "modify_index",
            ],
            hidden: &["body"],
        },
    },
    Relation {
        name: "evals",
        services: Services::Scope(Table::Evals),
        people: People::Columns {
            shown: &[
                "id",
                "namespace",
                "job_id",
                "type",
                "priority",
                "triggered_by",
                "status",
                "status_description",
                "node_id",
                "deployment_id",
                "wait_until",
                "create_index",
                "modify_index",
                "create_time",
                "modify_time",
                "trace_id",
            ],
            hidden: &["body"],
        },
    },
    Relation {
        name: "deployments",
        services: Services::Scope(Table::Deployments),
        people: People::Columns {
            shown: &[
                "id",
                "namespace",
                "job_id",
                "job_create_index",
                "job_version",
                "status",
                "status_description",
                "create_index",
                "modify_index",
                "create_time",
                "modify_time",
                "trace_id",
            ],
            hidden: &["body"],
        },
    },
    Relation {
        name: "allocs",
        services: Services::Scope(Table::Allocs),
        people: People::Columns {
            shown: &[
                "id",
                "namespace",
                "job_id",
                "job_version",
                "task_group",
                "name",
                "eval_id",
                "deployment_id",
                "node_id",
                "node_name",
                "desired_status",
                "client_status",
                "create_index",
                "modify_index",
                "create_time",
                "modify_time",
                "share_id",
            ],
            hidden: &["body"],
        },
    },
    Relation {
        name: "alloc_shares",
        services: Services::Scope(Table::Allocs),
        people: People::Columns {
            shown: &[
                "id",
                "namespace",
                "job_id",
                "job_create_index",
                "job_version",
                "task_group",
                "eval_id",
                "deployment_id",
                "allocs",
                "trace_id",
            ],
            hidden: &["body"],
        },
    },
    Relation {
        name: "nodes",
        services: Services::Scope(Table::Nodes),
        people: People::Columns {
            shown: &[
                "id",
                "name",
                "datacenter",
                "node_pool",
                "node_class",
                "computed_class",
                "status",
                "status_description",
                "scheduling_eligibility",
                "draining",
                "status_updated_at",
                "create_index",
                "modify_index",
            ],
            // `spec` contains the secret that the agent registered with.
            hidden: &["spec", "body"],
        },
    },
    Relation {
        name: "scheduler_config",
        services: Services::Scope(Table::SchedulerConfig),
        people: People::Columns {
            shown: &["one", "scheduler_algorithm", "create_index", "modify_index"],
            hidden: &["body"],
        },
    },
    Relation { name: "leases", services: Services::Scope(Table::Leases), people: People::All },
    Relation { name: "unblocked", services: Services::Scope(Table::Unblocked), people: People::All },
];

macro_rules! small_relations {
    ($( $one:ident, $all:ident: $small:ident { $put:ident, $deleted:ident } of $object:ty; )+) => {
        &[$(
            Relation {
                name: stringify!($all),
                services: Services::Scope(Table::$small),
                people: People::Columns {
                    shown: {
                        const COUNT: usize = shown_count::<$object>();
                        const SHOWN: [&str; COUNT] = shown::<$object, COUNT>();
                        &SHOWN
                    },
                    hidden: &["body"],
                },
            },
        )+]
    };
}

/// The tables of small objects. People may read what the kinds declare as columns.
const SMALL: &[Relation] = model::for_each_small_object!(small_relations);

/// Columns that all tables of small objects have, besides those that a kind declares and the hidden one.
const COMMON: [&str; 2] = ["create_index", "modify_index"];

const fn shown_count<T: SmallObject>() -> usize {
    T::KEY_COLUMNS.len() + T::COLUMNS.len() + COMMON.len()
}

/// The names of the columns that people may read. `N` is [`shown_count`].
const fn shown<T: SmallObject, const N: usize>() -> [&'static str; N] {
    let mut names = [""; N];
    let (key, own) = (T::KEY_COLUMNS, T::COLUMNS);
    let mut at = 0;
    while at < N {
        names[at] = if at < key.len() {
            key[at].name
        } else if at < key.len() + own.len() {
            own[at - key.len()].name
        } else {
            COMMON[at - key.len() - own.len()]
        };
        at += 1;
    }
    names
}

/// All relations of the schema except the partitions of the log.
pub(super) fn relations() -> impl Iterator<Item = &'static Relation> {
    RELATIONS.iter().chain(SMALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_has_more_than_reading() {
        for relation in relations() {
            for role in Role::ALL {
                assert_eq!(relation.access(role) == Access::Own, role == Role::PlanApplier);
            }
        }
    }

    #[test]
    fn secrets_are_the_owners_alone() {
        for name in ["root_key_secrets", "changes_7", "a_table_of_a_newer_program"] {
            let may = |role: &Role| access(name, *role) != Access::Nothing;
            assert_eq!(Role::ALL.into_iter().filter(may).collect::<Vec<_>>(), [Role::PlanApplier], "{name}");
        }
        assert_eq!(access("changes", Role::Reader), Access::Nothing);
    }

    #[test]
    fn partitions_of_the_log_are_told_from_other_tables() {
        assert!(is_log_partition("changes_0") && is_log_partition("changes_17"));
        assert!(!["changes", "changes_", "changes_by_index", "jobs"].into_iter().any(is_log_partition));
    }
}
