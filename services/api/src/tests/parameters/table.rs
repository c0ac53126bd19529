//! What every request may say.

use model::features::Feature;

use self::Why::{Because, Missing};

/// What a request may say with effect.
#[derive(Debug)]
pub(super) struct Row {
    /// Method and path. `ANY` stands for every method, and PUT for POST, too.
    pub(super) request: &'static str,
    /// The files that handle it: those of the routes by their name, others with their path.
    pub(super) files: &'static str,
    /// Query parameters. `PAGE` stands for those of a list in pages, `READ` for those of a read.
    pub(super) query: &'static str,
    /// Members of the body.
    pub(super) body: &'static str,
}

const fn row(request: &'static str, files: &'static str, query: &'static str, body: &'static str) -> Row {
    Row { request, files, query, body }
}

const REGISTRATION: &str = "EnforceIndex EvalPriority Job JobModifyIndex Namespace PreserveCounts PreserveResources \
                            Region Submission";
const NAMESPACE: &str = "Capabilities ConsulConfiguration Description Meta Name NodePoolConfiguration \
                         OptionalExtraClaims Quota RequiredExtraClaims VaultConfiguration";
const NODE_POOL: &str = "Description Meta Name SchedulerConfiguration";
const SCHEDULER: &str = "MemoryOversubscriptionEnabled PauseEvalBroker PreemptionConfig SchedulerAlgorithm";
/// Where bodies become objects of the cluster.
const POOLS: &str = "node_pools shared/model/src/api/cluster.rs";
const CONFIG: &str = "operator shared/model/src/api/cluster.rs";
const TO_NODE: &str = "stats agent services/api/src/agent_client/mod.rs";
const NODE_META: &str = "node_meta services/api/src/agent_client/mod.rs";
const GARBAGE: &str = "client services/api/src/agent_client/mod.rs";

