//! Jobs: job versions and their specifications, with task groups, tasks and policies.
//!
//! [`Job`] is one registered version, [`JobSpec`] its specification. Both are converted structurally from the API: an
//! absent value is zero. [`canonicalise`](crate::canonicalise()) fills in the defaults before.
//!
//! **Unconverted parts.** The domain has types of its own only for the parts that a scheduler, the applier, a watcher or
//! an agent uses to decide. All other parts keep the types of `api_types`, unchanged: Consul with Connect, artifacts,
//! secrets, actions, schedules, CSI plugins and mount options, scaling policies, regions, dispatch payloads, DNS and CNI
//! arguments, NUMA preferences, the settings of the web interface, and the configuration of drivers. `canonicalise` sets
//! unset values in them to zero, so that equal settings compare as equal.
//!
//! Services with their checks, templates, identities and the access to Vault have types of their own, but messages and
//! rows contain them in the form of the API, which they had before.

mod artifacts;
mod children;
mod constraint;
mod driver_config;
mod drivers;
mod group;
mod groups;
mod identity;
mod network;
mod policy;
mod registration;
mod resources;
mod scaling;
mod service;
mod submission;
mod task;
mod template;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Bytes that JSON has as Base64 text.
pub use api_types::Base64;
pub use artifacts::unbuilt_protocol;
pub use children::{Dispatch, DispatchError, PAYLOAD_BYTES_MAX, dispatched_id, launched_id};
pub use constraint::{Affinity, Constraint, Operand, Spread, SpreadTarget};
pub use driver_config::{
    in_one_form as driver_config_in_one_form, keys_of_driver, mistakes as mistakes_in_driver_config,
};
pub use drivers::feature_of_driver;
pub use group::TaskGroup;
pub use groups::{TaskGroups, UnreadableGroups};
pub use identity::{Vault, WorkloadIdentity};
pub use network::{NetworkResource, Port};
pub use policy::{
    DelayFunction, DisconnectStrategy, HealthCheck, MigrateStrategy, Reconcile, ReschedulePolicy,
    RestartMode, RestartPolicy, UpdateStrategy,
};
pub use registration::{ForbiddenChange, Template};
pub use resources::{EphemeralDisk, RequestedDevice, Resources};
pub use scaling::{SCALING_EVENTS_MAX, ScalingEvent, ScalingEvents, ScalingMeta};
pub use service::{
    AddressMode, CheckKind, CheckRestart, CheckStatus, OnUpdate, Service, ServiceCheck, ServiceProvider,
    ServiceWeights,
};
pub use submission::{JobSource, JobSubmission};
pub use task::{DispatchPayload, Lifecycle, LifecycleHook, LogConfig, Task};
pub use template::{ChangeMode, ChangeScript, TaskTemplate, TemplateWait};
pub use volume::{AccessMode, AttachmentMode, PropagationMode, VolumeKind, VolumeMount, VolumeRequest};

use crate::cluster::NodePool;
use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, passthrough, text_members};
use crate::text::{matches_pattern, string_enum};
use crate::{Index, JobKey, JobVersionKey, Text, Timestamp};

passthrough!(
    api_types::Consul,
    api_types::TaskArtifact,
    api_types::Secret,
    api_types::Action,
    Box<api_types::TaskSchedule>,
    Box<api_types::TaskCsiPluginConfig>,
    api_types::ScalingPolicy,
    Box<api_types::ScalingPolicy>,
    Box<api_types::Multiregion>,
    api_types::JobUiConfig,
    api_types::Base64,
);

string_enum! {
    /// Type of a job, which selects the scheduler.
    #[derive(Default)]
    JobType, "job type" {
        /// Runs indefinitely; allocations that fail or end are replaced.
        #[default]
        Service => "service",
        /// Runs until its tasks end.
        Batch => "batch",
        /// Runs indefinitely on every feasible node.
        System => "system",
        /// Runs on every feasible node until its tasks end.
        SysBatch => "sysbatch",
    }
}

string_enum! {
    /// Status of a job, derived from its allocations and evaluations.
    #[derive(Default)]
    JobStatus, "job status" {
        /// No allocation runs yet.
        #[default]
        Pending => "pending",
        /// An allocation runs, or the job waits for its next launch.
        Running => "running",
        /// No allocation runs, and none will.
        Dead => "dead",
    }
}

