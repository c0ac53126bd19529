//! Jobs: what users want to run, as one registered version after the other.
//!
//! [`Job`] is a version, [`JobSpec`] what users wrote of it. Both are read from the API's shape as it stands: absent
//! is zero, and defaults come from [`canonicalise`](crate::canonicalise()), which goes before.
//!
//! **Carried, not understood.** Typed is what a scheduler, the applier, a watcher or an agent decides on. All else
//! goes through the domain as the structs of `api_types` that it came in, unchanged: services and checks, Vault,
//! Consul, templates, artifacts, secrets, identities, actions, schedules, CSI plugins and mount options, scaling
//! policies, regions, dispatch input, name resolution and CNI arguments, NUMA wishes, what the web interface shows, and
//! the drivers' own configuration. `canonicalise` writes zeros out inside them, so that equal ones compare as equal.

mod constraint;
mod group;
mod groups;
mod network;
mod policy;
mod resources;
mod submission;
mod task;
mod volume;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use constraint::{Affinity, Constraint, Operand, Spread, SpreadTarget};
pub use group::TaskGroup;
pub use groups::{TaskGroups, UnreadableGroups};
pub use network::{NetworkResource, Port};
pub use policy::{
    DelayFunction, DisconnectStrategy, HealthCheck, MigrateStrategy, Reconcile, ReschedulePolicy,
    RestartMode, RestartPolicy, UpdateStrategy,
};
pub use resources::{EphemeralDisk, RequestedDevice, Resources};
pub use submission::{JobSource, JobSubmission};
pub use task::{DispatchPayload, Lifecycle, LifecycleHook, LogConfig, Task};
pub use volume::{AccessMode, AttachmentMode, PropagationMode, VolumeKind, VolumeMount, VolumeRequest};

use crate::invalid::{At, Invalid};
use crate::mirror::{Member, Mirror, mirror, passthrough, text_members};
use crate::text::{matches_pattern, string_enum};
use crate::{Index, JobKey, JobVersionKey, Text, Timestamp};

passthrough!(
    api_types::Service,
    Box<api_types::Vault>,
    api_types::Consul,
    api_types::Template,
    api_types::TaskArtifact,
    api_types::Secret,
    api_types::WorkloadIdentity,
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
    /// Which scheduler a job is for.
    #[derive(Default)]
    JobType, "job type" {
        /// Runs on, and is replaced when it fails or ends.
        #[default]
        Service => "service",
        /// Runs to its end.
        Batch => "batch",
        /// Runs on, on every node that fits.
        System => "system",
        /// Runs to its end, on every node that fits.
        SysBatch => "sysbatch",
    }
}

string_enum! {
    /// What a job's allocations and evaluations add up to.
    #[derive(Default)]
    JobStatus, "job status" {
        /// Nothing of it runs yet.
        #[default]
        Pending => "pending",
        /// Something of it runs, or it waits for its time.
        Running => "running",
        /// Nothing of it runs or will.
        Dead => "dead",
    }
}

string_enum! {
    /// Whether dispatches bring input.
    PayloadRule, "payload rule" {
        /// They may.
        Optional => "optional",
        /// They must.
        Required => "required",
        /// They must not.
        Forbidden => "forbidden",
    }
}

text_members!(JobType, JobStatus, PayloadRule);

/// One registered version of a job.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What users wrote.
    pub spec: Arc<JobSpec>,
    /// Counts the registrations of this incarnation that changed something, from 0.
    pub version: u64,
    /// What its allocations and evaluations add up to.
    pub status: JobStatus,
    /// Why it has that status, for people.
    pub status_description: Text,
    /// Whether this version was rolled out well, so that a failed one may go back to it.
    pub stable: bool,
    /// When this version was registered.
    pub submit_time: Timestamp,
    /// The index at which this incarnation was first registered.
    pub create_index: Index,
    /// The index at which it was last written.
    pub modify_index: Index,
    /// The index at which its specification last changed.
    pub job_modify_index: Index,
    /// The name that a user gave this version; it keeps the version from being forgotten.
    pub version_tag: Option<JobVersionTag>,
}

impl Job {
    /// The job that this is a version of.
    pub fn key(&self) -> JobKey {
        self.spec.key()
    }

    /// This version, among all of all incarnations.
    pub fn version_key(&self) -> JobVersionKey {
        JobVersionKey { job: self.key(), create_index: self.create_index, version: self.version }
    }

    /// Converts the API's job. An absent status is that of a new job, pending.
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

