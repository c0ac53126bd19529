//! The treatment of every field of a job, by the type that it belongs to in the API. Types that only occur below a field
//! that is not used are left out.

use model::features::Feature;

use self::Treatment::{Deprecated, Harmless, Invalid, Refused, Used, Warned};

/// What becomes of a field that a job sets.
#[derive(Debug, Clone, Copy)]
pub(super) enum Treatment {
    /// The code of a file uses it, under this name.
    Used(&'static str, &'static str),
    /// The job is refused, because the feature is not built.
    Refused(Feature),
    /// The job is invalid, with this text.
    Invalid(&'static str),
    /// A warning says that it has no effect or not all of its effect, because the feature is not built.
    Warned(Feature),
    /// A warning with this text says that it is ignored.
    Deprecated(&'static str),
    /// It has no effect, for this reason.
    Harmless(&'static str),
}

/// Fields that clients send back with a job that they have read.
const BY_SERVERS: Treatment = Harmless("servers set it");
/// Fields of a task's default identity.
const NO_TOKEN: Treatment = Harmless("a job that asks for the token of its identity is refused");
/// Fields of a network that allocations have.
const BY_SCHEDULER: Treatment = Harmless("the scheduler sets it in allocations");

const DEFAULTS: &str = "shared/model/src/canonicalise/mod.rs";
const ACTION: &str = "services/api/src/routes/exec.rs";
const CONDITION: &str = "shared/scheduling/src/feasible/condition.rs";
const CONSTRAINTS: &str = "shared/scheduling/src/feasible/mod.rs";
const DEMAND: &str = "shared/scheduling/src/place/demand.rs";
const AFFINITY: &str = "shared/scheduling/src/rank/affinity.rs";
const DEVICE: &str = "shared/scheduling/src/feasible/device.rs";
const SPREAD: &str = "shared/scheduling/src/rank/spread.rs";
const RESCHEDULE: &str = "shared/scheduling/src/reconcile/reschedule.rs";
const ROLLOUT: &str = "shared/scheduling/src/reconcile/rollout.rs";
const OFFER: &str = "shared/scheduling/src/room/offer.rs";
const PORTS: &str = "shared/scheduling/src/room/ports.rs";
const ALLOCS: &str = "services/agent/src/alloc/allocs.rs";
const ALLOC_CORE: &str = "services/agent/src/alloc/core/mod.rs";
const CHILDREN: &str = "shared/model/src/job/children.rs";
const LAUNCH: &str = "services/plan-applier/src/judge/launch.rs";
const LAUNCH_TIMES: &str = "shared/model/src/schedule.rs";
const PAYLOAD_HOOK: &str = "services/agent/src/task/hooks/dispatch_payload.rs";
const CLASS: &str = "services/agent/src/alloc/class.rs";
const DEVICES: &str = "services/agent/src/task/hooks/devices.rs";
const HEALTH: &str = "services/agent/src/alloc/health/mod.rs";
const ENV: &str = "services/agent/src/task/env/mod.rs";
const REGIONS: &str = "services/api/src/admission/regions.rs";
const RESTARTS: &str = "services/agent/src/task/restarts.rs";
const RUNNER: &str = "services/agent/src/task/runner/mod.rs";
const START: &str = "services/agent/src/task/runner/start.rs";
const SUPERVISION: &str = "services/agent/src/task/runner/supervise.rs";
const LOGS_HOOK: &str = "services/agent/src/task/hooks/logs.rs";
const DIR_HOOK: &str = "services/agent/src/task/hooks/task_dir.rs";
const ARTIFACTS_HOOK: &str = "services/agent/src/task/hooks/artifacts/mod.rs";
const ARTIFACT: &str = "services/agent/src/task/hooks/artifacts/plan.rs";
const TEMPLATES_HOOK: &str = "services/agent/src/task/hooks/templates/mod.rs";
const TEMPLATE: &str = "services/agent/src/task/hooks/templates/plan.rs";
const NETWORK: &str = "services/agent/src/alloc/hooks/network.rs";
const SERVICES: &str = "services/api/src/admission/validate/services.rs";
const SERVICE: &str = "services/agent/src/services/interpolate.rs";
const SERVICE_ADDRESS: &str = "services/agent/src/services/address.rs";
const SERVICE_CONSUL: &str = "services/agent/src/services/consul/registration.rs";
const CHECKS: &str = "services/agent/src/alloc/checks/mod.rs";
const DEFAULT_OF_SERVICE: &str = "shared/model/src/canonicalise/service.rs";
const IMPLIED: &str = "services/api/src/admission/implied.rs";
const VOLUMES: &str = "shared/scheduling/src/feasible/volumes.rs";
const VOLUMES_HOOK: &str = "services/agent/src/task/hooks/volumes/mod.rs";
const UNSUPPORTED: &str = "services/agent/src/task/unsupported.rs";

/// Types with their fields, both sorted by name.
pub(super) const FIELDS: &[(&str, &[(&str, Treatment)])] = &[
    (
        "Action",
        &[
            ("Args", Used(ACTION, "args")),
            ("Command", Used(ACTION, "command")),
            ("Name", Used(ACTION, "name")),
        ],
    ),
    (
        "Affinity",
        &[
            ("LTarget", Used(CONDITION, "l_target")),
            ("Operand", Used(CONDITION, "operand")),
            ("RTarget", Used(CONDITION, "r_target")),
            ("Weight", Used(AFFINITY, "weight")),
        ],
    ),
    (
        "ChangeScript",
        &[
            ("Args", Used(TEMPLATE, "args")),
            ("Command", Used(TEMPLATE, "command")),
            ("FailOnError", Used(TEMPLATE, "fail_on_error")),
            ("RunOnFirstRender", Used(TEMPLATE, "run_on_first_render")),
            ("Timeout", Used(TEMPLATE, "timeout")),
        ],
    ),
    (
        "CheckRestart",
        &[
            ("Grace", Used(CHECKS, "grace")),
            ("IgnoreWarnings", Used(CHECKS, "ignore_warnings")),
            ("Limit", Used(CHECKS, "limit")),
        ],
    ),
    ("CniConfig", &[("Args", Used(NETWORK, "args"))]),
    (
        "Constraint",
        &[
            ("LTarget", Used(CONDITION, "l_target")),
            ("Operand", Used(CONDITION, "operand")),
            ("RTarget", Used(CONDITION, "r_target")),
        ],
    ),
    (
        "DisconnectStrategy",
        &[
            ("LostAfter", Used("services/plan-applier/src/judge/update_nodes.rs", "lost_after")),
            ("Reconcile", Used("shared/scheduling/src/reconcile/reconnect.rs", "reconcile")),
            ("Replace", Used("shared/scheduling/src/reconcile/classify.rs", "replace")),
            ("StopOnClientAfter", Used(ALLOCS, "stop_on_client_after")),
        ],
    ),
    ("DispatchPayloadConfig", &[("File", Used(PAYLOAD_HOOK, "file"))]),
    (
        "DnsConfig",
        &[
            ("Options", Used(NETWORK, "options")),
            ("Searches", Used(NETWORK, "searches")),
            ("Servers", Used(NETWORK, "servers")),
        ],
    ),
    (
        "EphemeralDisk",
        &[
            ("Migrate", Warned(Feature::DiskMigration)),
            ("SizeMB", Used(DEMAND, "size_mb")),
            ("Sticky", Used(ALLOCS, "sticky")),
        ],
    ),
    (
        "Job",
        &[
            ("Affinities", Used(AFFINITY, "affinities")),
            ("AllAtOnce", Used("services/plan-applier/src/judge/submit_plan/mod.rs", "all_at_once")),
            ("Constraints", Used(CONSTRAINTS, "constraints")),
            ("ConsulNamespace", Warned(Feature::Consul)),
            ("CreateIndex", BY_SERVERS),
            ("Datacenters", Used("shared/scheduling/src/feasible/base.rs", "datacenters")),
            ("DispatchIdempotencyToken", BY_SERVERS),
            ("Dispatched", BY_SERVERS),
            ("ID", Used(ENV, "id")),
            ("JobModifyIndex", BY_SERVERS),
            ("Meta", Used(ENV, "meta")),
            ("Migrate", Used(DEFAULTS, "migrate")),
            ("ModifyIndex", BY_SERVERS),
            ("Multiregion", Used(REGIONS, "multiregion")),
            ("Name", Used(ENV, "name")),
            ("Namespace", Used(ENV, "namespace")),
            ("NodePool", Used("shared/scheduling/src/feasible/base.rs", "node_pool")),
            ("NomadTokenID", BY_SERVERS),
            ("ParameterizedJob", Used(CHILDREN, "parameterized_job")),
            ("ParentID", BY_SERVERS),
            ("Payload", Invalid("job can't be submitted with a payload, only dispatched")),
            ("Periodic", Used(LAUNCH_TIMES, "periodic")),
            ("Priority", Used("services/eval-broker/src/core.rs", "priority")),
            ("Region", Used("services/api/src/routes/jobs.rs", "region")),
            ("Reschedule", Used(DEFAULTS, "reschedule")),
            ("Spreads", Used(SPREAD, "spreads")),
            ("Stable", BY_SERVERS),
            ("Status", BY_SERVERS),
            ("StatusDescription", BY_SERVERS),
            ("Stop", Used("shared/scheduling/src/generic.rs", "stop")),
            ("SubmitTime", BY_SERVERS),
            ("TaskGroups", Used("services/agent/src/work/spec.rs", "task_groups")),
            ("Type", Used(HEALTH, "kind")),
            ("UI", Harmless("the API returns it to interfaces that show it")),
            ("Update", Used(DEFAULTS, "update")),
            ("VaultNamespace", Warned(Feature::Vault)),
            ("Version", BY_SERVERS),
            ("VersionTag", Harmless("a version gets its tag by a request of its own")),
        ],
    ),
    (
        "LogConfig",
        &[
            ("Disabled", Used(LOGS_HOOK, "disabled")),
            ("Enabled", Used("shared/model/src/canonicalise/registration.rs", "enabled")),
            ("MaxFileSizeMB", Used(LOGS_HOOK, "max_file_size_mb")),
            ("MaxFiles", Used(LOGS_HOOK, "max_files")),
        ],
    ),
    (
        "MigrateStrategy",
        &[
            ("HealthCheck", Used(HEALTH, "health_check")),
            ("HealthyDeadline", Used(HEALTH, "healthy_deadline")),
            ("MaxParallel", Used("shared/scheduling/src/preempt/mod.rs", "max_parallel")),
            ("MinHealthyTime", Used(HEALTH, "min_healthy_time")),
        ],
    ),
    (
        "Multiregion",
        &[
            ("Regions", Used(REGIONS, "regions")),
            ("Strategy", Harmless("a job has one region, so there is no order of regions")),
        ],
    ),
    (
        "MultiregionRegion",
        &[
            ("Count", Used(REGIONS, "count")),
            ("Datacenters", Used(REGIONS, "datacenters")),
            ("Meta", Used(REGIONS, "meta")),
            ("Name", Used(REGIONS, "name")),
            ("NodePool", Used(REGIONS, "node_pool")),
        ],
    ),
    (
        "NetworkResource",
        &[
            ("CIDR", BY_SCHEDULER),
            ("CNI", Used(NETWORK, "cni")),
            ("DNS", Used(NETWORK, "dns")),
            ("Device", BY_SCHEDULER),
            ("DynamicPorts", Used(DEMAND, "dynamic_ports")),
            ("Hostname", Used(NETWORK, "hostname")),
            ("IP", BY_SCHEDULER),
            ("MBits", Deprecated("mbits has been deprecated")),
            ("Mode", Used("services/agent/src/networks/attachment.rs", "mode")),
            ("ReservedPorts", Used(DEMAND, "reserved_ports")),
        ],
    ),
    (
        "ParameterizedJobConfig",
        &[
            ("MaxChildrenRunning", Used(LAUNCH, "max_children_running")),
            ("MetaOptional", Used(CHILDREN, "meta_optional")),
            ("MetaRequired", Used(CHILDREN, "meta_required")),
            ("Payload", Used(CHILDREN, "payload")),
        ],
    ),
    (
        "PeriodicConfig",
        &[
            ("Enabled", Used(LAUNCH_TIMES, "enabled")),
            ("ProhibitOverlap", Used(LAUNCH, "prohibit_overlap")),
            ("Spec", Used(LAUNCH_TIMES, "spec")),
            ("SpecType", Used("services/api/src/admission/validate/schedule.rs", "spec_type")),
            ("Specs", Used(LAUNCH_TIMES, "specs")),
            ("TimeZone", Used(LAUNCH_TIMES, "time_zone")),
        ],
    ),
    (
        "Port",
        &[
            ("HostNetwork", Used(PORTS, "host_network")),
            ("IgnoreCollision", Used(PORTS, "ignore_collision")),
            ("Label", Used(ENV, "label")),
            ("To", Used(ENV, "to")),
            ("Value", Used(ENV, "value")),
        ],
    ),
    (
        "RequestedDevice",
        &[
            ("Affinities", Used(DEVICE, "affinities")),
            ("Constraints", Used(DEVICE, "constraints")),
            ("Count", Used(DEVICE, "count")),
            ("Name", Used(DEVICE, "name")),
        ],
    ),
    (
        "ReschedulePolicy",
        &[
            ("Attempts", Used(RESCHEDULE, "attempts")),
            ("Delay", Used(RESCHEDULE, "delay")),
            ("DelayFunction", Used(RESCHEDULE, "delay_function")),
            ("Interval", Used(RESCHEDULE, "interval")),
            ("MaxDelay", Used(RESCHEDULE, "max_delay")),
            ("Unlimited", Used(RESCHEDULE, "unlimited")),
        ],
    ),
    (
        "Resources",
        &[
            ("CPU", Used(DEMAND, "cpu_mhz")),
            ("Cores", Used(OFFER, "cores")),
            ("Devices", Used(DEVICES, "devices")),
            ("DiskMB", Harmless("the disk of the group counts, for all its tasks")),
            ("IOPS", Deprecated("IOPS has been deprecated")),
            ("MemoryMB", Used(DEMAND, "memory_mb")),
            ("MemoryMaxMB", Used(DEMAND, "memory_max_mb")),
            ("NUMA", Refused(Feature::Numa)),
            ("Networks", Used(DEMAND, "networks")),
            ("SecretsMB", Used(DIR_HOOK, "secrets_mb")),
        ],
    ),
    (
        "RestartPolicy",
        &[
            ("Attempts", Used(RESTARTS, "attempts")),
            ("Delay", Used(RESTARTS, "delay")),
            ("Interval", Used(RESTARTS, "interval")),
            ("Mode", Used(RESTARTS, "mode")),
            ("RenderTemplates", Harmless("templates are rendered before every start")),
        ],
    ),
    (
        "ScalingPolicy",
        &[
            ("CreateIndex", BY_SERVERS),
            ("Enabled", Used("shared/model/src/job/scaling.rs", "enabled")),
            ("ID", BY_SERVERS),
            ("Max", Used("services/plan-applier/src/judge/scale_job.rs", "max")),
            ("Min", Used("services/plan-applier/src/judge/scale_job.rs", "min")),
            ("ModifyIndex", BY_SERVERS),
            ("Namespace", BY_SERVERS),
            ("Policy", Used("shared/model/src/job/scaling.rs", "policy")),
            ("Target", BY_SERVERS),
            ("Type", Used("services/api/src/routes/scaling.rs", "type")),
        ],
    ),
    (
        "Service",
        &[
            ("Address", Used(SERVICE, "address")),
            ("AddressMode", Used(SERVICE_ADDRESS, "address_mode")),
            ("CanaryMeta", Used(SERVICE, "canary_meta")),
            ("CanaryTags", Used(SERVICE, "canary_tags")),
            ("CheckRestart", Used(DEFAULT_OF_SERVICE, "check_restart")),
            ("Checks", Used(CHECKS, "checks")),
            ("Cluster", Used(IMPLIED, "cluster")),
            ("Connect", Refused(Feature::Connect)),
            ("EnableTagOverride", Used(SERVICE_CONSUL, "enable_tag_override")),
            ("Identity", Harmless("the agent registers services with its own token")),
            ("Kind", Harmless("it is the kind of a gateway of a service mesh")),
            ("Meta", Used(SERVICE, "meta")),
            ("Name", Used(SERVICE, "name")),
            ("Namespace", Harmless("services are registered in the namespace of their job")),
            ("OnUpdate", Used(CHECKS, "on_update")),
            ("PortLabel", Used(SERVICE_ADDRESS, "port_label")),
            ("Provider", Used(IMPLIED, "provider")),
            ("TaggedAddresses", Used(SERVICE, "tagged_addresses")),
            ("Tags", Used(SERVICE, "tags")),
            ("TaskName", Used(SERVICES, "task_name")),
            ("Weights", Used(SERVICE_CONSUL, "weights")),
        ],
    ),
    (
        "ServiceCheck",
        &[
            ("AddressMode", Used(SERVICE_ADDRESS, "address_mode")),
            ("Advertise", Harmless("checks use the address that their mode selects")),
            ("Args", Used(SERVICE, "args")),
            ("Body", Used(CHECKS, "body")),
            ("CheckRestart", Used(CHECKS, "check_restart")),
            ("Command", Used(SERVICES, "command")),
            ("Expose", Used(SERVICE_CONSUL, "expose")),
            ("FailuresBeforeCritical", Used(SERVICE_CONSUL, "failures_before_critical")),
            ("FailuresBeforeWarning", Used(SERVICE_CONSUL, "failures_before_warning")),
            ("GRPCService", Used(SERVICE_CONSUL, "grpc_service")),
            ("GRPCUseTLS", Used(SERVICE_CONSUL, "grpc_use_tls")),
            ("Header", Used(CHECKS, "header")),
            ("InitialStatus", Used(SERVICE_CONSUL, "initial_status")),
            ("Interval", Used(CHECKS, "interval")),
            ("Method", Used(CHECKS, "method")),
            ("Name", Used(CHECKS, "name")),
            ("Notes", Used(SERVICE_CONSUL, "notes")),
            ("OnUpdate", Used(CHECKS, "on_update")),
            ("Path", Used(CHECKS, "path")),
            ("PortLabel", Used(SERVICE_ADDRESS, "port_label")),
            ("Protocol", Used(CHECKS, "protocol")),
            ("SuccessBeforePassing", Used(SERVICE_CONSUL, "success_before_passing")),
            ("TLSServerName", Used(CHECKS, "tls_server_name")),
            ("TLSSkipVerify", Used(CHECKS, "tls_skip_verify")),
            ("TaskName", Used(SERVICES, "task_name")),
            ("Timeout", Used(CHECKS, "timeout")),
            ("Type", Used(CHECKS, "kind")),
        ],
    ),
    (
        "ServiceWeights",
        &[("Passing", Used(SERVICE_CONSUL, "passing")), ("Warning", Used(SERVICE_CONSUL, "warning"))],
    ),
    (
        "Spread",
        &[
            ("Attribute", Used(SPREAD, "attribute")),
            ("SpreadTarget", Used(SPREAD, "targets")),
            ("Weight", Used(SPREAD, "weight")),
        ],
    ),
    ("SpreadTarget", &[("Percent", Used(SPREAD, "percent")), ("Value", Used(SPREAD, "value"))]),
    (
        "Task",
        &[
            ("Actions", Used(ACTION, "actions")),
            ("Affinities", Used(AFFINITY, "affinities")),
            ("Artifacts", Used(ARTIFACTS_HOOK, "artifacts")),
            ("CSIPluginConfig", Refused(Feature::CsiPlugins)),
            ("Config", Used(START, "config")),
            ("Constraints", Used(CONSTRAINTS, "constraints")),
            ("Consul", Warned(Feature::Consul)),
            ("DispatchPayload", Used(PAYLOAD_HOOK, "dispatch_payload")),
            ("Driver", Used(RUNNER, "driver")),
            ("Env", Used(ENV, "env")),
            ("Identities", Refused(Feature::WorkloadIdentities)),
            ("Identity", Used(UNSUPPORTED, "identity")),
            ("KillSignal", Used(SUPERVISION, "kill_signal")),
            ("KillTimeout", Used(SUPERVISION, "kill_timeout")),
            ("Kind", Refused(Feature::Connect)),
            ("Leader", Used(ALLOC_CORE, "leader")),
            ("Lifecycle", Used(ALLOC_CORE, "lifecycle")),
            ("LogConfig", Used(LOGS_HOOK, "log_config")),
            ("Meta", Used(ENV, "meta")),
            ("Name", Used(ENV, "name")),
            ("Resources", Used(DEMAND, "resources")),
            ("RestartPolicy", Used(RUNNER, "restart_policy")),
            ("ScalingPolicies", Harmless("only policies of groups are kept, as in the reference")),
            ("Schedule", Refused(Feature::TaskSchedules)),
            ("Secrets", Refused(Feature::Secrets)),
            ("Services", Used(SERVICES, "services")),
            ("ShutdownDelay", Used(SUPERVISION, "shutdown_delay")),
            ("Templates", Used(TEMPLATES_HOOK, "templates")),
            ("User", Used(RUNNER, "user")),
            ("Vault", Refused(Feature::Vault)),
            ("VolumeMounts", Used(VOLUMES_HOOK, "volume_mounts")),
        ],
    ),
    (
        "TaskGroup",
        &[
            ("Affinities", Used(AFFINITY, "affinities")),
            ("Constraints", Used(CONSTRAINTS, "constraints")),
            ("Consul", Warned(Feature::Consul)),
            ("Count", Used("shared/scheduling/src/reconcile/mod.rs", "count")),
            ("Disconnect", Used(ALLOCS, "disconnect")),
            ("EphemeralDisk", Used(DEMAND, "ephemeral_disk")),
            ("MaxClientDisconnect", Harmless("`disconnect.lost_after` replaces it")),
            ("MaxRunDuration", Used(ALLOC_CORE, "max_run_duration")),
            ("Meta", Used(ENV, "meta")),
            ("Migrate", Used(HEALTH, "migrate")),
            ("Name", Used(ENV, "name")),
            ("Networks", Used(DEMAND, "networks")),
            ("PreventRescheduleOnLost", Harmless("`disconnect.replace` replaces it")),
            ("ReschedulePolicy", Used("shared/scheduling/src/placing.rs", "reschedule_policy")),
            ("RestartPolicy", Used(RUNNER, "restart_policy")),
            ("Scaling", Used("services/plan-applier/src/judge/scale_job.rs", "scaling")),
            ("Services", Used(SERVICES, "services")),
            ("ShutdownDelay", Used(ALLOC_CORE, "shutdown_delay")),
            ("Spreads", Used(SPREAD, "spreads")),
            ("StopAfterClientDisconnect", Harmless("`disconnect.stop_on_client_after` replaces it")),
            ("Tasks", Used(DEMAND, "tasks")),
            ("Update", Used(HEALTH, "update")),
            ("Volumes", Used(VOLUMES, "volumes")),
        ],
    ),
    (
        "TaskArtifact",
        &[
            ("Chown", Used(ARTIFACT, "chown")),
            ("GetterHeaders", Used(ARTIFACT, "getter_headers")),
            ("GetterInsecure", Used(ARTIFACT, "getter_insecure")),
            ("GetterMode", Used(ARTIFACT, "getter_mode")),
            ("GetterOptions", Used(ARTIFACT, "getter_options")),
            ("GetterSource", Used(ARTIFACT, "getter_source")),
            ("RelativeDest", Used(ARTIFACT, "relative_dest")),
        ],
    ),
    ("TaskLifecycleConfig", &[("Hook", Used(CLASS, "hook")), ("Sidecar", Used(CLASS, "sidecar"))]),
    (
        "Template",
        &[
            ("ChangeMode", Used(TEMPLATE, "change_mode")),
            ("ChangeScript", Used(TEMPLATE, "change_script")),
            ("ChangeSignal", Used(TEMPLATE, "change_signal")),
            ("DestPath", Used(TEMPLATE, "dest_path")),
            ("EmbeddedTmpl", Used(TEMPLATE, "embedded_tmpl")),
            ("Envvars", Used(TEMPLATE, "envvars")),
            ("ErrMissingKey", Used(TEMPLATE, "err_missing_key")),
            ("Gid", Used(TEMPLATE, "gid")),
            ("LeftDelim", Used(TEMPLATE, "left_delim")),
            ("Once", Used(TEMPLATE, "once")),
            ("Perms", Used(TEMPLATE, "perms")),
            ("RightDelim", Used(TEMPLATE, "right_delim")),
            ("SourcePath", Used(TEMPLATE, "source_path")),
            ("Splay", Used(TEMPLATE, "splay")),
            ("Uid", Used(TEMPLATE, "uid")),
            ("VaultGrace", Deprecated("VaultGrace has been deprecated as of Nomad 0.11")),
            ("Wait", Used(TEMPLATE, "wait")),
        ],
    ),
    (
        "UpdateStrategy",
        &[
            ("AutoPromote", Used("shared/state/src/deployment_health.rs", "auto_promote")),
            ("AutoRevert", Used("services/plan-applier/src/judge/fail_deployment.rs", "auto_revert")),
            ("Canary", Used("shared/scheduling/src/reconcile/canaries.rs", "canary")),
            ("HealthCheck", Used(HEALTH, "health_check")),
            ("HealthyDeadline", Used(HEALTH, "healthy_deadline")),
            ("MaxParallel", Used(HEALTH, "max_parallel")),
            ("MinHealthyTime", Used(HEALTH, "min_healthy_time")),
            ("ProgressDeadline", Used(ROLLOUT, "progress_deadline")),
            ("Stagger", Harmless("updates of system jobs are deployments, as those of service jobs are")),
        ],
    ),
    ("WaitConfig", &[("Max", Used(TEMPLATE, "max")), ("Min", Used(TEMPLATE, "min"))]),
    (
        "WorkloadIdentity",
        &[
            ("Audience", NO_TOKEN),
            ("ChangeMode", NO_TOKEN),
            ("ChangeSignal", NO_TOKEN),
            ("Env", Refused(Feature::WorkloadIdentities)),
            ("ExtraClaims", NO_TOKEN),
            ("File", Refused(Feature::WorkloadIdentities)),
            ("Filepath", NO_TOKEN),
            ("Name", NO_TOKEN),
            ("ServiceName", NO_TOKEN),
            ("TTL", NO_TOKEN),
        ],
    ),
    (
        "VolumeMount",
        &[
            ("Destination", Used(VOLUMES_HOOK, "destination")),
            ("PropagationMode", Used(VOLUMES_HOOK, "propagation_mode")),
            ("ReadOnly", Used(VOLUMES_HOOK, "read_only")),
            ("SELinuxLabel", Used(VOLUMES_HOOK, "selinux_label")),
            ("Volume", Used(VOLUMES_HOOK, "volume")),
        ],
    ),
    (
        "VolumeRequest",
        &[
            ("AccessMode", Used(VOLUMES, "access_mode")),
            ("AttachmentMode", Used(VOLUMES, "attachment_mode")),
            ("MountOptions", Harmless("only volumes of CSI plugins have options, and these are refused")),
            ("Name", Harmless("the name in the job file is the key, by which tasks refer to the volume")),
            ("PerAlloc", Used(VOLUMES, "per_alloc")),
            ("ReadOnly", Used(VOLUMES, "read_only")),
            ("Source", Used(VOLUMES, "source")),
            ("Sticky", Used(VOLUMES, "sticky")),
            ("Type", Used(VOLUMES, "kind")),
        ],
    ),
];

/// Values of fields that are used, for which a job is refused: the type, the field, the value and the feature that it needs.
pub(super) const VALUES: &[(&str, &str, &str, Feature)] = &[
    ("MultiregionRegion", "Name", "west", Feature::MultiregionJobs),
    ("Task", "Driver", "podman", Feature::ExternalDrivers),
    ("Task", "Driver", "qemu", Feature::QemuDriver),
];