/// Requests that have a handler, in the order of the routes.
pub(super) const ROWS: &[Row] = &[
    row("GET /v1/jobs", "jobs", "filter meta namespace prefix PAGE READ", ""),
    row("PUT /v1/jobs", "jobs", "namespace", REGISTRATION),
    row("PUT /v1/jobs/parse", "jobs", "", "Canonicalize JobHCL Variables"),
    row("GET /v1/jobs/statuses", "statuses", "filter include_children namespace prefix PAGE READ", ""),
    row(
        "POST /v1/jobs/statuses",
        "statuses",
        "filter include_children namespace prefix PAGE READ",
        "IncludeChildren Jobs",
    ),
    row("PUT /v1/validate/job", "jobs", "", "Job"),
    row("PUT /v1/job/:id/evaluate", "job", "namespace", "EvalOptions JobID Namespace"),
    row("GET /v1/job/:id/allocations", "job", "all namespace READ", ""),
    row("GET /v1/job/:id/evaluations", "job", "namespace READ", ""),
    row("PUT /v1/job/:id/periodic/force", "children", "namespace", ""),
    row("PUT /v1/job/:id/plan", "plan jobs", "namespace", "Diff Job Namespace Reasons Region"),
    row("ANY /v1/job/:id/summary", "job", "namespace READ", ""),
    row(
        "PUT /v1/job/:id/dispatch",
        "children",
        "idempotency_token namespace",
        "IdPrefixTemplate JobID Meta Payload Priority",
    ),
    row("PUT /v1/job/:id/dispatch/payload", "children", "idempotency_token namespace", ""),
    row("ANY /v1/job/:id/versions", "job", "diff_tag diff_version diffs namespace READ", ""),
    row(
        "PUT /v1/job/:id/versions/:tag/tag",
        "version_writes",
        "namespace",
        "Description Latest Namespace Version",
    ),
    row("DELETE /v1/job/:id/versions/:tag/tag", "version_writes", "namespace", ""),
    row(
        "PUT /v1/job/:id/revert",
        "version_writes",
        "namespace",
        "EnforcePriorVersion JobID JobVersion Namespace",
    ),
    row("GET /v1/job/:id/deployments", "job", "all namespace READ", ""),
    row("GET /v1/job/:id/deployment", "job", "namespace READ", ""),
    row("PUT /v1/job/:id/stable", "version_writes", "namespace", "JobID JobVersion Namespace Stable"),
    row("GET /v1/job/:id/scale", "scaling", "namespace READ", ""),
    row("PUT /v1/job/:id/scale", "scaling", "namespace", "Count Error JobModifyIndex Message Meta Target"),
    row("ANY /v1/job/:id/submission", "submission", "namespace version READ", ""),
    row("GET /v1/job/:id/services", "services", "namespace READ", ""),
    row("GET /v1/job/:id/actions", "job", "namespace READ", ""),
    row("ANY /v1/job/:id/action", "exec", "action allocID group namespace task tty ws_handshake", ""),
    row("GET /v1/job/:id", "job", "namespace READ", ""),
    row("PUT /v1/job/:id", "job jobs", "namespace", REGISTRATION),
    row("DELETE /v1/job/:id", "job", "eval_priority namespace no_shutdown_delay purge", ""),
    row("GET /v1/allocations", "allocations", "filter namespace prefix resources task_states PAGE READ", ""),
    row("PUT /v1/allocation/:id/stop", "allocations", "no_shutdown_delay reschedule", ""),
    row("GET /v1/allocation/:id/services", "services", "namespace READ", ""),
    row("ANY /v1/allocation/:id/:other", "allocations", "", ""),
    row("GET /v1/allocation/:id", "allocations", "READ", ""),
    row("ANY /v1/client/fs/ls/:alloc", "client", "path", ""),
    row("ANY /v1/client/fs/stat/:alloc", "client", "path", ""),
    row("ANY /v1/client/fs/cat/:alloc", "client", "path", ""),
    row("ANY /v1/client/fs/readat/:alloc", "client", "limit offset path", ""),
    row("ANY /v1/client/fs/stream/:alloc", "client", "follow offset origin path", ""),
    row("ANY /v1/client/fs/logs/:alloc", "client", "follow offset origin plain task type", ""),
    row("ANY /v1/client/fs/:other", "client", "", ""),
    row("ANY /v1/client/allocation/:id/exec", "exec", "command task tty ws_handshake", ""),
    row("ANY /v1/client/allocation/:id/stats", "stats", "task", ""),
    row("ANY /v1/client/allocation/:id/checks", "stats", "", ""),
    row("ANY /v1/client/allocation/:id/restart", "client", "", "AllTasks TaskName"),
    row("PUT /v1/client/allocation/:id/signal", "client", "", "Signal Task"),
    row("GET /v1/client/allocation/:id/pause", "client", "", ""),
    row("PUT /v1/client/allocation/:id/pause", "client", "", ""),
    row("ANY /v1/client/allocation/:id/gc", "client", "", ""),
    row("ANY /v1/client/allocation/:other", "allocations", "", ""),
    row("ANY /v1/client/gc", GARBAGE, "node_id", ""),
    row("ANY /v1/client/stats", TO_NODE, "node_id", ""),
    row("GET /v1/client/metadata", NODE_META, "node_id", ""),
    row("POST /v1/client/metadata", NODE_META, "node_id", "Meta NodeID"),
    row("GET /v1/evaluations", "evaluations", "filter job namespace prefix status PAGE READ", ""),
    row("DELETE /v1/evaluations", "evaluations", "namespace", "EvalIDs Filter"),
    row("GET /v1/evaluations/count", "evaluations", "filter namespace prefix stale", ""),
    row("GET /v1/evaluation/:id/allocations", "evaluations", "READ", ""),
    row("GET /v1/evaluation/:id", "evaluations", "reasons related READ", ""),
    row("GET /v1/deployments", "deployments", "filter namespace prefix PAGE READ", ""),
    row("GET /v1/deployment/allocations/:id", "deployments", "READ", ""),
    row("PUT /v1/deployment/fail/:id", "deployment_writes", "", ""),
    row("PUT /v1/deployment/pause/:id", "deployment_writes", "", "DeploymentID Pause"),
    row("PUT /v1/deployment/promote/:id", "deployment_writes", "", "All DeploymentID Groups"),
    row(
        "PUT /v1/deployment/allocation-health/:id",
        "deployment_writes",
        "",
        "DeploymentID HealthyAllocationIDs UnhealthyAllocationIDs",
    ),
    row("PUT /v1/deployment/unblock/:id", "deployment_writes", "", "DeploymentID"),
    row("GET /v1/deployment/:id", "deployments", "READ", ""),
    row("GET /v1/nodes", "nodes", "filter os prefix resources PAGE READ", ""),
    row("GET /v1/node/pools", "node_pools small_objects", "filter prefix PAGE READ", ""),
    row("PUT /v1/node/pools", POOLS, "", NODE_POOL),
    row("GET /v1/node/pool/:name/nodes", "node_pools nodes", "filter os resources PAGE READ", ""),
    row("GET /v1/node/pool/:name/jobs", "node_pools jobs", "filter meta namespace PAGE READ", ""),
    row("GET /v1/node/pool/:name", "small_objects", "READ", ""),
    row("PUT /v1/node/pool/:name", POOLS, "", NODE_POOL),
    row("DELETE /v1/node/pool/:name", "node_pools", "", ""),
    row("GET /v1/node/:id/allocations", "nodes", "READ", ""),
    row("PUT /v1/node/:id/evaluate", "nodes", "", ""),
    row("PUT /v1/node/:id/drain", "nodes", "", "DrainSpec MarkEligible Meta"),
    row("PUT /v1/node/:id/eligibility", "nodes", "", "Eligibility NodeID"),
    row("PUT /v1/node/:id/purge", "nodes", "", ""),
    row("GET /v1/node/:id", "nodes", "READ", ""),
    row("GET /v1/namespaces", "namespaces small_objects", "prefix READ", ""),
    row("PUT /v1/namespace", "namespaces", "", NAMESPACE),
    row("GET /v1/namespace/:name", "small_objects", "READ", ""),
    row("PUT /v1/namespace/:name", "namespaces", "", NAMESPACE),
    row("DELETE /v1/namespace/:name", "namespaces", "", ""),
    row("GET /v1/services", "services", "namespace prefix PAGE READ", ""),
    row("GET /v1/services/prometheus", "services", "filter namespace prefix READ", ""),
    row("ANY /v1/service/:name", "services", "choose filter namespace PAGE READ", ""),
    row(
        "GET /v1/volumes",
        "volumes small_objects",
        "filter namespace node_id node_pool prefix type PAGE READ",
        "",
    ),
    row("PUT /v1/volumes", "volumes", "", ""),
    row(
        "GET /v1/volumes/claims",
        "volumes small_objects",
        "filter job_id namespace task_group volume_name PAGE READ",
        "",
    ),
    row("ANY /v1/volumes/claim/:id", "volumes", "", ""),
    row("GET /v1/volume/host/:id", "volumes", "READ", ""),
    row("PUT /v1/volume/host/:id", "volume_writes", "namespace", "HostVolume Volume"),
    row("DELETE /v1/volume/host/:id", "volumes", "force", ""),
    row("GET /v1/acl/policy/self", "acl", "", ""),
    row("GET /v1/acl/token/self", "acl", "", ""),
    row("GET /v1/scaling/policies", "scaling", "job namespace type READ", ""),
    row("GET /v1/scaling/policy/:id", "scaling", "READ", ""),
    row("PUT /v1/search", "search", "namespace stale", "Context Namespace Prefix"),
    row("PUT /v1/search/fuzzy", "search_fuzzy search", "namespace stale", "Context Namespace Text"),
    row("GET /v1/event/stream", "events services/api/src/events/topics.rs", "index namespace topic", ""),
    row("GET /v1/agent/self", "agent", "", ""),
    row("GET /v1/agent/members", "agent", "", ""),
    row("GET /v1/agent/health", "agent", "type", ""),
    row("PUT /v1/agent/join", "agent", "address", ""),
    row("PUT /v1/agent/force-leave", "agent", "", ""),
    row("GET /v1/agent/servers", "agent", "", ""),
    row("PUT /v1/agent/servers", "agent", "", ""),
    row(
        "GET /v1/agent/monitor",
        "monitor agent",
        "log_include_location log_json log_level node_id plain server_id",
        "",
    ),
    row("GET /v1/agent/monitor/export", "monitor agent", "on_disk server_id service_name", ""),
    row("GET /v1/agent/host", TO_NODE, "node_id server_id", ""),
    row("GET /v1/agent/schedulers", "agent", "", ""),
    row("GET /v1/agent/schedulers/config", "agent", "", ""),
    row("PUT /v1/agent/schedulers/config", "agent", "", "enabled_schedulers num_schedulers"),
    row("ANY /v1/agent/keyring/:operation", "agent", "", ""),
    row("GET /v1/status/leader", "agent", "", ""),
    row("GET /v1/status/peers", "agent", "", ""),
    row("GET /v1/regions", "agent", "", ""),
    row("GET /v1/cluster", "cluster", "", ""),
    row("PUT /v1/system/gc", "operator", "", ""),
    row("PUT /v1/system/reconcile/summaries", "operator", "", ""),
    row("GET /v1/operator/scheduler/configuration", "operator", "READ", ""),
    row("PUT /v1/operator/scheduler/configuration", CONFIG, "cas", SCHEDULER),
    row("GET /v1/operator/keyring/keys", "keyring small_objects", "PAGE READ", ""),
    row("ANY /v1/operator/raft/configuration", "raft", "stale", ""),
    row("ANY /v1/operator/raft/peer", "raft", "address id", ""),
    row("PUT /v1/operator/raft/transfer-leadership", "raft", "address id", ""),
    row("ANY /v1/operator/autopilot/configuration", "raft", "cas stale", ""),
    row("ANY /v1/operator/autopilot/health", "raft", "stale", ""),
    row("GET /v1/operator/snapshot", "raft", "stale", ""),
    row("PUT /v1/operator/snapshot", "raft", "", ""),
    row("PUT /v1/operator/keyring/rotate", "keyring", "full publish_time", ""),
    row("DELETE /v1/operator/keyring/key/:id", "keyring", "force", ""),
    row("ANY /v1/operator/raft/:other", "operator", "", ""),
    row("ANY /v1/operator/keyring/:other", "operator", "", ""),
    row("GET /v1/operator/upgrade-check/vault-workload-identity", "operator", "stale", ""),
    row("GET /v1/operator/upgrade-check/:check", "operator", "", ""),
    row("POST /v1/operator/utilization", "operator", "", ""),
    row("GET /v1/operator/license", "operator", "", ""),
    row("PUT /v1/operator/license", "operator", "", ""),
    row("GET /v1/metrics", "metrics", "format", ""),
    row("GET /.well-known/jwks.json", "keyring", "READ", ""),
    row("GET /.well-known/openid-configuration", "keyring", "", ""),
    row("GET /ui/:page", "agent", "", ""),
];