    /// The API's job as reads show it.
    pub fn to_api(&self) -> api_types::Job {
        let mut spec = self.spec.to_api();
        if let Some(periodic) = &mut spec.periodic {
            // The one list that reads show although it is empty.
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

/// What users wrote: immutable, and shared by whoever speaks of the version.
///
/// Two are equal exactly when the specification did not change (N-20.6); what that rule ignores stands in [`Job`].
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobSpec {
    /// Whether it was stopped: nothing of it shall run.
    pub stop: bool,
    /// The region that it runs in.
    pub region: Text,
    /// The namespace that it lives in.
    pub namespace: Text,
    /// Its id, unique in the namespace.
    pub id: Text,
    /// The job that launched it, if one did: a periodic or a parameterized one.
    pub parent_id: Text,
    /// Its name, for people.
    pub name: Text,
    /// Which scheduler it is for.
    pub kind: JobType,
    /// Its importance, from 1; up to 100, or what the server allows (N-19.3).
    pub priority: u16,
    /// Whether its placements are to be made all together or not at all.
    pub all_at_once: bool,
    /// Datacenters that it may run in; patterns such as `dc*` are allowed.
    pub datacenters: Vec<Text>,
    /// The node pool that it runs in.
    pub node_pool: Text,
    /// What a node must fulfil.
    pub constraints: Vec<Constraint>,
    /// What makes a node more desirable, or less.
    pub affinities: Vec<Affinity>,
    /// What allocations are spread over.
    pub spreads: Vec<Spread>,
    /// Its groups.
    pub task_groups: TaskGroups,
    /// Pace and batch size that the groups were given; each group has all of it in its own.
    pub update: UpdateStrategy,
    /// The regions that it was registered for.
    pub multiregion: Option<Box<api_types::Multiregion>>,
    /// When it is launched, if it is a template for launches.
    pub periodic: Option<PeriodicConfig>,
    /// What a dispatch brings, if it is a template for dispatches.
    pub parameterized_job: Option<ParameterizedJobConfig>,
    /// Whether a dispatch made it.
    pub dispatched: bool,
    /// What keeps that dispatch from happening twice.
    pub dispatch_idempotency_token: Text,
    /// What that dispatch brought.
    pub payload: Option<api_types::Base64>,
    /// The user's own pairs.
    pub meta: BTreeMap<Text, Text>,
    /// Consul namespace of older job files.
    pub consul_namespace: Text,
    /// Vault namespace of older job files.
    pub vault_namespace: Text,
    /// Accessor id of the token that it was registered with.
    pub nomad_token_id: Text,
    /// What the web interface shows with it.
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
    // What `Job` adds, and what `canonicalise` merged into the groups.
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
    /// The job that this describes.
    pub fn key(&self) -> JobKey {
        JobKey { namespace: Text::clone(&self.namespace), id: Text::clone(&self.id) }
    }

    /// Whether nodes of a datacenter and a node pool are the job's, ready or not (R-5.1, R-5.2).
    pub fn has_nodes_of(&self, datacenter: &str, node_pool: &str) -> bool {
        let is_in_pool = matches!(&*self.node_pool, "" | "all") || *self.node_pool == *node_pool;
        is_in_pool && self.datacenters.iter().any(|pattern| matches_pattern(pattern, datacenter))
    }

    /// The group of that name, and its place among the groups.
    pub fn group(&self, name: &str) -> Option<(usize, &TaskGroup)> {
        self.task_groups.iter().enumerate().find(|(_, group)| *group.name == *name)
    }
}

/// The name that a user gave a version.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobVersionTag {
    /// The name, unique among the job's versions.
    pub name: Text,
    /// What it is about.
    pub description: Text,
    /// When it was given.
    pub tagged_time: Timestamp,
}

mirror! {
    JobVersionTag = JobVersionTag { name: "Name", description: "Description", tagged_time: "TaggedTime" }
}

/// When a periodic job is launched.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeriodicConfig {
    /// Whether it is launched at all.
    pub enabled: bool,
    /// A single cron expression, as older job files give it.
    pub spec: Text,
    /// Cron expressions; each one launches.
    pub specs: Vec<Text>,
    /// The language of the expressions: `cron`.
    pub spec_type: Text,
    /// Whether a launch is left out while an earlier one still runs.
    pub prohibit_overlap: bool,
    /// The time zone of the expressions, by its IANA name.
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

/// What a dispatch of a parameterized job brings.
#[serde_with::apply(_ => #[serde(default, skip_serializing_if = "crate::is_default")])]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParameterizedJobConfig {
    /// Whether it brings input; `None` where the record holds nothing, which is *may*.
    pub payload: Option<PayloadRule>,
    /// Meta keys that it must give.
    pub meta_required: Vec<Text>,
    /// Meta keys that it may give.
    pub meta_optional: Vec<Text>,
}

mirror! {
    ParameterizedJobConfig = ParameterizedJobConfig {
        payload: "Payload",
        meta_required: "MetaRequired",
        meta_optional: "MetaOptional",
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
        assert_eq!(spec.group("b").map(|(place, _)| place), Some(1));
        assert_eq!(spec.group("c"), None);
    }
}