string_enum! {
    /// Whether a dispatch must or may contain a payload.
    PayloadRule, "payload rule" {
        /// A payload is optional.
        Optional => "optional",
        /// A payload is required.
        Required => "required",
        /// A payload is forbidden.
        Forbidden => "forbidden",
    }
}

text_members!(JobType, JobStatus, PayloadRule);

/// One registered version of a job.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The specification that a user submitted.
    pub spec: Arc<JobSpec>,
    /// Number of the version. It starts at 0 and rises with each registration that changes the specification.
    pub version: u64,
    /// Status, derived from its allocations and evaluations.
    pub status: JobStatus,
    /// Human-readable reason for the status.
    pub status_description: Text,
    /// Whether this version was rolled out successfully, so that a failed deployment may revert to it.
    pub stable: bool,
    /// When this version was registered.
    pub submit_time: Timestamp,
    /// The index at which this incarnation was first registered.
    pub create_index: Index,
    /// Index of the change set that last changed it.
    pub modify_index: Index,
    /// The index at which its specification last changed.
    pub job_modify_index: Index,
    /// Name that a user has given to this version. A tagged version is not garbage-collected.
    pub version_tag: Option<JobVersionTag>,
}

impl Job {
    /// Key of the job that this is a version of.
    pub fn key(&self) -> JobKey {
        self.spec.key()
    }

    /// Key of this version, unique among all versions of all incarnations.
    pub fn version_key(&self) -> JobVersionKey {
        JobVersionKey { job: self.key(), create_index: self.create_index, version: self.version }
    }

    /// Converts a job of the API. If the status is absent, it becomes pending, the status of a new job.
    pub fn from_api(mut api: api_types::Job) -> Result<Self, Invalid> {
        let status = api.status.take().filter(|status| !status.is_empty());
        Ok(Self {
            version: api.version.take().unwrap_or(0),
            status: status.map_or(Ok(JobStatus::default()), |status| status.parse()).at("Status")?,
            status_description: Text::from(api.status_description.take().unwrap_or_default()),
            stable: api.stable.take().unwrap_or(false),
            submit_time: Timestamp(api.submit_time.take().unwrap_or(0)),
            create_index: Index(api.create_index.take().unwrap_or(0)),
            modify_index: Index(api.modify_index.take().unwrap_or(0)),
            job_modify_index: Index(api.job_modify_index.take().unwrap_or(0)),
            version_tag: Member::read(api.version_tag.take()).at("VersionTag")?,
            spec: Arc::new(JobSpec::from_api(api)?),
        })
    }

    /// Converts to the job of API responses.
    pub fn to_api(&self) -> api_types::Job {
        let mut spec = self.spec.to_api();
        self.identify_scaling_policies(&mut spec);
        if let Some(periodic) = &mut spec.periodic {
            // The only list that responses contain even if it is empty.
            periodic.specs.get_or_insert_default();
        }
        api_types::Job {
            version: Some(self.version),
            status: Some(self.status.to_string()),
            status_description: self.status_description.write(),
            stable: Some(self.stable),
            submit_time: Some(self.submit_time.0),
            create_index: Some(self.create_index.0),
            modify_index: Some(self.modify_index.0),
            job_modify_index: Some(self.job_modify_index.0),
            version_tag: self.version_tag.write(),
            ..spec
        }
    }
}