/// Why something has no effect.
#[derive(Debug)]
pub(super) enum Why {
    /// It belongs to a feature that is not built.
    Missing(Feature),
    /// Another reason.
    Because(&'static str),
}

const SENTINEL: Why = Because("Sentinel policies belong to Nomad Enterprise");
const SCHEDULES: Why = Because("every request is refused: schedules of tasks belong to Nomad Enterprise");
const NATS: Why = Because("servers and nodes find each other over NATS");

/// What has no effect: the request, the names, and why.
pub(super) const IGNORED: &[(&str, &str, Why)] = &[
    ("PUT /v1/jobs", "PolicyOverride", SENTINEL),
    ("PUT /v1/jobs", "SecretID", Missing(Feature::Acls)),
    ("PUT /v1/jobs/parse", "hclv1", Because("a job file is always in the second version of the language")),
    ("PUT /v1/job/:id/plan", "PolicyOverride", SENTINEL),
    ("PUT /v1/job/:id", "PolicyOverride", SENTINEL),
    ("PUT /v1/job/:id", "SecretID", Missing(Feature::Acls)),
    ("PUT /v1/job/:id/versions/:tag/tag", "Name", Because("the path has the name")),
    (
        "PUT /v1/job/:id/revert",
        "ConsulToken VaultToken",
        Because("tasks get tokens of their own, not those of who registers the job"),
    ),
    ("PUT /v1/job/:id/scale", "PolicyOverride", SENTINEL),
    ("PUT /v1/node/:id/drain", "NodeID", Because("the path has the node")),
    ("DELETE /v1/job/:id", "global", Because("a cluster is one region")),
    ("GET /v1/client/allocation/:id/pause", "task", SCHEDULES),
    ("PUT /v1/client/allocation/:id/pause", "ScheduleState Task", SCHEDULES),
    ("PUT /v1/node/pools", "NodeIdentityTTL", Missing(Feature::NodeIdentities)),
    ("PUT /v1/node/pool/:name", "NodeIdentityTTL", Missing(Feature::NodeIdentities)),
    ("GET /v1/volumes", "plugin_id", Missing(Feature::CsiPlugins)),
    ("PUT /v1/volumes", "CSIVolume Volumes", Missing(Feature::CsiPlugins)),
    ("PUT /v1/volume/host/:id", "PolicyOverride", SENTINEL),
    ("PUT /v1/agent/force-leave", "node prune", NATS),
    ("GET /v1/agent/monitor/export", "follow logs_since node_id", Missing(Feature::JournalExport)),
    ("PUT /v1/agent/servers", "address", NATS),
    (
        "ANY /v1/agent/keyring/:operation",
        "Key",
        Because("every request is refused: there are no gossip keys"),
    ),
    ("PUT /v1/operator/keyring/rotate", "algo", Missing(Feature::KeyRotation)),
    (
        "PUT /v1/operator/scheduler/configuration",
        "NodeLimitForFeasibilityChecks",
        Because("schedulers examine every node"),
    ),
    ("PUT /v1/operator/scheduler/configuration", "RejectJobRegistration", Missing(Feature::Acls)),
];
