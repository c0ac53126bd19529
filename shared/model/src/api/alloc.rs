//! Conversion of allocations from and to the form of API responses, and to the form of state dumps.

use std::sync::Arc;

use super::{public, require_equal};
use crate::alloc::{
    AllocCommon, AllocExtra, AllocState, AllocatedResources, Allocation, ClientStatus, DesiredStatus,
    DesiredTransition, Health, NetworkStatus, PackedAssigned, PackedTaskStates, ReportNumber,
    RescheduleEvent, RescheduleOutcome, RescheduleTracker, split_alloc_name,
};
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, text_members, write_unless_zero};
use crate::{JobVersionKey, Text, TraceContext};

text_members!(ClientStatus, DesiredStatus, RescheduleOutcome);
public!(
    DesiredTransition = DesiredTransition,
    Health = AllocDeploymentStatus,
    NetworkStatus = AllocNetworkStatus,
    RescheduleTracker = RescheduleTracker,
);

impl Allocation {
    /// Converts an allocation of the API that runs the job version `job`. The caller passes the version, because the API
    /// contains it only as part of the embedded job.
    ///
    /// Legacy copies of the resources are ignored. Task events are refused, because their form in the API lacks
    /// information that the domain needs.
    pub fn from_api(api: api_types::Allocation, job: JobVersionKey) -> Result<Self, Invalid> {
        require_equal(api.namespace.as_deref(), &*job.job.namespace).at("Namespace")?;
        require_equal(api.job_id.as_deref(), &*job.job.id).at("JobID")?;
        require_equal(api.job_version.as_ref(), &job.version).at("JobVersion")?;
        require_equal(api.job_create_index.as_ref(), &job.create_index.0).at("JobCreateIndex")?;

        let name = api.name.unwrap_or_default();
        let (stem, name_index) = split_alloc_name(&name);
        let resources = api.allocated_resources.ok_or_else(|| Invalid::new("is missing"));
        let resources = resources.and_then(AllocatedResources::from_api).at("AllocatedResources")?;
        let (resources, assigned) = resources.split();
        let common = AllocCommon {
            job,
            task_group: Member::read(api.task_group).at("TaskGroup")?,
            name_stem: Text::from(stem),
            eval_id: Member::read(api.eval_id).at("EvalID")?,
            deployment_id: Member::read(api.deployment_id).at("DeploymentID")?,
            resources,
            metrics: Member::read(api.metrics).at("Metrics")?,
            trace: None,
        };
        let reschedule: Option<_> = Member::read(api.reschedule_tracker).at("RescheduleTracker")?;
        let network: Option<_> = Member::read(api.network_status).at("NetworkStatus")?;
        let extra = AllocExtra {
            previous: Member::read(api.previous_allocation).at("PreviousAllocation")?,
            next: Member::read(api.next_allocation).at("NextAllocation")?,
            followup_eval: Member::read(api.followup_eval_id).at("FollowupEvalID")?,
            preempted_by: Member::read(api.preempted_by_allocation).at("PreemptedByAllocation")?,
            preempted: Member::read(api.preempted_allocations).at("PreemptedAllocations")?,
            states: Member::read(api.alloc_states).at("AllocStates")?,
            reschedule: reschedule.map(Arc::new),
            network: network.map(Arc::new),
        };
        Ok(Self {
            id: Member::read(api.id).at("ID")?,
            common: Arc::new(common),
            name_index,
            node_id: Member::read(api.node_id).at("NodeID")?,
            node_name: Member::read(api.node_name).at("NodeName")?,
            assigned: PackedAssigned::pack(&assigned),
            desired_status: Member::read(api.desired_status).at("DesiredStatus")?,
            desired_description: Member::read(api.desired_description).at("DesiredDescription")?,
            desired_transition: Member::read(api.desired_transition).at("DesiredTransition")?,
            client_status: Member::read(api.client_status).at("ClientStatus")?,
            client_description: Member::read(api.client_description).at("ClientDescription")?,
            task_states: PackedTaskStates::from_api(api.task_states).at("TaskStates")?,
            health: Member::read(api.deployment_status).at("DeploymentStatus")?,
            extra,
            report: ReportNumber::default(),
            create_index: Member::read(api.create_index).at("CreateIndex")?,
            modify_index: Member::read(api.modify_index).at("ModifyIndex")?,
            alloc_modify_index: Member::read(api.alloc_modify_index).at("AllocModifyIndex")?,
            create_time: Member::read(api.create_time).at("CreateTime")?,
            modify_time: Member::read(api.modify_time).at("ModifyTime")?,
        })
    }

    /// Converts to an allocation of the API, as a request for a single allocation returns it, without the embedded job.
    pub fn to_api(&self) -> api_types::Allocation {
        let resources = self.resources();
        api_types::Allocation {
            resources: Some(Box::new(resources.legacy_sum())),
            shared_resources: Some(Box::new(resources.legacy_shared())),
            task_resources: Some(resources.legacy_tasks()),
            ..self.to_api_without_job(&resources)
        }
    }