/// The specification of a job version, as a user submitted it. It is immutable and shared by all references to the
/// version.
///
/// Two specifications are equal exactly if a registration does not create a new version (N-20.6). The fields that the rule
/// ignores are in [`Job`].
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Whether it was stopped, so that no allocation of it should run.
    pub stop: bool,
    /// Its region.
    pub region: Text,
    /// Its namespace.
    pub namespace: Text,
    /// Its id, unique in the namespace.
    pub id: Text,
    /// Id of the periodic or parameterized job that launched it; empty if there is none.
    pub parent_id: Text,
    /// Display name.
    pub name: Text,
    /// Type of the job, which selects the scheduler.
    pub kind: JobType,
    /// Priority from 1 to 100, or to the limit of the servers (N-19.3).
    pub priority: u16,
    /// Whether its placements are committed only as a whole.
    pub all_at_once: bool,
    /// Datacenters that it may run in; patterns such as `dc*` are allowed.
    pub datacenters: Vec<Text>,
    /// Its node pool.
    pub node_pool: Text,
    /// Constraints that a node must satisfy.
    pub constraints: Vec<Constraint>,
    /// Preferences for nodes.
    pub affinities: Vec<Affinity>,
    /// Attributes over which allocations are spread.
    pub spreads: Vec<Spread>,
    /// Its task groups.
    pub task_groups: TaskGroups,
    /// Stagger and batch size of the job. The update strategy of each group contains all settings.
    pub update: UpdateStrategy,
    /// The regions that it was registered for.
    pub multiregion: Option<Box<api_types::Multiregion>>,
    /// When to launch instances, if it is a periodic job.
    pub periodic: Option<PeriodicConfig>,
    /// Input of dispatches, if it is a parameterized job.
    pub parameterized_job: Option<ParameterizedJobConfig>,
    /// Whether it was created by a dispatch.
    pub dispatched: bool,
    /// Token by which a repeated dispatch is recognized.
    pub dispatch_idempotency_token: Text,
    /// Payload of the dispatch.
    pub payload: Option<api_types::Base64>,
    /// Arbitrary key-value pairs set by the user.
    pub meta: BTreeMap<Text, Text>,
    /// Consul namespace of older job files.
    pub consul_namespace: Text,
    /// Vault namespace of older job files.
    pub vault_namespace: Text,
    /// Accessor id of the token that it was registered with.
    pub nomad_token_id: Text,
    /// Description and links that the web interface shows with it.
    pub ui: Option<api_types::JobUiConfig>,
}

mirror! {
    JobSpec = Job {
        stop: "Stop",
        region: "Region",
        namespace: "Namespace",
        id: "ID",
        parent_id: "ParentID",
        name: "Name",
        priority: "Priority",
        all_at_once: "AllAtOnce",
        datacenters: "Datacenters",
        node_pool: "NodePool",
        constraints: "Constraints",
        affinities: "Affinities",
        spreads: "Spreads",
        task_groups: "TaskGroups",
        update: "Update",
        multiregion: "Multiregion",
        periodic: "Periodic",
        parameterized_job: "ParameterizedJob",
        dispatched: "Dispatched",
        dispatch_idempotency_token: "DispatchIdempotencyToken",
        payload: "Payload",
        meta: "Meta",
        consul_namespace: "ConsulNamespace",
        vault_namespace: "VaultNamespace",
        nomad_token_id: "NomadTokenID",
        ui: "UI",
    }
    renamed { kind = r#type: "Type" }
    // Members that belong to `Job`, and members that `canonicalise` merges into the groups.
    ignored {
        status = None,
        status_description = None,
        stable = None,
        version = None,
        submit_time = None,
        create_index = None,
        modify_index = None,
        job_modify_index = None,
        version_tag = None,
        reschedule = None,
        migrate = None,
    }
}

impl JobSpec {
    /// Whether the job also runs in other regions, for which its deployments wait (N-16.2).
    pub fn has_other_regions(&self) -> bool {
        let regions = self.multiregion.as_ref().and_then(|multiregion| multiregion.regions.as_ref());
        regions.is_some_and(|regions| regions.len() > 1)
    }

    /// Key of the job.
    pub fn key(&self) -> JobKey {
        JobKey { namespace: Text::clone(&self.namespace), id: Text::clone(&self.id) }
    }

    /// Whether the job may use nodes of this datacenter and node pool, regardless of their status (R-5.1, R-5.2).
    pub fn has_nodes_of(&self, datacenter: &str, node_pool: &str) -> bool {
        let is_in_pool = matches!(&*self.node_pool, "" | NodePool::ALL) || *self.node_pool == *node_pool;
        is_in_pool && self.datacenters.iter().any(|pattern| matches_pattern(pattern, datacenter))
    }

    /// The group with this name, and its group index.
    pub fn group(&self, name: &str) -> Option<(usize, &TaskGroup)> {
        self.task_groups.iter().enumerate().find(|(_, group)| *group.name == *name)
    }
}

/// A name that a user has given to a job version.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobVersionTag {
    /// The name, unique among the job's versions.
    pub name: Text,
    /// Human-readable description.
    pub description: Text,
    /// When the version was tagged.
    pub tagged_time: Timestamp,
}

mirror! {
    JobVersionTag = JobVersionTag { name: "Name", description: "Description", tagged_time: "TaggedTime" }
}

/// When a periodic job is launched.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodicConfig {
    /// Whether launches are enabled.
    pub enabled: bool,
    /// A single cron expression; used by older job files.
    pub spec: Text,
    /// Cron expressions. Each of them launches instances.
    pub specs: Vec<Text>,
    /// Format of the expressions: `cron`.
    pub spec_type: Text,
    /// Whether a launch is skipped while an earlier instance still runs.
    pub prohibit_overlap: bool,
    /// IANA time zone of the expressions.
    pub time_zone: Text,
}

