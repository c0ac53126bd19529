//! Task groups: what is placed together on one node, and how often.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    Affinity, Constraint, DisconnectStrategy, EphemeralDisk, MigrateStrategy, NetworkResource,
    ReschedulePolicy, RestartPolicy, Spread, Task, UpdateStrategy, VolumeRequest,
};
use crate::mirror::mirror;
use crate::{Nanos, Text};

/// Tasks that run together on one node, as many times as the count says.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskGroup {
    /// Its name, unique in the job.
    pub name: Text,
    /// How many allocations of it there shall be; for system jobs, on each node.
    pub count: u32,
    /// How allocations of an older version are replaced; `None` is all at once.
    pub update: Option<UpdateStrategy>,
    /// How allocations leave a draining node.
    pub migrate: Option<MigrateStrategy>,
    /// What a node must fulfil.
    pub constraints: Vec<Constraint>,
    /// What an autoscaler may do to the count.
    pub scaling: Option<Box<api_types::ScalingPolicy>>,
    /// How often failed tasks start again where they are.
    pub restart_policy: Option<RestartPolicy>,
    /// What happens while a node is out of reach.
    pub disconnect: Option<DisconnectStrategy>,
    /// The tasks.
    pub tasks: Vec<Task>,
    /// Disk space that the tasks share.
    pub ephemeral_disk: EphemeralDisk,
    /// The user's own pairs.
    pub meta: BTreeMap<Text, Text>,
    /// How often failed allocations are tried elsewhere; `None` is never.
    pub reschedule_policy: Option<ReschedulePolicy>,
    /// What makes a node more desirable, or less.
    pub affinities: Vec<Affinity>,
    /// What allocations are spread over, besides the job's.
    pub spreads: Vec<Spread>,
    /// The network that the tasks share; one at most.
    pub networks: Vec<NetworkResource>,
    /// Consul settings of its services and templates.
    pub consul: Option<api_types::Consul>,
    /// What is registered in service discovery for it.
    pub services: Vec<api_types::Service>,
    /// Volumes, by the name that its tasks know them by.
    pub volumes: BTreeMap<Text, VolumeRequest>,
    /// Time between leaving service discovery and being asked to end.
    pub shutdown_delay: Option<Nanos>,
    /// How long an allocation may run.
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