    /// Converts to the form of a state dump, which names the job by version and create index and has no legacy copies.
    pub fn to_dump(&self) -> api_types::Allocation {
        api_types::Allocation {
            job_version: Some(self.common.job.version),
            job_create_index: Some(self.common.job.create_index.0),
            ..self.to_api_without_job(&self.resources())
        }
    }

    fn to_api_without_job(&self, resources: &AllocatedResources) -> api_types::Allocation {
        let Self { common, extra, .. } = self;
        let job = &common.job.job;
        api_types::Allocation {
            id: self.id.write(),
            namespace: write_unless_zero(&job.namespace),
            eval_id: common.eval_id.write(),
            name: write_unless_zero(&self.name()),
            node_id: self.node_id.write(),
            node_name: write_unless_zero(&self.node_name),
            job_id: write_unless_zero(&job.id),
            task_group: write_unless_zero(&common.task_group),
            allocated_resources: Some(resources.to_api()),
            metrics: common.metrics.write(),
            desired_status: self.desired_status.write(),
            desired_description: write_unless_zero(&self.desired_description),
            desired_transition: write_unless_zero(&self.desired_transition),
            client_status: self.client_status.write(),
            client_description: write_unless_zero(&self.client_description),
            task_states: self.task_states.to_api(),
            alloc_states: extra.states.write(),
            previous_allocation: write_unless_zero(&extra.previous),
            next_allocation: write_unless_zero(&extra.next),
            deployment_id: write_unless_zero(&common.deployment_id),
            deployment_status: self.health.write(),
            reschedule_tracker: extra.reschedule.as_deref().map(Mirror::to_api),
            network_status: extra.network.as_deref().map(Mirror::to_api),
            followup_eval_id: write_unless_zero(&extra.followup_eval),
            preempted_allocations: extra.preempted.write(),
            preempted_by_allocation: write_unless_zero(&extra.preempted_by),
            create_index: write_unless_zero(&self.create_index),
            modify_index: write_unless_zero(&self.modify_index),
            alloc_modify_index: write_unless_zero(&self.alloc_modify_index),
            create_time: write_unless_zero(&self.create_time),
            modify_time: write_unless_zero(&self.modify_time),
            trace_id: common.trace.map(TraceContext::trace_id_text),
            ..Default::default()
        }
    }
}

mirror! {
    DesiredTransition = DesiredTransition {
        migrate: "Migrate",
        reschedule: "Reschedule",
        force_reschedule: "ForceReschedule",
        no_shutdown_delay: "NoShutdownDelay",
        migrate_disable_placement: "MigrateDisablePlacement",
    }
}

mirror! {
    Health = AllocDeploymentStatus {
        healthy: "Healthy",
        timestamp: "Timestamp",
        canary: "Canary",
        modify_index: "ModifyIndex",
    }
}

/// The number of the client status, the only field whose changes are recorded.
const FIELD_CLIENT_STATUS: i64 = 0;

impl Mirror for AllocState {
    type Api = api_types::AllocState;

    fn from_api(api: Self::Api) -> Result<Self, Invalid> {
        require_equal(api.field.as_ref(), &FIELD_CLIENT_STATUS).at("Field")?;
        Ok(Self { client_status: Member::read(api.value).at("Value")?, time: api.time.into() })
    }

    fn to_api(&self) -> Self::Api {
        Self::Api {
            field: Some(FIELD_CLIENT_STATUS),
            value: self.client_status.write(),
            time: self.time.into(),
        }
    }
}

mirror! {
    RescheduleTracker = RescheduleTracker { events: "Events" }
    renamed { last = last_reschedule: "LastReschedule" }
}

mirror! {
    RescheduleEvent = RescheduleEvent { delay: "Delay" }
    renamed {
        time = reschedule_time: "RescheduleTime",
        previous = prev_alloc_id: "PrevAllocID",
        previous_node = prev_node_id: "PrevNodeID",
    }
}