mirror! {
    PeriodicConfig = PeriodicConfig {
        enabled: "Enabled",
        spec: "Spec",
        specs: "Specs",
        spec_type: "SpecType",
        prohibit_overlap: "ProhibitOverlap",
        time_zone: "TimeZone",
    }
}

/// Which input a dispatch of a parameterized job must or may contain.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterizedJobConfig {
    /// Whether it must or may contain a payload. `None` if unset, which means optional.
    pub payload: Option<PayloadRule>,
    /// Meta keys that it must set.
    pub meta_required: Vec<Text>,
    /// Meta keys that it may set.
    pub meta_optional: Vec<Text>,
    /// How many of the jobs that dispatches make run at once; further ones are held back in their order. `None` and 0 are no
    /// limit.
    pub max_children_running: Option<u32>,
}

mirror! {
    ParameterizedJobConfig = ParameterizedJobConfig {
        payload: "Payload",
        meta_required: "MetaRequired",
        meta_optional: "MetaOptional",
        max_children_running: "MaxChildrenRunning",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(group: api_types::TaskGroup) -> Result<Job, Invalid> {
        let kind = Some("service".to_owned());
        Job::from_api(api_types::Job {
            r#type: kind,
            task_groups: Some(vec![group]),
            ..api_types::Job::default()
        })
    }

    fn refusal(group: api_types::TaskGroup) -> String {
        read(group).unwrap_err().to_string()
    }

    fn checked_by(word: &str) -> api_types::TaskGroup {
        let update = api_types::UpdateStrategy {
            health_check: Some(word.to_owned()),
            ..api_types::UpdateStrategy::default()
        };
        api_types::TaskGroup { update: Some(update), ..api_types::TaskGroup::default() }
    }

    #[test]
    fn a_number_that_does_not_fit_is_refused_where_it_stands() {
        let counted = |count| api_types::TaskGroup { count: Some(count), ..api_types::TaskGroup::default() };
        assert_eq!(refusal(counted(-1)), "TaskGroups[0].Count: -1 is negative");
        assert_eq!(refusal(counted(1 << 32)), "TaskGroups[0].Count: 4294967296 is too large");
    }

    #[test]
    fn an_unknown_word_is_refused_with_the_right_ones() {
        assert_eq!(
            refusal(checked_by("x")),
            r#"TaskGroups[0].Update.HealthCheck: invalid health check "x": expected one of checks, task_states, manual"#
        );
        assert_eq!(
            Job::from_api(api_types::Job::default()).unwrap_err().to_string(),
            r#"Type: invalid job type "": expected one of service, batch, system, sysbatch"#
        );
    }

    #[test]
    fn an_empty_word_stays_empty() {
        let job = read(checked_by("")).unwrap();
        let update = job.spec.task_groups[0].update.as_ref().unwrap();
        assert_eq!(update.health_check, None);
        assert_eq!(update.to_api().health_check.as_deref(), Some(""));
    }

    #[test]
    fn a_spelled_out_zero_is_no_change_of_the_specification() {
        let spelled = api_types::TaskGroup {
            count: Some(0),
            ephemeral_disk: Some(api_types::EphemeralDisk::default()),
            meta: Some(BTreeMap::new()),
            ..api_types::TaskGroup::default()
        };
        assert_eq!(read(spelled).unwrap().spec, read(api_types::TaskGroup::default()).unwrap().spec);
    }

    #[test]
    fn status_and_stability_are_no_part_of_the_specification() {
        let job = read(api_types::TaskGroup::default()).unwrap();
        let api = api_types::Job { status: Some("dead".to_owned()), stable: Some(true), ..job.to_api() };
        let later = Job::from_api(api).unwrap();
        assert_ne!(later, job);
        assert_eq!(later.spec, job.spec);
    }

    #[test]
    fn a_group_is_found_with_its_place() {
        let group = |name: &str| TaskGroup { name: name.into(), ..TaskGroup::default() };
        let spec = JobSpec { task_groups: vec![group("a"), group("b")].into(), ..JobSpec::default() };
        assert_eq!(spec.group("b").map(|(group_index, _)| group_index), Some(1));
        assert_eq!(spec.group("c"), None);
    }
}
