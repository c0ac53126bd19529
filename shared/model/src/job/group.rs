//! Task groups: tasks that are placed together on one node, and how many allocations of them should run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Affinity, Constraint, DisconnectStrategy, EphemeralDisk, MigrateStrategy, NetworkResource,
    ReschedulePolicy, RestartPolicy, Service, Spread, Task, UpdateStrategy, VolumeRequest,
};
use crate::mirror::mirror;
use crate::{Nanos, Text};

/// Tasks that always run together on one node.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Its name, unique in the job.
    pub name: Text,
    /// Number of allocations; for system jobs, per node.
    pub count: u32,
    /// How allocations of an older version are replaced; `None` replaces all at once.
    pub update: Option<UpdateStrategy>,
    /// How allocations are migrated from a draining node.
    pub migrate: Option<MigrateStrategy>,
    /// Constraints that a node must satisfy.
    pub constraints: Vec<Constraint>,
    /// Bounds and policy for an autoscaler.
    pub scaling: Option<Box<api_types::ScalingPolicy>>,
    /// When and how often failed tasks are restarted on the same node.
    pub restart_policy: Option<RestartPolicy>,
    /// What happens while the node is disconnected.
    pub disconnect: Option<DisconnectStrategy>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Disk space that the tasks share.
    pub ephemeral_disk: EphemeralDisk,
    /// Arbitrary key-value pairs set by the user.
    pub meta: BTreeMap<Text, Text>,
    /// When and how often failed allocations are rescheduled; `None` is never.
    pub reschedule_policy: Option<ReschedulePolicy>,
    /// Preferences for nodes.
    pub affinities: Vec<Affinity>,
    /// Attributes over which the allocations are spread, in addition to the job's.
    pub spreads: Vec<Spread>,
    /// The network that the tasks share; at most one.
    pub networks: Vec<NetworkResource>,
    /// Consul settings of its services and templates.
    pub consul: Option<api_types::Consul>,
    /// Services to register in service discovery.
    pub services: Vec<Service>,
    /// Volumes, by the name that its tasks use.
    pub volumes: BTreeMap<Text, VolumeRequest>,
    /// Time between deregistering the services and the kill signal.
    pub shutdown_delay: Option<Nanos>,
    /// Longest time that an allocation may run.
    pub max_run_duration: Option<Nanos>,
}

mirror! {
    TaskGroup = TaskGroup {
        name: "Name",
        count: "Count",
        update: "Update",
        migrate: "Migrate",
        constraints: "Constraints",
        scaling: "Scaling",
        restart_policy: "RestartPolicy",
        disconnect: "Disconnect",
        tasks: "Tasks",
        ephemeral_disk: "EphemeralDisk",
        meta: "Meta",
        reschedule_policy: "ReschedulePolicy",
        affinities: "Affinities",
        spreads: "Spreads",
        networks: "Networks",
        consul: "Consul",
        services: "Services",
        volumes: "Volumes",
        shutdown_delay: "ShutdownDelay",
        max_run_duration: "MaxRunDuration",
    }
    // Superseded by `Disconnect` and without effect (N-19.21).
    ignored {
        stop_after_client_disconnect = None,
        max_client_disconnect = None,
        prevent_reschedule_on_lost = Some(false),
    }
}