mirror! {
    NetworkStatus = AllocNetworkStatus {
        address: "Address",
        address_ipv6: "AddressIPv6",
        dns: "DNS",
    }
    renamed { interface = interface_name: "InterfaceName" }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Index, JobKey};

    const ID: &str = "a1100001-0000-4000-8000-000000000001";

    fn job() -> JobVersionKey {
        JobVersionKey { job: JobKey::new("default", "web"), create_index: Index(7), version: 2 }
    }

    /// An allocation with two tasks, and with `members` on top.
    fn read(members: Value) -> Result<Allocation, Invalid> {
        let mut alloc = json!({
            "ID": ID, "EvalID": ID, "NodeID": ID, "Name": "web.app[3]",
            "Namespace": "default", "JobID": "web", "TaskGroup": "app",
            "DesiredStatus": "run", "ClientStatus": "pending",
            "AllocatedResources": {
                "Tasks": {
                    "log": { "Cpu": { "CpuShares": 50 }, "Memory": { "MemoryMB": 64, "MemoryMaxMB": 128 } },
                    "app": { "Cpu": { "CpuShares": 500, "ReservedCores": [2] }, "Memory": { "MemoryMB": 256 } },
                },
                "Shared": { "DiskMB": 300, "Networks": [{ "Mode": "host", "IP": "10.0.0.2" }] },
            },
        });
        for (name, value) in members.as_object().expect("the members of a test case are a JSON object") {
            alloc[name] = value.clone();
        }
        Allocation::from_api(serde_json::from_value(alloc).unwrap(), job())
    }

    fn refusal(members: Value) -> String {
        read(members).unwrap_err().to_string()
    }

    #[test]
    fn invalid_values_are_refused_with_their_path() {
        assert_eq!(refusal(json!({ "NodeID": "n1" })), r#"NodeID: node id "n1": UUID must be 36 characters"#);
        assert_eq!(
            refusal(json!({ "PreemptedAllocations": [ID, "x"] })),
            r#"PreemptedAllocations[1]: allocation id "x": UUID must be 36 characters"#
        );
        assert_eq!(
            refusal(json!({ "DesiredStatus": "walk" })),
            r#"DesiredStatus: invalid desired status "walk": expected one of run, stop, evict"#
        );
        assert_eq!(refusal(json!({ "AllocatedResources": null })), "AllocatedResources: is missing");
        assert_eq!(
            refusal(
                json!({ "AllocatedResources": { "Tasks": { "app": { "Memory": { "MemoryMB": -1 } } } } })
            ),
            "AllocatedResources.Tasks[app].Memory.MemoryMB: -1 is negative"
        );
        assert_eq!(
            refusal(
                json!({ "AllocatedResources": { "TaskLifecycles": { "gone": { "Hook": "prestart" } } } })
            ),
            "AllocatedResources.TaskLifecycles[gone]: there is no such task"
        );
        assert_eq!(refusal(json!({ "AllocStates": [{ "Field": 1 }] })), "AllocStates[0].Field: 1 is not 0");
    }

    #[test]
    fn events_are_refused() {
        assert_eq!(
            refusal(
                json!({ "TaskStates": { "app": { "State": "running", "Events": [{ "Type": "Started" }] } } })
            ),
            "TaskStates[app].Events: task events are not read from the API"
        );
        assert!(read(json!({ "TaskStates": { "app": { "State": "running", "Events": [] } } })).is_ok());
    }

    #[test]
    fn the_job_must_be_its_own() {
        assert_eq!(refusal(json!({ "JobID": "db" })), "JobID: db is not web");
        assert_eq!(refusal(json!({ "JobVersion": 1 })), "JobVersion: 1 is not 2");
        assert!(read(json!({ "JobVersion": 2, "JobCreateIndex": 7 })).is_ok());
    }

    #[test]
    fn tasks_are_sorted_by_name() {
        let alloc = read(json!({})).unwrap();
        let names: Vec<_> = alloc.common.resources.tasks.iter().map(|task| &*task.name).collect();
        assert_eq!(names, ["app", "log"]);
    }

    #[test]
    fn a_read_has_the_legacy_copies_and_leaves_out_zeros() {
        let shown = read(json!({})).unwrap().to_api();
        let sum = shown.resources.unwrap();
        assert_eq!((sum.cpu, sum.cores), (Some(550), Some(1)));
        assert_eq!((sum.memory_mb, sum.memory_max_mb), (Some(320), Some(384)));
        assert_eq!((sum.disk_mb, sum.networks.map(|networks| networks.len())), (Some(300), Some(1)));
        let shared = shown.shared_resources.unwrap();
        assert_eq!((shared.cpu, shared.disk_mb), (Some(0), Some(300)));
        let tasks = shown.task_resources.unwrap();
        assert_eq!(
            (tasks["app"].cpu, tasks["log"].memory_max_mb, tasks["log"].disk_mb),
            (Some(500), Some(128), Some(0))
        );

        assert!(shown.job.is_none() && shown.job_version.is_none() && shown.job_create_index.is_none());
        assert!(shown.desired_description.is_none() && shown.desired_transition.is_none());
        assert!(shown.deployment_id.is_none() && shown.task_states.is_none() && shown.create_index.is_none());
    }

    #[test]
    fn a_dump_names_the_version_and_has_no_legacy_copies() {
        let dumped = read(json!({})).unwrap().to_dump();
        assert_eq!((dumped.job_version, dumped.job_create_index), (Some(2), Some(7)));
        assert!(
            dumped.resources.is_none()
                && dumped.shared_resources.is_none()
                && dumped.task_resources.is_none()
        );
    }
}
